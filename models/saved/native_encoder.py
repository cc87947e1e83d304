"""A model of ours as an encoder: each text is read with its own language's modules and tokeniser,
with no folder between.

The states are those of the transformers folder that
:func:`crosslens.models.saved.native.export_view` writes for the language, where transformers has such
an architecture.
"""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crosslens.errors import quote, refuse
from crosslens.languages import same_language
from crosslens.models.extraction.outputs import captured, check_final_norm, output_names
from crosslens.models.machine.threads import same_weights
from crosslens.models.network.encoder import Group, MaskedLM
from crosslens.models.saved.derived_languages import own_code
from crosslens.models.text.tokenisation import (
    SPECIAL_TOKENS,
    with_segments,
    with_special_tokens,
)
from crosslens.models.text.vocabularies import Vocabularies

__all__ = ["NativeEncoder"]


class NativeEncoder:
    """An :class:`crosslens.models.extraction.encoder.Encoder` on a
    :class:`crosslens.models.network.encoder.MaskedLM`.

    Attributes
    ----------
    model: the model, in evaluation mode.
    tokenizer: the language's own; None until it is told the language.
    language: whose modules and tokeniser are used; None until it is told, and where all languages
        share everything.
    languages: those of the model; None where they share everything.
    random_seed: of a copy with random weights; otherwise None.

    The others are described there.
    """

    revision, causal, padding_free = "", False, False

    def __init__(
        self,
        name: str,
        model: MaskedLM,
        vocabularies: Vocabularies,
        fingerprint: str,
        *,
        device: str = "cpu",
        precision: str = "float32",
        random_seed: int | None = None,
    ) -> None:
        self.name, self.fingerprint, self.random_seed = name, fingerprint, random_seed
        self.model = model.to(device).eval()
        self.precision = precision
        self.device = torch.device(device)
        self.layers = model.config.layers + 1
        self.d = model.config.hidden_size
        self.max_length = model.config.max_positions
        self.pad_id = SPECIAL_TOKENS.index("[PAD]")  # whatever the language
        self.separate = bool(model.plan.separate) or vocabularies.mode != "joint"
        self.languages = (
            model.languages if self.separate or model.config.language_embeddings else None
        )
        self.language: str | None = None
        self._asked_for = False
        for one in model.languages:
            there = (
                int(vocabularies.tables[one].max(initial=0)) + 1
                if one in vocabularies.languages
                else 0
            )
            if not 0 < there <= model.sizes[one]:
                got = f"one of {there}" if there else "none"
                expected = f"a vocabulary of {one} of at most {model.sizes[one]} subwords"
                refuse(f"encoder {name}", expected, got, "restore the folder")
        self._tokenizers = {
            one: with_special_tokens(
                with_segments(vocabularies.tokenizers[one], model.config.trained_segments)
            )
            for one in model.languages
        }
        self.tokenizer: Any = None if self.languages else self._tokenizers[model.languages[0]]
        self._tables = {
            one: torch.from_numpy(vocabularies.tables[one]).to(self.device)
            for one in model.languages
        }

    def __repr__(self) -> str:
        told = [self.name] + (
            [] if self.random_seed is None else [f"random weights of seed {self.random_seed}"]
        )
        told += [f"layers 0–{self.layers - 1} × {self.d}", f"up to {self.max_length} tokens"]
        told += (
            []
            if self.languages is None
            else [f"modules of {self.language or ', '.join(self.languages)}"]
        )
        return f"Encoder({', '.join(told)})"

    def whose(self) -> str:
        """The language whose modules are used; where all are shared, the first.

        Raises
        ------
        InputError: it is told none.
        """
        if self.language is not None or self.languages is None:
            return self.language or self.model.languages[0]
        remedy = "name one of them (--language, language=)"
        expected = f"the language of its input, one of {', '.join(self.languages)}"
        refuse(f"encoder {self.name}", expected, "none", remedy)

    def states(
        self,
        ids: Tensor,
        mask: Tensor | None,
        outputs: Sequence[str] = ("hidden",),
        *,
        segments: Tensor | None = None,
    ) -> dict[str, list[Tensor]]:
        """As :meth:`crosslens.models.saved.pretrained.PretrainedEncoder.states`."""
        autocast = torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"
        )
        with captured(self.model.encoder, outputs, self.layers) as collected, autocast:
            hidden = self._run(ids, mask, segments)
        found: dict[str, list[Tensor]] = {**collected, "hidden": hidden}
        return {name: [state.float() for state in found[name]] for name in outputs}

    def scores(self, hidden: Tensor) -> Tensor:
        """(p, subwords) scores of the language's subwords, float32, of p last hidden states (p, d)."""
        return self.model.scores(hidden, self.whose())[:, self._tables[self.whose()]].float()

    def _run(self, ids: Tensor, mask: Tensor | None, segments: Tensor | None) -> list[Tensor]:
        network = self.model.encoder
        numbers = self._tables[self.whose()][ids.to(self.device)]
        positions = torch.arange(ids.shape[1], device=self.device).expand_as(numbers)
        lengths = None if mask is None else mask.to(self.device).sum(1)
        kinds = (
            segments.to(self.device)
            if segments is not None and network.config.segments > 1
            else None
        )
        states: list[Tensor] = network(
            numbers, positions, lengths, (Group(self.whose(), len(ids), 0),), kinds
        )
        return states

    def output_names(self, outputs: Sequence[str] = ("hidden",)) -> list[str]:
        """As :meth:`crosslens.models.saved.pretrained.PretrainedEncoder.output_names`; there is no
        "residual"."""
        if "residual" in outputs:
            check_final_norm(f"encoder {self.name}", None)
        return output_names(outputs, self.layers)

    def token_embeddings(self) -> Tensor:
        """(subwords, d) embedding of each subword of the language's tokeniser."""
        weight = self.model.encoder.token_table(self.whose())
        return weight.detach()[self._tables[self.whose()]]

    def check_ids(self, ids: np.ndarray) -> None:
        """Refuse token ids that the model has no embedding for.

        Raises
        ------
        InputError: the language's tokeniser is another model's.
        """
        there = len(self._tables[self.whose()])
        if len(ids) and ids.max() >= there:
            remedy = "give the model its own tokenisers"
            refuse(f"encoder {self.name}", f"token ids below {there}", str(ids.max()), remedy)

    def for_text(self, language: str, second: str | None = None) -> "NativeEncoder":
        """The encoder with a language's modules; itself where there are none, or one was asked for
        by name.

        Raises
        ------
        InputError: it does not have the language, or the two texts of a pair are of different ones.
        """
        if self.languages is None or self._asked_for:
            return self
        if second is not None and not same_language(second, language):
            remedy = "name one of them (--language, language=)"
            expected = f"text of {language}, whose modules read the pair"
            refuse("second", expected, f"text of {second}", remedy)
        return self._telling(language)

    def in_language(self, language: str) -> "NativeEncoder":
        """The encoder with this language's modules, whatever a text says of itself.

        Raises
        ------
        InputError: it does not have the language, or takes none.
        """
        if self.languages is None:
            expected = f"none, since all languages share encoder {self.name}"
            refuse("language", expected, quote(language), "leave it out")
        other = self._telling(language)
        other._asked_for = True
        return other

    def _telling(self, language: str) -> "NativeEncoder":
        language = own_code(self.languages or (), language)
        if language == self.language:
            return self
        if language not in (self.languages or ()):
            remedy = "call the text by one of them, or name one (--language, language=)"
            expected = f"one that encoder {self.name} has ({', '.join(self.languages or ())})"
            refuse("language", expected, quote(language), remedy)
        other = copy.copy(self)
        other.language, other.tokenizer = language, self._tokenizers[language]
        vars(other).pop("space_markers", None)  # of another language's tokeniser
        return other

    def language_settings(self) -> dict[str, str]:
        """Whose modules and tokeniser are used, and which language is embedded."""
        if self.languages is None or self.language is None:
            return {}
        used = {
            "language_embedding": self.model.config.language_embeddings,
            "language_modules": self.separate,
        }
        return {name: self.language for name, so in used.items() if so}

    def twin(self) -> "NativeEncoder":
        """The same encoder on the same weights, for another thread."""
        other = copy.copy(self)
        other.model = same_weights(self.model)
        return other
