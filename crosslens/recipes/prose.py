"""The English prose that every installation has: Python's help topics and the docstrings of the
installed packages.

The emergence experiment needs a few million subwords of real English and nothing to download. Python
brings its help topics along (``pydoc_data``), and the packages that this library depends on explain
themselves at length in their docstrings. Both are read where they are installed, cleaned of code,
and cut into sentences. What comes out depends on the versions that are installed, so a run that
uses it should keep the file that it wrote and not count on getting the same one elsewhere.

Nothing is imported: a package's files are read as text, and its strings in triple quotes are taken.
A parser would find the same strings (and miss those that are handed to functions, as the compiled
parts of numpy and torch document themselves) in ten times the time.

The cleaning prefers losing a sentence to keeping one that is not prose: whatever holds an
underscore, a bracket, an operator or a path is dropped whole, and so is what does not begin with a
capital and end with a full stop.
"""

import importlib.util
import inspect
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from crosslens.checks import check_positive_int
from crosslens.errors import refuse

__all__ = ["PACKAGES", "english_prose"]

PACKAGES = (
    "numpy",
    "scipy",
    "sklearn",
    "matplotlib",
    "networkx",
    "sympy",
    "mpmath",
    "joblib",
    "pyarrow",
    "faiss",
    "PIL",
    "torch",
    "huggingface_hub",
    "tokenizers",
    "safetensors",
    "transformers",
)
"""The packages whose docstrings are read, in this order: what this library needs, and what that
needs in turn."""

_LEAST, _MOST = 4, 60  # words of a sentence

# A string or a comment of Python source; only strings in triple quotes are of interest, but the
# others may hold quotes themselves.
_STRINGS = re.compile(
    r"#[^\n]*|(\"\"\"|''')(.*?)(?<!\\)\1|\"[^\"\\\n]*(?:\\.[^\"\\\n]*)*\"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'",
    re.DOTALL,
)

_UNDERLINE = re.compile(r"([=\-~^*#\"+.`])\1{2,}")
_RULE = re.compile(r"[=\-+| ]{5,}")
_PARAMETER = re.compile(
    r"[*`\w.,\- ]{1,60}\s?(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?(?::| --?| –)\s+(?=[A-Z])"
)
_TYPED = re.compile(r"[*`\w., ]{1,60} : ")  # a parameter and its type, alone on a line
_FIELD = re.compile(r":[\w ]+(?:`[^`]*`)?[^:`]*:\s+")
_BULLET = re.compile(r"(?:[-*+•]|\(?\d{1,2}[.)]|\(?[a-zA-Z][.)]|\[\d+\])\s+")
_DIRECTIVE = re.compile(r"\.\.\s")
_ADMONITION = re.compile(
    r"\.\.\s+(?:note|warning|tip|hint|important|caution|attention|seealso|danger|topic|admonition)::\s*"
)
# whose text is no prose
_SECTIONS = {"references", "see also", "bibliography", "authors", "author", "copyright", "license"}

_ROLE = re.compile(r":[\w:+.-]+:`~?!?([^`<]*?)(?:\s*<[^`>]*>)?`")
_LINK = re.compile(r"`([^`<]+?)\s*<[^`>]*>`_{0,2}")
_MARKDOWN_LINK = re.compile(r"!?\[([^\]\[]*)\]\([^()]*\)")
_CITATION = re.compile(r"\s*\[[\w\s,;&+-]{1,20}\](?:_|(?=[\s.,;:)]))(?:\s*,?\s*\[\w{1,20}\]_)*")
_QUOTES = re.compile(r"``?|(?<!\w)\*{1,2}(?=\w)|(?<=[\w.!?,)])\*{1,2}(?!\w)")
_CODE = re.compile(r"[_=<>{}\[\]\\|@#/*^~$%`+&]|[^\x00-\x7f“”‘’–—é…ö]")  # never in prose
_CODE_TOO = re.compile(
    r"(?<=\w)(?:\(|\.(?!g\.|e\.))(?=[A-Za-z])|::|--|\.\.|\(\s*[),.]|(?<=[a-z])[A-Z]|\d{5}"
)
_FULL_STOP = re.compile(r"[.!?][\"')”]{0,2} (?=[\"'(“]{0,2}[A-Z])")
_SHORTENED = re.compile(
    r"\b(?:e\.g|i\.e|cf|vs|resp|al|etc|Fig|Figs|Eq|Eqs|Ref|Sec|Ch|Vol|No|pp|Dr|Mr|St|Prof|ed|eds|approx|Thm|[A-Z])\.\"?\Z"
)
_CAPITAL, _STOPS = re.compile(r"[\"'(“]?[A-Z]"), (".", "!", "?")
_WORD = re.compile(r"[A-Za-z]+(?:['’][a-z]+)?(?:-[A-Za-z]+)*")


