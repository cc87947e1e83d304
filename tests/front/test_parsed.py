"""Raw text to trees by a parser, kept and gone on with, and to the order of another language."""

import json
import re
import sys

import pytest
from parser_stand_ins import KNOWN, spacy_module, stanza_module

import crosslens as cl
from crosslens.asked import absolute
from crosslens.cli.main import main
from crosslens.errors import InputError, OutputError
from crosslens.front import parsed

FRENCH = "le/DET/2/det chat/NOUN/4/nsubj noir/ADJ/2/amod dort/VERB/0/root ./PUNCT/4/punct"
LINES = ["the red car stopped.", "a small dog  slept!", "the red car stopped."]


@pytest.fixture
def spacy(monkeypatch):
    module = spacy_module()
    monkeypatch.setitem(sys.modules, "spacy", module)
    return module


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "eng.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


def treebank(path):
    rows = [word.split("/") for word in FRENCH.split()]
    lines = [
        "\t".join([str(n), form, "_", upos, "_", "_", head, relation, "_", "_"])
        for n, (form, upos, head, relation) in enumerate(rows, 1)
    ]
    path.write_text("\n".join([*lines, "", ""]) * 5, encoding="utf-8")
    return path


def test_a_text_becomes_trees_that_are_kept(spacy, text, tmp_path):
    found = cl.parse_files({"eng": text}, "spacy:toy", tmp_path / "out")
    assert found == {"eng": tmp_path / "out" / "eng.conllu"}
    corpus = cl.read_conllu(found["eng"], "eng")
    assert corpus.sentences == LINES  # white space as it was
    for number, line in enumerate(LINES):
        rows = [word.split("/") for word in KNOWN[" ".join(line.split())].split()]
        for at, column in enumerate(("form", "upos", "head", "deprel")):
            assert corpus.annotations[column][number] == [row[at] for row in rows]
    content = found["eng"].read_text(encoding="utf-8")
    assert content.count("SpaceAfter=No") == 3
    assert re.match(r"# parser = spacy 3.8, en_toy 1.0 \w{16}\n# parsed = \w{16}\n", content)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["eng.conllu"]
    read = len(spacy.read)
    assert cl.parse_files({"eng": text}, "spacy:toy", tmp_path / "out") == found
    assert len(spacy.read) == read and found["eng"].read_text(encoding="utf-8") == content


def test_another_text_or_parser_does_not_write_over_it(spacy, text, tmp_path, monkeypatch):
    cl.parse_files({"eng": text}, "spacy:toy", tmp_path)
    text.write_text(LINES[0] + "\n", encoding="utf-8")
    with pytest.raises(OutputError, match="or this text parsed by the same parser, got another"):
        cl.parse_files({"eng": text}, "spacy:toy", tmp_path)
    text.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    spacy.__version__ = "3.9"
    with pytest.raises(OutputError, match="or this text parsed by the same parser, got another"):
        cl.parse_files({"eng": text}, "spacy:toy", tmp_path)


@pytest.mark.parametrize("cut", [0, 5])
def test_what_was_stopped_goes_on_to_the_same_bytes(spacy, text, tmp_path, monkeypatch, cut):
    monkeypatch.setattr(parsed, "_BLOCK", 2)
    text.write_text("\n".join(LINES * 2) + "\n", encoding="utf-8")
    whole = cl.parse_files({"eng": text}, "spacy:toy", tmp_path / "whole")["eng"].read_bytes()
    load = spacy.load

    def stops(name):
        pipeline = load(name)
        pipe, pipeline.pipe = pipeline.pipe, lambda documents: broken(pipe(documents))
        return pipeline

    def broken(documents):
        for document in documents:
            if len(spacy.read) > 6 + 5:  # the last block
                raise KeyboardInterrupt
            yield document

    spacy.load = stops
    with pytest.raises(KeyboardInterrupt):
        cl.parse_files({"eng": text}, "spacy:toy", tmp_path / "out")
    assert not (tmp_path / "out" / "eng.conllu").exists()
    aside = tmp_path / "out" / ".eng.conllu.parsing"
    there = aside.read_bytes()
    assert whole.startswith(there) and there.count(b"\n\n") == 4
    aside.write_bytes(there[: len(there) - cut])  # what a killed machine has written
    monkeypatch.setitem(sys.modules, "spacy", again := spacy_module())
    found = cl.parse_files({"eng": text}, "spacy:toy", tmp_path / "out")["eng"]
    assert found.read_bytes() == whole and len(again.read) == (4 if cut else 2)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["eng.conllu"]


def test_a_line_that_has_no_tree_is_named_and_no_file_appears(spacy, text, tmp_path):
    text.write_text("\n".join([*LINES, "two roots"]) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"one root .* in sentence .*eng.txt:4, got 2"):
        cl.parse_files({"eng": text}, "spacy:toy", tmp_path / "out")
    assert not (tmp_path / "out" / "eng.conllu").exists()


def test_multiword_tokens_are_written_as_conllu_has_them(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "stanza", stanza_module())
    text = tmp_path / "fra.txt"
    text.write_text("du pain\n", encoding="utf-8")
    path = cl.parse_files({"fra": text}, "stanza:fr", tmp_path)["fra"]
    assert "\n1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n1\tde\tde\tADP" in path.read_text(encoding="utf-8")
    corpus = cl.read_conllu(path, "fra")
    assert corpus.words == [[(0, 2), (0, 2), (3, 7)]]
    assert corpus.annotations["form"] == [["de", "le", "pain"]]


