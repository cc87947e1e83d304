"""Words and numbers as people read them: language names, counts, intervals, escaped HTML.

Everything that comes from a run (names, paths, reasons) reaches the page through
:func:`text` or :func:`tag`'s attributes, and is escaped there.
"""

import html
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from crosslens.languages import NAMES, derivation
from crosslens.score import Score

__all__ = [
    "count_of",
    "decimal",
    "estimate",
    "join",
    "language",
    "missing_reason",
    "named",
    "number",
    "paragraph",
    "plural",
    "short",
    "short_folders",
    "spoken_value",
    "spread",
    "tag",
    "text",
    "with_minus",
    "within",
]

_PEOPLE = ("Jaccard", "Pearson", "Procrustes", "Spearman")
_SCRIPTS_DIFFER = {
    "ara",
    "arb",
    "aze",
    "azj",
    "cmn",
    "kas",
    "kaz",
    "kur",
    "mon",
    "pan",
    "snd",
    "srp",
    "uzb",
    "uzn",
    "zh",
    "zho",
}
_SCRIPTS = {
    "Arab": "Arabic script",
    "Cyrl": "Cyrillic",
    "Hans": "simplified",
    "Hant": "traditional",
    "Latn": "Latin script",
}


def language(code: str) -> str:
    """What a language is called everywhere on a page: its English name, or the code where that is
    not known.

    A script is told of languages that are written in more than one; anything else after the
    language is kept. Several languages have a plus sign between them.

    >>> language("fra"), language("hin_Deva"), language("cmn_Hans"), language("eng-x"), language("qqq")
    ('French', 'Hindi', 'Mandarin Chinese (simplified)', 'English (x)', 'qqq')
    >>> language("eng+fra"), language("eng-localshuffle3-inversion")
    ('English + French', 'English (local shuffle 3, inversion)')
    """
    if "+" in code:
        return " + ".join(map(language, code.split("+")))
    first, *rest = code.replace("-", "_").split("_")
    name = NAMES.get(first)
    if not name or not all(rest):
        return code
    scripts = [part for part in rest if len(part) == 4 and part.istitle()]
    told = [
        derivation(part) or _SCRIPTS.get(part, part)
        for part in rest
        if part not in scripts or first in _SCRIPTS_DIFFER
    ]
    return f"{name} ({', '.join(told)})" if told else name


def text(value: object) -> str:
    """``value`` as HTML text: nothing in it can be markup.

    >>> text("<b>")
    '&lt;b&gt;'
    """
    return html.escape(str(value), quote=True)


def tag(name: str, inner: str = "", **attributes: str) -> str:
    """An HTML element around ``inner`` (which is HTML already); attribute values are escaped.

    A trailing underscore in an attribute's name is dropped, other underscores become hyphens.

    >>> tag("p", "hello", class_="note")
    '<p class="note">hello</p>'
    """
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"' for key, value in attributes.items()
    )
    return f"<{name}{pairs}>{inner}</{name}>"


def named(value: object) -> str:
    """A name from outside as HTML, with a direction of its own: one written from right to left
    leaves its surroundings as they are.

    >>> named("<b>")
    '<bdi>&lt;b&gt;</bdi>'
    """
    return tag("bdi", text(value))


def paragraph(inner: str, class_: str | None = None) -> str:
    """A paragraph of HTML."""
    return tag("p", inner, class_=class_) if class_ else tag("p", inner)


