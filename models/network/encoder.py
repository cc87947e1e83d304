"""The encoder: token ids to hidden states to scores over the vocabulary at masked positions.

Post-LN BERT (Devlin et al. 2019), written once and read top to bottom:

    h0 = Dropout(LN(token + position))
    h' = LN(h + Dropout(Attention(h)))          for each layer
    h  = LN(h' + Dropout(FFN(h')))              (with adapters, these see what Dropout gives)
    scores = LN(gelu(W h + b)) E^T + c          only at the positions asked for

Token embeddings of another width than d (``embedding_size``) are E P: with a projection P, in h0 and
in the scores.

Every part stands in a :class:`PerLanguage`: one module that all languages share, or one for each
(:mod:`crosslens.models.network.sharing`). The rows of a batch are sorted by language, so a part
that each language owns works on slices. Queries, keys and values are one product.
:mod:`crosslens.models.saved.interop` writes and reads the weights in the layouts that transformers
loads.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from crosslens.errors import refuse
from crosslens.models.network.adapters import LayerAdapters
from crosslens.models.network.dropout import draw_dropped, dropout
from crosslens.models.network.noise import add_noise
from crosslens.models.network.shape import EncoderConfig
from crosslens.models.network.sharing import SharingPlan
from crosslens.models.text.tokenisation import SPECIAL_TOKENS

__all__ = ["Encoder", "EncoderConfig", "Group", "Layer", "MaskedLM", "PerLanguage"]

_ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
}


class Group(NamedTuple):
    """Consecutive rows of one language in a batch, and how many masked tokens they hold."""

    language: str
    rows: int
    masked: int


class PerLanguage(nn.ModuleDict):
    """One part of a model: a module that all languages share, or one for each language."""

    def __init__(
        self, make: Callable[[str], nn.Module], languages: Sequence[str], owned: bool
    ) -> None:
        # The prefix keeps a language's code apart from the names of the class's own methods.
        super().__init__(
            {f"own_{name}": make(name) for name in languages}
            if owned
            else {"shared": make(languages[0])}
        )

    @property
    def owned(self) -> bool:
        """Whether each language has its own."""
        return "shared" not in self

    def of(self, language: str) -> nn.Module:
        """The module that serves a language."""
        name = "shared" if not self.owned else f"own_{language}"
        if name not in self:
            known = ", ".join(key.removeprefix("own_") for key in self)
            refuse(
                "language", f"one of {known}", repr(language), "name a language that the model has"
            )
        return self[name]

    def each(self, groups: Sequence[Group], *inputs: Tensor | None) -> Tensor:
        """Apply the part to a batch; what each language owns, to its rows (the first dimension of
        every input)."""
        return _by_language(
            lambda language, *mine: self.of(language)(*mine), self.owned, groups, *inputs
        )


def _by_language(
    run: Callable[..., Tensor], apart: bool, groups: Sequence[Group], *inputs: Tensor | None
) -> Tensor:
    """What ``run`` makes of a batch: of the whole, or (``apart``) of each language's rows."""
    if not apart or len(groups) == 1:
        return run(groups[0].language, *inputs)
    done, out = 0, []
    for group in groups:
        rows = slice(done, done + group.rows)
        out.append(run(group.language, *(None if x is None else x[rows] for x in inputs)))
        done += group.rows
    return torch.cat(out)


