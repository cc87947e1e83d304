"""Texts with labels: three formats of files, and every way in which they can be wrong."""

import gzip

import pytest

from crosslens.errors import InputError
from crosslens.readers.labelled_text import (
    LabelledText,
    first_two_sentences,
    read_labelled_text,
    read_table,
    read_wili,
)


def written(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def wili(folder, **changes):
    files = {
        "x_train": "Ein Satz.\nUne phrase.\n",
        "y_train": "deu\nfra\n",
        "x_test": "Une autre.\n",
        "y_test": "fra\n",
        **changes,
    }
    for name, text in files.items():
        written(folder, f"{name}.txt", text)
    return folder


def test_a_file_of_labels_and_texts_is_read_whole_and_in_order(tmp_path):
    path = written(
        tmp_path, "texts.tsv", 'b\tone "text", as it is\na\t two \r\nb\tthree\u2028four\n'
    )
    read = read_labelled_text(path)
    assert read.labels == ["b", "a", "b"]
    # only line feeds end lines
    assert read.texts == ['one "text", as it is', " two ", "three\u2028four"]
    assert read.places == [f"{path}:{number}" for number in (1, 2, 3)]
    assert (read.name, read.parts, len(read), read.counts()) == (
        "texts.tsv",
        None,
        3,
        {"a": 1, "b": 2},
    )


def test_a_packed_file_is_the_same(tmp_path):
    text = "eng\ta dog\nfra\tun chien\n"
    plain, packed = (
        written(tmp_path, "x.tsv", text),
        written(tmp_path, "x.tsv.gz", gzip.compress(text.encode())),
    )
    assert (
        read_labelled_text(packed).texts == read_labelled_text(plain).texts == ["a dog", "un chien"]
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a\tone\nb\n",
            (r"x\.tsv:2: expected 2 tab-separated columns \(label and text\)"),
        ),
        (
            "a\tone\nb\ttwo\tthree\n",
            r"x\.tsv:2: expected 2 tab-separated columns \(label and text\)",
        ),
        (
            "a\tone\n\nb\ttwo\n",
            r"x\.tsv:2: expected 2 tab-separated columns \(label and text\)",
        ),
        (
            "a\tone\n\ttwo\n",
            r"x\.tsv:2: expected a label without white space around it",
        ),
        (
            "a\tone\n b\ttwo\n",
            r"x\.tsv:2: expected a label without white space around it",
        ),
        ("a\tone\nb\t \n", r"x\.tsv:2: expected a text"),
        ("a\tone\nb\ttw\0o\n", r"x\.tsv:2: expected text"),
        (b"a\tone\nb\ttw\xff\n", r"x\.tsv:2: expected UTF-8 text"),
        ("", r"x\.tsv: expected at least one line of text"),
    ],
)
def test_what_is_wrong_with_a_line_is_said_with_its_place(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read_labelled_text(written(tmp_path, "x.tsv", text))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"x\.tsv: .*got no such file"):
        read_labelled_text(tmp_path / "x.tsv")


def test_wili_is_read_with_its_parts(tmp_path):
    read = read_wili(wili(tmp_path))
    assert read.labels == ["deu", "fra", "fra"]
    assert read.texts == ["Ein Satz.", "Une phrase.", "Une autre."]
    assert read.parts == ["train", "train", "test"]
    assert read.places == [
        f"{tmp_path}/x_train.txt:1",
        f"{tmp_path}/x_train.txt:2",
        f"{tmp_path}/x_test.txt:1",
    ]


def test_wili_that_does_not_fit_together_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"y_train\.txt: .*got 3"):
        read_wili(wili(tmp_path, y_train="deu\nfra\neng\n"))
    with pytest.raises(InputError, match=r"y_test\.txt:1: .*got 'fra '"):
        read_wili(wili(tmp_path, y_test="fra \n"))
    with pytest.raises(InputError, match=r"x_train\.txt:2: .*got a blank one"):
        read_wili(wili(tmp_path, x_train="Ein Satz.\n\t\n"))
    (tmp_path / "y_test.txt").unlink()
    with pytest.raises(InputError, match=r"y_test\.txt: .*got no such file"):
        read_wili(tmp_path)


def test_wili_may_be_packed(tmp_path):
    plain = read_wili(wili(tmp_path))
    for path in list(tmp_path.glob("*.txt")):
        written(tmp_path, f"{path.name}.gz", gzip.compress(path.read_bytes()))
        path.unlink()
    packed = read_wili(tmp_path)
    assert (packed.labels, packed.texts, packed.parts) == (plain.labels, plain.texts, plain.parts)
    assert packed.places[0] == f"{tmp_path}/x_train.txt.gz:1"


