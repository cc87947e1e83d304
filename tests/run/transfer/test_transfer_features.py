"""Runs of transfer on a frozen encoder: one encoding, the papers' schedule, and what is refused."""

import json

import pytest
import test_transfer
from test_transfer import ENCODER, found, settings

from crosslens.cli.main import main
from crosslens.errors import InputError
from crosslens.models.saved.pretrained import PretrainedEncoder
from crosslens.run.transfer.presets import find_preset, with_features
from crosslens.run.transfer.transfer import run_transfer

data = test_transfer.data


@pytest.fixture
def told(data):
    return {
        "encoder": [ENCODER], "data": data, "train": "eng", "test": "eng,deu", "tasks": "xnli",
        "features": "mix+bilstm", "epochs": 6, "batch_size": 8, "peak_rate": 3e-3,
        "random_control": False, "checkpoints": False, "seeds": 3,
    }  # fmt: skip


def test_three_seeds_need_one_encoding(data, tmp_path, monkeypatch):
    given, plain = [], PretrainedEncoder.states

    def counting(self, ids, *rest, **more):
        given.append(len(ids))
        return plain(self, ids, *rest, **more)

    monkeypatch.setattr(PretrainedEncoder, "states", counting)
    changes = {"epochs": 6, "peak_rate": 3e-3, "seeds": 3, "random_control": False}
    told = settings(data, features="mix+bilstm", **changes)
    folder = run_transfer(told, tmp_path / "run")
    # train, dev and test in English; dev, for the oracle, and test in German
    assert sum(given) == 24 + 8 + 12 + 20 + 10
    (score,) = found(folder, part="test", condition=None, target="deu")
    assert len(score.details["over_seeds"]["values"]) == 3 and score.value > 0.8
    assert not (folder / "states").exists()
    values = json.loads((folder / "config.json").read_text())["settings"]["values"]["xnli"]
    assert (values["features"], values["decay"], values["pool"]) == ("mix+bilstm", "plateau", "max")


def test_python_and_the_command_give_the_same(told, data, tmp_path):
    import crosslens as cl

    changes = {"epochs": 2, "seeds": 1}
    mine = cl.transfer(out=tmp_path / "mine", **{**told, **changes})
    options = {"features": "mix+bilstm", "epochs": "2", "seeds": "1", "peak-rate": "3e-3"}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    where = ["--encoder", ENCODER, "--data", str(data), "--out", str(tmp_path / "theirs")]
    flags = ["--no-random-control", "--no-checkpoints", "--batch-size", "8"]
    what = ["--tasks", "xnli", "--train", "eng", "--test", "eng,deu"]
    main(["transfer", *where, *what, *words, *flags])
    theirs = (tmp_path / "theirs" / "scores.jsonl").read_bytes()
    assert (mine.folder / "scores.jsonl").read_bytes() == theirs


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"keep": True}, "--keep: expected no --keep with --features"),
        ({"freeze": (2,)}, "--freeze: expected none with --features"),
        ({"features": "lstm"}, "features: expected one of"),
    ],
)
def test_what_does_not_go_with_features_is_refused(data, tmp_path, changes, match):
    with pytest.raises(InputError, match=match):
        run_transfer(settings(data, **{"features": "mix+bilstm", **changes}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["default", "wu_dredze", "xtreme"])
def test_the_schedule_is_the_paper_s_whatever_the_preset(name):
    preset = with_features(find_preset(name, "tag"), "mix+bilstm")
    assert preset.values.keys() == preset.sources.keys() and len(preset.grid()) == 1
    told = {"peak_rate": 1e-3, "batch_size": 32, "decay": "plateau", "max_length": 128}
    assert told.items() <= preset.values.items()
    assert preset.values.get("windows") == find_preset(name, "tag").values.get("windows")