class Vector(nn.Module):
    """A parameter that stands alone: the output bias."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(size))


class Layer(nn.Module):
    """One post-LN transformer layer."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        d = config.hidden_size
        self.heads, self.rate, self.eager = (
            config.heads,
            config.dropout,
            config.attention == "eager",
        )
        self.activation = _ACTIVATIONS[config.activation]
        self.qkv = nn.Linear(d, 3 * d)
        self.attention_output = nn.Linear(d, d)
        self.attention_norm = nn.LayerNorm(d, eps=config.norm_eps)
        self.ffn_in = nn.Linear(d, config.ffn_size)
        self.ffn_out = nn.Linear(config.ffn_size, d)
        self.ffn_norm = nn.LayerNorm(d, eps=config.norm_eps)

    def forward(
        self,
        h: Tensor,
        bias: Tensor | None,
        places: Tensor | None = None,
        adapters: LayerAdapters | None = None,
    ) -> Tensor:
        """(batch, length, d) and an additive attention bias (batch, 1, 1, length) -> (batch,
        length, d).

        With ``places``, (batch, q) columns whose output is asked for, filled up with -1: their (m,
        d) outputs alone, row by row. ``adapters`` change what the two blocks add.
        """
        batch, length, d = h.shape
        split = (batch, length, -1, self.heads, d // self.heads)
        if places is None:
            q, k, v = self.qkv(h).view(split).permute(2, 0, 3, 1, 4)
        else:
            weight, bent = self.qkv.weight, self.qkv.bias
            k, v = F.linear(h, weight[d:], bent[d:]).view(split).permute(2, 0, 3, 1, 4)
            h = h.gather(1, places.clamp(min=0)[:, :, None].expand(-1, -1, d))
            q = (
                F.linear(h, weight[:d], bent[:d])
                .view(batch, -1, self.heads, d // self.heads)
                .transpose(1, 2)
            )
        rate = self.rate if self.training else 0.0
        # torch's kernel for the CPU knows no dropout, and what it does then is slower
        if self.eager or (rate and q.device.type == "cpu"):
            mixed = attend(q, k, v, bias, rate)
        else:
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=rate)
        mixed = mixed.transpose(1, 2).reshape(h.shape)
        if places is not None:
            h, mixed = h[places >= 0], mixed[places >= 0]
        added = dropout(self.attention_output(mixed), self.rate, self.training)
        h = self.attention_norm(h + (added if adapters is None else adapters.attention(added)))
        if adapters is not None and adapters.norms:
            h = adapters.attention_norm(h)
        wide = self.ffn_out(self.activation(self.ffn_in(h)))
        added = dropout(wide, self.rate, self.training)
        h = self.ffn_norm(h + (added if adapters is None else adapters.ffn(added)))
        return adapters.ffn_norm(h) if adapters is not None and adapters.norms else h


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, rate: float) -> Tensor:
    """Scaled dot-product attention in plain steps (Vaswani et al. 2017, eq. 1), with dropout of the
    weights."""
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
    weights = (scores if bias is None else scores + bias).softmax(-1)
    if not rate or q.device.type != "cpu":
        return F.dropout(weights, rate, rate > 0) @ v
    gone, scale = draw_dropped(weights.shape, rate)
    return weights.masked_fill(gone, 0) @ (v * scale)


