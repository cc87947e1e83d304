"""A language model whose scores over the vocabulary are computed only where they are asked for.

    token ids --encoder--> hidden states --chosen places--> head --> scores of the whole vocabulary
    at these places

The head is the model's own: its forward pass is run with the encoder's answer already given, so no
family of models needs to be known here by name. That this gives what a whole forward pass gives is
tried when a model is loaded; where it does not, the whole pass is run and the places are chosen
from its scores, which is slower.
"""

import contextlib
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from crosslens.errors import refuse
from crosslens.models.machine.threads import same_weights
from crosslens.models.saved.loading import (
    call_by_folder,
    find_tokenizer,
    load_encoder,
    make_model,
    opened,
)
from crosslens.models.saved.locate import encoder_fingerprint, resolve_encoder
from crosslens.models.saved.model_files import is_native
from crosslens.models.saved.native_encoder import NativeEncoder
from crosslens.models.saved.pretrained import PretrainedEncoder

__all__ = ["LanguageModel", "NativeLanguageModel", "load_language_model"]

_SCORES = 1 << 24  # numbers of a table of scores: 64 MB in float32
_SAMPLE = ("The cat sat on the mat.", "A dog ran.")
_ROUNDING = 1e-4  # relative to the largest score; products of other shapes are rounded otherwise


