"""Which language an encoder is told that its input is in.

XLM adds an embedding of the language to that of each token, and has rules for each language by
which it splits text. Which languages there are is listed in its configuration (``lang2id``). A text
says its own language (``fra``), which XLM may call otherwise (``fr``).
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from crosslens.errors import quote, refuse
from crosslens.languages import NAMES, code_of, short_codes
from crosslens.models.saved.xlm_tokeniser import XlmTokeniser, check_segmenter

__all__ = ["ModelLanguages", "find_languages"]

_RULES = "en"  # what XLM's tokeniser takes where it is told nothing


@dataclasses.dataclass(frozen=True)
class ModelLanguages:
    """The languages that an encoder can be told.

    Attributes
    ----------
    encoder: what it is called in messages.
    ids: name -> row of the language embeddings; only names where it embeds none.
    embedded: whether it embeds them; otherwise they choose the tokeniser's rules alone.
    rules: whether the tokeniser has rules by language.
    """

    encoder: str
    ids: Mapping[str, int]
    embedded: bool
    rules: bool

    def choose(self, code: str, *, given: bool = False) -> str:
        """What the encoder calls a language.

        Parameters
        ----------
        code: of three letters or two, perhaps with more behind them ("zho_Hans"); or the encoder's
            own name for it.
        given: it was asked for, so that the encoder's own names come first, and none but these will
            do.

        Raises
        ------
        InputError: the encoder does not have it, or its words cannot be found here.

        >>> languages = ModelLanguages("xlm", {"en": 0, "fr": 1}, embedded=True, rules=False)
        >>> languages.choose("fra"), languages.choose("eng_Latn")
        ('fr', 'en')
        """
        found = self._listed_name(code, given)
        if found is None:
            found = self._unlisted(code, re.split("[-_]", code)[0], given)
        if self.rules:
            check_segmenter(self.encoder, found)
        return found

    def has(self, code: str) -> bool:
        """Whether :meth:`choose` finds the language of a text by name.

        Raises
        ------
        InputError: its words cannot be found here.

        >>> ModelLanguages("xlm", {"en": 0, "fr": 1}, embedded=True, rules=False).has("deu")
        False
        """
        return self._listed_name(code, given=False) is not None and bool(self.choose(code))

    def _listed_name(self, code: str, given: bool) -> str | None:
        whole, base = code.replace("-", "_"), re.split("[-_]", code)[0]
        asked = [code, whole, *short_codes(base), base]
        # XLM's "als" is Alemannic, ISO 639-3's Tosk Albanian
        of_text = [*([whole] if "_" in whole else []), *short_codes(base), base]
        found = next((one for one in (asked if given else of_text) if one in self.ids), None)
        if found is None:  # XLM calls Cantonese zh_yue
            found = next((one for one in self.ids if code_of(one) == code_of(code)), None)
        return found

    def first(self) -> tuple[str, str] | None:
        """The first of the languages that are embedded, for texts that are in none; None where none
        are."""
        return (min(self.ids, key=lambda name: self.ids[name]),) * 2 if self.embedded else None

    def check_told(self, language: str | None) -> None:
        """Refuse that an encoder with embeddings of languages is told none."""
        if self.embedded and language is None:
            remedy = "name one of them (--language, language=)"
            expected = f"the language of its input, one of {self._listed()}"
            refuse(f"encoder {self.encoder}", expected, "none", remedy)

    def _unlisted(self, code: str, base: str, given: bool) -> str:
        if self.embedded or (given and (self.ids or base not in NAMES)):
            remedy = (
                "choose one of them"
                if given
                else "call the text by one of them, or name one (--language, language=)"
            )
            expected = f"one that encoder {self.encoder} has ({self._listed()})"
            refuse("language", expected, quote(code), remedy)
        return next(iter(short_codes(base)), _RULES) if not self.ids else _RULES

    def _listed(self) -> str:
        return ", ".join(sorted(self.ids, key=lambda name: self.ids[name])) or "any that has a code"


def find_languages(name: str, model: Any, tokenizer: Any) -> ModelLanguages | None:
    """The languages that an encoder can be told; None where it takes none.

    Parameters
    ----------
    name: what it is called in messages. model, tokenizer: transformers'
        (:func:`crosslens.models.saved.xlm_tokeniser.with_offsets`).

    Raises
    ------
    InputError: it embeds languages, and does not say which.
    """
    tables = [
        module for place, module in model.named_modules() if place.endswith("lang_embeddings")
    ]
    rules = isinstance(tokenizer, XlmTokeniser)
    if not tables and not rules:
        return None
    config = model.config
    listed = getattr(config, "lang2id", None) or getattr(tokenizer, "lang2id", None) or {}
    fit = isinstance(listed, dict) and all(type(row) is int and row >= 0 for row in listed.values())
    if not fit or len(set(listed.values())) < len(listed):
        expected = "languages and their numbers (lang2id)"
        refuse(f"encoder {name}", expected, "something else", "check its config.json")
    if tables and (not listed or max(listed.values()) >= tables[0].num_embeddings):
        got = f"the numbers of {len(listed)}" if listed else "none"
        expected = f"the names of its {tables[0].num_embeddings} languages (lang2id)"
        refuse(f"encoder {name}", expected, got, "add them to its config.json")
    return ModelLanguages(name, dict(listed), bool(tables), rules)
