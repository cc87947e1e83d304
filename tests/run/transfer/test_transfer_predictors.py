"""What may predict transfer in a run: from the texts of each task, and over its languages."""

import dataclasses
import math
import shutil

import pytest
from battery_data import write
from scipy.stats import pearsonr

from crosslens.models.saved.loading import load_encoder
from crosslens.probes.methods.predictors import word_order_distance
from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.recipes.quickstart import DATA
from crosslens.run.transfer.data import transfer_data
from crosslens.run.transfer.fits import System
from crosslens.run.transfer.predictors import _orders, _points, predicted
from crosslens.run.transfer.settings import Transfer
from crosslens.run.transfer.summary import tables
from crosslens.score import Score

ENCODER = str(DATA / "tiny-encoder")
ANIMALS = {
    "en": ("dog", "cat"),
    "de": ("Hund", "Katze"),
    "fr": ("chien", "chat"),
    "es": ("perro", "gato"),
    "bg": ("куче", "котка"),
    "zh": ("狗", "猫"),
}
CODES = ("eng", "deu", "fra", "spa", "bul", "zho")


def tree(*rows):
    """A sentence of CoNLL-U: form, part of speech, head, relation."""
    yield from (f"{n}\t{f}\t_\t{u}\t_\t_\t{h}\t{r}\t_\t_" for n, (f, u, h, r) in enumerate(rows, 1))
    yield ""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    (folder / "xnli").mkdir()
    (folder / "ud").mkdir()
    for code, (dog, cat) in ANIMALS.items():
        lines = [
            f"{(dog, cat)[i % 2]} {i}.\t{dog}.\t{('neutral', 'entailment')[i % 2]}"
            for i in range(12)
        ]
        write(folder / "xnli" / f"test-{code}.tsv", lines)
        if code == "en":
            for split in ("train", "dev"):
                write(folder / "xnli" / f"{split}-en.tsv", lines)
    subject, verb = ("Dogs", "NOUN", 2, "nsubj"), ("bark", "VERB", 0, "root")
    write(folder / "ud" / "en_toy-ud-train.conllu", [*tree(subject, verb)] * 3)
    back = ("bellen", "VERB", 0, "root"), ("Hunde", "NOUN", 1, "nsubj")
    write(folder / "ud" / "de_toy-ud-test.conllu", list(tree(*back)))
    write(folder / "ud" / "fr_toy-ud-test.conllu", list(tree(("aboient", "VERB", 7, "root"))))
    return folder


def made(data, codes, values, **changes):
    """The predictors and correlations of made-up scores."""
    given = {"encoders": [ENCODER], "tasks": ["xnli"], "train": ["eng"], "test": codes}
    told = Transfer(data=str(data), **{**given, **changes})
    task = transfer_data("xnli", DataFolder(data), told.train, told.test)
    place = {"task": "xnli", "encoder": "tiny", "source": "eng", "n": 12}
    scores = [
        Score(quantity="accuracy", value=v, target=c, details={"part": "test"}, **place)
        for c, v in zip(task.tests, values, strict=True)
    ]
    found = predicted(told, [System("tiny", ENCODER, "", None, -1)], {"xnli": task}, scores)
    return [*scores, *found]


@pytest.fixture(scope="module")
def six(data):
    return made(data, CODES, [0.9, 0.8, 0.7, 0.6, 0.5, 0.3])


def of(scores, **wanted):
    return [s for s in scores if all(getattr(s, k) == v for k, v in wanted.items())]


def test_overlap_is_that_of_the_items_own_subwords(six):
    tokenizer = load_encoder(ENCODER).tokenizer
    texts = {
        code: [
            text
            for i in range(12)
            for text in (f"{ANIMALS[code][i % 2]} {i}.", f"{ANIMALS[code][0]}.")
        ]
        for code in ("en", "es")
    }
    train, test = (
        [t for text in texts[code] for t in tokenizer.tokenize(text) if t != tokenizer.unk_token]
        for code in ("en", "es")
    )
    for quantity, value, n in (
        ("subword_overlap_types", len({*train} & {*test}) / len({*test}), len({*test})),
        ("subword_overlap_tokens", sum(t in {*train} for t in test) / len(test), len(test)),
        ("subword_jaccard", len({*train} & {*test}) / len({*train} | {*test}), None),
    ):
        (score,) = of(six, quantity=quantity, target="spa")
        assert score.value == pytest.approx(value) and n in (None, score.n)
    assert of(six, quantity="subword_overlap_types", target="eng")[0].value == 1


