"""Runs from Python are those of the command line; what they do not know is refused before any
work."""

import dataclasses
import inspect
import os
import subprocess
import sys
import types

import pytest
from typed import typed

from crosslens.errors import InputError
from crosslens.front import calls, study_transferred
from crosslens.front.calls import probe, study, train
from crosslens.front.study_transferred import study_transfer
from crosslens.recipes.quickstart import DATA
from crosslens.run.probing import battery
from crosslens.run.probing.battery import Battery

ENCODER = DATA / "tiny-encoder"


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for language in ("eng", "fra"):
        lines = (DATA / "corpus" / f"{language}.txt").read_text("utf-8").splitlines(keepends=True)
        (folder / f"{language}.txt").write_text("".join(lines[:40]), encoding="utf-8")
    return {language: folder / f"{language}.txt" for language in ("eng", "fra")}


def test_a_study_is_that_of_the_command_line_and_opens_again(texts, tmp_path, capsys):
    run = study(ENCODER, texts, tmp_path / "run")
    told = [f"--text={language}={path}" for language, path in texts.items()]
    assert (
        typed("study", "--encoder", str(ENCODER), *told, "--out", str(tmp_path / "run"), "--quiet")
        == 0
    )
    assert capsys.readouterr().out.endswith(f"Report: {tmp_path / 'run' / 'report.html'}\n")
    assert run.kind == "study" and len(run.figure().axes) == 3
    assert (
        study({"eng": ENCODER, "fra": ENCODER}, texts, tmp_path / "each", seed=3).config[
            "settings"
        ]["seed"]
        == 3
    )


def test_a_probe_takes_the_settings_of_a_battery_by_name():
    """A completion shows them; there is one place that says what they are and one default."""
    given = inspect.signature(probe).parameters
    fields = {field.name: field for field in dataclasses.fields(Battery)}
    assert {*given} - {"encoder", "out"} == {*fields} - {"encoders"}
    for name, field in fields.items():
        default = None if name in ("labels", "numbers") else field.default
        assert name == "encoders" or given[name].default == default, name
        # which take paths, too, or names with commas
        wider = ("encoders", "data", "labels", "numbers", "only", "test")
        assert name in wider or given[name].annotation == field.type, name


def test_names_may_be_one_text_with_commas(tmp_path, monkeypatch):
    """As on the command line; letters of a text were read as names."""
    batteries, transfers = [], []
    monkeypatch.setattr(battery, "run_battery", lambda told, out: batteries.append(told) or out)
    run = "crosslens.run.transfer.study_transfer.run_study_transfer"
    monkeypatch.setattr(run, lambda told, out: transfers.append(told.transfer) or out)
    models = types.SimpleNamespace(languages=("eng", "fra"))
    where = "crosslens.run.transfer.study_models.study_models"
    monkeypatch.setattr(where, lambda folder, syntax: models)
    monkeypatch.setattr(calls, "Run", lambda folder: folder)
    monkeypatch.setattr(study_transferred, "Run", lambda folder: folder)
    probe("encoder", tmp_path, only="upos,ner", train="eng", test="deu, fra", data="data")
    study_transfer("study", "upos, ner", "data", tmp_path)
    assert (batteries[0].only, batteries[0].test) == (["upos", "ner"], ["deu", "fra"])
    assert transfers[0].tasks == ["upos", "ner"]


def test_a_recipe_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(InputError, match="^recipe"):
        train("no-such-recipe", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_is_loaded_or_read_already_is_refused_and_its_name_asked_for(texts, tmp_path):
    """In a process of its own: here the checks of types would say it first."""
    code = f"""
import crosslens as cl
texts = {dict.fromkeys(texts, ["a", "b"])!r}
for call in (lambda: cl.study({str(ENCODER)!r}, texts, "run"), lambda: cl.study(3, texts, "run"), lambda: cl.probe(3, "run")):
    try:
        call()
    except cl.CrosslensError as error:
        print(error)
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=environment
    )
    assert run.stderr == "" and [line.partition(";")[0] for line in run.stdout.splitlines()] == [
        "texts['eng']: expected a file of text, got list",
        "encoder: expected a folder or a hub name, got int",
        "encoder: expected a folder or a hub name, got int",
    ]


def test_emergence_is_a_recipe_too(tmp_path, monkeypatch):
    from crosslens.run.trainings import emergence

    seen = {}

    def run_emergence(recipes, text, out, **settings):
        seen.update(recipes)
        out.mkdir()
        (out / "config.json").write_text('{"kind": "emergence"}')
        return out

    monkeypatch.setattr(emergence, "run_emergence", run_emergence)
    (tmp_path / "mine.txt").write_text(
        "".join(f"Sentence number {i} is here.\n" for i in range(3000))
    )
    run = train(
        "emergence", tmp_path / "run", settings={"data": str(tmp_path / "mine.txt"), "steps": 300}
    )
    assert (
        run.kind == "emergence"
        and {recipe.steps for recipe in seen.values()} == {300}
        and "shared" in seen
    )