class Encoder(nn.Module):
    """Token ids to the hidden states of every layer."""

    segment: PerLanguage
    language: nn.Embedding
    special: nn.Embedding
    projection: nn.Linear
    norm: PerLanguage
    layers: nn.ModuleList
    adapters: nn.ModuleList

    def __init__(
        self,
        config: EncoderConfig,
        languages: Sequence[str],
        plan: SharingPlan,
        sizes: Mapping[str, int],
    ) -> None:
        super().__init__()
        self.config, self.languages = config, tuple(languages)
        d = config.hidden_size
        apart = len(SPECIAL_TOKENS) if config.special_table else 0
        if apart:
            self.special = nn.Embedding(apart, config.token_size)
        self.token = PerLanguage(
            lambda language: nn.Embedding(sizes[language] - apart, config.token_size),
            languages,
            plan.owned("token"),
        )
        if config.embedding_size:
            self.projection = nn.Linear(config.embedding_size, d, bias=False)
        self.position = PerLanguage(
            lambda _: nn.Embedding(config.max_positions + config.position_offset, d),
            languages,
            plan.owned("position"),
        )
        if config.segments:
            self.segment = PerLanguage(
                lambda _: nn.Embedding(config.segments, d), languages, plan.owned("segment")
            )
        if config.language_embeddings:
            self.language = nn.Embedding(len(languages), d)
        if config.norm_embeddings:
            self.norm = PerLanguage(
                lambda _: nn.LayerNorm(d, eps=config.norm_eps), languages, plan.owned("norm")
            )
        self.layers = nn.ModuleList(
            PerLanguage(lambda _: Layer(config), languages, plan.owned(str(number)))
            for number in range(1, config.layers + 1)
        )
        self.noise, self.recompute = config.noise, False

    def add_adapters(self, bottleneck: int, owned: bool, norms: bool = False) -> None:
        """Give every layer adapters of ``bottleneck`` units: one pair for all languages, or
        (``owned``) for each; with ``norms`` they rescale the layer's norms, too."""
        self.config = dataclasses.replace(self.config, adapters=bottleneck, adapter_norms=norms)
        self.adapters = nn.ModuleList(
            PerLanguage(
                lambda _: LayerAdapters(self.config.hidden_size, bottleneck, norms),
                self.languages,
                owned,
            )
            for _ in self.layers
        )

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        lengths: Tensor | None = None,
        groups: Sequence[Group] | None = None,
        segments: Tensor | None = None,
        languages: Tensor | None = None,
        places: Tensor | None = None,
    ) -> list[Tensor]:
        """Hidden states 0 ... L, each (batch, length, d).

        Parameters
        ----------
        ids: (batch, length) token ids, padded on the right.
        positions: (batch, length) position ids, counted from 0.
        lengths: (batch,) numbers of real tokens; None when nothing is padded.
        groups: which rows are of which language, in order; None for a batch of the model's first
            language (or where all is shared).
        segments: (batch, length) segment ids; None for all 0.
        languages: (batch, length) numbers of the tokens' languages, for language embeddings; None
            where there are none.
        places: (batch, q) the columns where the last layer is needed, filled up with -1: it is
            computed for these alone, and its states are (m, d), row by row. None computes it
            everywhere.
        """
        groups = groups or (Group(self.languages[0], len(ids), 0),)
        h = self.embed(ids, positions, groups, segments, languages)
        states = [dropout(h, self.config.dropout, self.training)]
        bias = None
        if lengths is not None and bool((lengths < ids.shape[1]).any()):
            padded = torch.arange(ids.shape[1], device=ids.device) >= lengths[:, None]
            bias = torch.zeros(padded.shape, dtype=h.dtype, device=ids.device).masked_fill_(
                padded, float("-inf")
            )[:, None, None, :]
        *lower, last = range(len(self.layers))
        for number in lower:
            states.append(self._through(number, groups, states[-1], bias))
        states.append(self._through(last, groups, states[-1], bias, places))
        return states

    def _through(self, number: int, groups: Sequence[Group], *inputs: Tensor | None) -> Tensor:
        if self.recompute and self.training:
            return cast(
                Tensor, checkpoint(self._layer, number, groups, *inputs, use_reentrant=False)
            )
        return self._layer(number, groups, *inputs)

    def _layer(self, number: int, groups: Sequence[Group], *inputs: Tensor | None) -> Tensor:
        """One layer on a batch, with its adapters where there are any."""
        modules = cast(PerLanguage, self.layers[number])
        if not self.config.adapters:
            return modules.each(groups, *inputs)
        adapters = cast(PerLanguage, self.adapters[number])

        def run(language: str, *mine: Tensor | None) -> Tensor:
            return cast(Tensor, modules.of(language)(*mine, adapters=adapters.of(language)))

        return _by_language(run, modules.owned or adapters.owned, groups, *inputs)

    @property
    def layer_modules(self) -> Iterator[PerLanguage]:
        """The modules of each layer, from the lowest up."""
        return (cast(PerLanguage, modules) for modules in self.layers)

    def embed(
        self,
        ids: Tensor,
        positions: Tensor,
        groups: Sequence[Group],
        segments: Tensor | None,
        languages: Tensor | None,
    ) -> Tensor:
        """(batch, length, d) sum of the embeddings, normalised where the model has a norm for
        them."""
        offset = self.config.position_offset
        # None: everywhere
        without = None if self.config.cls_position else (positions == 0)[..., None]
        h = self._noisy(self._tokens(ids, groups)) + self._noisy(
            self.position.each(groups, positions + offset if offset else positions), without
        )
        if self.config.segments:
            kinds = torch.zeros_like(ids) if segments is None else segments
            h = h + self._noisy(self.segment.each(groups, kinds), without)
        if self.config.language_embeddings:
            h = h + self.language(self._rows_of(groups, ids) if languages is None else languages)
        return self.norm.each(groups, h) if self.config.norm_embeddings else h

    def _noisy(self, x: Tensor, without: Tensor | None = None) -> Tensor:
        """Embeddings as they are added up: noisy where noise is asked for, and 0 at the tokens that
        do ``without`` them."""
        x = add_noise(x, self.noise, self.training)
        return x if without is None else x.masked_fill(without, 0)

    def _tokens(self, ids: Tensor, groups: Sequence[Group]) -> Tensor:
        """(batch, length, d) embeddings of tokens."""
        if not self.config.special_table:
            return self._projected(self.token.each(groups, ids))
        apart = len(SPECIAL_TOKENS)
        others = self.token.each(groups, (ids - apart).clamp(min=0))
        special = self.special(ids.clamp(max=apart - 1))
        return self._projected(torch.where((ids < apart)[..., None], special, others))

    def _projected(self, x: Tensor) -> Tensor:
        """(…, e) token embeddings -> (…, d)."""
        return self.projection(x) if self.config.embedding_size else x

    def token_table(self, language: str) -> Tensor:
        """(vocab, d) embedding of each token id of a language, as it is added to positions."""
        return self._projected(self.token_rows(language))

    def token_rows(self, language: str) -> Tensor:
        """(vocab, e) the same before the projection, where there is one."""
        table = cast(Tensor, self.token.of(language).weight)
        return torch.cat([self.special.weight, table]) if self.config.special_table else table

    def _rows_of(self, groups: Sequence[Group], ids: Tensor) -> Tensor:
        """(batch, 1) language numbers, from the groups."""
        numbers = [
            self.languages.index(group.language) for group in groups for _ in range(group.rows)
        ]
        return torch.tensor(numbers, device=ids.device)[:, None]


