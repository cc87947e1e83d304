"""Steps 3 and 4 as stages of a training: asked of it, refused before it begins, resumed, and on its
page."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from clwe_toy import write_texts
from processes import command
from safetensors.torch import load_file
from toy_texts import write_lines
from typed import typed

import crosslens as cl
from crosslens.errors import InputError, OutputError, TrainingError
from crosslens.models.finetuning import finetune
from crosslens.recipes.monotrans import NOISE, VARIANTS, asked_anywhere, last_steps, monotrans
from crosslens.report import write_report
from crosslens.run.trainings.shared import text_settings

TOLD = {"tasks": "xnli", "transfer.seeds": 2, "transfer.epochs": 2, "transfer.batch_size": 4}
TOLD |= {"transfer.checkpoints": False, "transfer.peak_rate": 1e-2}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Texts of two languages, and pairs in both. Not to be written to."""
    folder = tmp_path_factory.mktemp("texts")
    asked = write_texts(folder)
    for code, lines in (("en", "dog house"), ("nl", "hond huis"), ("de", "Hund Haus")):
        (folder / "data" / "xnli").mkdir(parents=True, exist_ok=True)
        one, other = lines.split()
        for split, n in (("train", 12), ("dev", 4), ("test", 8)):
            rows = [
                f"{one} {other} {i}\t{(one, other)[i % 2]}\t{('neutral', 'entailment')[i % 2]}"
                for i in range(n)
            ]
            write_lines(folder / "data" / "xnli" / f"{split}-{code}.tsv", rows)
    plain = {name: value for name, value in asked.items() if not name.startswith("skipgram")}
    del plain["dimensions"]
    return {"clwe": asked, "monotrans": plain, "data": str(folder / "data")}


def asked_of(texts, recipe="monotrans", **changes):
    return {**texts[recipe], **TOLD, "data": texts["data"], **changes}


