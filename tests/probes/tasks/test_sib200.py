"""SIB-200's own files, and the table of all languages: the same sentences."""

import re

import pytest

from crosslens.errors import InputError
from crosslens.probes.tasks import sib200
from crosslens.probes.tasks.catalogue import find_task
from crosslens.probes.tasks.data_folder import Absent, DataFolder
from crosslens.readers.labelled_text import read_table

ENG = {
    "train": [("1", "travel", "Take the train."), ("2", "health", '"Eat," she said, "less."')],
    "dev": [("3", "travel", "Boats are slow.")],
    "test": [("4", "health", 'A "cold" passes.')],
}
FRA = {
    "train": [("1", "travel", "Prends le train."), ("2", "health", "« Mange », dit-elle.")],
    "dev": [("3", "travel", "Un bateau est lent.")],
    "test": [("4", "health", "Un rhume passe.")],
}


def quoted(text):
    return '"' + text.replace('"', '""') + '"' if '"' in text else text


def write(folder, languages):
    for language, splits in languages.items():
        (folder / "sib200" / language).mkdir(parents=True)
        for split, items in splits.items():
            lines = [f"{key}\t{topic}\t{quoted(text)}" for key, topic, text in items]
            path = folder / "sib200" / language / f"{split}.tsv"
            path.write_text("\n".join(["index_id\tcategory\ttext", *lines, ""]))
    return folder


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path, {"eng_Latn": ENG, "fra_Latn": FRA})


def test_topics_are_those_of_the_files_of_a_language(folder):
    task, data = find_task("topic"), DataFolder(folder)
    assert task.languages(data) == ["eng", "fra"]
    read = task.read(data, "eng").texts
    items = [item for split in ENG.values() for item in split]
    assert list(read.texts) == [text for _, _, text in items]
    assert list(read.labels) == [topic for _, topic, _ in items]
    assert list(read.groups) == [key for key, _, _ in items]
    assert list(read.parts) == ["train", "train", "dev", "test"]
    assert set(data.files) == {f"sib200/eng_Latn/{split}.tsv" for split in ENG}
    assert read.places[1].endswith("eng_Latn/train.tsv:3")


def test_languages_are_told_apart_in_all_of_them(folder):
    read = find_task("language_id").read(DataFolder(folder), "mul").texts
    assert read.counts() == {"eng_Latn": 4, "fra_Latn": 4}
    assert list(read.parts) == ["train", "train", "dev", "test"] * 2
    assert list(read.groups) == ["1", "2", "3", "4"] * 2
    assert read.texts[1] == '"Eat," she said, "less."'


def test_a_table_is_taken_where_there_is_one(folder):
    lines = ["split\tlanguage\tindex_id\ttopic\ttext"]
    lines += [f"{split}\tdeu_Latn\t9\ttravel\tEin Satz." for split in ENG]
    (folder / "sib200" / "sib200.tsv").write_text("\n".join(lines))
    data = DataFolder(folder)
    assert find_task("topic").languages(data) == ["deu"]
    assert find_task("language_id").read(data, "mul").texts.counts() == {"deu_Latn": 3}


def test_the_table_is_read_once_however_many_languages_are_asked_for(tmp_path, monkeypatch):
    """Of 205 languages each would read it whole again."""
    names = ["deu_Latn", "fra_Latn", "spa_Latn", "rus_Cyrl"]
    lines = ["split\tlanguage\tindex_id\ttopic\ttext"]
    for split in ENG:
        lines += [f"{split}\t{name}\t{split}\ttravel {name}\tText {name}." for name in names]
    path = tmp_path / "sib200" / "sib200.tsv"
    path.parent.mkdir()
    path.write_text("\n".join(lines))
    expected = {
        name: read_table(path, "topic", group="index_id", only={"language": name}) for name in names
    }
    read, data, task = [], DataFolder(tmp_path), find_task("topic")
    monkeypatch.setattr(sib200, "read_table", lambda *a, **k: read.append(a) or read_table(*a, **k))
    for name in names:
        assert task.read(data, name[:3]).texts == expected[name]
    assert len(read) == 2  # its languages, and its topics
    assert set(data.files) == {"sib200/sib200.tsv"}


def test_what_is_missing_is_said(folder, tmp_path):
    with pytest.raises(Absent, match="no sentences of deu in sib200"):
        find_task("topic").read(DataFolder(folder), "deu")
    (folder / "sib200" / "fra_Latn" / "dev.tsv").unlink()
    with pytest.raises(Absent, match=re.escape("no sib200/fra_Latn/dev.tsv (nor .gz)")):
        find_task("topic").read(DataFolder(folder), "fra")
    with pytest.raises(Absent, match="no sib200/.*/train.tsv and no sib200/sib200.tsv"):
        find_task("topic").read(DataFolder(tmp_path / "none"), "fra")


def test_a_quotation_mark_that_is_not_closed_is_refused_with_its_line(tmp_path):
    path = tmp_path / "table.tsv"
    path.write_text('category\ttext\nhealth\t"Eat\n')
    with pytest.raises(InputError, match=r"table\.tsv:2: expected cells as CSV quotes them"):
        read_table(path, "category", part=None, quoted=True)
    assert read_table(path, "category", part=None).texts == ['"Eat']


def test_scripts_of_a_language_are_told_apart(tmp_path):
    """The table has eight languages in two scripts, each of which has a test set."""
    names = {"eng_Latn": ENG, "zho_Hans": FRA, "zho_Hant": ENG, "arb_Arab": FRA, "arb_Latn": ENG}
    task, data = find_task("topic"), DataFolder(write(tmp_path, names))
    assert task.languages(data) == ["arb_Arab", "arb_Latn", "eng", "zho_Hans", "zho_Hant"]
    asked = {"zho_Hant": "zho_Hant", "zho": "zho_Hans", "zh-Hant": "zho_Hant", "en": "eng"}
    for language, name in asked.items():
        read = task.read(data, language)
        assert read.language == name
        assert all(f"/{name}" in place for place in read.texts.places)
    assert task.languages(DataFolder(write(tmp_path / "one", {"zho_Hant": ENG}))) == ["zho"]
    with pytest.raises(Absent, match=r"no sentences of zho_Hans in sib200 \(there is zho_Hant\)"):
        task.read(DataFolder(tmp_path / "one"), "zho_Hans")