def english_prose(packages: Sequence[str] = PACKAGES, *, most: int | None = None) -> list[str]:
    """Sentences of English prose, from Python's help topics and from the docstrings of installed
    packages.

    Parameters
    ----------
    packages: import names; those that are not installed are passed over. None of them is imported.
    most: stop after so many sentences; None takes all.

    Returns
    -------
    Sentences of 4 to 60 words on one line each, in the order of the topics, packages, files and
    lines: what stands together in a text stays together. No sentence occurs twice, letter case and
    punctuation aside. The same installation gives the same sentences.

    Raises
    ------
    InputError: ``most`` is no positive number, a package's name is none, or nothing was found.

    >>> english_prose((), most=1)[0].endswith(".")
    True
    """
    enough = None if most is None else check_positive_int(most, "most")
    roots = [root for name in packages for root in _roots(name)]
    sentences: dict[str, str] = {}  # by their letters alone
    seen: set[str] = set()
    for text in _texts(roots):
        for paragraph in _paragraphs(inspect.cleandoc(text).split("\n")):
            for sentence in () if paragraph in seen else _sentences(paragraph):
                sentences.setdefault("".join(_WORD.findall(sentence)).lower(), sentence)
            seen.add(paragraph)
        if enough is not None and len(sentences) >= enough:
            break
    if not sentences:
        refuse(
            "packages",
            "installed packages with docstrings",
            ", ".join(packages) or "none",
            "name a text file instead",
        )
    return list(sentences.values())[:enough]


# ---------------------------------------------------------------- where the text is


def _roots(name: str) -> list[Path]:
    """The folders of an installed package; none where it is not installed or a single file."""
    if not name.isidentifier():  # find_spec would import the parents of a dotted name
        refuse(
            "packages",
            "import names of packages, such as numpy",
            repr(name),
            "give the outermost name alone",
        )
    spec = importlib.util.find_spec(name)
    return (
        [Path(place) for place in spec.submodule_search_locations or ()] if spec is not None else []
    )


def _texts(roots: Sequence[Path]) -> Iterator[str]:
    """Every text once: help topics, then strings of source files."""
    from pydoc_data.topics import topics

    seen: set[str] = set()
    yield from (topics[name] for name in sorted(topics))
    for root in roots:
        for path in _sources(root):
            source = path.read_text(encoding="utf-8", errors="ignore")
            for match in _STRINGS.finditer(source):
                text, before = match[2], source[max(0, match.start() - 2) : match.start()]
                if (
                    text is None
                    or "." not in text
                    or " " not in text
                    or "f" in before.lower()
                    or "b" in before.lower()
                    or text in seen
                ):
                    continue
                seen.add(text)
                yield text.replace("\\\n", "")


def _sources(root: Path) -> Iterator[Path]:
    """The Python files of a folder but for tests and what others wrote, in order of their paths."""
    for folder, inner, names in os.walk(root):
        inner[:] = sorted(
            name
            for name in inner
            if name not in ("tests", "testing", "test", "__pycache__", "_vendor", "externals")
        )
        yield from (
            Path(folder, name)
            for name in sorted(names)
            if name.endswith(".py") and not name.startswith("test_")
        )


# ---------------------------------------------------------------- from a text to sentences


