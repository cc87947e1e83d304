"""Every word stands where it is said to stand; a list of words that is not its sentence is
refused."""

import gzip
import importlib.util
import json
import re
import sys
import types

import pytest
from ground_tools import GRAMMAR
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslens.corpus import Corpus
from crosslens.errors import InputError
from crosslens.readers.plain import open_text
from crosslens.readers.words import (
    SEGMENTERS,
    locate_words,
    read_conllu,
    read_words,
    segment,
    split_words,
    whitespace_spans,
)


@pytest.fixture
def text(tmp_path):
    def write(content: str, name: str = "text.conllu"):
        (tmp_path / name).write_bytes(
            gzip.compress(content.encode()) if name.endswith(".gz") else content.encode()
        )
        return tmp_path / name

    return write


def refusal(call, *arguments, **keywords) -> str:
    with pytest.raises(InputError) as refused:
        call(*arguments, **keywords)
    assert GRAMMAR.fullmatch(str(refused.value)) and "\n" not in str(refused.value)
    return str(refused.value)


def cut(sentence: str, spans) -> list[str]:
    return [sentence[start:end] for start, end in spans]


# White space.


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("", []),
        (" \t", []),
        ("one", ["one"]),
        ("  one  two ", ["one", "two"]),
        # no-break, ideographic, em space, line separator
        ("10\u00a0000 a\u3000b\u2003c\u2028d", ["10", "000", "a", "b", "c", "d"]),
        # zero-width characters
        ("a\u200bb\u200cc\u200dd\u2060e\ufefff", ["a\u200bb\u200cc\u200dd\u2060e\ufefff"]),
        ("e\u0301 👩‍👩‍👧 🇫🇷!", ["e\u0301", "👩‍👩‍👧", "🇫🇷!"]),
    ],
)
def test_white_space_separates_words(sentence, words):
    assert cut(sentence, whitespace_spans(sentence)) == words


def test_white_space_is_what_str_split_takes_for_it():
    every = "x".join(map(chr, range(sys.maxunicode + 1)))
    assert cut(every, whitespace_spans(every)) == every.split()


@settings(max_examples=100, deadline=None)
@given(st.text(st.sampled_from("ab \t\u00a0\u3000\u200b\u0301🙂\n\x1c\x85")))
def test_words_of_white_space_are_found_again_by_their_names(sentence):
    spans = whitespace_spans(sentence)
    assert cut(sentence, spans) == sentence.split()
    assert locate_words(sentence, sentence.split(), "x") == spans


def test_a_corpus_is_split_when_its_words_are_read(tmp_path):
    (tmp_path / "text.txt").write_text("one  two\nthree\n" * 100, encoding="utf-8")
    there = split_words(open_text(tmp_path / "text.txt", "eng"))
    assert (len(there.words), there.words[198], there.words[-2:]) == (
        200,
        [(0, 3), (5, 8)],
        [[(0, 3), (5, 8)], [(0, 5)]],
    )
    listed = Corpus("eng", list(there.sentences), list(there.ids), "x", list(there.words))
    assert (
        there.fingerprint
        == listed.fingerprint
        != open_text(tmp_path / "text.txt", "eng").fingerprint
    )


# A given list of words.


@pytest.mark.parametrize(
    ("sentence", "words", "spans"),
    [
        ("the cat the", ["the", "cat", "the"], [(0, 3), (4, 7), (8, 11)]),
        ("aaa", ["a", "aa"], [(0, 1), (1, 3)]),
        ("\u3000我们 \u00a0来", ["我", "们", "来"], [(1, 2), (2, 3), (5, 6)]),
        ("10 000 francs ", ["10 000", "francs"], [(0, 6), (7, 13)]),  # a word may hold a space
        ("a  b", ["a", " b"], [(0, 1), (2, 4)]),  # or begin with one
        ("", [], []),
        (" \t", [], []),
    ],
)
def test_words_are_laid_along_the_text(sentence, words, spans):
    assert locate_words(sentence, words, "x") == spans


