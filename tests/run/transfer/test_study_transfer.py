"""Transfer of a controlled study's models: what each condition has zero-shot, trained on the copy and
of the original alone, beside the same runs asked for one by one."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from battery_data import write
from controlled_toy import SMALL, sentences
from scipy.stats import ttest_ind
from test_transfer import ner_lines

from crosslens.cli.main import main
from crosslens.errors import InputError
from crosslens.front.calls import train
from crosslens.front.study_transferred import study_transfer
from crosslens.models.saved.derived_languages import derived_languages
from crosslens.models.training.settings import resolve
from crosslens.report import write_report
from crosslens.report.folders.study_transfer import load_study_transfer, printed_less, summary
from crosslens.run.transfer import study_transfer as run_module
from crosslens.run.transfer.settings import Transfer
from crosslens.run.transfer.study_transfer import monolingual_recipe
from crosslens.run.transfer.transfer import run_transfer
from crosslens.score import Score, read_scores, write_scores
from crosslens.stats import mean_interval

TINY = {"epochs": 2, "batch_size": 8, "peak_rate": 1e-2, "head_rate": 1e-2}
NAMES = ("transliteration", "transliteration-inversion")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    (folder / "ner").mkdir()
    for split, n, start in (("train", 12, 0), ("dev", 4, 12), ("test", 8, 16)):
        write(folder / "ner" / f"en_ewt-ud-{split}.iob2", list(ner_lines(n, start)))
    return folder


@pytest.fixture(scope="module")
def study(tmp_path_factory, few_kept):
    """Two conditions, two seeds. Not to be written to."""
    place = tmp_path_factory.mktemp("study")
    (place / "eng.txt").write_text("".join(f"{line}\n" for line in sentences(400)))
    settings = {**SMALL, "data": str(place / "eng.txt")}
    named = "eng-translit,translit+inversion"
    return train(named, place / "run", seeds=2, settings=settings).folder


@pytest.fixture(scope="module")
def finished(study, data, tmp_path_factory):
    """A finished run. Not to be written to."""
    out = tmp_path_factory.mktemp("transfer") / "run"
    run = study_transfer(study, "ner", data, out, monolingual=True, **TINY)
    return run.folder


def one(folder, **wanted):
    """The score of names, as the run is judged by, that has these fields."""
    found = [
        score
        for score in read_scores(folder / "scores.jsonl")
        if score.details.get("counted_as") == "strict"
        and all(getattr(score, name) == value for name, value in wanted.items())
    ]
    assert len(found) == 1
    return found[0]


def test_each_training_has_what_a_run_of_its_own_gives(study, data, finished, tmp_path):
    told = Transfer(
        encoders=[str(study / NAMES[1] / "seed-1" / "model")],
        tasks=["ner"],
        data=str(data),
        train=["eng"],
        test=["eng", "eng-x"],
        seeds=1,
        in_language=True,
        random_control=False,
        checkpoints=False,
        **TINY,
    )
    own = run_transfer(told, tmp_path / "own")
    for condition in (None, "in_language"):
        wanted = {"condition": condition, "target": "eng-x", "quantity": "span_f1"}
        theirs = one(own, **wanted)
        assert one(finished, **wanted, encoder=NAMES[1], seed=1).value == theirs.value
    wanted = {"condition": "zero_shot_less_in_language", "quantity": "span_f1_difference"}
    ours = one(finished, **wanted, encoder=NAMES[1], seed=1)
    assert (ours.value, ours.low) == (one(own, **wanted).value, one(own, **wanted).low)


def test_an_encoder_of_the_original_alone_reads_each_copy(study, data, finished, tmp_path):
    own = finished / "monolingual" / "seed-0"
    recipe = json.loads((own / "config.json").read_text())["settings"]
    theirs = json.loads((study / NAMES[0] / "seed-0" / "config.json").read_text())["settings"]
    assert [list(one["texts"]) for one in recipe["sources"]] == [["eng"]]
    assert "derived" not in recipe
    for name in ("steps", "seed", "encoder", "optimisation", "batch_tokens"):
        assert recipe[name] == theirs[name]
    how = str(derived_languages(study / NAMES[1] / "seed-0" / "model")["eng-x"])
    told = Transfer(
        encoders=[str(own / "model")],
        tasks=["ner"],
        data=str(data),
        train=["eng"],
        test=["eng", "eng-x"],
        derived={"eng-x": how},
        seeds=1,
        random_control=False,
        checkpoints=False,
        **TINY,
    )
    alone = run_transfer(told, tmp_path / "own")
    for target in ("eng", "eng-x"):
        wanted = {"target": target, "quantity": "span_f1"}
        theirs = one(alone, condition=None, **wanted).value
        ours = one(finished, condition="monolingual", encoder=NAMES[1], seed=0, **wanted)
        assert ours.value == theirs
    less = one(finished, condition="monolingual_less_in_language", encoder=NAMES[1], seed=0,
               target="eng-x")  # fmt: skip
    wanted = {"encoder": NAMES[1], "seed": 0, "target": "eng-x", "quantity": "span_f1"}
    parts = [one(finished, condition=c, **wanted).value for c in ("monolingual", "in_language")]
    assert less.value == parts[0] - parts[1]


def test_means_are_over_trainings(finished):
    for condition in (None, "in_language", "monolingual"):
        wanted = {"condition": condition, "target": "eng-x", "quantity": "span_f1"}
        values = [one(finished, **wanted, encoder=NAMES[0], seed=s).value for s in (0, 1)]
        mean, low, high = mean_interval(np.array(values))
        found = one(finished, **wanted, encoder=NAMES[0], seed=None)
        assert found.value == pytest.approx(mean)
        assert (found.low, found.high) == pytest.approx((max(low, 0), min(high, 1)))
        assert found.details["values"] == values


def test_two_conditions_have_no_correlation_and_say_why(finished):
    scores = [s for s in read_scores(finished / "scores.jsonl") if s.quantity == "spearman"]
    assert [(s.n, s.evidence.over) for s in scores] == [(2, "conditions"), (4, "trainings")]
    assert np.isnan(scores[0].value) and "4" in scores[0].details["reason"]
    points = scores[1].evidence.points
    assert list(points) == [f"{name}, seed {seed}" for seed in (0, 1) for name in NAMES]
    for name, seed in ((NAMES[0], 0), (NAMES[1], 1)):
        wanted = {"condition": "zero_shot_less_in_language", "quantity": "span_f1_difference"}
        ours = one(finished, **wanted, encoder=name, seed=seed)
        assert points[f"{name}, seed {seed}"][1] == ours.value


def test_a_stopped_run_goes_on_to_the_same_scores(study, data, finished, tmp_path, monkeypatch):
    measured, out = [], tmp_path / "run"
    measure = run_module._training

    def stop(*given):
        measured.append(given[2:4])
        if len(measured) == 2:
            raise KeyboardInterrupt
        return measure(*given)

    with monkeypatch.context() as patched:
        patched.setattr(run_module, "_training", stop)
        with pytest.raises(KeyboardInterrupt):
            study_transfer(study, "ner", data, out, **TINY)
    assert not (out / "scores.jsonl").exists()
    study_transfer(study, "ner", data, out, **TINY)
    ours, theirs = (
        [s.as_json() for s in read_scores(place / "scores.jsonl")
         if "monolingual" not in str(s.condition)]
        for place in (out, finished)
    )  # fmt: skip
    assert ours == theirs


def test_tables_and_page_have_a_row_for_each_condition(finished, capsys):
    title, rows = summary(finished)[:2]
    assert title.startswith("ner: F1")
    assert [row[0] for row in rows[1:]] == list(NAMES) and rows[1][1] == "2"
    assert not load_study_transfer(finished).orders("ner")  # a study of conditions by name has none
    assert rows[0][2:5] == ("zero-shot", "trained on it", "original alone")
    zero = one(finished, condition=None, encoder=NAMES[0], seed=None, target="eng-x")
    assert rows[1][2].startswith(f"{100 * zero.value:.1f} [")
    assert rows[1][-1] == "-2.1 or -2.3"  # of English names, Tables 5 and 7
    page = write_report(finished).read_text()
    assert "Zero-shot transfer in" in page and "condition by condition" in page
    assert 'aria-label="ner by condition: transliteration' in page
    assert main(["cite", str(finished)]) == 0
    assert "deshpande2022when" in capsys.readouterr().out


def test_over_conditions_the_loss_is_held_against_alignment(finished, tmp_path):
    """Six conditions as Deshpande et al.'s Table 7 has them: their Spearman of parts of speech."""
    from crosslens.run.transfer.study_transfer import _correlations, _Study

    less = {"a": -2.3, "b": -14.2, "c": -4.1, "d": -14.3, "e": -51.5, "f": -46.3}
    aligned = {"a": 90.0, "b": 57.3, "c": 43.0, "d": 11.8, "e": 0.16, "f": 0.01}
    scores = [
        Score(quantity="span_f1_difference", value=value / 100, n=9, encoder=name, task="ner",
              condition="zero_shot_less_in_language", source="eng", target="eng-x")
        for name, value in less.items()
    ]  # fmt: skip
    recipe = next(iter(run_module._read(finished_study(finished)).recipes.values()))
    kept = {(name, None): value / 100 for name, value in aligned.items()}
    study = _Study(tmp_path, {}, {"a": recipe}, [0], kept)
    rank, _ = _correlations(study, scores)
    assert round(rank.value, 3) == 0.886 and rank.n == 6  # recomputed from the printed rows


