"""Files of similarity in context: the marked words are located in the clean text; what cannot be
located is named, not lost."""

import gzip

import pytest
from ground_tools import GRAMMAR

from crosslens.errors import InputError
from crosslens.readers.scws import read_scws


@pytest.fixture
def write(tmp_path):
    def write(*lines: str, name: str = "ratings.txt"):
        (tmp_path / name).write_bytes(("\n".join(lines) + "\n").encode())
        return tmp_path / name

    return write


def line(
    number="1",
    first="the <b> bank </b> .",
    second="a <b> shore </b> by it",
    mean="7.5",
    ratings=("7.5",) * 10,
) -> str:
    return "\t".join([number, "bank", "n", "shore", "n", first, second, mean, *ratings])


def refusal(call, *arguments, **keywords) -> str:
    with pytest.raises(InputError) as refused:
        call(*arguments, **keywords)
    assert GRAMMAR.fullmatch(str(refused.value)) and "\n" not in str(refused.value)
    return str(refused.value)


def test_markers_go_and_the_words_stay_where_they_were(write):
    (item,) = read_scws(write(line(ratings=[str(x) for x in range(10)], mean="4.5"))).items
    assert item.contexts == ("the bank .", "a shore by it")
    assert [
        text[start:end] for text, (start, end) in zip(item.contexts, item.spans, strict=True)
    ] == ["bank", "shore"]
    assert (item.id, item.words, item.pos, item.rating, item.ratings) == (
        "1",
        ("bank", "shore"),
        ("n", "n"),
        4.5,
        tuple(map(float, range(10))),
    )


def test_the_word_may_stand_anywhere_and_have_been_written_before(write):
    first, second = "bank and <b>bank</b>", "<b> Two words </b>"
    (item,) = read_scws(write(line(first=first, second=second))).items
    assert item.contexts == ("bank and bank", "Two words")
    assert item.spans == ((9, 13), (0, 9))


def test_corpora_hold_one_word_per_text_and_ratings_follow_them(write):
    scws = read_scws(
        write(
            line(),
            line("7", first="<b> z </b>", mean="0"),
            line("3", second="x <b> y </b>", mean="10"),
        )
    )
    first, second = scws.corpora()
    assert first.ids == second.ids == ["1", "7", "3"]
    assert [first.sentences[i][slice(*spans[0])] for i, spans in enumerate(first.words)] == [
        "bank",
        "z",
        "bank",
    ]
    assert [second.sentences[i][slice(*spans[0])] for i, spans in enumerate(second.words)] == [
        "shore",
        "shore",
        "y",
    ]
    assert scws.ratings.tolist() == [7.5, 0, 10]
    assert first.fingerprint != second.fingerprint


@pytest.mark.parametrize(
    ("context", "reason"),
    [
        ("the bank .", "0 <b> and 0 </b>"),
        ("the <b> bank .", "1 <b> and 0 </b>"),
        ("the bank </b> .", "0 <b> and 1 </b>"),
        ("the <b> bank </b> <b> bank </b>", "2 <b> and 2 </b>"),
        ("</b> bank <b>", "1 <b> and 1 </b>"),
        ("<b> <b> bank </b>", "2 <b> and 1 </b>"),
        ("the <b>  </b> .", "nothing between <b> and </b>"),
    ],
)
def test_items_without_one_marked_word_are_left_out_and_named(write, context, reason, capsys):
    path = write(line(), line("2", first=context), line("3"), line("4", second=context))
    scws = read_scws(path)
    assert [item.id for item in scws.items] == ["1", "3"]
    assert scws.left_out == (f"line 2: context 1 has {reason}", f"line 4: context 2 has {reason}")
    assert f"{path}: 2 item(s) left out (line 2: context 1 has {reason}; " in "".join(
        capsys.readouterr()
    )


def test_many_open_marks_are_told_at_once(write, capsys):
    """Looking for the end of each would take minutes."""
    assert len(read_scws(write(line("1", first="<b>" * 100_000), line("2")))) == 1
    assert "line 1: context 1 has 100000 <b> and 0 </b>" in capsys.readouterr().err


def test_bad_lines_are_refused(write):
    assert "ratings.txt:2: expected 18 tab-separated columns, got 17; " in refusal(
        read_scws, write(line(), line("2").rpartition("\t")[0])
    )
    for cell in ("x", "", "nan", "-1", "10.5", "inf"):
        assert f"ratings.txt:1: expected ratings from 0 to 10, got {cell!r}; " in refusal(
            read_scws, write(line(mean=cell))
        )
        assert f"ratings.txt:1: expected ratings from 0 to 10, got {cell!r}; " in refusal(
            read_scws, write(line(ratings=["1"] * 9 + [cell]))
        )
    told = refusal(read_scws, write(line(), line("2"), line()))
    assert (
        "ratings.txt:3: expected a number of its own, got '1', the number at line 1 too; " in told
    )
    told = refusal(read_scws, write(*(line(str(i), first="none") for i in range(9))))
    assert (
        "expected an item whose words are marked with <b> and </b>, got 9 item(s) left out "
        "(line 1: "
    ) in told
    assert told.count("line ") == 5 and "; …); give the file as it is published" in told


def test_the_published_file_is_read_whole(shared_data):
    path = shared_data / "scws" / "ratings.txt.gz"
    scws = read_scws(path)
    assert (len(scws), scws.left_out) == (2003, ())
    for text, item in zip(
        gzip.decompress(path.read_bytes()).decode().splitlines(), scws.items, strict=True
    ):
        cells = text.split("\t")
        assert item.rating == pytest.approx(sum(item.ratings) / 10)
        for raw, clean, (start, end) in zip(cells[5:7], item.contexts, item.spans, strict=True):
            assert clean[:start] + "<b> " + clean[start:end] + " </b>" + clean[end:] == raw
            assert clean[start:end].split() == [clean[start:end]]
