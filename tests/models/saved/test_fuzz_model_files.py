"""Hostile recipes, token files, vocabularies, checkpoints and model folders: as in tests/readers,
for what needs torch."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from reader_fuzz import MODELS, run_cases
from reader_seeds import RECIPE, Reader

from crosslens.errors import InputError
from crosslens.files import write_json
from crosslens.models.network.encoder import EncoderConfig, MaskedLM
from crosslens.models.saved.interop import export_model, import_model
from crosslens.models.saved.loading import load_encoder
from crosslens.models.saved.native import load_model, load_unfinished, save_model
from crosslens.models.text.token_files import encode_text, open_tokens
from crosslens.models.text.tokenisation import Vocabulary, load_tokenizer
from crosslens.models.text.vocabularies import (
    learn_vocabularies,
    load_vocabularies,
    save_vocabularies,
)
from crosslens.models.training.checkpoint import (
    load_best,
    load_checkpoint,
    save_best,
    save_checkpoint,
)
from crosslens.models.training.events import cut_log
from crosslens.models.training.optimisers import build_optimiser
from crosslens.models.training.settings import Optimisation
from crosslens.recipes import load_recipe

CASES = int(os.environ.get("CROSSLENS_FUZZ", "8000"))
SEED = os.environ.get("CROSSLENS_FUZZ_SEED", "0")
TEXT = [
    f"the {word} sees a {other} and eats it"
    for word in ("dog", "cat", "bird", "sun")
    for other in ("red fish", "big house", "sea")
]
_MADE: dict[str, Any] = {}


def _vocabularies() -> Any:
    if "learnt" not in _MADE:
        _MADE["learnt"] = learn_vocabularies(
            {"eng": TEXT, "fra": TEXT[::-1]}, Vocabulary(size=60, kind="bpe"), 0
        )
    return _MADE["learnt"]


def _model() -> MaskedLM:
    size = max(_vocabularies().sizes.values())
    return MaskedLM(
        EncoderConfig(
            vocab_size=size, hidden_size=8, layers=2, heads=2, ffn_size=8, max_positions=16
        ),
        3,
        languages=("eng", "fra"),
    )


def _checkpoint(folder: Path) -> None:
    model = _model()
    save_checkpoint(
        folder, 1, model, build_optimiser(model, Optimisation()), {"seed": 0}, {"tokens": 6}
    )
    save_best(folder, 1, model, {"seed": 0}, 1.0)


def _load_checkpoint(folder: Path) -> None:
    model = _model()
    load_checkpoint(
        folder / "step-00000001", model, build_optimiser(model, Optimisation()), {"seed": 0}
    )
    load_best(folder, model, 1)


def _run(folder: Path) -> None:
    """A run's folder as far as a checkpoint of it is read."""
    settings = {"encoder": dataclasses.asdict(_model().config), "sharing": "sep=none"}
    write_json(folder / "config.json", {"kind": "train", "settings": settings})
    save_vocabularies(_vocabularies(), folder / "tokenizer", 16)
    _checkpoint(folder / "checkpoints")


def _read_run(folder: Path) -> None:
    load_unfinished(folder / "checkpoints" / "step-00000001")
    _encode(folder / "checkpoints" / "step-00000001")


def _encode(folder: Path) -> None:
    """What reads threads of the tokeniser is left out: the cases are forked."""
    encoder = load_encoder(folder).for_text("eng")
    encoder.states(torch.tensor([[2, 5, 3]]), None)


def _read_model(folder: Path) -> None:
    load_model(folder)
    _encode(folder)


def _tokens(folder: Path) -> None:
    made = _vocabularies()
    encode_text(
        made.tokenizers["eng"], made.tables["eng"], made.sizes["eng"], TEXT, folder / "t", {"a": 1}
    )


def _log(folder: Path) -> None:
    (folder / "log.jsonl").write_text(
        "".join(json.dumps({"step": i, "loss": 1.0}) + "\n" for i in range(4))
    )


READERS = {
    "recipe": Reader(
        ("load_recipe",),
        lambda f: (f / "r.toml").write_text(RECIPE),
        lambda f: load_recipe(str(f / "r.toml")),
    ),
    "tokens": Reader(
        ("open_tokens",), _tokens, lambda f: [one.sum() for one in open_tokens(f / "t")]
    ),
    "log": Reader((), _log, lambda f: cut_log(f / "log.jsonl", 2)),
    "vocabularies": Reader(
        ("load_vocabularies",),
        lambda f: save_vocabularies(_vocabularies(), f, 16),
        load_vocabularies,
    ),
    "tokenizer": Reader(
        ("load_tokenizer",), lambda f: save_vocabularies(_vocabularies(), f, 16), load_tokenizer
    ),
    "checkpoint": Reader(("load_checkpoint", "load_best"), _checkpoint, _load_checkpoint),
    "model": Reader(
        ("load_model",), lambda f: save_model(_model(), _vocabularies(), f), _read_model
    ),
    "unfinished model": Reader(("load_unfinished",), _run, _read_run),
    "transformers' model": Reader(
        ("import_model",),
        lambda f: export_model(_model(), _vocabularies().tokenizers["eng"], f, language="eng"),
        import_model,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_hostile_files(name, tmp_path):
    torch.set_num_threads(1)
    reader = READERS[name]
    for place in ("whole/in", "seed/in", "case"):
        (tmp_path / place).mkdir(parents=True)
    reader.make(tmp_path / "whole" / "in")
    reader.read(tmp_path / "whole" / "in")
    reader.make(tmp_path / "seed" / "in")
    cases = max(1, CASES // 40)
    assert (
        list(
            run_cases(name, reader, tmp_path / "seed" / "in", tmp_path / "case" / "in", cases, SEED)
        )
        == []
    )


def test_they_are_those_that_the_ground_leaves_to_this_file():
    assert {name for reader in READERS.values() for name in reader.names} == MODELS


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 100_000, "\0", '"\\ud800"'])
def test_a_recipe_with_a_hostile_value_is_refused_by_its_name(value, tmp_path):
    (tmp_path / "r.toml").write_text(f"steps = {value}\n")
    with pytest.raises(InputError, match=r"r\.toml: expected"):
        load_recipe(str(tmp_path / "r.toml"))
