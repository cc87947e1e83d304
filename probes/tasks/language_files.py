"""Files of a task that are named by language and split, in whatever folders they are published."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from crosslens.languages import code_of, names_of, same_language, subtag_of, treebank_of
from crosslens.probes.tasks.data_folder import Absent, DataFolder

__all__ = ["find_files", "language_name", "languages_of", "name_splits", "names_for", "others"]

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


def language_name(name: str, there: Iterable[str]) -> str:
    """What the language of a name is called: its code (ISO 639-3), or the name itself where another
    one has the same code and only what is behind it, a script say, tells them apart.

    >>> language_name("zho_Hans", ["eng_Latn", "zho_Hans"])
    'zho'
    >>> [language_name(name, ["zho_Hans", "zho_Hant"]) for name in ("zho_Hans", "zho_Hant")]
    ['zho_Hans', 'zho_Hant']
    >>> [language_name(name, ["nds", "nds-nl"]) for name in ("nds", "nds-nl")]
    ['nds', 'nds-nl']
    """
    code, subtag = code_of(name), subtag_of(name)
    apart = subtag and any(code_of(one) == code and subtag_of(one) != subtag for one in there)
    return name if apart else code


def languages_of(names: Iterable[str]) -> Sequence[str]:
    """Languages of names such as en, en_ewt or eng, as :func:`language_name` has them, sorted."""
    there = list(names)
    return sorted({language_name(name, there) for name in there})


def names_for(language: str, there: Iterable[str]) -> list[str]:
    """Which names of files will do for a language: that very name, or else all of its language, the
    closest alone. A treebank has no other one in its place, and a script no other script.

    >>> names_for("fra", ["fr_gsd", "fr_pud", "de_pud"]), names_for("fr_gsd", ["fr_gsd", "fr_pud"])
    (['fr_gsd', 'fr_pud'], ['fr_gsd'])
    >>> names_for("fr_partut", ["fr_gsd", "fr_pud"]), names_for("fr_partut", ["fr"])
    ([], ['fr'])
    >>> names_for("zho", ["zho_Hans", "zho_Hant"]), names_for("zho_Hant", ["zho_Hans"])
    (['zho_Hans', 'zho_Hant'], [])
    >>> names_for("bel", ["be", "be-x-old"]), names_for("sqi", ["als", "sq"])
    (['be'], ['sq'])
    """
    names = list(there)
    if language in names:
        return [language]
    own = treebank_of(language)
    return names_of(language, [name for name in names if not (own and treebank_of(name))])


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
