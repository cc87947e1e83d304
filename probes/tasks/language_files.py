"""Files of a task that are named by language and split, in whatever folders they are published."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from crosslens.languages import code_of, same_language, treebank_of
from crosslens.probes.tasks.data_folder import Absent, DataFolder

__all__ = ["find_files", "languages_of", "name_splits", "names_for", "others"]

_FIELD = re.compile(r"\{(\w+)\}")


def find_files(
    data: DataFolder,
    patterns: Iterable[str],
    splits: Mapping[str, str],
    called: Mapping[str, str] | None = None,
) -> dict[str, dict[str, Path]]:
    """Language as the files write it -> split -> file.

    Parameters
    ----------
    patterns: below the folder, with {language} and {split}, "panx/{split}-{language}.tsv"; of two
        that have a file for the same language and split the first. A field that stands twice is the
        same in both places; one that a pattern lacks is "".
    splits: what files call a split -> "train", "dev" or "test".
    called: what files call a language, where that is no code -> its code.
    """
    found: dict[str, dict[str, Path]] = {}
    for pattern in patterns:
        shape = re.compile(_shape(pattern) + r"(\.gz)?")
        for path in data.glob(_FIELD.sub("*", pattern)):
            assert data.folder is not None
            match = shape.fullmatch(path.relative_to(data.folder).as_posix())
            fields = {"split": "", "language": "", **match.groupdict()} if match else {}
            if fields and fields["split"] in splits:
                name = fields["language"]
                there = found.setdefault((called or {}).get(name, name), {})
                there.setdefault(splits[fields["split"]], path)
    return found


def languages_of(names: Iterable[str]) -> Sequence[str]:
    """Languages (ISO 639-3) of names such as en, en_ewt or eng, sorted."""
    return sorted({code_of(name) for name in names})


def names_for(language: str, there: Iterable[str]) -> list[str]:
    """Which names of files will do for a language: that very name, or else all of its language. A
    treebank has no other one in its place.

    >>> names_for("fra", ["fr_gsd", "fr_pud", "de_pud"]), names_for("fr_gsd", ["fr_gsd", "fr_pud"])
    (['fr_gsd', 'fr_pud'], ['fr_gsd'])
    >>> names_for("fr_partut", ["fr_gsd", "fr_pud"]), names_for("fr_partut", ["fr"])
    ([], ['fr'])
    """
    names = list(there)
    if language in names:
        return [language]
    same = [name for name in names if same_language(name, language)]
    return [name for name in same if not (treebank_of(language) and treebank_of(name))]


def others(language: str, there: Iterable[str]) -> str:
    """What a language has in the place of a treebank that is not there, for messages.

    >>> others("fr_partut", ["fr_gsd", "fr_pud", "de_pud"]), others("hi_pud", ["de_pud"])
    (' (there is fr_gsd, fr_pud)', '')
    """
    same = [name for name in there if same_language(name, language)]
    return f" (there is {', '.join(same)})" if same else ""


def name_splits(
    there: Mapping[str, Mapping[str, Path]], language: str, wanted: Sequence[str]
) -> tuple[str, Mapping[str, Path]]:
    """The name that files have for a language, and its files by split.

    Of several (:func:`names_for`) the one with a file to train on, then the one with more files,
    then the first by name.

    Parameters
    ----------
    there: from :func:`find_files`. wanted: patterns, for the message.

    Raises
    ------
    Absent: there is none.
    """
    chosen = names_for(language, there)
    if not chosen:
        where = f"of {language} in the data folder{others(language, there)}"
        raise Absent(f"no {' nor '.join(wanted)} {where}")
    name = min(chosen, key=lambda name: ("train" not in there[name], -len(there[name]), name))
    return name, there[name]


def _shape(pattern: str) -> str:
    """A regular expression with a group for each field; where one stands again, what it was."""
    seen = set[str]()

    def field(match: re.Match[str]) -> str:
        name = match[1]
        if name in seen:
            return f"(?P={name})"
        seen.add(name)
        return f"(?P<{name}>[^/]+?)"

    return _FIELD.sub(field, _escaped(pattern))


def _escaped(pattern: str) -> str:
    return re.escape(pattern).replace(r"\{", "{").replace(r"\}", "}")
