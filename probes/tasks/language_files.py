"""Files of a task that are named by language and split, in whatever folders they are published."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from crosslens.languages import code_of, same_language
from crosslens.probes.tasks.data_folder import Absent, DataFolder

__all__ = ["find_files", "languages_of", "name_splits"]

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


def name_splits(
    there: Mapping[str, Mapping[str, Path]], language: str, wanted: Sequence[str]
) -> tuple[str, Mapping[str, Path]]:
    """The name that files have for a language, and its files by split.

    Of several that of that very name, or else the one with a file to train on, then the one with
    more files, then the first by name.

    Parameters
    ----------
    there: from :func:`find_files`. wanted: patterns, for the message.

    Raises
    ------
    Absent: there is none.
    """
    chosen = [language] if language in there else [n for n in there if same_language(n, language)]
    if not chosen:
        raise Absent(f"no {' nor '.join(wanted)} of {language} in the data folder")
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