def finished_study(run):
    return Path(json.loads((run / "config.json").read_text())["asked"]["study"])


def test_orders_are_differences_of_what_is_lost(finished, tmp_path):
    config = json.loads((finished / "config.json").read_text())
    config["study"]["order"] = [[NAMES[0]], ["not measured"], [NAMES[1]]]
    (tmp_path / "config.json").write_text(json.dumps(config))
    write_scores(read_scores(finished / "scores.jsonl"), tmp_path / "scores.jsonl")
    run = load_study_transfer(tmp_path)
    wanted = {"condition": "zero_shot_less_in_language", "quantity": "span_f1_difference"}
    sides = [[one(finished, **wanted, encoder=n, seed=s).value for s in (0, 1)] for n in NAMES]
    test = ttest_ind(*sides, equal_var=False)
    low, high = test.confidence_interval(0.95)
    ((name, told, _),) = run.orders("ner")
    assert name == f"{NAMES[0]} > {NAMES[1]}"
    difference = np.mean(sides[0]) - np.mean(sides[1])
    assert told == f"{difference:+.3f} [{low:+.3f}, {high:+.3f}]"
    assert any("the paper's order" in row[0] for part in summary(tmp_path)[1:] for row in part[:1])


def test_the_papers_numbers_are_those_of_the_task():
    told = {"paper": "deshpande", "published": {"x": "transliteration and inversion"}}
    assert printed_less(told, "x", "upos") == "-42.7" and printed_less(told, "y", "upos") == "-"
    told = {"paper": "conneau", "published": {"x": "Sep Emb"}}
    assert printed_less(told, "x", "ner") == "-4.1" and printed_less(told, "x", "upos") == "-"


