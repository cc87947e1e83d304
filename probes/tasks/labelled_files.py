"""Tasks whose files are lines of ``label TAB text``, a file for each language and split."""

from collections.abc import Callable, Mapping, Sequence

from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.probes.tasks.items import Texts
from crosslens.probes.tasks.language_files import (
    find_files,
    language_name,
    languages_of,
    name_splits,
)
from crosslens.readers.labelled_text import LabelledText, read_labelled_text

__all__ = ["labelled_reader", "languages_of_labelled"]


def labelled_reader(
    folder: str,
    patterns: Sequence[str],
    splits: Mapping[str, str],
    called: Mapping[str, str] | None = None,
) -> Callable[[DataFolder, str], Texts]:
    """How such a task reads its items of a language.

    Parameters
    ----------
    folder: of the task, for reports.
    patterns, splits, called: as for :func:`crosslens.probes.tasks.language_files.find_files`.
    """

    def read(data: DataFolder, language: str) -> Texts:
        there = find_files(data, patterns, splits, called)
        name, paths = name_splits(there, language, patterns)
        data.note(paths.values())
        found = {
            split: read_labelled_text(paths[split])
            for split in ("train", "dev", "test")
            if split in paths
        }
        joined = LabelledText(
            [label for one in found.values() for label in one.labels],
            [text for one in found.values() for text in one.texts],
            [place for one in found.values() for place in one.places],
            f"{folder}/{name}",
            [split for split, one in found.items() for _ in range(len(one))],
        )
        return Texts(joined, language_name(name, there))

    return read


def languages_of_labelled(
    patterns: Sequence[str], splits: Mapping[str, str], called: Mapping[str, str] | None = None
) -> Callable[[DataFolder], Sequence[str]]:
    """How such a task tells which languages there are data in."""
    return lambda data: languages_of(find_files(data, patterns, splits, called))