TABLE = (
    "split\tlanguage\ttopic\ttext\ntrain\teng\tart\tA painting.\nvalidation\tfra\tart\tUn "
    "tableau.\ntest\teng\tlaw\tA court.\n"
)


def test_a_table_is_read_by_the_names_of_its_columns(tmp_path):
    path = written(tmp_path, "t.tsv", TABLE)
    languages = read_table(path, "language")
    assert languages.labels == ["eng", "fra", "eng"]
    assert languages.parts == ["train", "dev", "test"]
    english = read_table(path, "topic", only={"language": "eng"})
    assert (english.labels, english.texts) == (["art", "law"], ["A painting.", "A court."])
    assert english.places == [f"{path}:2", f"{path}:4"]
    assert read_table(path, "text", text="topic", part=None).parts is None


def test_a_table_that_is_not_as_it_says_is_refused(tmp_path):
    def refused(text, message, **asked):
        with pytest.raises(InputError, match=message):
            read_table(written(tmp_path, "t.tsv", text), **{"label": "language", **asked})

    refused(
        TABLE,
        (
            r"t\.tsv:1: expected one column 'tongue', got the columns 'split', 'language', "
            r"'topic', 'text'; name"
        ),
        label="tongue",
    )
    refused(TABLE.replace("topic", "text"), r"t\.tsv:1: expected one column 'text', got several")
    refused(
        TABLE + "test\teng\tlaw\n",
        r"t\.tsv:5: expected 4 tab-separated columns, as line 1 names, got 3; repair the line",
    )
    refused(
        TABLE.replace("validation", "held"),
        r"t\.tsv:3: expected one of the splits train, dev \(or validation\), test, got 'held'",
    )
    refused(TABLE.replace("A court.", ""), r"t\.tsv:4: expected a text, got a blank one")
    refused(
        TABLE,
        r"t\.tsv: expected at least one line of items, got none \(language=deu\); check",
        only={"language": "deu"},
    )
    refused(
        TABLE.splitlines()[0],
        r"t\.tsv: expected at least one line of items, got none \(the names of the columns alone\)",
    )


def test_items_are_checked_wherever_they_come_from():
    with pytest.raises(InputError, match=r"mine: .*got 1 labels, 2"):
        LabelledText(["a"], ["one", "two"], ["x:1", "x:2"], "mine")
    with pytest.raises(InputError, match=r"mine: .*got none"):
        LabelledText([], [], [], "mine")
    with pytest.raises(InputError, match=r"x:1: .*got 'valid'"):
        LabelledText(["a"], ["one"], ["x:1"], "mine", ["valid"])
    with pytest.raises(InputError, match=r"mine: .*got 1 labels, 1"):
        LabelledText(["a"], ["one"], ["x:1"], "mine", ["train", "test"])


def test_a_corpus_has_the_rows_that_were_asked_for_in_their_order():
    texts = LabelledText(["a", "b", "c"], ["one", "two", "three"], ["x:1", "x:2", "x:3"], "x")
    assert texts.corpus("mul").sentences == ["one", "two", "three"]
    some = texts.corpus("eng", [2, 0])
    assert (some.language, some.sentences, some.ids, some.name) == (
        "eng",
        ["three", "one"],
        ["2", "0"],
        "x",
    )


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("One. Two. Three.", "One.", "Two."),
        ("One", "One", None),
        ('He said "no." She left.', 'He said "no."', "She left."),
        ("Version 3.5 is out", "Version 3.5 is out", None),
        ("第一句。第二句！第三句。", "第一句。", "第二句！"),
        ("他说：“好。”然后走了。", "他说：“好。”然后走了。", None),
        ("पहला वाक्य। दूसरा वाक्य।", "पहला वाक्य।", "दूसरा वाक्य।"),
        ("هل هذا؟ نعم.", "هل هذا؟", "نعم."),
        ("Only one.  ", "Only one.", None),
        ("... and so", "...", "and so"),
    ],
)
def test_the_first_two_sentences(text, first, second):
    assert first_two_sentences(text) == (first, second)


def test_the_real_table_has_its_published_size(shared_data):
    read = read_table(shared_data / "sib200" / "sib200.tsv.gz", "language")
    counts = read.counts()
    assert len(counts) == 60
    assert {*counts.values()} == {701 + 99 + 204}
    assert [read.parts.count(part) for part in ("train", "dev", "test")] == [
        60 * 701,
        60 * 99,
        60 * 204,
    ]
