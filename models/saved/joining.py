"""Languages that were learnt under one body, each in a model of its own, as one model.

Step 4 of MonoTrans (Artetxe et al. 2020, § 2.2) for any number of languages: whatever is trained on
the body afterwards reads each language through that language's own parts. The same for languages that
were never trained under it, whose token embeddings were mapped into the space of its own.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import torch

from crosslens.errors import quote, refuse
from crosslens.models.network.encoder import MaskedLM
from crosslens.models.network.surgery import add_adapters, plug_in
from crosslens.models.saved.native import load_model
from crosslens.models.text.subword_vectors import SubwordVectors
from crosslens.models.text.vocabularies import Vocabularies, join_vocabularies
from crosslens.models.training.frozen_embeddings import put_embeddings

__all__ = ["join_languages", "join_vectors"]


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
            add_adapters(
                model, other.config.adapters, languages=[], norms=other.config.adapter_norms
            )
        for language in new:
            plug_in(model, language, _with_adapters(other, model), language)
    return model, vocabularies


def join_vectors(base: str | Path, vectors: Sequence[str | Path]) -> tuple[MaskedLM, Vocabularies]:
    """A model with the languages of ``base``, and with those of some subword vectors.

    Each new language has its vectors as token embeddings, an output bias of 0, and shares all else
    with the languages of base.

    Parameters
    ----------
    base: a folder that :func:`crosslens.models.saved.native.save_model` wrote, with a table of special
        tokens.
    vectors: folders of :class:`crosslens.models.text.subword_vectors.SubwordVectors`, as wide as the
        token embeddings of base.

    Raises
    ------
    InputError: languages of base own more than their token embeddings and output bias, or not these;
        there is no table of special tokens; vectors of another width, or of a language that is there
        already.
    """
    model, vocabularies = load_model(base)
    if model.plan.separate != {"token", "softmax", "bias"} or not model.config.special_table:
        expected = (
            "a model with special_table=true whose languages own their token embeddings alone"
        )
        got = f"{model.plan}, special_table={str(model.config.special_table).lower()}"
        refuse(str(base), expected, got, 'train one with sharing="sep=token"')
    for folder in vectors:
        given = SubwordVectors.load(folder)
        vocabularies = join_vocabularies(vocabularies, given.vocabulary)
        shape = dataclasses.replace(model.config, vocab_size=len(given.vectors))
        alone = MaskedLM(shape, languages=(given.language,), plan=model.plan)
        put_embeddings(alone, folder)
        plug_in(model, given.language, alone)
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
        add_adapters(donor, model.config.adapters, languages=[], norms=model.config.adapter_norms)
    return donor
