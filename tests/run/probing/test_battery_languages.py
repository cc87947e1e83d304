"""Trained on one language, tested on others: what each language's scores are made of, and what is
refused."""

import json

import numpy as np
import pytest
from battery_data import LANGUAGES, NOUNS, add_treebanks, make_data, write

from crosslens.activations import Activations
from crosslens.cli.main import main
from crosslens.outcomes import read_outcomes
from crosslens.probes.methods.linear.linear import LinearProbe
from crosslens.readers.treebank import word_labels
from crosslens.report.figures import layer_figure
from crosslens.report.pages.probes import probe_page
from crosslens.score import read_scores

TASKS = "upos,topic,dependency_arcs,multiblimp"
TRAINED = TASKS.split(",")[:-1]
NAMES = {"fra": "French", "rus": "Russian"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = make_data(tmp_path_factory.mktemp("languages") / "data")
    add_treebanks(folder)
    for language in NAMES:
        (folder / "multiblimp" / language).mkdir(parents=True)
        rows = [
            f"{i}\tLa {noun} is.\tLa {noun} are.\tSV-{'#P'[i % 2]}" for i, noun in enumerate(NOUNS)
        ]
        write(
            folder / "multiblimp" / language / "data.tsv", ["\tsen\twrong_sen\tphenomenon", *rows]
        )
    return folder


@pytest.fixture(scope="module")
def run(small_encoder, data, tmp_path_factory):
    out = tmp_path_factory.mktemp("languages") / "run"
    command = ["probe", "--encoder", str(small_encoder), "--data", str(data), "--quiet"]
    assert (
        main([*command, "--tasks", TASKS, "--train", "en", "--test", "fra,ru", "--out", str(out)])
        == 0
    )
    assert (
        main(
            [
                *command,
                "--tasks",
                ",".join(TRAINED),
                "--no-random-control",
                "--out",
                str(out.parent / "english"),
            ]
        )
        == 0
    )
    return out, command


def rows(folder, **wanted):
    found = list(read_scores(folder / "scores.jsonl"))
    return [
        s
        for s in found
        if all(
            (getattr(s, k, None) if k != "part" else (s.details or {}).get("part")) == v
            for k, v in wanted.items()
        )
    ]


@pytest.mark.parametrize("task", TRAINED)
def test_every_language_has_every_layer_beside_its_controls(run, task):
    for target in ("eng", *NAMES):
        mine = rows(
            run[0], task=task, quantity="accuracy", source="eng", target=target, part="test"
        )
        for condition in (None, "random_encoder"):
            assert [s.layer for s in mine if s.condition == condition] == [0, 1, 2]
        others = {s.condition for s in mine}
        assert {"shuffled_labels" if task == "topic" else "control_task", "majority"} <= others
    assert {(s.source, s.target) for s in rows(run[0], task=task, part="dev")} == {("eng", "eng")}


@pytest.mark.parametrize("task", TRAINED)
def test_on_the_language_of_training_nothing_changes(run, task):
    key = ("quantity", "condition", "layer")
    there = {
        tuple(getattr(s, name) for name in key): s
        for s in rows(run[0].parent / "english", task=task, part="test")
    }
    here = {
        tuple(getattr(s, name) for name in key): s
        for s in rows(run[0], task=task, part="test", target="eng")
    }
    same = [
        name
        for name in there
        if name[1] not in ("control_task", "paired_test") and name[0] not in ("selectivity",)
    ]
    # control labels are drawn for all word types, so those are others
    assert same and set(there) <= set(here)
    for name in same:
        assert (here[name].value, here[name].n, here[name].low, here[name].high) == (
            there[name].value,
            there[name].n,
            there[name].low,
            there[name].high,
        )
        assert (there[name].source, there[name].target) == ("eng", "eng")


def test_a_foreign_score_is_that_of_the_probe_of_english(run):
    stores = {}
    for folder in (run[0] / "activations" / "small-encoder" / "encoder").iterdir():
        store = Activations(folder)
        if folder.name.startswith("words-"):
            stores[store.manifest["language"]] = (
                store,
                word_labels(store.index(["pieces", "upos"]), "upos"),
            )
    train, labels = stores["eng"]
    # of 24, 9 and 12 sentences
    part = np.searchsorted([24, 33], np.asarray(train.index(["text"])["text"]), side="right")[
        labels.rows
    ]
    (score,) = rows(run[0], task="upos", quantity="accuracy", target="rus", layer=1, condition=None)
    probe = LinearProbe(C=score.details["penalty"]).fit(
        np.asarray(train.layer(1))[labels.rows[part == 0]], labels.labels[part == 0]
    )
    foreign_store, gold = stores["rus"]
    given = probe.predict(np.asarray(foreign_store.layer(1))[gold.rows])
    assert (
        score.value == pytest.approx((given == gold.labels).mean())
        and score.n == len(gold.labels) == 64
    )
    (outcomes,) = read_outcomes(
        run[0], task="upos", source="eng", target="rus", layer=1, condition=None
    )
    assert outcomes.predicted.tolist() == given.tolist() and len(set(outcomes.group)) <= 8


def test_layers_are_chosen_on_dev_of_the_language_of_training(run):
    dev = {s.layer: s.value for s in rows(run[0], task="upos", part="dev")}
    best = max(dev, key=lambda layer: (dev[layer], -layer))
    tests = [s for s in rows(run[0], task="upos", condition="paired_test")]
    assert {(s.target, s.layer) for s in tests} == (
        {(code, best) for code in ("eng", *NAMES)} if best else set()
    )


def test_pairs_are_told_by_language_and_phenomenon_with_their_coverage(run):
    for target in NAMES:
        mine = rows(run[0], task="multiblimp", target=target, condition=None)
        assert {s.details.get("category") for s in mine} == {"SV-#", "SV-P", None} and {
            s.source for s in mine
        } == {None}
        assert all(
            s.details["covered"] <= s.details["pairs"] and s.quantity
            for s in mine
            if "pairs" in s.details
        )
    assert not rows(run[0], task="multiblimp", target="eng")


def test_the_terminal_and_the_page_show_a_row_for_each_language(run, capsys):
    assert (
        main([*run[1], "--tasks", TASKS, "--train", "en", "--test", "fra,ru", "--out", str(run[0])])
        == 0
    )
    told, page = capsys.readouterr().out, probe_page(run[0])
    for code, name in NAMES.items():
        assert f"upos [eng->{code}]" in told and f"multiblimp [{code}]" in told
        # all tasks; minimal pairs
        assert f"Part of speech, English to {name}" in page and f"<summary>{name}</summary>" in page
    assert (
        "Part of speech: tested on other languages." in page
        and page.count("<h2>Part of speech</h2>") == 1
    )
    config = json.loads((run[0] / "config.json").read_text())
    assert set(config["cards"]) == set(TASKS.split(",")) and config["settings"]["test"] == [
        "fra",
        "ru",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--tasks", "upos", "--train", "rus", "--test", "eng"],
            "--train: expected a treebank with a train or dev file for upos",
        ),
        (["--tasks", "upos", "--test", "hin"], "task upos: expected its data, got no items in hin"),
        (
            ["--tasks", "wic", "--train", "fra"],
            "task wic: expected its data, got no items in fra (there are some in eng)",
        ),
        (
            ["--tasks", "language_id", "--train", "eng"],
            "task language_id: expected its data, got its labels are languages",
        ),
        (
            ["--tasks", "upos", "--test", "fra", "--treebank", "en_ewt"],
            "--treebank: expected it, or --train and --test",
        ),
        (
            ["--tasks", "upos", "--test", "fra,fr_pud"],
            "--test: expected each language once, got fr_pud beside fra",
        ),
        (["--tasks", "uposs"], "--tasks: expected tasks (wic, xlwic, scws"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    run, tmp_path, capsys, arguments, message
):
    assert main([*run[1], *arguments, "--out", str(tmp_path / "run")]) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_a_language_that_is_named_twice_is_tested_once(small_encoder, data, tmp_path):
    from crosslens.run.probing.data import Sources, read_tasks

    task = read_tasks(
        Sources(
            folder=data,
            tasks=["upos", "topic"],
            labels={},
            train=["eng"],
            test=["en", "fr", "fra_Latn"],
        )
    ).tasks
    assert (
        [one.language for one in task["upos"].tested]
        == [one.language for one in task["topic"].tested]
        == ["fra"]
    )
    assert len(LANGUAGES) == 3


def test_seeds_of_several_languages_are_kept_apart(run, tmp_path):
    """A further seed's score of one language took the place of another's."""
    out = tmp_path / "run"
    told = ["--tasks", "topic", "--train", "eng", "--test", "fra,rus", "--seeds", "2"]
    assert main([*run[1], *told, "--out", str(out)]) == 0
    every = [s for s in rows(out, quantity="accuracy", condition="random_encoder", part="test")]
    by = {(s.target, s.layer, s.seed): s.value for s in every}
    assert len(by) == len(every) and {target for target, *_ in by} == {"eng", "fra", "rus"}
    assert len({value for (_, layer, seed), value in by.items() if seed and layer == 1}) > 1
    for s in every:
        if s.seed == 0:
            told = s.details["over_seeds"]
            assert told["values"] == [by[s.target, s.layer, seed] for seed in (0, 1)]
            assert told["mean"] == pytest.approx(np.mean(told["values"]))


def test_an_own_task_cannot_take_the_text_of_another(run, tmp_path, capsys):
    """topic-fra is what topic calls its French text; its vectors were those of the other."""
    own = write(tmp_path / "own.tsv", [f"{'ab'[i % 2]}\tline {i} of mine" for i in range(60)])
    told = ["--tasks", "topic", "--train", "eng", "--test", "fra", "--labels", f"topic-fra={own}"]
    assert main([*run[1], *told, "--out", str(tmp_path / "run")]) == 2
    assert "topic-fra: expected a name that no other task uses" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_figure_of_probes_says_nothing_of_means_over_directions(run):
    """Each panel is of one direction."""
    figure = layer_figure(list(read_scores(run[0] / "scores.jsonl")), ["upos"])
    written = " ".join(one.get_text() for one in figure.texts)
    assert "English" in written and "directions" not in written