@pytest.mark.parametrize(
    ("sentence", "words", "told"),
    [
        (
            "the big cat",
            ["the", "cat"],
            (
                "x:1: expected word 2, 'cat', at character 4, got 'big cat'; list the words as "
                "the text has them"
            ),
        ),
        (
            "the cat",
            ["the", "the", "cat"],
            "x:1: expected word 2, 'the', at character 4, got 'cat'; ",
        ),
        ("a, b", ["a", "b"], "x:1: expected word 2, 'b', at character 1, got ', b'; "),
        ("a\u200bb", ["a", "b"], "x:1: expected word 2, 'b', at character 1, got '\\u200bb'; "),
        # nothing is normalised
        ("é", ["e\u0301"], "x:1: expected word 1, 'e\u0301', at character 0, got 'é'; "),
        ("The", ["the"], "x:1: expected word 1, 'the', at character 0, got 'The'; "),
        ("a ", ["a", "b"], "x:1: expected word 2, 'b', at character 2, got the end of the text; "),
        (
            "a " + "z" * 99,
            ["a", "b"],
            "x:1: expected word 2, 'b', at character 2, got 'zzzzzzzzzzzzzzzzzzzz'…; ",
        ),
        (
            "a b c ",
            ["a"],
            (
                "x:1: expected the end of the text after word 1, got 'b c ' at character 2; list "
                "all words of the text"
            ),
        ),
        (
            "e\u0301",
            ["e"],
            "x:1: expected the end of the text after word 1, got '\u0301' at character 1; ",
        ),
        ("a", [], "x:1: expected the end of the text after word 0, got 'a' at character 0; "),
        ("a", ["", "a"], "x:1: expected text as word 1, got ''; leave out what is no word"),
        ("\udc80b", ["a"], "x:1: expected word 1, 'a', at character 0, got '\\udc80b'; "),
    ],
)
def test_the_first_word_that_does_not_fit_is_named(sentence, words, told):
    assert refusal(locate_words, sentence, words, "x:1").startswith(told)


# CoNLL-U.


def row(number: str, form: str, misc: str = "_", upos: str = "X") -> str:
    return f"{number}\t{form}\t{form.lower()}\t{upos}\tXP\tA=b\t0\troot\t0:root\t{misc}\n"


DU = "# newdoc id = d\n# sent_id = fr-1\n# text = Vient du\u00a0 port = 1.\n# text_en = It comes\n"
DU += (
    row("1", "Vient")
    + row("2-3", "du")
    + row("2", "de", upos="ADP")
    + row("3", "le", upos="DET")
    + row("3.1", "grand")
)
DU += (
    row("4", "port") + row("5", "=") + row("6", "1", "Lang=fr|SpaceAfter=No") + row("7", ".") + "\n"
)


@pytest.mark.parametrize("name", ["text.conllu", "text.conllu.gz"])
def test_words_of_a_multiword_token_share_its_span_and_empty_nodes_have_none(text, name):
    there = read_conllu(text(DU, name), "fra")
    assert (there.sentences, there.ids, there.language, there.name) == (
        ["Vient du\u00a0 port = 1."],
        ["fr-1"],
        "fra",
        name,
    )
    assert cut(there.sentences[0], there.words[0]) == ["Vient", "du", "du", "port", "=", "1", "."]
    assert there.words[0] == [(0, 5), (6, 8), (6, 8), (10, 14), (15, 16), (17, 18), (18, 19)]
    assert there.annotations["form"] == [["Vient", "de", "le", "port", "=", "1", "."]]
    assert there.annotations["upos"] == [["X", "ADP", "DET", "X", "X", "X", "X"]]
    columns = {column: values[0][0] for column, values in there.annotations.items()}
    assert columns == {
        "form": "Vient",
        "lemma": "vient",
        "upos": "X",
        "xpos": "XP",
        "feats": "A=b",
        "head": "0",
        "deprel": "root",
    }


