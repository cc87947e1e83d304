"""Two made-up languages and the recipe of a run on them; nothing here waits for transformers to be
imported."""

import dataclasses
import json
from pathlib import Path

import numpy as np

from crosslens.models.network.shape import EncoderConfig
from crosslens.models.text.tokenisation import Vocabulary
from crosslens.models.text.vocabularies import Vocabularies
from crosslens.models.training import masked_lm as train
from crosslens.models.training.data import TrainingData
from crosslens.models.training.settings import Optimisation, Source, TrainRecipe, resolve
from crosslens.models.training.sources import read_source

_WORDS = "cat dog mat sun sea red big old new sees eats runs sits finds the a on in by and".split()
_OTHER = (
    "ket hond mate zon zee roed grot oud nij zieht eet loopt zit vindt de een op binnen bij en"
).split()


def two_languages(n: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """n sentences of a made-up language and their translations word by word; no sentence stands
    there twice."""
    rng = np.random.default_rng(seed)
    chosen: dict[tuple[int, ...], None] = {}
    while len(chosen) < n:
        chosen.setdefault(tuple(rng.integers(len(_WORDS), size=rng.integers(4, 8)).tolist()))
    return tuple(
        [" ".join(words[i] for i in sentence) for sentence in chosen] for words in (_WORDS, _OTHER)
    )


def write_lines(path: Path, lines: list[str]) -> str:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return str(path)


def toy_recipe(folder: Path, n: int = 160, **changes) -> TrainRecipe:
    """A 30-step recipe over a toy bilingual text that is written into ``folder``."""
    one, other = two_languages(n)
    texts = {
        "eng": write_lines(folder / "toy.eng", one),
        "nld": write_lines(folder / "toy.nld", other),
    }
    values = {
        "name": "toy",
        "sources": (Source(name="toy", texts=texts),),
        "steps": 30,
        "batch_tokens": 256,
        "max_length": 30,
        "validation": 20,
        "log_every": 5,
        "validate_every": 15,
        "save_every": 10,
        "vocabulary": Vocabulary(size=110, kind="bpe", sentences=300),
        "encoder": EncoderConfig(
            vocab_size=110, hidden_size=32, layers=2, heads=2, ffn_size=64, max_positions=32
        ),
        "optimisation": Optimisation(peak_rate=5e-3),
    }
    return TrainRecipe(**{**values, **changes})


def deep(recipe: TrainRecipe, **changes) -> TrainRecipe:
    """The recipe with eight narrow layers, enough for every named system, and no sentence pairs."""
    shape = dataclasses.replace(recipe.encoder, hidden_size=16, heads=2, ffn_size=16, layers=8)
    return dataclasses.replace(recipe, **{"encoder": shape, "tlm_share": 0.0, **changes})


def prepared(recipe: TrainRecipe, folder: Path) -> tuple[TrainRecipe, TrainingData, Vocabularies]:
    """What a run makes before its first step: the resolved recipe, its data and its vocabularies
    (files in ``folder``)."""
    recipe = resolve(recipe)
    corpora = {source.name: read_source(source) for source in recipe.sources}
    folder.mkdir(parents=True, exist_ok=True)
    vocabularies, data = train.prepare(recipe, corpora, folder)
    return recipe, data, vocabularies


def log(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def without_times(lines: list[dict]) -> list[dict]:
    """Log lines without what no two runs have in common."""
    return [
        {
            name: value
            for name, value in line.items()
            if name not in ("tokens_per_second", "seconds")
        }
        for line in lines
    ]


def weights(folder: Path) -> bytes:
    return (folder / "model" / "model.safetensors").read_bytes()
