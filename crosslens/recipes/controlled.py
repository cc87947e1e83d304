"""Controlled studies after Deshpande et al. 2022 and Conneau et al. 2020, on English and languages
that are made from it: which of them come to lie on the original, and what must be shared?

    deshpande-pairs         inversion, permutation, transliteration (and syntax), each alone
    deshpande-compositions  transliteration alone, and with inversion, permutation (and syntax)
    deshpande-ladder        thirty transliterations in orders from that of English to none: alignment
                            against how many neighbours an order keeps
    deshpande-corpora       English and its transliteration: the same text, the other half of the
                            source, another source
    conneau-sharing         the same pair, and which parts each language owns
    conneau-anchors         the same pair, and how many words they have in common

    (the last two with pair=fra:fra.txt: English and another natural language)

    eng-BY[,BY]             English and what is derived from it by these transformations

    crosslens train deshpande-compositions data=eng.txt --seeds 3
    crosslens train eng-translit+inversion data=eng.txt --seeds 3

The model is that of :mod:`crosslens.recipes.emergence`, but with Deshpande et al.'s one embedding
matrix of twice the subwords. Two numbers scale it, ``model`` (its width) and ``tokens`` (of each
training); ``scale=paper`` is what the paper trained. Sharing has eight layers, since it separates
the first six. Random replacements come from the token's own language; Deshpande et al.'s program
draws them from the original half (``masking.scope=original``).

Cost: at the default size five minutes of one free core for a training of two layers. Trainings
differ a good deal: on the World English Bible the transliteration, which is the positive control,
was at .90 after 12 M tokens in one and at .53 in another, which reached .66 after 16 M. So the
control is to be looked at first, and more tokens given where it stays below .5.
"""

import collections
import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crosslens.asked import absolute
from crosslens.corpus import read_text
from crosslens.derive.registry import derived_code
from crosslens.errors import refuse
from crosslens.files import check_name
from crosslens.models.network.shape import EncoderConfig
from crosslens.models.network.sharing import SYSTEMS
from crosslens.models.text.tokenisation import Vocabulary, train_tokenizer
from crosslens.models.training.anchors import Anchors
from crosslens.models.training.derivation import Derivation, check_order
from crosslens.models.training.masking import Masking
from crosslens.models.training.settings import Optimisation, Source, TrainRecipe, with_overrides
from crosslens.recipes import STUDIES, conditions_of
from crosslens.run.controlled import Condition, ControlledStudy
from crosslens.run.emergence import split_rows

__all__ = ["asked_anywhere", "controlled_study", "study_texts"]

_COPY = "eng-x"
# settings of a study alone
_OWN = ("data", "other", "syntax", "pair", "dictionary", "model", "tokens", "scale", "seeds")
_FIXED = ("sharing", "derived", "anchors", "sources", "seed")  # what conditions decide
_NAME = 80  # letters of a study's name, of which every condition may be a part
_LENGTHS = (5, 10)  # words of a sentence that is kept: the model has 32 positions
_WORDS = (100, 1000)  # sizes of the identity dictionaries


def controlled_study(name: str, settings: Mapping[str, Any]) -> ControlledStudy:
    """A study by name.

    Parameters
    ----------
    settings: ``model`` (width, a multiple of 32; 64), ``tokens`` (of each training; 12 M),
        ``scale`` ("small", or "paper": what the paper trained, a model as large on as many tokens),
        ``syntax`` (whether there is such a text), ``pair`` ("LANGUAGE:FILE", of conneau-sharing and
        conneau-anchors: a natural language in the copy's place), and settings of the recipe of all conditions.

    Raises
    ------
    InputError: no such study or setting, or a size that cannot be.

    >>> study = controlled_study("deshpande-corpora", {"tokens": 1e6})
    >>> list(study.conditions), study.conditions["same"].recipe.steps
    (['parallel', 'same', 'different'], 488)
    """
    named = conditions_of(name)
    if name not in STUDIES and not named:
        expected = f"one of {', '.join(STUDIES)}, or eng-TRANSFORMATION"
        refuse("recipe", expected, repr(name), "check the spelling")
    for key in settings:
        if key.partition(".")[0] in _FIXED:
            refuse(key, "what the conditions of the study leave open", key, "leave it out")
    base = _base(name, settings)
    changes = {key: value for key, value in settings.items() if key not in _OWN}
    recipe, pair = with_overrides(base, changes), _pair(name, settings)
    if named:
        made = _derived(recipe, named)
    elif pair is not None:
        made = _NATURAL[name](_natural(recipe, pair[0]), bool(settings.get("dictionary")))
    else:
        made = _MAKERS[name](recipe, bool(settings.get("syntax")))
    conditions, order, control = made
    return ControlledStudy(
        name=name,
        question=STUDIES.get(name, "does what is derived from English come to lie on it?"),
        paper=_paper(name),
        conditions=conditions,
        order=order,
        control=control,
    )