def short(value: str, most: int = 9) -> str:
    """A name cut to at most ``most`` characters, for the axes of a figure."""
    line = " ".join(value.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def short_folders(folders: Sequence[str]) -> dict[str, str]:
    """Folders by their own names, or whole where two have the same one.

    >>> short_folders(["runs/a", "runs/b", "old/b"])
    {'runs/a': 'a', 'runs/b': 'runs/b', 'old/b': 'old/b'}
    """
    names = [Path(folder).name or Path(folder).resolve().name for folder in folders]
    return {
        folder: name if names.count(name) == 1 else folder
        for folder, name in zip(folders, names, strict=True)
    }


def within(name: str) -> str:
    """A name in the middle of a sentence; the names of people and what is abbreviated in it keep their
    capitals.

    >>> within("After Procrustes"), within("Jaccard index"), within("F1 of spans")
    ('after Procrustes', 'Jaccard index', 'F1 of spans')
    """
    first, rest = name.partition(" ")[0], name[1:]
    kept = first in _PEOPLE or any(sign.isupper() or sign.isdigit() for sign in first[1:])
    return name if kept else name[:1].lower() + rest


def plural(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun.

    >>> plural(1, "layer"), plural(1200, "layer")
    ('1 layer', '1,200 layers')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def join(parts: Sequence[str], most: int | None = None, rest: str = "others") -> str:
    """A list as a phrase.

    >>> join(["a", "b", "c"]), join(["a", "b", "c"], most=1)
    ('a, b and c', 'a and 2 others')
    """
    if most is not None and len(parts) > most + 1:
        parts = [*parts[:most], f"{len(parts) - most} {rest}"]
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def decimal(value: float, places: int = 3) -> str:
    """A number with a fixed count of decimals and a real minus sign; a number that rounds to zero
    has no sign."""
    return f"{value:z.{places}f}".replace("-", "−")


def spoken_value(score: Score | None) -> str:
    """A value where a picture is described: a dash where there is none."""
    return "–" if score is None or math.isnan(score.value) else decimal(score.value, 2)


def with_minus(told: str) -> str:
    """A text with minus signs in the place of hyphens before numbers.

    >>> with_minus("zero-shot -.9 [-1.2, 0.1]")
    'zero-shot −.9 [−1.2, 0.1]'
    """
    return re.sub(r"(?<![\w-])-(?=[\d.])", "−", told)


def missing_reason(score: Score) -> str:
    """Why a value is NaN, as the run recorded it."""
    return score.evidence.reason or "the run recorded no reason"


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Each condition without "transliteration-", which most of them are; the names themselves where
    two would be called the same.

    >>> short_names(["transliteration", "transliteration-inversion"])["transliteration-inversion"]
    'inversion'
    >>> short_names(["inversion", "transliteration-inversion"])["transliteration-inversion"]
    'transliteration-inversion'
    """
    short = {name: name.removeprefix("transliteration-") for name in names}
    return short if len(set(short.values())) == len(short) else {name: name for name in short}


def number(score: Score | None, places: int = 3) -> str:
    """A score's value as text (not yet HTML); "not computed" with its reason where it is NaN."""
    if score is None:
        return "–"
    return (
        f"not computed: {missing_reason(score)}"
        if math.isnan(score.value)
        else decimal(score.value, places)
    )


def estimate(score: Score | None, places: int = 3) -> str:
    """A score's value with its 95 % interval.

    >>> estimate(Score(quantity="accuracy", value=0.5, n=4, low=0.15, high=0.85))
    '0.500 [0.150, 0.850]'
    """
    if score is None or math.isnan(score.value) or score.low is None or score.high is None:
        return number(score, places)
    return f"{number(score, places)} [{decimal(score.low, places)}, {decimal(score.high, places)}]"


def count_of(scores: Iterable[Score | None]) -> str:
    """The numbers of items behind scores.

    >>> count_of([Score(quantity="accuracy", value=0.5, n=4), Score(quantity="accuracy", value=0.5, n=1000)])
    'n = 4 to 1,000'
    """
    counts = sorted({score.n for score in scores if score is not None})
    if not counts:
        return "n not recorded"
    return f"n = {counts[0]:,}" if len(counts) == 1 else f"n = {counts[0]:,} to {counts[-1]:,}"


def spread(scores: Sequence[Score]) -> str:
    """Where the values of several scores lie, as "a to b"."""
    values = [score.value for score in scores]
    return f"{decimal(min(values))} to {decimal(max(values))}"
