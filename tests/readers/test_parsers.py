"""Parsers of spaCy and Stanza: lines to trees of Universal Dependencies, or a refusal that says what
is missing."""

import importlib
import sys

import pytest
from parser_stand_ins import spacy_module, stanza_module

from crosslens.errors import InputError
from crosslens.readers.parsers import ParsedLine, checked_line, spacy_parser, stanza_parser


def parsed(parser, *lines):
    places = [f"a.txt:{n}" for n in range(1, len(lines) + 1)]
    found = parser.parse(lines, places)
    return [checked_line(line, place) for line, place in zip(found, places, strict=True)]


@pytest.fixture
def spacy(monkeypatch):
    def use(**changes):
        module = spacy_module(**changes)
        monkeypatch.setitem(sys.modules, "spacy", module)
        return module

    return use


@pytest.fixture
def stanza(monkeypatch):
    module = stanza_module()
    monkeypatch.setitem(sys.modules, "stanza", module)
    return module


def test_spacys_words_stand_where_the_line_has_them(spacy):
    spacy()
    parser = spacy_parser("toy")
    assert parser.name.startswith("spacy 3.8, en_toy 1.0 ")
    [line] = parsed(parser, " the red  car\tstopped.")
    assert line.spans == [(1, 4), (5, 8), (10, 13), (14, 21), (21, 22)]
    assert line.rows[1] == ("red", "red", "ADJ", "_", "_", "3", "amod")
    assert line.rows[3][5:] == ("0", "root")  # which spaCy calls ROOT


def test_pipelines_that_are_called_alike_are_told_apart_by_their_files(
    spacy, monkeypatch, tmp_path
):
    first, other, copy = (tmp_path / name for name in ("best", "last", "copy"))
    for folder, weights in ((first, "1"), (other, "2"), (copy, "1")):
        (folder / "parser").mkdir(parents=True)
        (folder / "parser" / "model").write_text(weights, encoding="utf-8")
    names = []
    for folder in (first, other, copy):
        spacy(folder=folder)
        named = [spacy_parser("toy").name]
        monkeypatch.setitem(sys.modules, "stanza", stanza_module(folder / "parser" / "model"))
        names.append([*named, stanza_parser("fr").name])
    assert names[0] == names[2]
    assert all(a != b for a, b in zip(names[0], names[1], strict=True))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("two roots", r"one root .* in sentence a.txt:1, got 2"),
        ("a circle", r"one root .* in sentence a.txt:1, got 0"),
        ("old labels", r"a.txt:1.*a relation of Universal Dependencies, got 'pobj' of 'old'"),
        ("no tags", r"a.txt:1.*a part of speech of Universal Dependencies, got 'DT' of 'no'"),
        ("not known", r"a.txt:1: expected a line that spacy:toy can parse, got KeyError"),
    ],
)
def test_a_line_without_a_tree_is_named(spacy, line, told):
    spacy()
    with pytest.raises(InputError, match=told):
        parsed(spacy_parser("toy"), line)


def test_labels_that_are_not_universal_are_refused_before_a_line_is_read(spacy):
    module = spacy(labels=("ROOT", "dobj", "nsubjpass", "prep", "amod"))
    with pytest.raises(
        InputError, match=r"got others, too \(dobj, nsubjpass, prep\).*fr_core_news"
    ):
        spacy_parser("toy")
    assert not module.read
    spacy(pipes=("tagger",))
    with pytest.raises(InputError, match=r"a pipeline with a parser, got one without .*\(tagger\)"):
        spacy_parser("toy")


def test_a_pipeline_that_is_not_there_is_refused_in_one_line(spacy):
    spacy()
    with pytest.raises(
        InputError, match=r"spacy:none: .*got OSError: \[E050\] Can't find.*install"
    ):
        spacy_parser("none")


@pytest.mark.parametrize(("name", "make"), [("spacy", spacy_parser), ("stanza", stanza_parser)])
def test_a_missing_package_names_its_extra(monkeypatch, name, make):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=rf"the package {name}.*pip install 'crosslens\[{name}\]'"):
        make("fr")


def test_a_stanza_that_reads_pickles_is_refused(stanza):
    stanza.__version__ = "1.12.1"
    with pytest.raises(InputError, match="^parser: expected Stanza 1.12.2 or later"):
        stanza_parser("fr")
    assert not stanza.asked  # nothing was loaded


def test_stanza_takes_tokens_apart_and_downloads_nothing(stanza):
    parser = stanza_parser("fr", "models")
    assert stanza.asked["download_method"] is None and stanza.asked["tokenize_no_ssplit"]
    assert stanza.asked["dir"] == "models"
    [line] = parsed(parser, "du pain")
    assert line.spans == [(0, 2), (0, 2), (3, 7)]
    assert [row[0] for row in line.rows] == ["de", "le", "pain"]
    assert line.rows[2] == ("pain", "pain", "NOUN", "_", "_", "0", "root")


def test_what_stanza_lacks_or_cuts_is_refused(stanza):
    with pytest.raises(InputError, match=r"stanza:xx.*FileNotFoundError.*stanza.download\('xx'\)"):
        stanza_parser("xx")
    assert "dir" not in stanza.asked
    with pytest.raises(InputError, match=r"a.txt:2: .*one sentence to stanza:fr, got 2 sentences"):
        parsed(stanza_parser("fr"), "du pain", "du pain | du pain")


def test_a_line_without_words_is_refused():
    with pytest.raises(InputError, match="a.txt:9: expected a sentence with words, got none"):
        checked_line(ParsedLine([], []), "a.txt:9")


def test_a_real_pipeline_is_trained_and_read_from_its_folder(tmp_path):
    """Two sentences in a line are one tree, though the parser has learnt to part them."""
    try:
        spacy = importlib.import_module("spacy")
        from spacy.training import Example
    except ImportError as error:
        pytest.skip(reason=f"no spaCy: pip install 'crosslens[spacy]' ({error})")
    spacy.util.fix_random_seed(0)
    pipeline = spacy.blank("fr")
    pipeline.add_pipe("morphologizer")
    pipeline.add_pipe("parser", config={"min_action_freq": 1})
    words = "le chat dort . le chien mange .".split()
    told = {
        "words": words,
        "pos": ["DET", "NOUN", "VERB", "PUNCT"] * 2,
        "morphs": [""] * 8,
        "heads": [1, 2, 2, 2, 5, 6, 6, 6],
        "deps": ["det", "nsubj:pass", "ROOT", "punct"] * 2,
    }
    examples = [Example.from_dict(spacy.tokens.Doc(pipeline.vocab, words), told)]
    optimiser = pipeline.initialize(lambda: examples)
    for _ in range(15):
        pipeline.update(examples, sgd=optimiser)
    assert len([*pipeline(" ".join(words)).sents]) == 2
    pipeline.to_disk(tmp_path / "toy")
    parser = spacy_parser(str(tmp_path / "toy"))
    [line] = parsed(parser, " ".join(words))
    assert [row[2] for row in line.rows] == told["pos"]
    assert [row[6] for row in line.rows[:4]] == ["det", "nsubj:pass", "root", "punct"]
    assert [row[5] for row in line.rows].count("0") == 1
    pipeline.get_pipe("parser").add_label("dobj")
    pipeline.to_disk(tmp_path / "old")
    with pytest.raises(InputError, match=r"got others, too \(dobj\)"):
        spacy_parser(str(tmp_path / "old"))
