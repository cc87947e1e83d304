"""Any encoder that transformers has loaded, as extraction, probing and scoring use it.

It is tried on a few short texts first: that padding changes states is reported, and an encoder
whose states other texts of a batch change is refused.
"""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crosslens.errors import quote, refuse
from crosslens.models.extraction.outputs import (
    captured,
    check_final_norm,
    find_final_norm,
    output_names,
)
from crosslens.models.machine.threads import same_weights
from crosslens.models.saved.model_languages import find_languages
from crosslens.models.saved.xlm_tokeniser import XlmTokeniser
from crosslens.models.text.tokenisation import tokenised
from crosslens.progress import say

__all__ = ["PretrainedEncoder"]

_PROBES = ("a", "The cat sat on the mat, and the dog lay there.")
# Largest difference, relative to the largest state of its layer, that rounding explains. float32
# gives some 5e-7 and bfloat16, which has 8 bits, 2e-3 to 6e-3 in encoders of 6 and 12 layers; an
# ignored mask gives more than a tenth.
_ROUNDING = {"float32": 1e-4, "bfloat16": 5e-2}
# of products of the same shape, as here, rounding is the same, too: what a causal encoder sees
# gives the same bits
_SAME = 1e-5
_NO_LIMIT = 10**9  # tokenisers without a longest input say 1e30
_SHORTEST_LIMIT = 512  # taken where neither the model nor its tokeniser names a longest input