class MaskedLM(nn.Module):
    """An encoder with the vocabulary head of a masked language model.

    Parameters
    ----------
    config: the encoder's shape.
    seed: initial weights are a function of config, plan, languages and seed alone.
    languages: the languages, in the order of their numbers.
    plan: what each owns; None shares everything.
    sizes: language to the number of token ids it uses; None gives each config.vocab_size. They may
        differ only where each language owns its token embeddings.

    Raises
    ------
    InputError: languages or sizes that do not fit the plan.
    """

    def __init__(
        self,
        config: EncoderConfig,
        seed: int = 0,
        *,
        languages: Sequence[str] = ("und",),
        plan: SharingPlan | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__()
        self.config, self.languages = config, tuple(languages)
        self.plan = plan or SharingPlan.parse("", config.layers)
        self.sizes = {
            language: (sizes or {}).get(language, config.vocab_size) for language in languages
        }
        if (
            not languages
            or len(set(languages)) < len(languages)
            or any("." in language for language in languages)
        ):
            refuse(
                "languages",
                "different codes without full stops",
                ", ".join(languages) or "none",
                "name each language once",
            )
        if not self.plan.owned("token") and len(set(self.sizes.values())) > 1:
            refuse(
                "sizes",
                "one vocabulary where token embeddings are shared",
                str(self.sizes),
                "share the ids, or use sep=emb",
            )
        if config.special_table and min(self.sizes.values()) <= len(SPECIAL_TOKENS):
            expected = f"more than the {len(SPECIAL_TOKENS)} special tokens, which have a table"
            refuse("sizes", expected, str(self.sizes), "raise them, or set special_table=false")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._build()
            initialise(self, config)
            if config.adapters:  # last: the other weights are those of a model without them
                owned = self.plan.owned("adapters")
                self.encoder.add_adapters(config.adapters, owned, config.adapter_norms)

    def _build(self) -> None:
        config, languages, plan, d = self.config, self.languages, self.plan, self.config.hidden_size
        self.output_bias = PerLanguage(
            lambda language: Vector(self.sizes[language]), languages, plan.owned("bias")
        )
        self.encoder = Encoder(config, languages, plan, self.sizes)
        if config.head == "transform":
            self.transform = PerLanguage(
                lambda _: nn.Linear(d, d), languages, plan.owned("transform")
            )
            self.transform_norm = PerLanguage(
                lambda _: nn.LayerNorm(d, eps=config.norm_eps), languages, plan.owned("transform")
            )
        if not config.tied:
            self.output = PerLanguage(
                lambda language: nn.Linear(d, self.sizes[language], bias=False),
                languages,
                plan.owned("softmax"),
            )
        if config.next_sentence:
            self.pooler, self.follows = nn.Linear(d, d), nn.Linear(d, 2)

    def scores(self, hidden: Tensor, language: str | None = None) -> Tensor:
        """(n, d) last hidden states of one language's tokens -> (n, vocab) scores before the
        softmax."""
        language = language or self.languages[0]
        if self.config.head == "transform":
            activated = _ACTIVATIONS[self.config.activation](self.transform.of(language)(hidden))
            hidden = self.transform_norm.of(language)(activated)
        if self.config.tied and self.config.embedding_size:  # (x P) E^T: less than x (E P^T)^T
            hidden = F.linear(hidden, self.encoder.projection.weight.T)
        weight = (
            self.encoder.token_rows(language)
            if self.config.tied
            else cast(Tensor, self.output.of(language).weight)
        )
        return F.linear(hidden, weight, cast(Tensor, self.output_bias.of(language).value))

    @property
    def one_head(self) -> bool:
        """Whether all languages share the whole head."""
        return not any(self.plan.owned(part) for part in ("transform", "softmax", "bias"))

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        lengths: Tensor | None,
        masked: Tensor,
        labels: Tensor,
        groups: Sequence[Group] | None = None,
        segments: Tensor | None = None,
        languages: Tensor | None = None,
        following: Tensor | None = None,
        places: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Sum of the masked tokens' cross-entropies in nats; and, with ``following``, that of the
        next-sentence decisions.

        Parameters
        ----------
        ids, positions, lengths, groups, segments, languages: as for :class:`Encoder`, the masked
        tokens already replaced.
        masked: (m,) indices of the predicted tokens in the flattened batch, in rising order.
        labels: (m,) the original ids at these places.
        following: (batch,) 1 where the second segment follows the first in the text, 0 where it was
            put there.
        places: (batch, q) the columns of ``masked``, row by row, filled up with -1: the last layer
            is computed there alone. Without ``following``, which needs the first token as well.
        """
        last = self.encoder(ids, positions, lengths, groups, segments, languages, places)[-1]
        chosen = last.flatten(0, 1).index_select(0, masked) if places is None else last
        if groups is None or self.one_head:
            parts = [(None if groups is None else groups[0].language, chosen, labels)]
        else:
            counts = [group.masked for group in groups]
            split = zip(groups, chosen.split(counts), labels.split(counts), strict=True)
            # none masked: gradients of 0, as for its other parts
            parts = [(group.language, h, y) for group, h, y in split]
        sums = [
            F.cross_entropy(full_precision(self.scores(h, language)), y, reduction="sum")
            for language, h, y in parts
        ]
        loss = sums[0] if len(sums) == 1 else torch.stack(sums).sum()
        if following is None:
            return loss
        decisions = self.follows(torch.tanh(self.pooler(last[:, 0])))
        return loss, F.cross_entropy(full_precision(decisions), following, reduction="sum")


def full_precision(scores: Tensor) -> Tensor:
    """Scores in at least float32: a softmax over many subwords loses too much in half precision."""
    return scores.float() if scores.dtype in (torch.bfloat16, torch.float16) else scores


@torch.no_grad()
def initialise(model: nn.Module, config: EncoderConfig) -> None:
    """Draw initial weights: "bert", all matrices N(0, init_std), biases 0; "xlm", embeddings N(0,
    d^-1/2), linear maps as torch does."""
    for module in model.modules():
        if isinstance(module, nn.Linear) and config.init == "bert":
            nn.init.normal_(module.weight, std=config.init_std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(
                module.weight,
                std=config.init_std if config.init == "bert" else config.hidden_size**-0.5,
            )
