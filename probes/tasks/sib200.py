"""SIB-200 in the folder of data sets: the files of its repository, or one table of all languages."""

from collections.abc import Sequence

from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.readers.labelled_text import LabelledText, read_table

__all__ = ["FILES", "names_there", "texts_by_language", "topics_of"]

_TABLE = "sib200/sib200.tsv"
_SPLITS = ("train", "dev", "test")
FILES = (
    "sib200/{language}/{train,dev,test}.tsv, as under data/annotated in its repository, or one "
    f"table {_TABLE} with the columns split, language, index_id, topic, text"
)


def names_there(data: DataFolder) -> list[str]:
    """The languages that are there, as SIB-200 writes them: eng_Latn."""
    if data.path(_TABLE) is None:
        return sorted({found.parent.name for found in data.glob("sib200/*/train.tsv")})
    return sorted({*_table(data, "language").labels})


def topics_of(data: DataFolder, name: str) -> LabelledText:
    """The sentences of one language with their topics.

    Raises
    ------
    Absent: a file is not there. InputError: one cannot be read.
    """
    if data.path(_TABLE) is not None:
        data.find(_TABLE)
        of = _table(data, "language").labels
        return _some(_table(data, "topic"), [n for n, one in enumerate(of) if one == name])
    paths = data.find(*(f"sib200/{name}/{split}.tsv" for split in _SPLITS))
    texts = [
        read_table(path, "category", part=None, group="index_id", quoted=True) for path in paths
    ]
    labels = [label for one in texts for label in one.labels]
    parts = [part for part, one in zip(_SPLITS, texts, strict=True) for _ in one.texts]
    return _joined(texts, labels, parts, f"sib200/{name}")


def texts_by_language(data: DataFolder) -> LabelledText | None:
    """The sentences of all languages with these as labels; None where there are none."""
    if data.path(_TABLE) is not None:
        data.find(_TABLE)
        return _table(data, "language")
    names = names_there(data)
    if not names:
        return None
    texts = [topics_of(data, name) for name in names]
    labels = [name for name, one in zip(names, texts, strict=True) for _ in one.texts]
    parts = [part for one in texts for part in one.parts or ()]
    return _joined(texts, labels, parts, "sib200")


def _table(data: DataFolder, label: str) -> LabelledText:
    """The one table, with a column as labels, read once however many languages are asked for."""
    path = data.path(_TABLE)
    assert path is not None, f"who asks looks for {_TABLE} first"
    whole: LabelledText = data.once(
        (_TABLE, label), lambda: read_table(path, label, group="index_id")
    )
    return whole


def _some(texts: LabelledText, rows: Sequence[int]) -> LabelledText:
    """The items of these numbers."""
    columns = (texts.labels, texts.texts, texts.places, texts.parts or (), texts.groups or ())
    labels, found, places, parts, groups = ([column[n] for n in rows] for column in columns)
    return LabelledText(labels, found, places, texts.name, parts, groups)


def _joined(
    texts: Sequence[LabelledText], labels: list[str], parts: list[str], name: str
) -> LabelledText:
    return LabelledText(
        labels,
        [text for one in texts for text in one.texts],
        [place for one in texts for place in one.places],
        name,
        parts,
        [group for one in texts for group in one.groups or ()],
    )