class PretrainedEncoder:
    """A loaded encoder.

    Attributes
    ----------
    name: short name, for reports.
    model: the transformers model, with float32 weights and in evaluation mode.
    tokenizer: its fast tokeniser.
    layers: number of hidden states, the embedding layer's output included.
    d: width of the hidden states.
    max_length: longest input in tokens, special tokens included.
    pad_id: token id to fill a batch up with on the right.
    device: where the model is.
    precision: "float32", or "bfloat16" for matrix products in bfloat16.
    fingerprint: 16 hexadecimal digits over configuration, weights and tokeniser (and the seed of a
        random copy).
    padding_difference: largest difference that padding made to the states of some short texts,
        relative to the largest state of the layer that it was found in; 0 or rounding for an
        encoder that honours its mask.
    final_norm: name of the module of the model that normalises what the last layer gives; None
        where there is none.
    causal: whether a token changes no state before it, as has been tried: the encoder sees the text
        to the left only.
    padding_free: whether that is more than rounding, so that only inputs of equal length may share
        a batch.
    revision: for an encoder from the hub, the commit that was loaded, as far as that is known;
        otherwise "".
    random_seed: of a copy with random weights; otherwise None.
    languages: those that it can be told (XLM); None where it takes none.
    language: what it is told, by its own name for it; None where it is told nothing (yet).

    Raises
    ------
    InputError: it gives no hidden states of one width, or states that depend on the other texts of
        a batch; or it embeds languages, and does not say which.
    """

    def __init__(
        self,
        name: str,
        model: Any,
        tokenizer: Any,
        fingerprint: str,
        *,
        device: str = "cpu",
        precision: str = "float32",
        revision: str = "",
        random_seed: int | None = None,
    ) -> None:
        self.name = name
        self.model = model.to(device)
        self.tokenizer = tokenizer
        self.fingerprint = fingerprint
        self.revision, self.random_seed = revision, random_seed
        self.device, self.precision = torch.device(device), precision
        self.max_length, self.pad_id = _max_length(model, tokenizer), _pad_id(model, tokenizer)
        tables = (
            module
            for name, module in model.named_modules()
            if name.endswith("token_type_embeddings")
        )
        self._segments = any(getattr(table, "num_embeddings", 0) > 1 for table in tables)
        self._rows = _embeddings(model)
        self.languages = find_languages(name, model, tokenizer)
        self._told: tuple[str, str] | None = None  # languages of the first and of the second text
        self._asked_for = False
        tried = copy.copy(self)
        if self.languages is not None and self._told is None:
            tried._told = self.languages.first()
        self.layers, self.d, self.padding_difference, self.causal = _try_out(tried)
        self.final_norm = _find_norm(tried)
        self.padding_free = self.padding_difference > _rounding(precision)
        if getattr(model.config, "attention_type", None) == "block_sparse":
            # BigBird: a short text is read by full attention, and beside a long one by sparse one
            self.padding_free = True
            say(f"encoder {name}: sparse attention; only inputs of equal length will share a batch")
        elif self.padding_free:
            say(
                f"encoder {name}: padding changes its hidden states by up to "
                f"{self.padding_difference:.2g} of the largest; "
                "only inputs of equal length will share a batch"
            )

    def __repr__(self) -> str:
        told = [self.name] + (
            [] if self.random_seed is None else [f"random weights of seed {self.random_seed}"]
        )
        told += [f"layers 0–{self.layers - 1} × {self.d}", f"up to {self.max_length} tokens"]
        told += [str(self.device)] * (self.device.type != "cpu") + [self.precision] * (
            self.precision != "float32"
        )
        return f"Encoder({', '.join(told)})"

    def hidden_states(
        self, ids: Tensor, mask: Tensor | None, *, segments: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Hidden states of every layer in float32, each (batch, length, d), of (batch, length)
        token ids.

        Parameters
        ----------
        ids: (batch, length) token ids, filled up on the right with :attr:`pad_id`.
        mask: (batch, length), 1 for real tokens and 0 for padding; None where there is no padding.
        segments: (batch, length), 1 for the tokens of the second text of a pair and 0 for others.
            Encoders that do not embed segments (RoBERTa, XLM, decoder-only models, ...) are not
            given them.

        They are what transformers gives: layer 0 is the embedding layer's output, and in most
        families that normalise the input of each layer (the decoder-only ones, ModernBERT) the last
        one has passed the final normalisation, which the others have not. On a CPU or GPU in
        float32 nothing is copied. Call it under ``torch.inference_mode()``.
        """
        states = self._forward(ids, mask, segments, hidden=True)
        if not states or len({state.shape for state in states}) > 1:
            widths = "several shapes" if states else "none"
            expected = "hidden states of one width"
            got = f"{len(states)} of {widths}"
            refuse(f"encoder {self.name}", expected, got, "choose another encoder")
        return states

    def last_state(
        self, ids: Tensor, mask: Tensor | None, *, segments: Tensor | None = None
    ) -> Tensor:
        """The last layer's states alone, in float32, as the model gives them
        (``last_hidden_state``): the last of :meth:`hidden_states`, and of position 0 alone within
        :func:`crosslens.models.network.first_position.only_first_position`."""
        found: Tensor = self._found(ids, mask, segments, hidden=False).last_hidden_state
        return found.float()

    def states(
        self,
        ids: Tensor,
        mask: Tensor | None,
        outputs: Sequence[str] = ("hidden",),
        *,
        segments: Tensor | None = None,
    ) -> dict[str, list[Tensor]]:
        """Hidden states and what the sub-layers add to them, by name of the output, in float32,
        each (batch, length, d).

        Parameters
        ----------
        ids, mask, segments: as for :meth:`hidden_states`.
        outputs: some of "hidden" (layers 0 to L), "attention" and "mlp" (layers 1 to L: the
            sub-layer's output before the residual is added; see
            :mod:`crosslens.models.extraction.outputs`), and "residual" (what layer L gives before
            the final normalisation).

        Raises
        ------
        InputError: an output that does not exist, or a family whose sub-layers are not known.
        """
        with captured(self.model, outputs, self.layers, self.final_norm) as collected:
            if "hidden" in outputs:
                hidden = self.hidden_states(ids, mask, segments=segments)
            else:
                self._forward(ids, mask, segments, hidden=False)
        # some families flatten the batch for their MLP
        sublayers = {
            name: [one.float().reshape(*ids.shape, -1) for one in tensors]
            for name, tensors in collected.items()
        }
        return {name: list(hidden) if name == "hidden" else sublayers[name] for name in outputs}

    def token_embeddings(self) -> Tensor:
        """(subwords, width) the rows of the embedding matrix, by token id."""
        weight: Tensor = self.model.get_input_embeddings().weight
        return weight.detach()

    def check_ids(self, ids: np.ndarray) -> None:
        """Refuse token ids that the model has no embedding for.

        Raises
        ------
        InputError: its tokeniser is another model's.
        """
        if len(ids) and ids.max() >= self._rows:
            got = f"{ids.max()} for {self.tokenizer.convert_ids_to_tokens(int(ids.max()))!r}"
            remedy = "give the model its own tokeniser"
            refuse(f"encoder {self.name}", f"token ids below {self._rows}", got, remedy)

    def output_names(self, outputs: Sequence[str] = ("hidden",)) -> list[str]:
        """Names of the arrays that :meth:`states` gives, in order: layer_00 ... for hidden,
        attention_01 ..., mlp_01 ..."""
        if "residual" in outputs:
            check_final_norm(f"encoder {self.name}", self.final_norm)
        return output_names(outputs, self.layers)

    def twin(self) -> "PretrainedEncoder":
        """The same encoder on the same weights, for another thread."""
        other = copy.copy(self)
        other.model = same_weights(self.model)
        return other

    @property
    def language(self) -> str | None:
        """What it is told that its input is in; of a pair, the first text."""
        return None if self._told is None else self._told[0]

    def in_language(self, language: str) -> "PretrainedEncoder":
        """The same encoder on the same weights, told that every text is in this language, whatever
        the text says of itself.

        Raises
        ------
        InputError: it does not have the language, or takes none.
        """
        if self.languages is None:
            expected = f"none, since encoder {self.name} takes none"
            refuse("language", expected, quote(language), "leave it out")
        other = self._telling((self.languages.choose(language, given=True),) * 2)
        other._asked_for = True
        return other

    def for_text(self, language: str, second: str | None = None) -> "PretrainedEncoder":
        """The encoder as it reads a text in some language, and the second texts of pairs: itself
        where it takes no language or was told one by name.

        Raises
        ------
        InputError: it does not have the language.
        """
        if self.languages is None or self._asked_for:
            return self
        told = self.languages.choose(language), self.languages.choose(second or language)
        return self if told == self._told else self._telling(told)

    def language_settings(self) -> dict[str, str]:
        """What numbers depend on beside text and encoder: the languages that are embedded, and
        those whose rules split the text."""
        if self.languages is None or self._told is None:
            return {}
        told = "+".join(dict.fromkeys(self._told))
        used = {
            "language_embedding": self.languages.embedded,
            "tokeniser_language": self.languages.rules,
        }
        return {name: told for name, so in used.items() if so}

    def told_language(self, ids: Tensor, segments: Tensor | None = None) -> dict[str, Tensor]:
        """What the model is given beside token ids: the number of each token's language, where it
        embeds languages.

        Raises
        ------
        InputError: it is told none.
        """
        if self.languages is None or not self.languages.embedded:
            return {}
        self.languages.check_told(self.language)
        first, second = (self.languages.ids[one] for one in self._told or ())
        numbers = torch.full_like(ids, first)
        return {
            "langs": numbers
            if segments is None
            else torch.where(segments.to(ids.device) == 1, second, numbers)
        }

    def _telling(self, languages: tuple[str, str]) -> "PretrainedEncoder":
        other = copy.copy(self)
        other._told = languages
        if isinstance(self.tokenizer, XlmTokeniser):
            other.tokenizer = self.tokenizer.in_languages(*languages)
        return other

    def _forward(
        self, ids: Tensor, mask: Tensor | None, segments: Tensor | None, hidden: bool
    ) -> tuple[Tensor, ...]:
        found = self._found(ids, mask, segments, hidden)
        return tuple(state.float() for state in getattr(found, "hidden_states", None) or ())

    def _found(
        self, ids: Tensor, mask: Tensor | None, segments: Tensor | None, hidden: bool
    ) -> Any:
        """What transformers gives."""
        given = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": segments if self._segments else None,
        }
        given |= self.told_language(ids, segments)
        there = {
            name: tensor.to(self.device) for name, tensor in given.items() if tensor is not None
        }
        if (choose := getattr(self.model, "set_attention_type", None)) is not None:
            # BigBird: after one short text, transformers would read all later ones otherwise
            choose(self.model.config.attention_type)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            return self.model(**there, output_hidden_states=hidden)


def _max_length(model: Any, tokenizer: Any) -> int:
    named = (
        getattr(model.config, name, None)
        for name in ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
    )
    positions = next((value for value in named if isinstance(value, int) and value > 0), _NO_LIMIT)
    for name, module in model.named_modules():
        if (
            name.endswith("position_embeddings")
            and getattr(module, "padding_idx", None) is not None
        ):
            # RoBERTa and its kin count positions from behind the padding id
            positions -= module.padding_idx + 1
    shortest = int(min(positions, tokenizer.model_max_length))
    return shortest if shortest < _NO_LIMIT else _SHORTEST_LIMIT


def _pad_id(model: Any, tokenizer: Any) -> int:
    """The model's own padding id where it has one, from which RoBERTa and its kin count positions;
    0 where there is none."""
    rows = getattr(model.config, "vocab_size", len(tokenizer))
    for pad in (getattr(model.config, "pad_token_id", None), tokenizer.pad_token_id):
        # -1, or one that was added to the tokeniser alone, has no embedding
        if isinstance(pad, int) and 0 <= pad < rows:
            return pad
    return 0


def _embeddings(model: Any) -> int:
    """The number of token ids that a model embeds; without limit where it does not say."""
    try:
        return int(model.get_input_embeddings().weight.shape[0])
    except Exception:  # a model in code of its own may have no such table, and say so in many ways
        return _NO_LIMIT


@torch.inference_mode()
def _try_out(encoder: PretrainedEncoder) -> tuple[int, int, float, bool]:
    """Number and width of an encoder's hidden states, the largest difference that padding makes to
    them, and whether it is causal.

    Raises
    ------
    InputError: the states are not finite, or depend on other texts of the same length.
    """
    found = [one.ids for one in tokenised(encoder.name, encoder.tokenizer, list(_PROBES))]
    for ids in found:
        encoder.check_ids(np.array(ids))
    short, long = sorted(
        ([ids[: encoder.max_length] or [encoder.pad_id] for ids in found]), key=len
    )
    if len(short) == len(long):  # to a tokeniser that splits nothing, say
        long = (8 * long)[: encoder.max_length]
    mate = [
        (one + 1) % getattr(encoder.model.config, "vocab_size", len(encoder.tokenizer))
        for one in long
    ]
    alone = [_real_states(encoder, [row])[0] for row in (short, long)]
    if not all(state.isfinite().all() for states in alone for state in states):
        got = "some that are not"
        refuse(f"encoder {encoder.name}", "finite hidden states", got, "check the weights")
    difference = max(map(_difference, alone, _real_states(encoder, [short, long])))
    beside = _difference(alone[1], _real_states(encoder, [long, mate])[0])
    if beside > _rounding(encoder.precision):
        refuse(
            f"encoder {encoder.name}",
            "hidden states that do not depend on the other texts of a batch",
            f"a difference of {beside:.2g} of the largest state beside a text of the same length",
            (
                "choose another encoder, or switch off what mixes texts (a normalisation over the "
                "batch, say)"
            ),
        )
    other = _real_states(encoder, [[*long[:-1], mate[-1]]])[0]  # another last token
    before = (
        _difference([state[:-1] for state in alone[1]], [state[:-1] for state in other])
        if len(long) > 1
        else 0.0
    )
    return len(alone[0]), int(alone[0][0].shape[-1]), difference, before <= _SAME


@torch.inference_mode()
def _find_norm(encoder: PretrainedEncoder) -> str | None:
    """The final normalisation, by a text of one token: not padding, whose states are all 0 in a model
    with random weights, as those of every normalisation are."""
    size = getattr(encoder.model.config, "vocab_size", len(encoder.tokenizer))
    ids = torch.tensor([[(encoder.pad_id + 1) % size]])
    return find_final_norm(
        encoder.model, lambda: encoder.hidden_states(ids, torch.ones_like(ids))[-1]
    )


def _real_states(encoder: PretrainedEncoder, rows: list[list[int]]) -> list[list[Tensor]]:
    """For each row of ids, which share a batch, its states in every layer without the padding."""
    width = max(map(len, rows))
    ids = torch.tensor([row + [encoder.pad_id] * (width - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    states = encoder.hidden_states(ids, mask)
    return [[state[i, : len(row)] for state in states] for i, row in enumerate(rows)]


def _difference(expected: list[Tensor], got: list[Tensor]) -> float:
    """Largest difference, relative to the largest state of the layer that it is found in; infinite
    where a state is not a number."""
    ratios = [
        float((a - b).abs().max() / a.abs().max().clamp_min(1e-30))
        for a, b in zip(expected, got, strict=True)
    ]
    return max(ratio if ratio == ratio else float("inf") for ratio in ratios)


def _rounding(precision: str) -> float:
    """The difference that rounding explains; torch can be told to round the products of float32 as
    well (TF32)."""
    return _ROUNDING[precision if torch.get_float32_matmul_precision() == "highest" else "bfloat16"]