def test_word_order_stands_where_there_are_treebanks_of_both(six, capsys):
    found = {s.target: s.value for s in of(six, quantity="word_order_distance")}
    assert found == {"eng": 0, "deu": 1}  # the French one is no tree


def test_word_order_is_that_of_the_treebank_that_is_tested(data, tmp_path):
    shutil.copytree(data, tmp_path / "data")
    subject, verb = ("Hunde", "NOUN", 2, "nsubj"), ("bellen", "VERB", 0, "root")
    write(tmp_path / "data" / "ud" / "de_two-ud-test.conllu", list(tree(subject, verb)))
    for asked, distance in (("deu", 1), ("de_toy", 1), ("de_two", 0)):
        scores = made(tmp_path / "data", [asked], [0.5])
        (found,) = of(scores, quantity="word_order_distance")
        assert (found.target, found.value) == ("deu", distance)


def test_a_treebank_that_cannot_be_read_is_told(data, capsys):
    made(data, ["eng", "fra"], [0.5, 0.5])
    assert "no word-order distance of fra" in capsys.readouterr().err


def test_correlations_are_over_languages_that_are_not_trained_on(six):
    (score,) = of(six, quantity="pearson", condition="subword_jaccard")
    overlap = {s.target: s.value for s in of(six, quantity="subword_jaccard")}
    values = dict(zip(CODES, [0.9, 0.8, 0.7, 0.6, 0.5, 0.3], strict=True))
    points = {code: [overlap[code], values[code]] for code in CODES[1:]}
    assert score.n == 5 and score.details["points"] == points
    r, p = pearsonr(*zip(*points.values(), strict=True))
    assert (score.value, score.details["p"]) == pytest.approx((r, p))
    assert score.low < score.value < score.high and score.details["of"] == "accuracy"


def test_few_languages_have_no_correlation_but_their_count(six):
    (score,) = of(six, quantity="spearman", condition="word_order_distance")
    assert math.isnan(score.value) and score.n == 1 and "4 or more pairs" in score.details["reason"]


def test_two_treebanks_of_a_language_are_one_point(data):
    task = transfer_data("xnli", DataFolder(data), ["eng"], ["deu", "fra"])
    tests = {"de_a": task.tests["deu"], "de_b": task.tests["deu"], "fra": task.tests["fra"]}
    both = dataclasses.replace(task, tests=tests)
    found = _points(
        both, {"de_a": 0.2, "de_b": 0.4, "fra": 0.5}, {"de_a": 1.0, "de_b": 0.0, "fra": 0.5}
    )
    assert found == {"deu": pytest.approx([0.3, 0.5]), "fra": [0.5, 0.5]}


def test_tables_show_correlations_of_five_languages_or_more(six, data, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    rows = [row for _, rows, _ in tables(tmp_path, six) for row in rows]
    assert [row[0] for row in rows if row[1] == "Pearson"] == [
        "Subword overlap by type", "Subword overlap by token", "Jaccard index of subwords"
    ]  # fmt: skip
    few = made(data, CODES[:5], [0.9, 0.8, 0.7, 0.6, 0.5])
    assert not [row for _, rows, _ in tables(tmp_path, few) for row in rows if row[1] == "Pearson"]


@pytest.mark.slow
def test_distances_to_english_are_about_those_that_are_printed(shared_data):
    """Wu & Dredze 2019, table 'Dist': other treebanks, and kinds of arcs chosen over 31 languages."""
    folder = DataFolder(shared_data)
    english = _orders(folder, "en_ewt")
    printed = {"fr_gsd": 0.09, "de_pud": 0.14, "ru_gsd": 0.14, "zh_pud": 0.23, "hi_pud": 0.40}
    for name, value in printed.items():
        assert word_order_distance(english, _orders(folder, name))[0] == pytest.approx(
            value, abs=0.05
        )
