"""What a run used, as BibTeX: this library, the papers of its methods, and those of its data."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from crosslens.score import Score
from crosslens.version import __version__

__all__ = ["SOFTWARE", "citations", "entries"]

SOFTWARE = f"""@software{{crosslens,
  author = {{{{The crosslens maintainers}}}},
  title = {{crosslens: Train, take apart, align, compare and probe multilingual language models}},
  version = {{{__version__}}}
}}"""

_PAPERS = Path(__file__).parents[1] / "data" / "papers.bib"

# What a run says of itself -> the papers of it. A fact is "kind of fact:value", and a pattern fits
# all of it.
_CITED = (
    (
        r"task:(mean_)?sentence_retrieval|kind:emergence|kind:mapped_transfer|sharing:sep.*|study:conneau.*",
        ("conneau2020emerging",),
    ),
    (r"features:mix\+bilstm", ("wu2019beto", "peters2018deep")),
    (r"condition:.*procrustes|method:procrustes", ("schonemann1966procrustes",)),
    (r"condition:random_encoder.*|condition:random", ("zhang2018language",)),
    (
        r"quantity:(linear|debiased_linear|uncentred|rbf|minibatch)_cka",
        ("kornblith2019similarity",),
    ),
    (r"quantity:(debiased_linear|minibatch)_cka", ("song2012feature",)),
    (r"quantity:minibatch_cka", ("nguyen2021wide",)),
    (r"quantity:mean_cca", ("hardoon2004canonical",)),
    (r"quantity:svcca", ("raghu2017svcca",)),
    (r"quantity:pwcca", ("morcos2018insights",)),
    (r"quantity:rsa", ("kriegeskorte2008representational",)),
    (r"quantity:procrustes_distance", ("ding2021grounding",)),
    (r"quantity:mutual_knn", ("huh2024platonic",)),
    (r"by:csls|method:refine|start:unsupervised", ("conneau2018word",)),
    (r"by:inverted_softmax", ("smith2017offline",)),
    (r"by:margin_(ratio|distance)", ("artetxe2019margin",)),
    (r"method:self-learning", ("artetxe2018robust",)),
    (r"quantity:alignment_error_rate", ("och2003systematic",)),
    (r"task:language_id", ("wu2019beto",)),
    (r"quantity:selectivity|condition:control_task", ("hewitt2019designing",)),
    (r"quantity:(codelength|compression)", ("voita2020information",)),
    (r"probe:mix", ("peters2018deep",)),
    (r"condition:fasttext", ("joulin2017bag",)),
    (r"detail:single_mask", ("goldberg2019assessing",)),
    (r"detail:pll", ("salazar2020masked",)),
    (r"detail:pll_word_l2r", ("salazar2020masked", "kauf2023better")),
    (r"kind:(train|emergence|controlled|monotrans|clwe)", ("devlin2019bert",)),
    (r"kind:(monotrans|clwe)|by:monotrans", ("artetxe2020cross",)),
    (r"adapters:[1-9].*", ("houlsby2019parameter",)),
    (r"kind:clwe", ("artetxe2018robust", "bojanowski2017enriching")),
    (
        r"kind:emergence|kind:study_transfer|quantity:token_alignment|study:(deshpande|[a-z]{2,3}-).*|"
        r"by:(.*[+])?(inversion|permutation|transliteration)(:.*)?([+].*)?",
        ("deshpande2022when",),
    ),
    (r"by:.*(shuffle|even-odd|reversal|hop).*", ("kallini2024mission",)),
    (r"by:translation", ("minixhofer2022wechsel",)),
    (r"by:retokenised", ("gee2022fast",)),
    (r"by:similarity", ("dobler2023focus",)),
    (r"by:factorised", ("liu2024ofa",)),
    (r"quantity:[lu]as", ("dozat2017deep",)),
    (r"crf:True", ("lafferty2001conditional",)),
    (r"tlm:True", ("conneau2019crosslingual",)),
    (r"vocabulary:unigram", ("kudo2018subword",)),
    (r"vocabulary:bpe", ("sennrich2016neural",)),
    (r"optimiser:adamw", ("loshchilov2019decoupled",)),
    (r"optimiser:lamb", ("you2020large",)),
)


def citations(
    config: Mapping[str, Any], scores: Iterable[Score], cards: Mapping[str, Mapping[str, Any]] = {}
) -> list[str]:
    """BibTeX entries of the library, of the methods that a run's settings and measurements name,
    and of its tasks; each once.

    Parameters
    ----------
    config: the run's ``config.json``; its ``cards`` are those of its tasks. scores: its
        measurements.
    cards: of tasks, for a run that keeps none.

    >>> run = {"kind": "align", "settings": {"by": "csls"}}
    >>> found = citations(run, [Score(quantity="precision_at_1", value=0.5, n=9, condition="procrustes")])
    >>> [entry[: entry.index(",")] for entry in found]
    ['@software{crosslens', '@article{schonemann1966procrustes', '@inproceedings{conneau2018word']
    """
    facts = set(_facts(config, scores))
    papers = {_key(entry): entry for entry in entries(_PAPERS.read_text(encoding="utf-8"))}
    keys = [
        key
        for pattern, names in _CITED
        if any(re.fullmatch(pattern, fact) for fact in facts)
        for key in names
    ]
    own = config.get("cards")
    told = own if isinstance(own, dict) else cards
    data = [
        entry
        for card in told.values()
        if isinstance(card, Mapping)
        for entry in entries(str(card.get("citation") or ""))
    ]
    found: dict[str, str] = {}
    for entry in [SOFTWARE, *(papers[key] for key in keys), *data]:
        found.setdefault(_key(entry), entry)
    return list(found.values())


def _facts(config: Mapping[str, Any], scores: Iterable[Score]) -> Iterator[str]:
    """What a run says of its methods."""
    settings = config.get("settings")
    settings = settings if isinstance(settings, dict) else {}
    yield f"kind:{config.get('kind')}"
    yield from _named(settings)
    also = settings.get("also")
    yield from (f"quantity:{name}" for name in also.split(",")) if isinstance(also, str) else ()
    for score in scores:
        yield f"quantity:{score.quantity}"
        yield f"condition:{score.condition}"
        yield f"task:{score.task}"
        yield from (
            f"detail:{value}" for value in (score.details or {}).values() if isinstance(value, str)
        )


# Settings that say of a method which it is, wherever they stand: a study has a recipe for each condition.
_NAMED = frozenset(
    (
        "by",
        "method",
        "start",
        "probe",
        "sharing",
        "features",
        "optimiser",
        "adapters",
        "crf",
        "study",
    )
)


def _named(settings: Mapping[str, Any]) -> Iterator[str]:
    """Facts of settings that stand in settings."""
    for name, value in settings.items():
        if name == "tlm_share":
            yield f"tlm:{isinstance(value, int | float) and value > 0}"
        if isinstance(value, dict):
            if name == "vocabulary":
                yield f"vocabulary:{value.get('kind')}"
            if name in _NAMED:  # of an emergence: one for each condition
                yield from (f"{name}:{one}" for one in value.values())
            yield from _named(value)
        elif name in _NAMED:
            yield f"{name}:{value}"


def entries(text: str) -> list[str]:
    """The entries of a BibTeX text.

    >>> entries("@misc{a, year = {1}}" + chr(10) + "@misc{b, year = {2}}")
    ['@misc{a, year = {1}}', '@misc{b, year = {2}}']
    """
    return [
        entry.strip() for entry in re.split(r"(?m)^(?=@)", text) if entry.strip().startswith("@")
    ]


def _key(entry: str) -> str:
    return entry.partition("{")[2].partition(",")[0].strip()