@pytest.fixture(scope="module")
def finished(texts, tmp_path_factory):
    """A run of all four steps. Not to be written to."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    told = asked_of(texts, tasks=["xnli"], data=Path(texts["data"]))  # as one writes them in Python
    cl.train("monotrans", folder, settings=told, device="cpu")
    return folder


def test_one_call_takes_all_four_steps(finished, texts):
    ours = cl.Run(finished / "transfer")
    tested = {(s.source, s.target) for s in ours.scores.where(part="test", condition=None)}
    assert tested == {("eng", "eng"), ("eng", "nld")}
    asked = json.loads((finished / "transfer" / "config.json").read_text())["asked"]
    assert asked["noise"] == NOISE and asked["encoders"] == [str(finished / "model")]
    assert asked["data"] == texts["data"] and asked["seeds"] == 2
    # and it is what `crosslens transfer` makes of the model
    told = {"seeds": 2, "epochs": 2, "batch_size": 4, "checkpoints": False, "peak_rate": 1e-2}
    again = cl.transfer(
        finished / "model", "xnli", "eng", "eng,nld", texts["data"], finished.parent / "again",
        noise=NOISE, **told,
    )  # fmt: skip
    assert (again.folder / "scores.jsonl").read_bytes() == (
        finished / "transfer" / "scores.jsonl"
    ).read_bytes()


def test_noise_comes_with_the_variant_unless_it_is_given(texts):
    asked = {name: last_steps(asked_of(texts, variant=name)).noise for name in VARIANTS}
    assert asked == {"token": None, "positions": None, "noise": NOISE, "adapters": NOISE}
    assert last_steps(asked_of(texts, **{"transfer.noise": "standard-normal"})).noise == 1.0
    assert last_steps(asked_of(texts, **{"transfer.noise": 0})).noise == 0.0
    assert last_steps(texts["monotrans"]) is None
    assert last_steps(asked_of(texts, **{"transfer.features": "transformer"})).noise is None


def test_what_the_training_is_asked_holds_for_the_last_steps_too(texts):
    told = last_steps(asked_of(texts, seed=3, precision="bfloat16"))
    assert (told.seed, told.precision) == (3, "bfloat16")
    told = last_steps(asked_of(texts, seed=3, **{"transfer.seed": 5, "transfer.freeze": "-1,0"}))
    assert told.seed == 5 and list(told.freeze) == [-1, 0]
    texts = {**texts["monotrans"], "target": "nld:n.txt,eng-x:e.txt"}
    told = last_steps({**texts, "tasks": ["upos"], "data": Path("data")})
    assert list(told.test) == ["eng", "nld"] and list(told.tasks) == ["upos"]
    assert told.data == "data"  # none for a language that is learnt again


def test_languages_by_other_codes_than_the_datas_are_read(texts, tmp_path):
    asked = asked_of(texts)
    names = {
        name: asked[name].replace("eng:", "en:").replace("nld:", "nl:")
        for name in ("source", "target")
    }
    fewer = {"transfer.seeds": 1, "transfer.epochs": 1}
    made = cl.train("monotrans", tmp_path, settings={**asked, **names, **fewer}, device="cpu")
    ours = cl.Run(made.folder / "transfer").scores.where(part="test", condition=None)
    assert {(s.source, s.target) for s in ours} == {("eng", "eng"), ("eng", "nld")}
    with pytest.raises(InputError, match=r"transfer.test: .* has \(en, nl\), got deu"):
        changes = {"transfer.test": "deu"}
        cl.train("monotrans", tmp_path / "run", settings={**asked, **names, **changes})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("own", [False, 0, ["special"]])
def test_parts_of_its_own_are_names(texts, own):
    with pytest.raises(InputError, match="own: expected some of special, segment"):
        monotrans({**texts["monotrans"], "own": own})


def test_a_target_in_a_named_script_is_tested(texts):
    told = last_steps({**asked_of(texts), "target": "zho_Hans:n.txt,eng-x:e.txt"})
    assert list(told.test) == ["eng", "zho_Hans"]


def test_a_refused_change_is_not_what_a_run_was_asked_for(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    before = (tmp_path / "run" / "config.json").read_text()
    with pytest.raises(OutputError, match="epochs: 2 there, 3 here"):
        changes = {"transfer.epochs": 3}
        cl.train(tmp_path / "run", tmp_path / "run", settings=changes, resume=True, device="cpu")
    assert json.loads((tmp_path / "run" / "config.json").read_text()) == json.loads(before)


def test_other_excluded_sentences_are_another_run(texts, tmp_path, monkeypatch):
    """They are known by what they say, and found from wherever a run is resumed."""
    monkeypatch.chdir(tmp_path)
    Path("out.txt").write_text("A sentence.\n")
    told = {**texts["monotrans"], "exclude": ["out.txt"], "steps": 2}
    first = text_settings(monotrans(told))
    assert asked_anywhere(told)["exclude"] == [str(tmp_path / "out.txt")]
    Path("out.txt").write_text("Another one.\n")
    assert text_settings(monotrans(told)) != first


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"data": None}, "data: expected the folder with the tasks' data, got none"),
        ({"tasks": None}, "tasks: expected tasks to fine-tune on, by commas, got none"),
        ({"tasks": "xnil"}, "task: expected one that can be fine-tuned"),
        ({"transfer.test": "eng,swh"}, "expected a language of the data .*, got swh"),
        ({"transfer.seeds": 0}, "transfer.seeds: expected 1 or more, got 0"),
        ({"transfer.seed": "x"}, "transfer.seed: expected int, got 'x'"),
        ({"transfer.freeze": 7}, "transfer.freeze: expected numbers of layers, at most 2, got 7"),
        ({"transfer.freeze": "0,7"}, "transfer.freeze: expected numbers of layers, at most 2"),
        ({"transfer.freeze": "x"}, r"transfer.freeze\[0\]: expected int, got 'x'"),
        ({"transfer.epochs": 0}, "transfer.epochs: expected a whole number from 1"),
        ({"transfer.device": "cpu"}, "transfer.device: expected none, got 'cpu'; give --device"),
        ({"transfer.keep": True}, "transfer.keep: expected none, got True"),
        ({"transfer.test": "all"}, "transfer.test: expected languages that the model has .*deu"),
        ({"transfer.train": "deu"}, r"transfer.train: .* has \(eng, nld\), got deu"),
        ({"transfer.test": "eng,eng-x"}, "eng-x: expected how this language is derived"),
        ({"transfer.sedes": 2}, "transfer.sedes: expected a setting of Transfer"),
        ({"tasks": "xquad"}, "encoder.max_positions: expected encoders that read 128 subwords"),
        ({"transfer.preset": "best"}, "transfer.preset: expected one of default, wu_dredze"),
    ],
)
@pytest.mark.parametrize("recipe", ["monotrans", "clwe"])
def test_what_cannot_be_fine_tuned_is_refused_before_the_first_step(
    recipe, changes, told, texts, tmp_path
):
    asked = asked_of(texts, recipe, **changes)
    asked = {name: value for name, value in asked.items() if value is not None}
    with pytest.raises(InputError, match=told):
        cl.train(recipe, tmp_path / "run", settings=asked, device="cpu")
    assert not (tmp_path / "run").exists()


def test_a_run_that_stopped_in_step_3_goes_on_there(finished, texts, tmp_path, monkeypatch):
    real, done = finetune.fine_tune, []

    def stopped(*given, **named):
        if done:
            raise TrainingError("stopped here")
        done.append(1)
        return real(*given, **named)

    monkeypatch.setattr(finetune, "fine_tune", stopped)
    with pytest.raises(TrainingError, match="stopped here"):
        cl.train("monotrans", tmp_path / "run", settings=asked_of(texts), device="cpu")
    before = (tmp_path / "run" / "scores.jsonl").stat().st_mtime_ns
    assert not (tmp_path / "run" / "transfer" / "scores.jsonl").exists()
    monkeypatch.setattr(finetune, "fine_tune", real)
    cl.train(tmp_path / "run", tmp_path / "run", resume=True, device="cpu")  # it knows its tasks
    assert (tmp_path / "run" / "scores.jsonl").stat().st_mtime_ns == before
    ours, whole = (
        (folder / "transfer" / "scores.jsonl").read_bytes()
        for folder in (tmp_path / "run", finished)
    )
    assert ours == whole


def test_a_finished_run_is_fine_tuned_afterwards(texts, tmp_path, capsys):
    cl.train("monotrans", tmp_path / "run", settings=texts["monotrans"], device="cpu")
    model = (tmp_path / "run" / "model" / "model.safetensors").read_bytes()
    line = [f"{name}={value}" for name, value in {**TOLD, "data": texts["data"]}.items()]
    line = [one.replace("False", "false") for one in line]
    out = str(tmp_path / "run")
    assert typed(f"train {out}", *line, "--resume", "--device", "cpu", "--out", out) == 0
    told = capsys.readouterr().out
    assert f"Steps 3 and 4, in {out}/transfer" in told and "eng → nld" in told
    assert f"Report: {out}/transfer/report.html" in told
    assert (tmp_path / "run" / "model" / "model.safetensors").read_bytes() == model
    other = [one.replace("tasks=xnli", "tasks=paws_x") for one in line]
    assert typed(f"train {out}", *other, "--resume", "--device", "cpu", "--out", out) == 2
    assert f"tasks: expected those of {out}/transfer: xnli, got paws_x" in capsys.readouterr().err
    shutil.rmtree(
        tmp_path / "run" / "transfer"
    )  # as if it had been stopped: the run knows its tasks
    assert typed(f"train {out} --resume --json --device cpu", "--out", out) == 0
    scores = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"perplexity", "accuracy"} <= {score["quantity"] for score in scores}
    assert (tmp_path / "run" / "transfer" / "scores.jsonl").exists()


def test_a_run_without_tasks_says_how_to_go_on(texts, tmp_path, capsys):
    asked = [f"{name}={value}" for name, value in texts["monotrans"].items()]
    out = str(tmp_path / "run")
    assert typed("train monotrans", *asked, "--device", "cpu", "--out", out) == 0
    said = capsys.readouterr().out
    assert f"crosslens train {out} tasks=TASK data=DATA --resume --out {out}" in said


def test_the_page_has_what_came_of_the_last_steps(finished):
    page = write_report(finished).read_text()
    assert (
        "Steps 3 and 4" in page and "Fine-tuned on English, and tested in English and Dutch" in page
    )
    score = cl.Run(finished / "transfer").scores.where(
        part="test", condition=None, target="nld", quantity="accuracy"
    )[0]
    assert f"{score.value:.3f}".lstrip("0") in page.partition("Steps 3 and 4</h2>")[2]


@pytest.mark.slow  # all steps of CLWE; those of MonoTrans go through the same function
def test_clwe_is_fine_tuned_under_embeddings_that_stand_still(texts, tmp_path, monkeypatch):
    asked, real, seen = asked_of(texts, "clwe", **{"transfer.seeds": 1}), finetune.fine_tune, []

    def watched(*given, **named):
        tuned = real(*given, **named)
        state = tuned.model.encoder.model.encoder.state_dict()
        seen.append({name: value.clone() for name, value in state.items()})
        return tuned

    monkeypatch.setattr(finetune, "fine_tune", watched)
    cl.train("clwe", tmp_path / "run", settings=asked, device="cpu")
    scores = cl.Run(tmp_path / "run" / "transfer").scores
    assert {s.target for s in scores.where(part="test", condition=None)} == {"eng", "nld"}
    kept = load_file(tmp_path / "run" / "model" / "model.safetensors")
    assert len(seen) > 1  # a fine-tuning, and its control
    token = {name: value for name, value in seen[0].items() if name.startswith("token.")}
    still = {name for name, value in token.items() if torch.equal(value, kept[f"encoder.{name}"])}
    assert still == {*token} and any("own_eng" in name for name in token)
    moved = [
        name for name, value in seen[0].items() if not torch.equal(value, kept[f"encoder.{name}"])
    ]
    assert moved  # the body
    page = write_report(tmp_path / "run").read_text()
    assert "Fine-tuned" in page


def test_a_dry_run_takes_the_settings_of_the_last_steps(texts, capsys):
    asked = [f"{name}={value}" for name, value in asked_of(texts).items()]
    asked = [one.replace("False", "false") for one in asked]
    assert typed("train monotrans --dry-run", *asked) == 0
    said = capsys.readouterr().out
    assert "step-2/nld" in said and "tasks = 'xnli'" in said and f"transfer.noise = {NOISE}" in said
    asked.append("transfer.test=eng,swh")
    assert typed("train monotrans --dry-run", *asked) == 2
    assert "got swh" in capsys.readouterr().err


@pytest.mark.slow  # processes that import torch
def test_two_processes_take_all_four_steps(texts, finished, tmp_path):
    asked = {**asked_of(texts), "transfer.checkpoints": "false"}
    words = ["train", "monotrans", *(f"{name}={value}" for name, value in asked.items())]
    done = command([*words, "--device", "cpu", "--out", tmp_path / "run"], processes=2)
    assert "Steps 3 and 4, in" in done.stdout and done.stdout.count("eng → nld") == 1
    ours, theirs = (
        {(s.source, s.target, s.condition): s.n for s in cl.Run(folder / "transfer").scores}
        for folder in (tmp_path / "run", finished)
    )
    assert ours == theirs and ("eng", "nld", None) in ours