def test_without_text_the_sentence_is_made_of_its_tokens(text):
    tokens = (
        row("1-2", "Du", "SpaceAfter=No")
        + row("1", "De")
        + row("2", "le", "SpaceAfter=No")
        + row("3", ",")
        + row("4", "10 000")
    )
    # blank lines in front, none at the end
    there = read_conllu(text(f"\n\n{tokens}\n\n# sent_id = b\n{row('1', 'x')}"), "fra")
    assert (there.sentences, there.ids) == (["Du, 10 000", "x"], ["0", "b"])
    assert there.words == [[(0, 2), (0, 2), (2, 3), (4, 10)], [(0, 1)]]


def test_line_ends_of_windows_and_a_mark_do_no_harm(text):
    there = read_conllu(text("\ufeff" + DU.replace("\n", "\r\n")), "fra")
    assert there == read_conllu(text(DU), "fra")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            DU.replace("# text = Vient", "# text = Vint"),
            ":5: expected word 1, 'Vient', at character 0, got 'Vint du",
        ),
        (
            DU.replace("port = 1.", "port 1."),
            (
                ":11: expected word 4, '=', at character 15, got '1.'; list the words as the text "
                "has them"
            ),
        ),
        (
            DU.replace("= 1.", "= 1. Oui"),
            ":13: expected the end of the text after word 6, got 'Oui' at character 20; ",
        ),
        (
            DU.replace("\tX\tXP", "\tXP", 1),
            ":5: expected 10 tab-separated columns, got 9; repair the line",
        ),
        (DU.replace("\t", " "), ":5: expected 10 tab-separated columns, got 1; "),
        (
            DU.replace("\n4\t", "\nx4\t"),
            ":10: expected a word's number, or 3-4, or 3.1, in the first column, got 'x4'; ",
        ),
        (
            DU.replace("\n4\t", "\n5\t"),
            ":10: expected word 4, got 5; number the words of a sentence from 1, none twice",
        ),
        (DU.replace("\n4\t", "\n3\t"), ":10: expected word 4, got 3; "),
        (DU.replace("\n2-3\t", "\n1-3\t"), ":6: expected word 2, got 1-3; "),
        (DU.replace("\n2-3\t", "\n2-1\t"), ":6: expected word 2, got 2-1; "),
        # a multiword token in another
        (DU.replace("\n3\t", "\n3-4\t"), ":8: expected word 3, got 3-4; "),
        (
            row("1-3", "du") + row("1", "de") + row("2", "le"),
            ":3: expected word 3 of the multiword token, got the end of the sentence after",
        ),
        (
            DU + "# text = nothing\n\n",
            ":15: expected a sentence with words, got none; remove the sentence, or give its words",
        ),
        (
            DU + DU,
            (
                ":15: expected an id of its own, got 'fr-1', the id at line 1 too; give every "
                "sentence another id"
            ),
        ),
        ("\n \n", ": expected at least one line of text, got an empty file; "),
        ("1\ta\0\n", ":1: expected text, got a NUL byte; "),
    ],
)
def test_what_is_no_conll_u_is_refused_with_its_line(text, content, told):
    path = text(content)
    assert refusal(read_conllu, path, "fra").startswith(f"{path}{told}")


def standing(block: str) -> list[str]:
    """For each word of a sentence in CoNLL-U the form that stands in the text: its own, or that of
    its multiword token."""
    rows = [
        line.split("\t")[:2] for line in block.split("\n") if re.match(r"[0-9]+(-[0-9]+)?\t", line)
    ]
    ranges = [(*map(int, number.split("-")), form) for number, form in rows if "-" in number]
    shown = {str(i): form for first, last, form in ranges for i in range(first, last + 1)}
    return [shown.get(number, form) for number, form in rows if "-" not in number]


LARGE = "en_ewt-ud-train.conllu.gz"  # as many words as in all the others


