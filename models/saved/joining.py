"""Languages that were learnt under one body, each in a model of its own, as one model.

Step 4 of MonoTrans (Artetxe et al. 2020, § 2.2) for any number of languages: whatever is trained on
the body afterwards reads each language through that language's own parts.
"""

from collections.abc import Sequence
from pathlib import Path

import torch

from crosslens.errors import quote, refuse
from crosslens.models.network.encoder import MaskedLM
from crosslens.models.network.surgery import add_adapters, plug_in
from crosslens.models.saved.native import load_model
from crosslens.models.text.vocabularies import Vocabularies, join_vocabularies

__all__ = ["join_languages"]


def join_languages(base: str | Path, others: Sequence[str | Path]) -> tuple[MaskedLM, Vocabularies]:
    """A model with the languages of ``base``, and with those that each of ``others`` has beside
    these.

    Languages without adapters of their own get such as are the identity, to the bit, where another
    has them.

    Parameters
    ----------
    base, others: folders that :func:`crosslens.models.saved.native.save_model` wrote; the others were
        trained from base (``start`` in their recipes).

    Raises
    ------
    InputError: another model has nothing new, has a language that is there already, or what it has
        of base (body, parts of base's languages, their vocabularies) is not the same to the bit.
    """
    model, vocabularies = load_model(base)
    known, first = model.languages, dict(model.state_dict())
    tokenizers = {name: vocabularies.tokenizers[name].to_str() for name in known}
    for folder in others:
        other, theirs = load_model(folder)
        new = [language for language in other.languages if language not in known]
        if not new:
            got = ", ".join(other.languages)
            remedy = "name the model that was trained first as the base"
            refuse(str(folder), f"a language that {quote(str(base))} does not have", got, remedy)
        differ = _differing(first, other)
        differ += [
            f"tokeniser of {name}"
            for name, text in tokenizers.items()
            if name not in theirs.tokenizers or theirs.tokenizers[name].to_str() != text
        ]
        if differ:
            expected = f"languages learnt under the body of {quote(str(base))}"
            got = f"another {differ[0]}"
            refuse(str(folder), expected, got, "train them with start = the base")
        own = {language: theirs.tokenizers[language] for language in new}
        sizes = {language: theirs.sizes[language] for language in new}
        tables = {language: theirs.tables[language] for language in new}
        mine = Vocabularies(theirs.mode, own, tables, sizes)
        vocabularies = join_vocabularies(vocabularies, mine)
        if other.config.adapters and not model.config.adapters:
            add_adapters(model, other.config.adapters, languages=[])
        for language in new:
            plug_in(model, language, _with_adapters(other, model), language)
    return model, vocabularies


def _differing(first: dict[str, torch.Tensor], other: MaskedLM) -> list[str]:
    """Names of tensors that another model lacks, or has otherwise."""
    there = other.state_dict()
    return [
        name
        for name, tensor in first.items()
        if name not in there or not torch.equal(there[name], tensor)
    ]


def _with_adapters(donor: MaskedLM, model: MaskedLM) -> MaskedLM:
    """The donor; where it has no adapters and the model has, with such as are the identity."""
    if model.config.adapters and not donor.config.adapters:
        add_adapters(donor, model.config.adapters, languages=[])
    return donor
