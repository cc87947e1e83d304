"""Word in context across languages: XL-WiC's official files, trained in one language and tested in
others."""

import numpy as np
import pytest
from battery_data import NOUNS, VERBS, write

from crosslens.activations import Activations
from crosslens.cli.main import main
from crosslens.errors import InputError
from crosslens.outcomes import read_outcomes
from crosslens.probes.methods.scws import cosines
from crosslens.probes.methods.wic import best_threshold
from crosslens.probes.tasks.catalogue import find_task
from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.readers.wic import read_wic_spans
from crosslens.report.pages.probes import probe_page
from crosslens.run.probing.data import Sources, read_tasks
from crosslens.score import read_scores

N = {"train": 60, "valid": 20, "test": 24}


def line(i, part, answer=True):
    noun, verb = NOUNS[i % 6], VERBS[i % 4]
    first, second = f"The {noun} {verb} {i} .", f"A old {noun} of {part} {i} ."
    cells = [f"{noun}{i % 11}", "N", "4", str(4 + len(noun)), "6", str(6 + len(noun))]
    return "\t".join([*cells, first, second, *([str(i % 2)] if answer else [])])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("xlwic")
    root = folder / "xlwic_datasets"
    places = {
        "en": root / "wic_english",
        "de": root / "xlwic_wikt" / "german_de",
        "zh": root / "xlwic_wn" / "chinese_zh",
    }
    for place in places.values():
        place.mkdir(parents=True)
    for part in ("train", "valid"):
        write(places["en"] / f"{part}_en.txt", [line(i, part) for i in range(N[part])])
        write(places["de"] / f"de_{part}.txt", [line(i, f"{part}de") for i in range(N[part])])
    write(places["zh"] / "zh_valid.txt", [line(i, "validzh") for i in range(8)])
    for code in ("de", "zh"):
        tests = [line(i, f"test{code}", answer=False) for i in range(N["test"])]
        write(places[code] / f"{code}_test_data.txt", tests)
        write(
            places[code] / f"{code}_test_gold.txt", [str(int(i % 3 == 0)) for i in range(N["test"])]
        )
    return folder


@pytest.fixture(scope="module")
def run(small_encoder, data, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    command = ["probe", "--encoder", str(small_encoder), "--data", str(data), "--quiet"]
    command += ["--no-random-control", "--tasks", "xlwic", "--train", "eng"]
    assert main([*command, "--test", "de,zh", "--out", str(out / "all")]) == 0
    assert main([*command, "--out", str(out / "english")]) == 0
    return out


def test_the_official_files_have_their_splits_and_answers(data):
    folder, task = DataFolder(data), find_task("xlwic")
    assert list(task.languages(folder)) == ["cmn", "deu", "eng"]
    german, english, chinese = (task.read(folder, code).splits for code in ("deu", "en", "zho"))
    assert {part: len(items) for part, items in german.items()} == {
        "train": 60,
        "dev": 20,
        "test": 24,
    }
    assert list(english) == ["train", "test"] and list(chinese) == ["dev", "test"]
    item = german["test"].items[1]
    assert [s[slice(*span)] for s, span in zip(item.sentences, item.spans, strict=True)] == [
        "water",
        "water",
    ]
    assert german["test"].labels.tolist() == [i % 3 == 0 for i in range(24)]
    assert german["test"].language == "deu"
    assert "xlwic_datasets/xlwic_wikt/german_de/de_test_gold.txt" in folder.files


def test_scores_of_each_language_are_those_of_the_probe_of_english(run, data):
    scores = [s for s in read_scores(run / "all" / "scores.jsonl") if s.quantity == "accuracy"]
    assert {s.source for s in scores} == {"eng"}
    tests = [s for s in scores if s.details["part"] == "test"]
    assert {s.target for s in tests} == {"eng", "deu", "cmn"}
    assert {s.target for s in scores if s.details["part"] == "dev"} == {"eng"}
    assert {s.n for s in tests if s.target != "eng"} == {24}
    place = run / "all" / "activations" / "small-encoder" / "encoder"

    def sides(name):
        return [
            np.asarray(Activations(place / f"{name}-{s}").layer(1)) for s in ("first", "second")
        ]

    task = read_tasks(
        Sources(folder=data, tasks=["xlwic"], labels={}, train=["eng"], test=["deu"])
    ).tasks["xlwic"]
    train = task.parts.train
    threshold = best_threshold(cosines(*sides("xlwic"))[train], task.items.labels[train])
    right = (cosines(*sides("xlwic-deu")) >= threshold) == task.tested[0].labels
    (score,) = [
        s
        for s in tests
        if (s.target, s.layer, s.condition) == ("deu", 1, None)
        and s.details["representation"] == "cosine_threshold"
    ]
    assert score.value == pytest.approx(right.mean())
    (outcomes,) = read_outcomes(
        run / "all", target="deu", layer=1, condition=None, representation="cosine_threshold"
    )
    assert outcomes.outcome.tolist() == right.astype(float).tolist()


def test_english_is_as_it_is_alone(run):
    def of(name):
        return {
            (s.condition, s.layer, s.details["representation"] if s.layer is not None else ""): (
                s.value,
                s.n,
                s.low,
                s.high,
            )
            for s in read_scores(run / name / "scores.jsonl")
            if s.quantity == "accuracy" and s.target == "eng" and s.details["part"] == "test"
        }

    assert of("all") == of("english") and len(of("all")) > 20


def test_the_page_has_a_line_for_each_language(run):
    page = probe_page(run / "all")
    for name in ("German", "Mandarin Chinese"):
        assert f"(XL-WiC), English to {name}" in page


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"train": ["zho"]}, "no items to train on in cmn"),
        ({"train": ["eng"], "test": ["fra"]}, "no items in fra"),
        ({"train": ["eng", "deu"]}, "it is trained on one language"),
    ],
)
def test_what_is_not_there_is_refused(data, settings, message):
    with pytest.raises(InputError, match=message):
        read_tasks(Sources(folder=data, tasks=["xlwic"], labels={}, **settings))


def test_answers_have_to_be_as_many_as_items(data, tmp_path):
    root = data / "xlwic_datasets" / "xlwic_wikt" / "german_de"
    gold = write(tmp_path / "gold.txt", ["1"] * 5)
    with pytest.raises(InputError, match="expected 24 lines, one for each of .*, got 5"):
        read_wic_spans(root / "de_test_data.txt", "deu", gold)
