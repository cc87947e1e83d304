"""Whatever stands in a file: every reader gives what is in it, or one of our errors, in time and in
little memory.

``CROSSLENS_FUZZ=80000 pytest -m slow tests/readers/test_fuzz_readers.py`` runs as many cases;
``CROSSLENS_FUZZ_SEED`` draws others.
"""

import importlib
import os
import pkgutil
from pathlib import Path

import pytest
from reader_fuzz import MODELS, run_cases
from reader_seeds import READERS

import crosslens

CASES = int(os.environ.get("CROSSLENS_FUZZ", "8000"))
SEED = os.environ.get("CROSSLENS_FUZZ_SEED", "0")
SHARES = sum(reader.share for reader in READERS.values())

# Public names that read and are not fuzzed here, and why.
ELSEWHERE = {
    "load_encoder": "model folders are attacked in tests/models/saved/test_loading.py",
    "load_fine_tuned": "as load_encoder; its head in tests/models/finetuning/test_trained_parser.py",
    "load_language_model": "as load_encoder",
    "load_scorer": "as load_encoder",
    "load_whole_encoder": "as load_encoder, through the same view of a folder",
    "load_tensors": "takes arrays, no file",
    "read_dataset": "the data set is read by the package datasets",
    "read_files": "calls read_conllu",
    "read_layer": "reads an open store",
    "read_log": "called by load_training and load_emergence",
    "read_numbers": "takes labels that read_labelled_text has read",
    "read_source": "calls read_text and read_tsv",
    "read_tasks": "calls the readers of each task's files",
    "read_treebank": "calls read_conllu",
    "read_weights": "called by load_model and import_model",
}


def flags(name: str, cases: int, folder: Path) -> list[str]:
    for place in ("whole/in", "seed/in", "case"):
        (folder / place).mkdir(parents=True)
    READERS[name].make(folder / "whole" / "in")
    READERS[name].read(folder / "whole" / "in")  # what is not spoilt is read
    READERS[name].make(folder / "seed" / "in")
    return list(
        run_cases(name, READERS[name], folder / "seed" / "in", folder / "case" / "in", cases, SEED)
    )


def test_every_public_reader_is_fuzzed_or_said_to_be_elsewhere():
    found = set()
    for module in pkgutil.walk_packages(crosslens.__path__, "crosslens."):
        if ".recipes." not in module.name:
            for name in getattr(importlib.import_module(module.name), "__all__", ()):
                if name.startswith(("read_", "load_", "open_", "import_")):
                    found.add(name)
    fuzzed = {name for reader in READERS.values() for name in reader.names}
    assert found == fuzzed | ELSEWHERE.keys() | MODELS
    assert not fuzzed & ELSEWHERE.keys()


@pytest.mark.parametrize("name", ["text", "json", "vectors", "conllu", "links"])
def test_some_hostile_files(name, tmp_path):
    assert flags(name, 12, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_hostile_files(name, tmp_path):
    assert flags(name, max(1, round(CASES * READERS[name].share / SHARES)), tmp_path) == []