def _paragraphs(lines: list[str]) -> Iterator[str]:
    """Running text; code, tables, headings, directives and lists of references are left out."""
    held: list[str] = []
    depth: int | None = 0  # of the text that is held; None after a mark, whose text may hang
    start, skipping, fenced, silent, shown = 0, -1, False, False, False
    for place, line in enumerate([*lines, ""]):
        bare, indent = line.strip(), len(line) - len(line.lstrip())
        below = lines[place + 1].strip() if place + 1 < len(lines) else ""
        if bare.startswith(("```", "~~~")):
            fenced = not fenced
        shown = bool(bare) and (shown or bare.startswith(">>>"))  # a doctest and what it prints
        if bare and not fenced and skipping >= 0 and indent <= skipping:
            skipping = -1  # the code or directive has ended
        heading = bool(bare and below and _UNDERLINE.fullmatch(below)) or bare.startswith("#")
        if heading:
            silent = bare.strip("# ").lower() in _SECTIONS
        ends = (
            not bare
            or heading
            or fenced
            or shown
            or skipping >= 0
            or _is_mark(bare)
            or bool(" : " in bare and _TYPED.match(bare))
        )
        lead = _lead(bare)
        if (
            ends
            or lead is not bare
            or bare.startswith(".. ")
            or (held and depth is not None and abs(indent - depth) > 1)
        ):
            if held:
                yield " ".join(held)
                if held[-1].endswith("::"):
                    skipping = start
            held = []
        if _DIRECTIVE.match(bare) and not _ADMONITION.match(bare):
            skipping = max(skipping, indent)
        if ends or skipping >= 0 or silent:
            continue
        start = start if held else indent
        held.append(lead)
        depth = None if lead is not bare else indent


def _is_mark(bare: str) -> bool:
    """Whether a line is a doctest's second, an underline, a fence or a row of a table."""
    if bare[:1].isalnum():  # nearly every line
        return False
    return bare.startswith(("... ", "```", "~~~", "|", "+-", "+=")) or bool(
        _UNDERLINE.fullmatch(bare) or _RULE.fullmatch(bare)
    )


def _lead(bare: str) -> str:
    """A line without the mark, the name or the role that it begins with."""
    if not bare[:1].isalpha() or bare[1:2] in (".", ")"):
        for mark in (_ADMONITION, _BULLET, _FIELD):
            found = mark.match(bare)
            bare = bare[found.end() :] if found else bare
    found = _PARAMETER.match(bare) if ": " in bare or "- " in bare or "– " in bare else None
    return bare[found.end() :] if found else bare


def _sentences(paragraph: str) -> Iterator[str]:
    """The sentences of a paragraph that read as prose, without their markup."""
    if "`" in paragraph or "[" in paragraph or "*" in paragraph:
        for mark in (_ROLE, _LINK, _MARKDOWN_LINK):
            paragraph = mark.sub(r"\1", paragraph)
        paragraph = _QUOTES.sub("", _CITATION.sub("", paragraph))
    paragraph = " ".join(paragraph.split())
    begin = 0
    for stop in _FULL_STOP.finditer(paragraph):
        if not _SHORTENED.search(paragraph, max(begin, stop.start() - 8), stop.start() + 1):
            yield from _kept(paragraph[begin : stop.end()].strip())
            begin = stop.end()
    yield from _kept(paragraph[begin:].strip())


def _kept(sentence: str) -> tuple[str, ...]:
    """The sentence, if it reads as prose."""
    words = sentence.split()
    if (
        not _LEAST <= len(words) <= _MOST
        or not _CAPITAL.match(sentence)
        or sentence.rstrip("\"')”")[-1:] not in _STOPS
    ):
        return ()
    if (
        _CODE.search(sentence)
        or _CODE_TOO.search(sentence)
        or sentence.count("(") != sentence.count(")")
        or sentence.count('"') % 2
    ):
        return ()
    plain = sum(
        1
        for word in words
        if _WORD.fullmatch(word.strip(".,;:!?\"'()“”‘’–—-"))
        and word[:1].islower()
        and len(word) > 1
    )
    return (sentence,) if plain >= 0.6 * len(words) else ()