class LanguageModel:
    """A masked or causal language model and its tokeniser.

    Attributes
    ----------
    name, tokenizer, device, max_length: those of :attr:`encoder`.
    encoder: the model without its head.
    model: the model with its head.
    causal: whether it predicts each token from those before it; otherwise it predicts masked tokens
        from both sides.
    vocabulary: number of token ids that it scores.
    fingerprint: 16 hexadecimal digits over configuration, weights and tokeniser (and the seed of a
        random copy).
    head_apart: whether the head is computed only at the places asked for.
    """

    def __init__(self, encoder: PretrainedEncoder, model: Any, *, causal: bool) -> None:
        self.encoder, self.model, self.causal = encoder, model.to(encoder.device), causal
        self.name, self.tokenizer, self.device = encoder.name, encoder.tokenizer, encoder.device
        self.max_length, self.fingerprint = encoder.max_length, encoder.fingerprint
        self.vocabulary = 0
        self.head_apart = self._try_head()

    def scores_at(
        self, ids: Tensor, rows: Tensor, places: Tensor
    ) -> Iterator[tuple[slice, Tensor]]:
        """Scores of the whole vocabulary (logits) at some places, a table at a time.

        Parameters
        ----------
        ids: (b, l) token ids of texts of one length, without padding.
        rows, places: (p,) each, the text and the place in it.

        Yields
        ------
        Which of the p places, and their scores, (some, vocabulary), float32, at most 64 MB of them
        (but one place at least). Call it under ``torch.inference_mode()``.
        """
        ids, rows, places = (tensor.to(self.device) for tensor in (ids, rows, places))
        if not self.head_apart:
            yield from self._whole(ids, rows, places)
            return
        answer = self.encoder.model(input_ids=ids, **self.encoder.told_language(ids))
        hidden = answer.last_hidden_state[rows, places]
        step = max(1, _SCORES // self.vocabulary)
        for start in range(0, len(rows), step):
            some = slice(start, min(start + step, len(rows)))
            yield some, self._head(answer, hidden[some]).float()

    def twin(self) -> "LanguageModel":
        """The same model on the same weights, for another thread."""
        other, encoder = copy.copy(self), copy.copy(self.encoder)
        other.model = same_weights(self.model)
        other.encoder, encoder.model = encoder, other.model.base_model
        return other

    def _whole(self, ids: Tensor, rows: Tensor, places: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """The same through whole forward passes, a few texts at a time; ``rows`` must not
        decrease."""
        step = max(1, _SCORES // (self.vocabulary * ids.shape[1]))
        for start in range(0, len(ids), step):
            first, last = torch.searchsorted(
                rows, torch.tensor([start, start + step], device=rows.device)
            ).tolist()
            if first < last:
                some = ids[start : start + step]
                scores = self.model(input_ids=some, **self.encoder.told_language(some)).logits
                yield (
                    slice(first, last),
                    scores[rows[first:last] - start, places[first:last]].float(),
                )

    def _head(self, answer: Any, hidden: Tensor) -> Tensor:
        """Scores (p, vocabulary) of hidden states (p, d); ``answer`` is the encoder's, whose states
        are put in their place."""
        answer.last_hidden_state = hidden[None]
        with _answering(self.encoder.model, answer):
            scores: Tensor = self.model(
                input_ids=torch.zeros((1, len(hidden)), dtype=torch.long, device=self.device)
            ).logits
        return scores[0]

    @torch.inference_mode()
    def _try_head(self) -> bool:
        """Whether the head apart gives what the whole model gives, at every place of a short text.

        Raises
        ------
        InputError: the model gives no finite scores of the vocabulary.
        """
        found = self.tokenizer(list(_SAMPLE))["input_ids"]
        [ids] = [
            torch.tensor([row[: self.max_length]], device=self.device)
            for row in found
            if len(row) == max(map(len, found))
        ][:1]
        told = self.encoder.told_language(ids)
        expected = self.model(input_ids=ids, **told).logits[0].float()
        self.vocabulary = int(expected.shape[-1])
        if not expected.isfinite().all():
            refuse(
                f"encoder {self.name}", "finite scores", "some that are not", "check the weights"
            )
        if self.encoder.model is self.model:
            return False
        places = torch.arange(ids.shape[1], device=self.device)
        try:
            answer = self.encoder.model(input_ids=ids, **told)
            got = self._head(
                answer, answer.last_hidden_state[torch.zeros_like(places), places]
            ).float()
        except Exception:  # a head that wants more than the states, in one of many ways
            return False
        return got.shape == expected.shape and float(
            (got - expected).abs().max()
        ) <= _ROUNDING * float(expected.abs().max())


class NativeLanguageModel:
    """A model of ours with the modules and the tokeniser of one language; its attributes are those
    of :class:`LanguageModel`.

    Raises
    ------
    InputError: it has modules for each language, and is told none.
    """

    causal = False

    def __init__(self, encoder: NativeEncoder) -> None:
        encoder.whose()
        self.encoder, self.tokenizer = encoder, encoder.tokenizer
        self.name = encoder.name
        self.device = encoder.device
        self.max_length = encoder.max_length
        self.fingerprint = encoder.fingerprint
        self.vocabulary = len(self.tokenizer)

    def scores_at(
        self, ids: Tensor, rows: Tensor, places: Tensor
    ) -> Iterator[tuple[slice, Tensor]]:
        """As :meth:`LanguageModel.scores_at`."""
        hidden = self.encoder.states(ids, None)["hidden"][-1][
            rows.to(self.device), places.to(self.device)
        ]
        step = max(1, _SCORES // self.vocabulary)
        for start in range(0, len(rows), step):
            some = slice(start, min(start + step, len(rows)))
            yield some, self.encoder.scores(hidden[some])

    def twin(self) -> "NativeLanguageModel":
        """The same model on the same weights, for another thread."""
        other = copy.copy(self)
        other.encoder = self.encoder.twin()
        return other


@contextlib.contextmanager
def _answering(module: Any, answer: Any) -> Iterator[None]:
    """Let a module give this answer to every call inside the ``with`` block."""
    module.forward = lambda *_, **__: answer  # found before the method of its class
    try:
        yield
    finally:
        del module.forward


def load_language_model(
    name: str,
    *,
    random_seed: int | None = None,
    trust_remote_code: bool = False,
    device: str = "cpu",
    language: str | None = None,
) -> "LanguageModel | NativeLanguageModel":
    """Load a masked or causal language model with its head, or a copy of it that is re-initialised
    at random (the control).

    Parameters
    ----------
    name, random_seed, trust_remote_code, device: as for
        :func:`crosslens.models.saved.loading.load_encoder`.
    language: the language of all sentences, for a model that is told it (XLM) or has modules of its
        own for each (ours).

    Raises
    ------
    InputError: as for :func:`crosslens.models.saved.loading.load_encoder`; or there is no language
        model's head among the weights, or no mask token in the vocabulary of a masked one.
    """
    folder = resolve_encoder(name, trust_remote_code=trust_remote_code)
    if is_native(folder):
        ours = load_encoder(name, random_seed=random_seed, device=device, language=language)
        return NativeLanguageModel(cast(NativeEncoder, ours))
    with opened(
        name,
        folder,
        "a language model that transformers loads and runs",
        "check the folder and the device",
    ) as view:
        model, tokenizer, causal = _load(name, view, random_seed, trust_remote_code)
        call_by_folder(folder, model, tokenizer)
        short = folder.resolve().name if Path(name).is_dir() else name
        mark = encoder_fingerprint(folder, random_seed)
        encoder = PretrainedEncoder(short, model.base_model, tokenizer, mark, device=device)
        return LanguageModel(
            encoder if language is None else encoder.in_language(language), model, causal=causal
        )


def _load(name: str, folder: Path, random_seed: int | None, trusted: bool) -> tuple[Any, Any, bool]:
    """The model, whole and in evaluation mode, its fast tokeniser, and whether it is causal."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM

    config = AutoConfig.from_pretrained(folder, trust_remote_code=trusted)
    causal = _is_causal(name, config)
    config.use_cache = False  # a decoder would keep the keys and values of every layer
    tokenizer = find_tokenizer(name, folder, trusted)
    maker: Any = AutoModelForCausalLM if causal else AutoModelForMaskedLM
    model, missing, _ = make_model(name, folder, maker, config, random_seed, trusted)
    _refuse_missing(name, missing, causal)
    if not causal and tokenizer.mask_token_id is None:
        remedy = "name it in tokenizer_config.json (mask_token)"
        refuse(f"encoder {name}", "a tokeniser with a mask token", "none", remedy)
    return model.eval(), tokenizer, causal


def _refuse_missing(name: str, missing: list[str], causal: bool) -> None:
    """Refuse weights that do not fill the model: transformers would draw the rest at random and say
    so in passing."""
    if missing:
        kind = "causal" if causal else "masked"
        remedy = (
            "only a model that was saved with its head can fill in a blank: give one, or train one"
        )
        got = f"no weights for {missing[0]} ({len(missing)} missing)"
        refuse(f"encoder {name}", f"a {kind} language model with its head", got, remedy)


def _is_causal(name: str, config: Any) -> bool:
    """Whether a model predicts from the left only.

    Raises
    ------
    InputError: it is no language model of either kind.
    """
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    own = getattr(config, "auto_map", None) or {}  # classes in the folder's own code
    masked = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES or "AutoModelForMaskedLM" in own
    causal = config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES or "AutoModelForCausalLM" in own
    if config.is_encoder_decoder or not (masked or causal):
        got = f"one of type {config.model_type!r}"
        remedy = "choose a model such as BERT or GPT-2"
        refuse(f"encoder {name}", "a masked or a causal language model", got, remedy)
    # BERT or XLM trained from the left
    turned = getattr(config, "is_decoder", False) or getattr(config, "causal", False)
    named = any(str(one).endswith("ForCausalLM") for one in config.architectures or ())
    return causal and (not masked or bool(turned) or named)
