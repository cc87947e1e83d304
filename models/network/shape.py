"""The shape of an encoder: every number and every choice that its mathematics depends on."""

import dataclasses
from typing import Any

from crosslens.errors import check_choice, refuse
from crosslens.models.limits import check_numbers

__all__ = ["EncoderConfig"]

_LATER = ("adapter_norms", "adapters", "cls_position", "embedding_size", "noise", "special_table")

_CHOICES = {
    "head": ("transform", "plain"),
    "activation": ("gelu", "gelu_tanh", "relu"),
    "init": ("bert", "xlm"),
    "attention": ("sdpa", "eager"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Shape of an encoder.

    Attributes
    ----------
    vocab_size: rows of the token embedding, special tokens included; in a recipe it follows the
        vocabulary that is learnt.
    hidden_size: d, the width of every hidden state.
    embedding_size: e, the width of the token embeddings, where it is not hidden_size: a linear map
        that all languages share takes them to it, and the tied output softmax goes back through the
        same map. 0: they have hidden_size.
    layers: number of transformer layers L; hidden states are numbered 0 (embeddings) to L.
    heads: attention heads; divides hidden_size.
    ffn_size: width inside the feed-forward blocks.
    max_positions: longest sequence in tokens.
    dropout: share of units dropped after embeddings, attention and feed-forward blocks, and of
        attention weights.
    norm_eps: epsilon of the layer norms.
    init_std: standard deviation of the normal initialisation.
    init: "bert" (Devlin et al. 2019: normal with init_std, biases 0) or "xlm" (Conneau & Lample
        2019: embeddings N(0, 1/d), linear maps uniform within 1/sqrt(inputs)).
    activation: "gelu" (with the error function), "gelu_tanh" (its tanh approximation) or "relu".
    norm_embeddings: normalise the sum of the embeddings.
    segments: rows of the segment embedding; 0 for none. (BERT has 2, RoBERTa 1.)
    language_embeddings: add an embedding of the token's language (XLM).
    position_offset: row of the position table that position 0 uses: pad_id + 1 in RoBERTa, whose own
        pad_id is 1, and 0 in BERT and XLM.
    pad_id: id of the padding token, from which transformers counts RoBERTa's positions. That of a
        recipe is 0.
    head: "transform" (BERT: dense, activation, norm, then the vocabulary) or "plain" (XLM: the
        vocabulary alone).
    tied: the vocabulary matrix of the head is the token embedding.
    next_sentence: whether there is a head that decides if the second segment follows the first.
    attention: "sdpa" (torch's fused kernels) or "eager" (plain steps).
    adapters: units of the adapters that each layer has after its attention and after its
        feed-forward block (:mod:`crosslens.models.network.adapters`; 64 in Houlsby et al. 2019);
        0 for none.
    adapter_norms: the adapters rescale the layer's norms, too, which Houlsby et al.'s program trains.
    cls_position: False leaves [CLS], the token at position 0, without position and segment
        embedding (Artetxe et al. 2020, § 4.2).
    noise: standard deviation of what is added to token, position and segment embeddings in training
        (:mod:`crosslens.models.network.noise`); 0 for none.
    special_table: the special tokens, ids 0 to 4, have a table of embeddings of their own, shared by
        all languages; the token embeddings are those of the other subwords.
    """

    vocab_size: int = 8000
    hidden_size: int = 128
    layers: int = 4
    heads: int = 4
    ffn_size: int = 512
    max_positions: int = 128
    dropout: float = 0.1
    norm_eps: float = 1e-12
    init_std: float = 0.02
    init: str = "bert"
    activation: str = "gelu"
    norm_embeddings: bool = True
    segments: int = 0
    language_embeddings: bool = False
    position_offset: int = 0
    pad_id: int = 0
    head: str = "transform"
    tied: bool = True
    next_sentence: bool = False
    attention: str = "sdpa"
    adapters: int = 0
    cls_position: bool = True
    noise: float = 0.0
    special_table: bool = False
    embedding_size: int = 0
    adapter_norms: bool = False

    def __post_init__(self) -> None:
        check_numbers(self, "encoder.")
        for name, known in _CHOICES.items():
            check_choice(getattr(self, name), f"encoder.{name}", known)
        if self.hidden_size % self.heads:
            refuse(
                "encoder.heads",
                f"a divisor of hidden_size = {self.hidden_size}",
                str(self.heads),
                "change one of the two",
            )
        if self.adapter_norms and not self.adapters:
            remedy = "give adapters their units, or leave it out"
            refuse("encoder.adapter_norms", "false without adapters", "true", remedy)

    @property
    def absent(self) -> frozenset[str]:
        """The parts (:data:`crosslens.models.network.sharing.PARTS`) that this shape does not have.

        >>> sorted(EncoderConfig(segments=2).absent)
        ['adapters']
        """
        has = {
            "segment": self.segments > 0,
            "norm": self.norm_embeddings,
            "adapters": self.adapters > 0,
            "transform": self.head == "transform",
        }
        return frozenset(part for part, there in has.items() if not there)

    @property
    def trained_segments(self) -> int:
        """How many segments there are to read pairs with: without next sentences all text has the
        first, and the others stay as they were sampled."""
        return self.segments if self.next_sentence else min(self.segments, 1)

    @property
    def token_size(self) -> int:
        """The width of the token embeddings.

        >>> EncoderConfig(hidden_size=128).token_size, EncoderConfig(embedding_size=300).token_size
        (128, 300)
        """
        return self.embedding_size or self.hidden_size

    @property
    def model_type(self) -> str:
        """Where a layer's outputs are read, as transformers' configurations name their families."""
        return "crosslens with adapters" if self.adapters else "crosslens"

    def told(self) -> dict[str, Any]:
        """The settings by name, as files hold them.

        Those that came later are left out at their defaults, so that folders, runs and content
        hashes are what they were.

        >>> "noise" in EncoderConfig().told(), EncoderConfig(noise=0.075).told()["noise"]
        (False, 0.075)
        """
        later = {f.name: f.default for f in dataclasses.fields(self) if f.name in _LATER}
        return {
            name: value
            for name, value in dataclasses.asdict(self).items()
            if name not in later or value != later[name]
        }
