"""How an encoder is fine-tuned."""

import dataclasses

from crosslens.errors import refuse
from crosslens.models.limits import check_numbers
from crosslens.models.training.settings import LoopSettings, Optimisation

__all__ = ["FineTuning"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuning:
    """How an encoder is fine-tuned, whatever the task.

    Attributes
    ----------
    epochs: passes over the training examples.
    batch_size: inputs of an update; a long sentence is read through several.
    group_by_length: inputs of an update are of like length, which saves padding; the updates are in
        random order. None of the papers does.
    peak_rate: highest learning rate of the encoder, and of the head if ``head_rate`` is None.
    head_rate: highest learning rate of the head.
    warmup: share of the updates in which the rate rises linearly; from 1 on, their number.
    decay: "linear" to 0 at the last update; "constant"; or "plateau", halved after each epoch that
        is no better on dev, until it is below a hundredth of the peak: then the training ends.
    weight_decay: decay of matrices; biases and norms have none.
    beta2: decay of the second moment of AdamW.
    clip: gradients are scaled down to this norm; 0 leaves them alone.
    dropout: on what the head reads; the encoder has its own.
    max_length: longest input in subwords, special tokens included. Longer texts are cut, longer
        sentences with words read through windows that overlap by half.
    pool: of tasks on texts, what the head reads: "first", the state at position 0; "pooled", that
        through a layer of its own with tanh, as transformers' heads have it; "mean" or "max", over
        all subwords.
    freeze: -1 trains everything, 0 all but the embeddings, n all but these and the first n layers
        (Wu & Dredze 2019, § 5.2).
    features: "mix+bilstm": the encoder is frozen whole, and a mean of its layers with an LSTM on it
        is learnt between it and the head
        (:class:`crosslens.models.network.scalar_mix.ScalarMixLSTM`); "transformer": four new layers
        are (:class:`crosslens.models.network.transformer_layers.TransformerLayers`); None: the head
        reads the encoder's last states.
    noise: standard deviation of what is added to token, position and segment embeddings in training
        (:func:`crosslens.models.network.surgery.set_noise`; 0.075 in Artetxe et al. 2020); 0 for
        none.
    average: how many of the last epochs' weights :meth:`FineTuned.use` can average.
    precision: "float32", or "bfloat16" for products under autocast.
    seed: of the head's first weights, the order of the examples, and dropout.

    Raises
    ------
    InputError: a number out of its range, or a name that is none.

    >>> FineTuning(epochs=2, warmup=0.1).loop(per_epoch=50).optimisation.warmup
    10
    """

    epochs: int = 3
    batch_size: int = 32
    group_by_length: bool = False
    peak_rate: float = 3e-5
    head_rate: float | None = None
    warmup: float = 0.1
    decay: str = "linear"
    weight_decay: float = 0.01
    beta2: float = 0.999
    clip: float = 1.0
    dropout: float = 0.1
    max_length: int = 128
    pool: str = "first"
    freeze: int = -1
    features: str | None = None
    noise: float = 0.0
    average: int = 1
    precision: str = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        check_numbers(self)
        for name, value, known in (
            ("decay", self.decay, ("linear", "constant", "plateau")),
            ("pool", self.pool, ("first", "pooled", "mean", "max")),
            ("features", self.features, (None, "mix+bilstm", "transformer")),
            ("precision", self.precision, ("float32", "bfloat16")),
        ):
            if value not in known:
                expected = f"one of {', '.join(map(str, known))}"
                refuse(name, expected, repr(value), "choose one of these")
        if self.noise and self.features:
            expected = "0 where a frozen encoder's states are read"
            refuse("noise", expected, repr(self.noise), "leave it out, or leave out features")

    @property
    def head_factor(self) -> float:
        """The head's learning rate over the encoder's."""
        return 1.0 if self.head_rate is None else self.head_rate / self.peak_rate

    def loop(self, per_epoch: int) -> LoopSettings:
        """The settings of the loop, of ``per_epoch`` updates in an epoch; it validates after each."""
        steps = self.epochs * per_epoch
        warmup = round(self.warmup * steps) if self.warmup < 1 else round(self.warmup)
        return LoopSettings(
            name="fine-tuning",
            steps=steps,
            seed=self.seed,
            precision=self.precision,
            log_every=max(1, min(per_epoch, 50)),
            validate_every=per_epoch,
            save_every=max(1, min(per_epoch, 500)),
            optimisation=Optimisation(
                peak_rate=self.peak_rate,
                warmup=min(warmup, steps),
                decay=self.decay,
                weight_decay=self.weight_decay,
                beta2=self.beta2,
                clip=self.clip,
            ),
        )