@pytest.mark.parametrize("large", [False, True], ids=["others", LARGE])
@pytest.mark.slow  # every word of thirteen treebanks
def test_all_words_of_real_treebanks_stand_where_they_are_said_to(shared_data, large):
    files = [
        path
        for path in sorted((shared_data / "ud").glob("*.conllu.gz"))
        if (path.name == LARGE) is large
    ]
    assert len(files) == (1 if large else 12)
    for path in files:
        there = read_conllu(path, "und")
        blocks = gzip.decompress(path.read_bytes()).decode().rstrip("\n").split("\n\n")
        found = [
            cut(sentence, spans)
            for sentence, spans in zip(there.sentences, there.words, strict=True)
        ]
        assert found == [standing(block) for block in blocks], path.name
        words = sum(len(re.findall(r"^[0-9]+\t", block, re.MULTILINE)) for block in blocks)
        assert (
            sum(map(len, found)) == sum(map(len, there.annotations["deprel"])) == words > 10_000
        ), path.name


# JSON lines.


def test_json_lines_list_words_or_spans(text):
    lines = [
        {"text": "Don't  go", "words": ["Do", "n't", "go"]},
        {"text": "我们来", "spans": [[0, 2], [2, 3]], "id": "v7", "source": "x"},
        {"text": "du", "spans": [[0, 2], [0, 2]], "id": 9},
        {"text": "a\nb", "words": ["a", "b"]},
    ]
    content = "".join(
        json.dumps(line, ensure_ascii=number == 1) + "\n" for number, line in enumerate(lines)
    )
    there = read_words(text(content, "text.jsonl"), "und")
    assert there.sentences == [line["text"] for line in lines]
    assert there.ids == ["0", "v7", "9", "3"]
    assert there.words == [
        [(0, 2), (2, 5), (7, 9)],
        [(0, 2), (2, 3)],
        [(0, 2), (0, 2)],
        [(0, 1), (2, 3)],
    ]
    assert read_words(text(content, "text.jsonl.gz"), "und").words == there.words


WHAT = 'an object {"text": …, "words": […]}, or with "spans" for "words"'


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "one two",
            (
                ":2: expected JSON, got something else (Expecting value: line 1 column 1 (char "
                "0)); repair the line"
            ),
        ),
        ("", ":2: expected JSON, got nothing; repair the line"),
        ("[" * 100_000, ":2: expected JSON, got brackets nested too deeply; "),
        ('["a"]', ":2: expected an object, got a list; "),
        ('{"words": ["a"]}', f":2: expected {WHAT}, got the keys 'words'; "),
        ('{"text": ["a"], "words": ["a"]}', f":2: expected {WHAT}, got the keys 'text', 'words'; "),
        ('{"text": "a"}', f":2: expected {WHAT}, got the keys 'text'; "),
        (
            '{"text": "a", "words": ["a"], "spans": [[0, 1]]}',
            f":2: expected {WHAT}, got the keys 'text', 'words', 'spans'; ",
        ),
        (
            '{"text": " ", "words": []}',
            ":2: expected a sentence, got a blank text; remove the line, or fill it",
        ),
        ('{"text": "a", "words": "a"}', ":2: expected a list as words, got str; repair the line"),
        (
            '{"text": "a", "words": [1]}',
            ":2: expected text as word 1, got 1; leave out what is no word",
        ),
        (
            '{"text": "a c", "words": ["a", "b"]}',
            (
                ":2: expected word 2, 'b', at character 2, got 'c'; list the words as the text "
                "has them"
            ),
        ),
        (
            '{"text": "a", "words": []}',
            ":2: expected the end of the text after word 0, got 'a' at character 0; ",
        ),
        (
            '{"text": "a", "spans": [[0, 2]]}',
            ":2: expected a span with 0 <= start < end <= 1 for word 1, got (0, 2); ",
        ),
        (
            '{"text": "a", "spans": [[0, 0.5]]}',
            ":2: expected a pair of whole numbers (start, end) per word, got [0, 0.5] for word 1; ",
        ),
        ('{"text": "a", "spans": {"0": 1}}', ":2: expected a list as spans, got dict; "),
        (
            '{"text": "a", "words": ["a"], "id": 1.5}',
            ":2: expected text or a whole number as id, got 1.5; repair the line",
        ),
        (
            '{"text": "a", "words": ["a"], "id": true}',
            ":2: expected text or a whole number as id, got True; ",
        ),
        (
            '{"text": "a", "words": ["a"], "id": "0"}',
            ":2: expected an id of its own, got '0', the id at line 1 too; ",
        ),
        (
            r'{"text": "a\ud83d", "words": ["a\ud83d"]}',
            ":2: expected JSON, got a lone surrogate (U+D83D) in it; ",
        ),
        (
            r'{"text": "a\u0000", "words": ["a\u0000"]}',
            ":2: expected text, got a NUL character at character 1; ",
        ),
        (
            r'{"text": "a", "words": ["a"], "id": "\udc80"}',
            ":2: expected JSON, got a lone surrogate (U+DC80) in it; ",
        ),
    ],
)
def test_what_is_no_sentence_with_words_is_refused_with_its_line(text, line, told):
    path = text('{"text": "a", "words": ["a"]}\n' + line + "\n", "text.jsonl")
    assert refusal(read_words, path, "und").startswith(f"{path}{told}")