def test_the_original_alone_shares_nothing(study):
    recipe = run_module._read(study).recipes[NAMES[0]]
    alone = resolve(monolingual_recipe(dataclasses.replace(recipe, sharing="sep=emb"), "eng"))
    assert alone.languages == ("eng",) and not alone.derived and alone.steps == recipe.steps


def test_a_run_is_asked_again_from_its_folder(finished, tmp_path):
    line = ["study-transfer", "--config", str(finished), "--quiet"]
    assert main([*line, "--out", str(finished)]) == 0  # the same run: nothing is left to do
    told = json.loads((finished / "config.json").read_text())["asked"]
    assert told["monolingual"] is True and "parser" not in told


def test_what_is_no_study_is_refused(study, data, finished, tmp_path, capsys):
    line = ["study-transfer", "--tasks", "ner", "--data", str(data), "--out", str(tmp_path / "x")]
    assert main([*line, "--study", str(tmp_path)]) == 2
    assert "study: expected the folder of a controlled study" in capsys.readouterr().err
    assert main([*line, "--study", str(finished)]) == 2
    assert main([*line[:2], "no-such", *line[3:], "--study", str(study)]) == 2
    assert not (tmp_path / "x").exists()
    begun = tmp_path / "begun"
    (begun / "transliteration" / "seed-0").mkdir(parents=True)
    (begun / "config.json").write_text((study / "config.json").read_text())
    with pytest.raises(InputError, match="a seed of which every condition is trained"):
        study_transfer(begun, "ner", data, tmp_path / "x")


def test_a_run_that_is_not_finished_has_no_page(finished, tmp_path):
    (tmp_path / "config.json").write_text((finished / "config.json").read_text())
    with pytest.raises(InputError, match="not finished"):
        load_study_transfer(tmp_path)
    write_scores([s for s in read_scores(finished / "scores.jsonl")], tmp_path / "scores.jsonl")
    assert load_study_transfer(tmp_path).names == list(NAMES)