@pytest.mark.parametrize(
    ("name", "asked", "told"),
    [
        ("eng.txt", {"parser": "udpipe:en"}, "parser: expected spacy:PIPELINE, stanza:LANGUAGE or"),
        ("eng.txt", {"parser": "spacy:"}, "parser: expected spacy:PIPELINE, stanza:LANGUAGE or"),
        ("eng.txt", {"words": "whitespace"}, "words: expected none, as spacy finds them"),
        ("eng.txt", {"words": "letters"}, "words: expected one of punctuation, whitespace"),
        ("eng.conllu", {}, "eng.conllu: expected plain text, a sentence a line"),
        ("none.txt", {}, "none.txt"),
    ],
)
def test_what_cannot_be_parsed_is_refused_before_it_begins(
    spacy, text, tmp_path, name, asked, told
):
    (tmp_path / "eng.conllu").write_text("1\n", encoding="utf-8")
    with pytest.raises(InputError, match=told):
        cl.parse_files(
            {"eng": tmp_path / name}, **{"parser": "spacy:toy", "out": tmp_path, **asked}
        )
    assert not spacy.read


def test_blank_lines_and_equal_names_are_refused(spacy, text, tmp_path):
    (tmp_path / "b").mkdir()
    other = tmp_path / "b" / "eng.txt"
    other.write_text("the red car stopped.\n\n", encoding="utf-8")
    with pytest.raises(InputError, match="text: expected names of their own, got one twice"):
        cl.parse_files({"eng": text, "fra": other}, "spacy:toy", tmp_path)
    other.write_text("the red car stopped.\n\na small dog slept!\n", encoding="utf-8")
    with pytest.raises(InputError, match="eng.txt:2"):
        cl.parse_files({"eng": other}, "spacy:toy", tmp_path)


def test_the_command_parses_and_puts_in_order(spacy, text, tmp_path, capsys):
    french = treebank(tmp_path / "fra.conllu")
    out = tmp_path / "out"
    asked = [
        "derive",
        "--text",
        f"eng={text}",
        "--order-choice",
        "best",
        "--out",
        str(out),
        "--json",
    ]
    order = ["--order-of", f"fra={french}"]
    assert main([*asked, *order, "--parser", "spacy:toy"]) == 0
    made, covered = map(json.loads, capsys.readouterr().out.splitlines())
    assert made["path"] == str(out / "eng-orderfrabest.txt")
    derived = (out / "eng-orderfrabest.txt").read_text(encoding="utf-8").splitlines()
    assert derived == ["the car red stopped .", "a dog small slept !", "the car red stopped ."]
    back = [json.loads(line) for line in open(made["back"], encoding="utf-8")]
    pairs = zip(derived, back, strict=True)
    assert [cl.derive.restore(line, one) for line, one in pairs] == LINES
    assert covered["of"] == str(out / "eng.conllu") and covered["reordered"] == 6
    # another order, of the trees that are there
    read = len(spacy.read)
    assert main([*asked[:3], "--by", "inversion", "--parser", "spacy:toy", "--out", str(out)]) == 0
    assert len(spacy.read) == read
    assert (out / "eng-inversion.txt").read_text(encoding="utf-8").startswith(". stopped car red")


def test_the_command_refuses_a_parser_without_a_text_and_an_order_without_trees(
    spacy, text, tmp_path, capsys
):
    french = treebank(tmp_path / "fra.conllu")
    order = ["--order-of", f"fra={french}", "--out", str(tmp_path / "out")]
    assert main(["derive", "--treebank", f"fra={french}", "--parser", "spacy:toy", *order]) == 2
    assert "--parser: expected a plain text to parse" in capsys.readouterr().err
    assert main(["derive", "--text", f"eng={text}", *order]) == 2
    assert "add --parser, or give a treebank (.conllu)" in capsys.readouterr().err


def test_a_parser_that_cannot_serve_is_refused_before_an_order_is_learnt(
    spacy, text, tmp_path, capsys, monkeypatch
):
    french = treebank(tmp_path / "fra.conllu")
    asked = ["derive", "--text", f"eng={text}", "--order-of", f"fra={french}", "--out"]
    monkeypatch.setattr(cl, "word_order", lambda *_, **__: pytest.fail("an order was learnt"))
    out = tmp_path / "out"
    for parser, told in (("udpipe:x", "parser: expected spacy:"), ("spacy:none", "E050")):
        assert main([*asked, str(out), "--parser", parser]) == 2
        assert told in capsys.readouterr().err and not out.exists()
    out.mkdir()
    (out / "eng.conllu").write_text("of another text\n", encoding="utf-8")
    assert main([*asked, str(out), "--parser", "spacy:toy"]) == 2
    assert "or this text parsed by the same parser" in capsys.readouterr().err


def test_a_folder_of_a_parser_is_found_from_anywhere_the_next_time(tmp_path):
    (tmp_path / "best").mkdir()
    for kind in ("spacy:", "stanza:fr:"):
        assert absolute(f"{kind}best", tmp_path) == f"{kind}{tmp_path / 'best'}"
        assert absolute(f"{kind}fr_core_news_sm", tmp_path) == f"{kind}fr_core_news_sm"
