"""What transfer keeps of a parser and a tagger, loaded again, and used on lines of text."""

import functools
import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from crosslens.corpus import Corpus
from crosslens.errors import InputError
from crosslens.front.derived import with_words
from crosslens.models.finetuning.answer import Answer
from crosslens.models.finetuning.classify import Classify
from crosslens.models.finetuning.examples import TreeExamples, WordExamples
from crosslens.models.finetuning.finetune import FineTuned, fine_tune
from crosslens.models.finetuning.load import load_fine_tuned
from crosslens.models.finetuning.model import FineTunedModel
from crosslens.models.finetuning.parse import Parse
from crosslens.models.finetuning.save import save_fine_tuned
from crosslens.models.finetuning.settings import FineTuning
from crosslens.models.finetuning.tag import Tag
from crosslens.models.finetuning.trained_parser import trained_parser
from crosslens.models.saved.loading import load_encoder
from crosslens.readers.parsers import UNREAD, checked_line
from crosslens.readers.words import whitespace_spans
from crosslens.recipes.quickstart import DATA
from crosslens.trees import crossing_edges

LINES = ["the dog sleeps", "a cat sees the old dog here", "rain falls", "it rains on the house"]
HEADS = [[2, 3, 0], [2, 3, 0, 6, 6, 3, 3], [2, 0], [2, 0, 5, 5, 2]]
RELATIONS = [[0, 1, 3], [0, 1, 3, 0, 2, 1, 2], [1, 3], [1, 3, 2, 0, 2]]
NAMES = ["det", "nsubj", "obl", "root"]
TAGS = ["DET", "NOUN", "VERB"]
WORDS = functools.partial(with_words, words="punctuation")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of transfer as --keep leaves it, of the parser that is given parts of speech, and what
    was kept."""
    encoder, folder = load_encoder(DATA / "tiny-encoder"), tmp_path_factory.mktemp("run")
    spans = [whitespace_spans(line) for line in LINES]
    corpus = Corpus("eng", LINES, [str(i) for i in range(len(LINES))], "toy", words=spans)
    tags = [np.arange(len(row)) % 3 for row in HEADS]
    trees = TreeExamples(
        corpus, *([np.array(r) for r in rows] for rows in (HEADS, RELATIONS)), tags
    )
    made = {}
    for name, kind, examples, classes in (
        ("parsing-eng", Parse(4, sizes="supar", tags=18, roots="any"), trees, NAMES),
        ("upos-eng", Tag(3), WordExamples(corpus, tags), TAGS),
    ):
        settings = FineTuning(epochs=1, peak_rate=1e-3)
        given = [examples], settings, folder / "models" / name, {"dev": lambda predict: 0.0}
        made[name] = fine_tune(encoder, kind, *given)
        (folder / "encoders").mkdir(exist_ok=True)
        save_fine_tuned(made[name], classes, folder / "encoders" / name)
    return folder, made, trees


def test_what_is_kept_answers_as_before(run):
    folder, made, trees = run
    parser, tagger = (load_fine_tuned(folder / "encoders" / name) for name in made)
    assert parser.classes == (*NAMES,) and parser.tuned.kind == made["parsing-eng"].kind
    assert parser.mark != tagger.mark
    for mine, kept in zip(
        made["parsing-eng"].predict(trees), parser.tuned.predict(trees), strict=True
    ):
        np.testing.assert_array_equal(mine.heads, kept.heads)
        np.testing.assert_array_equal(mine.relations, kept.relations)
    words = WordExamples(trees.corpus)
    for mine, kept in zip(
        made["upos-eng"].predict(words), tagger.tuned.predict(words), strict=True
    ):
        np.testing.assert_array_equal(mine, kept)


@pytest.mark.parametrize(
    ("kind", "classes"),
    [
        (Answer(max_length=64), []),
        (Classify(2, dropout=0.0), ["no", "yes"]),
        (Parse(4), NAMES),
        (Tag(3, crf=True), TAGS),
    ],
)
def test_a_head_of_every_kind_is_loaded_again(tmp_path, kind, classes):
    model = FineTunedModel(load_encoder(DATA / "tiny-encoder"), kind, FineTuning())
    save_fine_tuned(FineTuned(model, kind, FineTuning(), tmp_path, {}), classes, tmp_path / "kept")
    place = tmp_path / "kept" / "head.json"
    place.write_text(place.read_text().replace("0.0", "0"))  # as a user may have given it
    kept = load_fine_tuned(tmp_path / "kept")
    assert kept.tuned.kind == kind and kept.classes == (*classes,)
    assert all(
        torch.equal(mine, kept.tuned.model.head.state_dict()[name])
        for name, mine in model.head.state_dict().items()
    )


def test_of_several_parsers_none_is_chosen(run, tmp_path):
    folder, _, _ = run
    shutil.copytree(folder / "encoders", tmp_path / "encoders")
    shutil.copytree(folder / "encoders" / "parsing-eng", tmp_path / "encoders" / "parsing-fra")
    with pytest.raises(InputError, match=r"got 2 and 1; each encoder, .*leaves one of its own"):
        trained_parser(tmp_path, "eng", WORDS)
    shutil.rmtree(tmp_path / "encoders" / "upos-eng")
    with pytest.raises(InputError, match=r"got 2 and 0; train them"):
        trained_parser(tmp_path, "eng", WORDS)


def test_lines_become_trees_with_the_tags_of_the_tagger(run):
    folder, made, _ = run
    parser = trained_parser(folder, "eng", WORDS)
    assert parser.name.startswith(folder.name)
    long = " ".join(["dog"] * 150)  # beyond what the encoder reads
    lines = ["  the dog, sleeps.", long]
    found = [checked_line(line, "a.txt:1") for line in parser.parse(lines, ["a.txt:1", "a.txt:2"])]
    assert found[0].spans == [(2, 5), (6, 9), (9, 10), (11, 17), (17, 18)]
    assert [row[0] for row in found[0].rows] == ["the", "dog", ",", "sleeps", "."]
    tags = made["upos-eng"].predict(WordExamples(WORDS(Corpus("eng", lines, ["0", "1"], "t"))))
    assert [row[2] for row in found[0].rows] == [TAGS[n] for n in tags[0]]
    assert {row[6] for line in found for row in line.rows if row[5] == "0"} == {"root"}
    assert all((row[6] == "root") == (row[5] == "0") for line in found for row in line.rows)
    last = found[1].rows[-1]
    assert (last[5], last[6]) == ("149", "dep")  # not read: below the word before it
    assert last[3] == UNREAD and found[1].rows[0][3] == "_"


def test_no_arcs_of_a_tree_cross(run):
    folder, made, _ = run
    rng = np.random.default_rng(0)
    words = sorted({word for line in LINES for word in line.split()})
    lines = [" ".join(rng.choice(words, 12)) for _ in range(30)]
    trees = trained_parser(folder, "eng", WORDS).parse(lines, lines)
    assert not any(crossing_edges([int(row[5]) for row in tree.rows]) for tree in trees)
    corpus = WORDS(Corpus("eng", lines, [str(n) for n in range(30)], "t"))
    tags = [np.zeros(12, int)] * 30
    others = made["parsing-eng"].predict(TreeExamples(corpus, tags=tags))
    assert any(crossing_edges(tree.heads.tolist()) for tree in others)


def test_a_run_without_both_is_refused(run, tmp_path):
    with pytest.raises(
        InputError, match=r"one kept parser and one kept tagger .* got 0 and 0; train"
    ):
        trained_parser(tmp_path, "eng", WORDS)
    (tmp_path / "encoders").mkdir()
    for name in ("a", "b"):
        (tmp_path / "encoders" / name).symlink_to(run[0] / "encoders" / "parsing-eng")
    with pytest.raises(InputError, match="got 2 and 0"):
        trained_parser(tmp_path, "eng", WORDS)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"kind": "Sing"}, "key kind: expected one of Answer, Classify, Parse, Tag, got 'Sing'"),
        ({"classes": ["det"]}, "key settings: expected settings of Parse"),
        ({"settings": {"classes": 4, "colour": 1}}, "key settings: expected settings of Parse"),
        ({"settings": {}}, "key settings: expected settings of Parse"),
        ({"settings": {"classes": "4"}}, "key settings: expected settings of Parse"),
        ({"settings": {"classes": 4}}, r"head.safetensors: expected the head of .*head.json"),
        ({"classes": None}, "key classes"),
    ],
)
def test_a_head_that_is_another_is_refused(run, tmp_path, changes, told):
    kept = run[0] / "encoders" / "parsing-eng"
    for file in kept.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    head = json.loads((kept / "head.json").read_text())
    (tmp_path / "head.json").write_text(json.dumps({**head, **changes}))
    with pytest.raises(InputError, match=told):
        load_fine_tuned(tmp_path)


def test_damaged_weights_of_a_head_are_refused(run, tmp_path):
    kept = run[0] / "encoders" / "parsing-eng"
    for file in kept.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    path = tmp_path / "head.safetensors"
    weights = load_file(path)
    weights.pop("arc")
    save_file(weights, path)
    with pytest.raises(InputError, match="head.safetensors: expected the head"):
        load_fine_tuned(tmp_path)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(InputError, match="head.safetensors: expected the head"):
        load_fine_tuned(tmp_path)
    path.unlink()
    with pytest.raises(InputError, match="head.safetensors: expected the head"):
        load_fine_tuned(tmp_path)
