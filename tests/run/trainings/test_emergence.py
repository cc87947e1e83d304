"""The emergence experiment from end to end, small: all conditions from one command, stopped,
resumed, and what it says at the end."""

import json
from pathlib import Path

import pytest
from controlled_toy import KEPT, SMALL, sentences
from safetensors.torch import load_file
from typed import typed

from crosslens.cli.main import main
from crosslens.errors import InputError, OutputError
from crosslens.files import read_json
from crosslens.front.calls import training_recipes
from crosslens.models.network.encoder import MaskedLM
from crosslens.models.network.sharing import SharingPlan
from crosslens.models.network.surgery import parameter_counts
from crosslens.models.training.settings import with_overrides
from crosslens.recipes.emergence import emergence, emergence_text
from crosslens.run.trainings import emergence as run_module
from crosslens.run.trainings.emergence import (
    run_emergence,
    sharing_rows,
    split_text,
    summary,
    what_is_shared,
)
from crosslens.score import read_scores

CONDITIONS = ("shared", "half", "none", "separate")
RUN = ("none", "separate")  # in the tests
SMALLER = {"steps": 6, **SMALL, "optimisation.warmup": 2}
del SMALLER["tokens"]
pytestmark = pytest.mark.usefixtures("few_kept")


@pytest.fixture(scope="module")
def recipes():
    """Two of the conditions: the others run the same code."""
    return {
        name: with_overrides(recipe, SMALLER) for name, recipe in emergence().items() if name in RUN
    }


@pytest.fixture(scope="module")
def finished(recipes, tmp_path_factory):
    """A finished run. Not to be written to."""
    return run_emergence(recipes, sentences(), tmp_path_factory.mktemp("emergence") / "run")


def test_the_conditions_differ_in_nothing_but_what_is_shared():
    recipes = emergence()
    assert tuple(recipes) == CONDITIONS
    without = {
        name: str(with_overrides(recipe, {"sharing": ""})) for name, recipe in recipes.items()
    }
    assert len(set(without.values())) == 1
    assert [recipe.sharing for recipe in recipes.values()] == [
        "sep=token",
        "sep=token,1",
        "sep=token,1-2",
        "sep=all",
    ]


def test_a_run_holds_a_training_for_each_condition_their_studies_and_scores(finished):
    for name in RUN:
        assert (finished / name / "model" / "config.json").exists() and (
            finished / name / "study" / "scores.jsonl"
        ).exists()
        assert (finished / name / "views" / "eng-x" / "model.safetensors").exists()
    scores = list(read_scores(finished / "scores.jsonl"))
    for name in RUN:
        mine = [score for score in scores if score.condition == name]
        assert [s.source + ">" + s.target for s in mine if s.quantity == "token_alignment"] == [
            "eng>eng-x",
            "eng-x>eng",
        ]
        for quantity, per_layer in (
            ("precision_at_1", 2),
            ("linear_cka", 1),
            ("debiased_linear_cka", 1),
        ):
            layers = sorted(s.layer for s in mine if s.quantity == quantity)
            assert layers == sorted([*range(3)] * per_layer), quantity
        assert all(s.n == KEPT for s in mine if s.quantity == "precision_at_1")
        assert all(s.low <= s.value <= s.high for s in mine if s.quantity == "token_alignment")


def test_the_settings_are_told_once_and_what_differs_by_condition(finished, recipes):
    settings = json.loads((finished / "config.json").read_text())["settings"]
    assert (
        settings["seed"] == 0 and settings["encoder"]["layers"] == 2 and "sources" not in settings
    )
    assert settings["sharing"] == {name: recipe.sharing for name, recipe in recipes.items()}


def test_the_sentences_of_the_end_are_never_trained_on(finished):
    kept = (finished / "text" / "kept.txt").read_text().splitlines()
    trained = (finished / "text" / "training.txt").read_text().splitlines()
    assert (
        len(kept) == KEPT
        and not set(kept) & set(trained)
        and set(kept) | set(trained) == set(sentences())
    )


def test_both_languages_have_the_same_pieces_under_ids_of_their_own(finished):
    data = json.loads((finished / "none" / "data.json").read_text())
    told = data["vocabulary"]
    assert told["mode"] == "separate" and told["overlap"]["eng-eng-x"]["shared"] == 0
    assert told["overlap"]["eng-eng-x"]["identical"] == told["overlap"]["eng-eng-x"]["first"] > 0


