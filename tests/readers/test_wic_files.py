"""Word-in-Context files: every target is where the file says, and every wrong line is counted and
named."""

import gzip

import pytest
from ground_tools import GRAMMAR

from crosslens.errors import InputError
from crosslens.readers.wic import Wic, WicItem, read_wic, read_wic_spans

DATA = (
    "carry\tV\t2-1\tYou must carry your camping gear .\tSound carries well over water .\n"
    "go\tV\t2-6\tMessages must go through diplomatic channels .\tDo you think the sofa will "
    "go through the door ?\n"
    "break\tV\t0-2\tBreak an alibi .\tThe wholesaler broke the container loads .\n"
)


@pytest.fixture
def write(tmp_path):
    def write(name: str, content: str):
        (tmp_path / name).write_bytes(content.encode())
        return tmp_path / name

    return write


def refusal(call, *arguments, **keywords) -> str:
    with pytest.raises(InputError) as refused:
        call(*arguments, **keywords)
    assert GRAMMAR.fullmatch(str(refused.value)) and "\n" not in str(refused.value)
    return str(refused.value)


def targets(wic: Wic) -> list[tuple[str, ...]]:
    return [
        tuple(
            text[start:end] for text, (start, end) in zip(item.sentences, item.spans, strict=True)
        )
        for item in wic.items
    ]


def test_targets_are_the_tokens_that_the_file_numbers(write):
    wic = read_wic(write("data.txt", DATA), write("gold.txt", "F\nT\nF\n"))
    assert targets(wic) == [("carry", "carries"), ("go", "go"), ("Break", "broke")]
    assert wic.labels.tolist() == [False, True, False]
    assert [(item.word, item.pos) for item in wic.items] == [
        ("carry", "V"),
        ("go", "V"),
        ("break", "V"),
    ]
    assert (len(wic), wic.language, wic.name) == (3, "eng", "data.txt")


def test_windows_line_ends_compression_and_repeated_words_change_nothing(write, tmp_path):
    plain = read_wic(write("data.txt", DATA), write("gold.txt", "F\nT\nF\n"))
    ended = read_wic(
        write("data2.txt", DATA.replace("\n", "\r\n")), write("gold2.txt", "F\r\nT\r\nF")
    )
    (tmp_path / "data.txt.gz").write_bytes(gzip.compress(DATA.encode()))
    packed = read_wic(tmp_path / "data.txt.gz", tmp_path / "gold.txt")
    assert plain.items == ended.items == packed.items
    again = read_wic(write("data3.txt", "run\tV\t3-0\trun or  to run .\trun\n"))
    assert again.items[0].spans == ((11, 14), (0, 3)), (
        "the run that is numbered, not the first; two spaces make no token"
    )


def test_only_spaces_separate_tokens(write):
    wic = read_wic(write("data.txt", "a\tN\t1-0\t10\u00a0000 a\ta\u3000b c\n"))
    assert targets(wic) == [("a", "a\u3000b")]


def test_corpora_hold_one_word_per_sentence_and_keep_the_order(write):
    wic = read_wic(write("data.txt", DATA), write("gold.txt", "F\nT\nF\n"))
    first, second = wic.corpora()
    for corpus, side in ((first, 0), (second, 1)):
        assert corpus.sentences == [item.sentences[side] for item in wic.items]
        assert [corpus.sentences[i][slice(*spans[0])] for i, spans in enumerate(corpus.words)] == [
            both[side] for both in targets(wic)
        ]
        assert [len(spans) for spans in corpus.words] == [1, 1, 1]
        assert corpus.ids == ["0", "1", "2"]
        assert corpus.language == "eng"
    assert first.fingerprint != second.fingerprint