# Segmenters.


def one(sentence: str) -> Corpus:
    return Corpus("und", [sentence, sentence], ["0", "1"], "here")


def later(function):
    """A corpus cut by a function that does its worst only now: beartype, in these tests only, reads
    some items of a new corpus."""
    armed: list[bool] = []
    there = segment(one("ab c"), lambda text: function(text) if armed else [text])
    armed.append(True)
    return there


@pytest.mark.parametrize(
    "function",
    [
        lambda text: [text[:2], " ", text[3:4], " \u3000", text[6:]],  # white space as words
        lambda text: [text[:2], text[3:4], text[6:]],  # no white space
        lambda text: iter([text[:3], text[3:6], text[6:]]),  # white space in words; a generator
        lambda text: [(0, 2), (3, 4), (6, 7)],
        lambda text: [[0, 2], [3, 4], [6, 7]],
    ],
)
def test_a_function_cuts_sentences_into_words_or_spans(function):
    there = segment(one("ab c \u3000d"), function)
    assert there.words[1] == [(0, 2), (3, 4), (6, 7)]
    assert len(there.words) == 2 and there.sentences[1] == "ab c \u3000d"


def test_sentences_are_cut_when_their_words_are_read():
    asked = []
    there = segment(
        Corpus("und", ["ab"] * 1000, ["0"] * 1000, "x"),
        lambda text: asked.append(text) or list(text),
    )
    before = len(asked)
    assert before < 10  # beartype, in these tests only, looks at some item
    assert there.words[3:5] == [[(0, 1), (1, 2)]] * 2 and len(asked) == before + 2
    assert segment(Corpus("und", [""], ["0"], "x"), list).words[0] == []


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (
            str.upper,
            (
                "here:2: expected word 1, 'A', at character 0, got 'ab c'; list the words as the "
                "text has them"
            ),
        ),
        (
            lambda text: ["ab"],
            (
                "here:2: expected the end of the text after word 1, got 'c' at character 3; list "
                "all words of the text"
            ),
        ),
        (
            lambda text: ["ab", 3],
            "here:2: expected text as word 2, got 3; leave out what is no word",
        ),
        (
            lambda text: [(0, 9)],
            "here:2: expected a span with 0 <= start < end <= 4 for word 1, got (0, 9); ",
        ),
    ],
)
def test_words_that_do_not_make_up_the_sentence_are_refused_with_its_place(function, told):
    there = later(function)
    assert refusal(lambda: there.words[1]).startswith(told)


def test_a_sentence_that_is_no_text_is_not_given_to_a_segmenter():
    sentences = ["x", "y"]
    there = segment(Corpus("und", sentences, ["0", "1"], "here"), list)
    sentences[1] = "a\udc80"
    assert refusal(lambda: there.words[1]).startswith(
        "here:2: expected text, got a lone surrogate (U+DC80) at character 1; "
    )


def test_a_mistake_in_the_caller_s_function_is_shown_as_it_is():
    there = later(lambda text: text[len(text)])
    with pytest.raises(IndexError):
        there.words[1]