def _base(name: str, settings: Mapping[str, Any]) -> TrainRecipe:
    """What all conditions of a study have: English and its copy, from one text."""
    scale = settings.get("scale", "small")
    if scale not in ("small", "paper"):
        refuse("scale", "small or paper", repr(scale), "choose one of these")
    if scale == "paper" and "model" in settings:
        refuse("model", "none with scale=paper", repr(settings["model"]), "leave one of them out")
    recipe = _PAPERS[_paper(name)] if scale == "paper" else _SMALL
    model, tokens = settings.get("model", 64), settings.get("tokens")
    if isinstance(model, bool) or not isinstance(model, int) or model < 32 or model % 32:
        refuse("model", "a width that is a multiple of 32", repr(model), "64 is the default")
    if tokens is not None:
        least, is_number = recipe.batch_tokens, isinstance(tokens, int | float)
        if isinstance(tokens, bool) or not is_number or not least <= tokens < 1e15:
            remedy = "12e6 is the default" if scale == "small" else "leave it to the paper"
            refuse("tokens", f"a number from {least} up", repr(tokens), remedy)
    steps = recipe.steps if tokens is None else int(tokens) // recipe.batch_tokens
    optimisation = dataclasses.replace(
        recipe.optimisation,
        # wide models take smaller steps
        peak_rate=recipe.optimisation.peak_rate * (64 / model if scale == "small" else 1),
        warmup=min(recipe.optimisation.warmup_of(recipe.steps), max(1, steps // 4)),
    )
    shape = recipe.encoder
    if scale == "small":
        shape = dataclasses.replace(
            shape,
            hidden_size=model,
            layers=8 if name == "conneau-sharing" else 2,
            heads=model // 32,
            ffn_size=4 * model,
        )
    return dataclasses.replace(
        recipe,
        name=re.sub("[:+,]", "-", name)[:_NAME],  # a folder is called so
        steps=steps,
        encoder=shape,
        optimisation=optimisation,
    )


def asked_anywhere(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with an absolute file of the pair, for another run wherever it stands."""
    language, _, path = str(settings.get("pair", "")).partition(":")
    return {**settings, "pair": f"{language}:{absolute(path)}"} if path else dict(settings)


def _pair(name: str, settings: Mapping[str, Any]) -> tuple[str, str] | None:
    """Code and file of the other natural language; None where English meets its copy."""
    told = settings.get("pair")
    if told is None:
        if settings.get("dictionary") is not None:
            refuse("dictionary", "none without pair", repr(settings["dictionary"]), "add pair=")
        return None
    if name not in _NATURAL:
        refuse("pair", f"none with {name}", repr(told), f"choose {' or '.join(_NATURAL)}")
    if settings.get("dictionary") is not None and name != "conneau-anchors":
        refuse("dictionary", f"none with {name}", repr(settings["dictionary"]), "leave it out")
    language, colon, path = str(told).partition(":")
    if not colon or not language or not path or language == "eng":
        refuse("pair", "LANGUAGE:FILE, another one than eng", repr(told), "write fra:fra.txt, say")
    return check_name(language, "pair"), path


def _natural(recipe: TrainRecipe, language: str) -> TrainRecipe:
    """English and another language, of texts that say the same."""
    source = Source(name="text", texts={"eng": "training", language: "training-pair"})
    return dataclasses.replace(recipe, sources=(source,), derived={})


def _paper(name: str) -> str:
    """Whose measures and numbers stand beside a study's."""
    return "conneau" if name.startswith("conneau-") else "deshpande"


_BOTH: dict[str, Any] = {
    "sources": (Source(name="text", texts={"eng": "training", _COPY: "training"}),),
    "derived": {_COPY: Derivation(of="eng", by="transliteration")},
    "units": "stream",
    "tlm_share": 0.0,
}
_SMALL = TrainRecipe(
    **_BOTH,
    name="small",
    steps=12_000_000 // 2048,
    batch_languages="mixed",
    batch_tokens=2048,
    max_length=32,
    log_every=100,
    validate_every=500,
    save_every=500,
    vocabulary=Vocabulary(size=600, kind="bpe", mode="disjoint"),
    encoder=EncoderConfig(
        vocab_size=600, hidden_size=64, layers=2, heads=2, ffn_size=256, max_positions=32,
        dropout=0.0, init_std=0.05,
    ),
    masking=Masking(rate=0.25, scope="language"),
    optimisation=Optimisation(peak_rate=4e-3, warmup=200, weight_decay=0.3),
)  # fmt: skip
_PAPERS = {
    # Deshpande et al. 2022, appendix and program: 128 rows of 512 tokens, 500 k updates
    "deshpande": TrainRecipe(
        **_BOTH,
        name="deshpande",
        steps=500_000,
        batch_languages="mixed",
        batch_tokens=65_536,
        max_length=512,
        vocabulary=Vocabulary(size=40_000, kind="bpe", mode="disjoint"),
        encoder=EncoderConfig(
            vocab_size=40_000, hidden_size=512, layers=8, heads=8, ffn_size=2048, max_positions=512,
            norm_eps=1e-5,
        ),
        masking=Masking(scope="original"),
        optimisation=Optimisation(peak_rate=1e-4, warmup=10_000, weight_decay=0.0, beta2=0.999),
    ),
    # Conneau et al. 2020, § 2.1, with XLM's epochs: 8 x 96 rows of 256 tokens, 417 k updates
    "conneau": TrainRecipe(
        **_BOTH,
        name="conneau",
        steps=417_000,
        batch_tokens=196_608,
        max_length=256,
        sample_exponent=0.7,
        precision="bfloat16",
        vocabulary=Vocabulary(size=40_000, kind="bpe", mode="disjoint"),
        encoder=EncoderConfig(
            vocab_size=40_000, hidden_size=768, layers=8, heads=12, ffn_size=3072,
            max_positions=256, head="plain", init="xlm",
        ),
        masking=Masking(count="xlm", counts="joint", exponent=0.5),
        optimisation=Optimisation(
            optimiser="adam", peak_rate=1e-4, first_rate=1e-7, warmup=30_000, decay="inverse_sqrt",
            weight_decay=0.0,
        ),
    ),
}  # fmt: skip


_Made = tuple[dict[str, Condition], Sequence[Sequence[str]], str]


def _by(recipe: TrainRecipe, by: str, published: str) -> Condition:
    """A condition by the transformations that make the copy."""
    derived = {_COPY: Derivation(of="eng", by=by)}
    mode = "disjoint" if derived[_COPY].transliterated else "union"
    vocabulary = dataclasses.replace(recipe.vocabulary, mode=mode)
    changed = dataclasses.replace(recipe, derived=derived, vocabulary=vocabulary)
    return Condition(recipe=changed, published=published)


def _by_syntax(recipe: TrainRecipe, *, transliterated: bool, published: str) -> Condition:
    """A condition whose copy is a text in another word order, which the user gives."""
    source = Source(name="text", texts={"eng": "training", _COPY: "training-syntax"})
    vocabulary = dataclasses.replace(
        recipe.vocabulary, mode="disjoint" if transliterated else "union", copies={_COPY: "eng"}
    )
    changed = dataclasses.replace(recipe, sources=(source,), derived={}, vocabulary=vocabulary)
    return Condition(recipe=changed, kept={_COPY: "kept-syntax"}, published=published)


def _pairs(recipe: TrainRecipe, syntax: bool) -> _Made:
    names = ("transliteration", "permutation", "inversion")
    conditions = {name: _by(recipe, name, name) for name in names}
    if syntax:
        conditions["syntax"] = _by_syntax(recipe, transliterated=False, published="syntax")
    # the paper's order is of transfer: where both have the same ids, the means of a sentence's
    # vectors are alike from the start, so retrieval says nothing of it
    return conditions, [], "transliteration"


def _compositions(recipe: TrainRecipe, syntax: bool) -> _Made:
    conditions = {
        "transliteration": _by(recipe, "transliteration", "transliteration, parallel corpora")
    }
    order = [["transliteration"], ["transliteration-inversion", "transliteration-permutation"]]
    if syntax:
        told = "transliteration and syntax"
        conditions["transliteration-syntax"] = _by_syntax(
            recipe, transliterated=True, published=told
        )
        order.insert(1, ["transliteration-syntax"])
    for one in ("inversion", "permutation"):
        conditions[f"transliteration-{one}"] = _by(
            recipe, f"transliteration+{one}", f"transliteration and {one}"
        )
    return conditions, order, "transliteration"


_GRADES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)  # places that a token may go at most
_WINDOWS = (2, 3, 4, 5, 6, 8, 10, 12)  # tokens of a window
_ORDERS = (
    "transliteration",
    *(f"transliteration+limited-permutation:{places}" for places in _GRADES),
    *(f"transliteration+local-shuffle:{window}" for window in _WINDOWS),
    "transliteration+even-odd",
    "transliteration+deterministic-shuffle",
    "transliteration+inversion",
    *(f"transliteration+inversion+limited-permutation:{places}" for places in (1, 3, 8)),
    *(f"transliteration+even-odd+limited-permutation:{places}" for places in (1, 3, 8)),
    "transliteration+permutation",
    "transliteration+permutation:epoch",
)
"""From script alone, by orders that are drawn or are rules, to none."""


def _ladder(recipe: TrainRecipe, syntax: bool) -> _Made:
    return _derived(recipe, _ORDERS)


_PRINTED = {  # transformations of a condition -> what Deshpande et al. call it
    "transliteration": "transliteration, parallel corpora",
    "transliteration+inversion": "transliteration and inversion",
    "transliteration+permutation": "transliteration and permutation",
}


def _derived(recipe: TrainRecipe, named: Sequence[str]) -> _Made:
    """A condition for each composition; no order is expected of them."""
    conditions = {}
    for by in named:
        name = derived_code("", by).removeprefix("-")
        if name in conditions:
            refuse("recipe", "conditions that differ", f"{by} twice", "leave one of them out")
        conditions[name] = _by(recipe, by, _PRINTED.get(by, ""))
        check_order(conditions[name].recipe.derived[_COPY], "recipe")
    plain = "transliteration"
    return conditions, [], plain if plain in conditions else next(iter(conditions))


def _corpora(recipe: TrainRecipe, syntax: bool) -> _Made:
    """Both sides have texts of as many tokens in all conditions (:func:`study_texts`)."""
    conditions = {}
    for name, text, published in (
        ("parallel", "first", "transliteration, parallel corpora"),
        ("same", "second", "transliteration, same corpora"),
        ("different", "other", "transliteration, diff corpora"),
    ):
        sources: tuple[Source, ...] = (Source(name="text", texts={"eng": "first", _COPY: text}),)
        if text != "first":  # not line by line the same
            sources = (
                Source(name="text", texts={"eng": "first"}),
                Source(name="copy", texts={_COPY: text}),
            )
        conditions[name] = Condition(
            recipe=dataclasses.replace(recipe, sources=sources), published=published
        )
    return conditions, [["parallel"], ["same"], ["different"]], "parallel"


def _sharing(recipe: TrainRecipe, syntax: bool) -> _Made:
    """The systems of the paper that share less and less. A copy has no natural anchors, so those
    whose languages share their embeddings have ids of their own in one matrix."""
    names = (
        "default",
        "sep-emb",
        "sep-1-3",
        "sep-emb-1-3",
        "sep-1-6",
        "sep-emb-1-6",
        "monolingual",
    )
    printed = ("No anchors", "Sep Emb", "Sep L1-3", "Sep Emb + L1-3", "Sep L1-6", "Sep Emb + L1-6")
    conditions = {}
    for name, published in zip(names, (*printed, ""), strict=True):
        system = SYSTEMS[name]
        own = system.vocabulary == "separate"
        conditions[name] = Condition(
            recipe=dataclasses.replace(
                recipe,
                sharing=system.plan,
                vocabulary=dataclasses.replace(
                    recipe.vocabulary, mode="separate" if own else "disjoint"
                ),
                masking=dataclasses.replace(recipe.masking, scope="language" if own else "all"),
            ),
            published=published,
        )
    order = [["sep-emb", "sep-1-3"], ["sep-emb-1-3"], ["sep-1-6"], ["sep-emb-1-6"]]
    return conditions, order, "default"


def _anchored(recipe: TrainRecipe, syntax: bool) -> _Made:
    """None, and identity dictionaries of the most frequent words."""
    conditions = {"none": Condition(recipe=recipe, published="No anchors")}
    for size in _WORDS:
        anchors = Anchors(dictionary=f"identity-{size}", source="eng", target=_COPY)
        conditions[f"extra-{size}"] = Condition(
            recipe=dataclasses.replace(recipe, anchors=anchors), published="Extra anchors"
        )
    return conditions, [[f"extra-{size}" for size in _WORDS], ["none"]], "none"


def _system(recipe: TrainRecipe, name: str, published: str) -> Condition:
    """A system of Conneau et al. 2020, Table 1, on a natural pair."""
    system = SYSTEMS[name]
    changed = dataclasses.replace(
        recipe,
        sharing=system.plan,
        vocabulary=dataclasses.replace(recipe.vocabulary, mode=system.vocabulary),
        masking=dataclasses.replace(recipe.masking, scope=system.scope),
    )
    return Condition(recipe=changed, kept={recipe.languages[1]: "kept-pair"}, published=published)


def _natural_sharing(recipe: TrainRecipe, dictionary: bool) -> _Made:
    """All systems of the paper's table, words in common among what is shared."""
    printed = {
        "default": "Default", "no-anchors": "No anchors", "default-anchors": "Default anchors",
        "sep-emb": "Sep Emb", "sep-1-3": "Sep L1-3", "sep-1-6": "Sep L1-6",
        "sep-emb-1-3": "Sep Emb + L1-3", "sep-emb-1-6": "Sep Emb + L1-6",
    }  # fmt: skip
    conditions = {name: _system(recipe, name, printed.get(name, "")) for name in SYSTEMS}
    order = [["sep-emb", "sep-1-3"], ["sep-emb-1-3"], ["sep-1-6"], ["sep-emb-1-6"]]
    return conditions, order, "default"


def _natural_anchors(recipe: TrainRecipe, dictionary: bool) -> _Made:
    """No identical subword is one, all are, and words are translated besides."""
    conditions = {
        "none": _system(recipe, "no-anchors", "No anchors"),
        "default": _system(recipe, "default-anchors", "Default anchors"),
    }
    if dictionary:
        plain, (first, second) = conditions["default"], recipe.languages
        anchors = Anchors(dictionary="dictionary", source=first, target=second)
        conditions["extra"] = dataclasses.replace(
            plain,
            recipe=dataclasses.replace(plain.recipe, anchors=anchors),
            published="Extra anchors",
        )
    order = [[name] for name in ("extra", "default", "none") if name in conditions]
    return conditions, order, "default"


_NATURAL = {"conneau-sharing": _natural_sharing, "conneau-anchors": _natural_anchors}
_MAKERS = {
    "deshpande-pairs": _pairs,
    "deshpande-compositions": _compositions,
    "deshpande-ladder": _ladder,
    "deshpande-corpora": _corpora,
    "conneau-sharing": _sharing,
    "conneau-anchors": _anchored,
}


def study_texts(study: ControlledStudy, settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """The texts of a study from the files that the user names.

    Parameters
    ----------
    settings: ``data``, English, a sentence per line; ``other``, English of another source, for
        deshpande-corpora; ``syntax``, line by line the sentences of ``data`` in another word order;
        ``pair``, "LANGUAGE:FILE", line by line their translations, and ``dictionary``, pairs of
        words, English first, for the extra anchors of conneau-anchors.

    Raises
    ------
    InputError: a file is missing or too short, or the lines of ``syntax`` are not those of
        ``data``.
    """
    lines, pair = _lines(settings, "data"), _pair(study.name, settings)
    if pair is not None:
        return _pair_texts(
            lines, [one.strip() for one in read_text(*pair[::-1]).sentences], settings
        )
    kept, rest = split_rows(lines, 0, _LENGTHS)
    texts = {"kept": [lines[i] for i in kept], "training": [lines[i] for i in rest]}
    if settings.get("syntax"):
        ordered = _lines(settings, "syntax")
        if len(ordered) != len(lines):
            refuse(
                "syntax", f"{len(lines)} lines, as data has", str(len(ordered)), "give each line"
            )
        texts["kept-syntax"] = [ordered[i] for i in kept]
        texts["training-syntax"] = [ordered[i] for i in rest]
    if study.name == "deshpande-corpora":
        texts |= _corpora_texts(texts, _lines(settings, "other"), study)
        del texts["training"]
    if study.name == "conneau-anchors":
        for size in _WORDS:
            texts[f"identity-{size}"] = [
                f"{word}\t{word}" for word in _frequent(texts["training"], size)
            ]
    return texts


def _pair_texts(
    lines: Sequence[str], others: Sequence[str], settings: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Texts of two languages that are translations of each other, line by line."""
    if len(others) != len(lines):
        refuse("pair", f"{len(lines)} lines, as data has", str(len(others)), "give each line")
    kept, rest = split_rows(lines, 0, _LENGTHS)
    texts = {
        f"{name}{side}": [mine[i] for i in rows]
        for name, rows in (("kept", kept), ("training", rest))
        for side, mine in (("", lines), ("-pair", others))
    }
    if settings.get("dictionary"):
        texts["dictionary"] = _lines(settings, "dictionary")
    return texts


def _lines(settings: Mapping[str, Any], name: str) -> list[str]:
    path = settings.get(name)
    if not path:
        refuse(name, "a file, a sentence per line", "none", f"add {name}=FILE")
    return [line.strip() for line in read_text(path, "eng").sentences]


def _frequent(sentences: Sequence[str], n: int) -> list[str]:
    """The n most frequent words, of letters alone; equally frequent ones in their order."""
    words = collections.Counter(
        word for sentence in sentences for word in sentence.split() if word.isalpha()
    )
    return [word for word, _ in words.most_common(n)]


def _corpora_texts(
    texts: Mapping[str, list[str]], other: Sequence[str], study: ControlledStudy
) -> dict[str, list[str]]:
    """Two halves of the text, divided at random, and another source: as many tokens each, counted
    by the tokeniser of the first half."""
    lines, rng = texts["training"], np.random.default_rng([0, 0xC0])
    half = np.sort(rng.permutation(len(lines))[: len(lines) // 2])
    rest = np.setdiff1d(np.arange(len(lines)), half)
    here = {*texts["training"], *texts["kept"]}
    found = {
        "first": [lines[i] for i in half.tolist()],
        "second": [lines[i] for i in rest.tolist()],
        "other": [line for line in dict.fromkeys(other) if line and line not in here],
    }
    vocabulary = next(iter(study.conditions.values())).recipe.vocabulary
    tokenizer = train_tokenizer({"eng": found["first"]}, vocabulary, 0)
    lengths = {
        name: np.array(
            [len(one.ids) + 1 for one in tokenizer.encode_batch(mine, add_special_tokens=False)]
        )
        for name, mine in found.items()
    }
    room = min(int(mine.sum()) for mine in lengths.values())
    return {name: _cut(mine, lengths[name], room, rng) for name, mine in found.items()}


def _cut(
    lines: Sequence[str], lengths: np.ndarray, room: int, rng: np.random.Generator
) -> list[str]:
    """Lines sampled at random until there are ``room`` tokens, in their order."""
    order = rng.permutation(len(lines))
    taken = order[np.cumsum(lengths[order]) <= room]
    return [lines[i] for i in np.sort(taken).tolist()]