def test_all_wrong_lines_are_counted_and_the_first_are_named(write):
    lines = DATA.splitlines()
    lines += [
        "word\tN\t0-0\tword",
        "word\tN\t1-0\tword\tword",
        "word\tN\t0-2\tword\tword .",
        "word\tN\t0\tword\tword",
        "word\tN\t-1-0\tword\tword",
    ]
    told = refusal(read_wic, write("data.txt", "\n".join(lines)))
    assert (
        "expected word TAB part of speech TAB i-j TAB sentence 1 TAB sentence 2, got 5 wrong "
        "line(s): "
    ) in told
    assert (
        "line 4 has 4 column(s); line 5 has target 1 in sentence 1 of 1 token(s); line 6 has "
        "target 2 in sentence 2 of 2 token(s)"
    ) in told
    assert "line 7 has '0' for i-j; line 8 has '-1-0' for i-j; repair or remove these lines" in told
    told = refusal(read_wic, write("data.txt", "a\n" * 100))
    assert (
        "got 100 wrong line(s): line 1 has 1 column(s);" in told
        and "line 5 has 1 column(s); …; repair" in told
    )


def test_answers_that_are_not_those_of_the_data_are_refused(write):
    data = write("data.txt", DATA)
    assert "2 wrong line(s): line 1 has 'X'; line 3 has ''; " in refusal(
        read_wic, data, write("gold.txt", "X\nT\n\n")
    )
    told = refusal(read_wic, data, write("gold.txt", "F\nT\n"))
    assert (
        "gold.txt: expected 3 lines, one for each of " in told
        and ", got 2; give the two files of one split" in told
    )
    assert "no such file" in refusal(read_wic, data, data.parent / "gone.txt")
    assert "got an empty file" in refusal(read_wic, write("empty.txt", "\n"))


def test_without_answers_there_are_no_labels(write):
    wic = read_wic(write("data.txt", DATA))
    assert [item.same for item in wic.items] == [None, None, None]
    told = refusal(lambda: wic.labels)
    assert told == (
        "data.txt: expected an answer for every item, got none for 3 of 3, the first is item "
        "1; read the file together with its answers"
    )


def test_targets_may_be_given_by_characters(write):
    lines = [
        "行\tN\t2\t3\t1\t2\t我去行\t不行\tF",
        "Bank\tN\t0\t4\t4\t9\tBank am\tDie Bänke\t1",
        "x\tN\t0\t1\t0\t1\tx\tx\t0",
    ]
    wic = read_wic_spans(write("some.tsv", "\n".join(lines)), "zho")
    assert targets(wic) == [("行", "行"), ("Bank", "Bänke"), ("x", "x")]
    assert wic.labels.tolist() == [False, True, False]
    open_ended = read_wic_spans(write("test.tsv", "x\tN\t0\t1\t0\t1\tx\tx"), "zho")
    assert open_ended.items == [WicItem("x", "N", ("x", "x"), ((0, 1), (0, 1)))]


def test_spans_outside_their_sentence_are_counted_and_named(write):
    lines = [
        "x\tN\t0\t1\t0\t2\tx\tx\tT",
        "x\tN\t1\t1\t0\t1\tx\tx\tT",
        "x\tN\t-1\t1\t0\t1\tx\tx\tT",
        "x\tN\t0\t1\t0\t1\tx\tx\tyes",
        "x\tx",
    ]
    told = refusal(read_wic_spans, write("some.tsv", "\n".join(lines)), "zho")
    assert (
        "5 wrong line(s): line 1 has the span (0, 2) in sentence 2 of 1 character(s); line 2 "
        "has the span (1, 1) in sentence 1"
    ) in told
    assert (
        "line 3 has '-1 1 0 1' for four places; line 4 has 'yes'; line 5 has 2 column(s); repair"
        in told
    )


def test_the_published_files_are_read_whole(shared_data):
    for part, n in (("train", 5428), ("dev", 638), ("test", 1400)):
        wic = read_wic(
            shared_data / "wic" / f"{part}.data.txt", shared_data / "wic" / f"{part}.gold.txt"
        )
        assert (len(wic), int(wic.labels.sum())) == (n, n // 2)
        lines = (shared_data / "wic" / f"{part}.data.txt").read_text(encoding="utf-8").splitlines()
        for line, found in zip(lines, targets(wic), strict=True):
            _, _, places, *sentences = line.split("\t")
            i, j = map(int, places.split("-"))
            assert found == (sentences[0].split(" ")[i], sentences[1].split(" ")[j])
        alike = sum(
            form[:2].lower() == item.word[:2].lower()
            for item, both in zip(wic.items, targets(wic), strict=True)
            for form in both
        )
        assert alike > 0.9 * 2 * n, "the targets are forms of their words"