@pytest.fixture
def packages(monkeypatch):
    """Stand-ins for the three packages, which cut at every character; what they were asked for."""
    asked = []

    def word_tokenize(text: str, engine: str) -> list[str]:
        asked.append(engine)
        return list(text)

    class Dictionary:
        def __init__(self, dict: str) -> None:
            asked.append(dict)

        def tokenizer(self, mode: str) -> types.SimpleNamespace:
            asked.append(mode)
            return types.SimpleNamespace(
                tokenize=lambda text: [types.SimpleNamespace(surface=lambda c=c: c) for c in text]
            )

    def put(name: str, **content) -> None:
        module = types.ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)

    put("rjieba", cut=list)
    put("pythainlp")
    put("pythainlp.tokenize", word_tokenize=word_tokenize)
    put("sudachidict_small")
    put("sudachipy", Dictionary=Dictionary, SplitMode=types.SimpleNamespace(A="short units"))
    return asked


def test_a_named_segmenter_is_its_package_with_settings_that_are_told(packages):
    assert list(SEGMENTERS) == ["rjieba", "pythainlp", "sudachipy"]
    found = {name: segment(one("ab c"), name).words[1] for name in SEGMENTERS}
    assert found == dict.fromkeys(SEGMENTERS, [(0, 1), (1, 2), (3, 4)])
    assert list(dict.fromkeys(packages)) == ["newmm", "small", "short units"]


@pytest.mark.parametrize(
    "missing", ["rjieba", "pythainlp.tokenize", "sudachipy", "sudachidict_small"]
)
def test_a_missing_package_is_told_at_once(packages, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    name = {"pythainlp.tokenize": "pythainlp", "sudachidict_small": "sudachipy"}.get(
        missing, missing
    )
    told = refusal(segment, one("ab c"), name)
    assert told.startswith(f"segmenter: expected the package of {name}, got none installed (")
    assert told.endswith("; type: pip install 'crosslens[segment]'")


def test_an_unknown_segmenter_is_refused():
    told = refusal(segment, one("a"), "jieba")
    assert told == (
        "segmenter: expected one of rjieba, pythainlp, sudachipy, got 'jieba'; choose one of "
        "them, or give a function"
    )


def test_what_a_package_cannot_cut_is_refused_with_its_place(packages, monkeypatch):
    armed = []

    def too_long(text: str) -> list[str]:
        if armed:
            raise RuntimeError("input is\n too long")
        return list(text)

    monkeypatch.setattr(sys.modules["rjieba"], "cut", too_long)
    there = segment(one("ab"), "rjieba")
    armed.append(True)
    told = refusal(lambda: there.words[-1])
    wanted = (
        "here:2: expected a sentence that rjieba can cut, got RuntimeError: input is too long; "
    )
    assert told == wanted + "divide the sentence, or read its words from a file"


@pytest.mark.parametrize(
    ("name", "module", "sentence", "words"),
    [
        ("rjieba", "rjieba", "我来到北京清华大学，ABC 3.14", "我 来到 北京 清华大学 ， ABC 3.14"),
        ("pythainlp", "pythainlp", "ผมรักภาษาไทย  มาก", "ผม รัก ภาษาไทย มาก"),
        ("sudachipy", "sudachipy", "東京都に住んでいる。", "東京 都 に 住ん で いる 。"),
    ],
)
def test_the_real_packages_cut_their_languages(
    name, module, sentence, words, tmp_path, monkeypatch
):
    if importlib.util.find_spec(module) is None:
        pytest.skip(reason="the extra segment is not installed")
    monkeypatch.setenv("HOME", str(tmp_path))  # pythainlp makes a folder there
    hard = f"{sentence}\u200b 👩‍👩‍👧  e\u0301\u3000𠀀 10\u00a0000"
    there = segment(one(sentence), name)
    assert cut(sentence, there.words[1]) == words.split(" ")
    covered = set().union(*(range(*span) for span in segment(one(hard), name).words[1]))
    assert [i for i in range(len(hard)) if i not in covered and not hard[i].isspace()] == []