@pytest.mark.slow  # the engine's own tests stop runs everywhere, and a training's at each step
def test_a_stopped_run_goes_on_to_the_same_scores(recipes, finished, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    with monkeypatch.context() as patched:

        def stop(*_):
            raise KeyboardInterrupt

        patched.setattr(run_module, "run_study", stop)
        with pytest.raises(KeyboardInterrupt):
            run_emergence(recipes, sentences(), folder)
    assert not (folder / "scores.jsonl").exists() and (folder / "none" / "model").exists()
    with pytest.raises(
        OutputError,
        match="expected a new folder, got a run of this recipe; add --resume to continue it",
    ):
        run_emergence(recipes, sentences(), folder)
    run_emergence(recipes, sentences(), folder, resume=True)
    assert (folder / "scores.jsonl").read_bytes() == (finished / "scores.jsonl").read_bytes()


def test_another_text_or_recipe_is_refused(recipes, finished):
    with pytest.raises(OutputError, match="expected the same settings, got other ones .text: "):
        run_emergence(recipes, sentences(1400), finished, resume=True)
    others = {name: with_overrides(recipe, {"seed": 3}) for name, recipe in recipes.items()}
    with pytest.raises(OutputError, match="got other ones .seed: 0 there, 3 here."):
        run_emergence(others, sentences(), finished, resume=True)


def test_too_little_text_is_refused_before_anything_is_written(recipes, tmp_path):
    with pytest.raises(InputError, match="text: .*got 100"):
        run_emergence(recipes, sentences(100), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_repeated_sentences_count_once():
    lines = sentences(1200)
    assert split_text(lines + lines, 0) == split_text(lines, 0)
    assert split_text(lines, 0) != split_text(lines, 1)


def test_the_summary_has_a_row_for_each_condition(finished):
    rows, text = summary(finished)
    assert [row[0] for row in rows] == ["condition", *RUN]
    assert all(len(row) == len(rows[0]) for row in rows) and "chance" in text
    values = {}
    for score in read_scores(finished / "scores.jsonl"):
        if score.quantity == "precision_at_1":
            values.setdefault((score.condition, score.layer), []).append(score.value)
    for name, *_, told, _ in rows[1:]:
        best = max(sum(two) / len(two) for (one, _), two in values.items() if one == name)
        assert f": {best:.3f} (n" in told


def test_what_each_condition_shares_is_counted_in_its_model(finished):
    for name, shared in (("none", {"position", "norm", "transform"}), ("separate", set())):
        counts = read_json(finished / name / "sharing.json")
        assert {part for part, owners in counts.items() if owners[""]} == shared
        tensors = load_file(finished / name / "model" / "model.safetensors")
        for owner, mark in (("", ".shared."), ("eng", ".own_eng."), ("eng-x", ".own_eng-x.")):
            assert sum(owners[owner] for owners in counts.values()) == sum(
                v.numel() for k, v in tensors.items() if mark in k
            )
    rows = what_is_shared(finished)
    assert rows[0] == ("part", "parameters", *RUN) and dict((row[0], row[2:]) for row in rows)[
        "position"
    ] == ("shared", "own")


def test_the_table_of_the_guide_is_that_of_the_recipes():
    counts = {}
    for name, recipe in emergence().items():
        plan = SharingPlan.parse(recipe.sharing, recipe.encoder.layers)
        counts[name] = parameter_counts(
            MaskedLM(recipe.encoder, languages=recipe.languages, plan=plan)
        )
    guide = (Path(__file__).parents[3] / "docs" / "emergence.md").read_text(encoding="utf-8")
    for row in sharing_rows(counts):
        assert f"| {' | '.join(row)} |" in guide


def test_the_command_runs_it_on_a_file(finished, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        "crosslens.recipes.emergence.emergence", lambda: {name: emergence()[name] for name in RUN}
    )
    text = tmp_path / "mine.txt"
    text.write_text("".join(line + "\n" for line in sentences()))
    command = [
        "train",
        "emergence",
        f"data={text}",
        *(f"{name}={value}" for name, value in SMALLER.items()),
        "--out",
        str(tmp_path / "run"),
    ]
    assert main([*command, "--quiet"]) == 0
    out = capsys.readouterr().out
    assert (
        "P@1 of subwords" in out
        and "part  parameters  none    separate" in out
        and "Report: " in out
        and (tmp_path / "run" / "report.html").exists()
    )
    assert (tmp_path / "run" / "scores.jsonl").read_bytes() == (
        finished / "scores.jsonl"
    ).read_bytes()
    assert main(command) == 2
    assert "add --resume" in capsys.readouterr().err


def test_the_command_prints_every_plan(capsys):
    assert main(["train", "emergence", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith("# ")] == [
        "# shared",
        "# half",
        "# none",
        "# separate",
    ]
    assert out.count("one language sees") == 4 and "MFLOP per token" in out
    assert typed("train emergence sharing=sep=1 --dry-run") == 2
    assert "sharing: expected the conditions of the recipe" in capsys.readouterr().err


def test_a_file_of_the_user_is_read_line_by_line(tmp_path):
    (tmp_path / "mine.txt").write_text("One.\nTwo.\n")
    assert emergence_text(str(tmp_path / "mine.txt")) == ["One.", "Two."]


def test_half_and_all_layers_are_those_of_the_encoder():
    found = training_recipes("emergence", {"encoder.layers": 4})
    plans = {name: one.sharing for name, one in found.items()}
    assert plans["half"] == "sep=token,1-2" and plans["none"] == "sep=token,1-4"
    with pytest.raises(InputError, match="encoder.layers: expected an even number, got 1"):
        training_recipes("emergence", {"encoder.layers": 1})
    with pytest.raises(InputError, match='select: expected "last"'):
        training_recipes("emergence", {"select": "best"})
