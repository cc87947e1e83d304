"""What the package carries: the corpus is clean, the encoder is whole, and the quickstart tells a true story twice."""

import json
import re
import unicodedata

import numpy as np
import pytest
from safetensors import safe_open

from crosslens.cli.main import main
from crosslens.recipes.quickstart import DATA, LANGUAGES
from crosslens.score import read_scores


@pytest.fixture(scope="module")
def lines():
    return {language: (DATA / "corpus" / f"{language}.txt").read_text(encoding="utf-8").splitlines() for language in LANGUAGES}


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory):
    """The folder of a quickstart, run once for this module."""
    out = tmp_path_factory.mktemp("quickstart") / "first"
    assert main(["quickstart", "--out", str(out), "--quiet"]) == 0
    return out


def test_the_corpus_is_aligned_distinct_and_tidy(lines):
    assert {len(column) for column in lines.values()} == {600}
    for column in lines.values():
        assert len(set(column)) == 600
        assert all(line == unicodedata.normalize("NFC", line).strip() and "  " not in line and "\t" not in line for line in column)


def test_each_language_is_in_its_own_script(lines):
    def share(column, name):
        letters = [c for line in column for c in line if c.isalpha()]
        return np.mean([unicodedata.name(c).startswith(name) for c in letters])

    for language, script in {"eng": "LATIN", "fra": "LATIN", "deu": "LATIN", "spa": "LATIN", "rus": "CYRILLIC", "cmn": "CJK"}.items():
        assert share(lines[language], script) == 1.0


def test_numbers_in_digits_are_the_same_in_every_language(lines):
    def digits(line):
        return set(re.findall(r"\d+", re.sub(r"(?<=\d)[ ,.](?=\d{3}\b)", "", line)))  # thousands are set apart as each language does

    for eng, *others, cmn in zip(*lines.values(), strict=True):
        assert all(digits(line) == digits(eng) for line in others), (eng, *others)
        assert digits(cmn) >= digits(eng), (eng, cmn)  # Chinese writes months in digits, too


def test_the_encoder_is_small_half_precision_and_described():
    folder = DATA / "tiny-encoder"
    assert (folder / "model.safetensors").stat().st_size < 8e6
    with safe_open(folder / "model.safetensors", "np") as weights:
        assert {str(weights.get_tensor(name).dtype) for name in weights.keys()} == {"float16"}  # noqa: SIM118 (it is no dictionary)
    card = (folder / "README.md").read_text(encoding="utf-8")
    for needed in ("crosslens train tiny-encoder", "Tatoeba", "CC BY 2.0", "LibreOffice", "MPL-2.0", "public domain", "Seed", "loss.svg"):
        assert needed in card
    assert (folder / "loss.svg").read_text(encoding="utf-8").startswith("<")


@pytest.mark.parametrize(("source", "target"), [("eng", "fra"), ("fra", "eng")])
def test_retrieval_is_clearly_above_the_random_encoder(quickstart, source, target):
    scores = [
        s
        for s in read_scores(quickstart / "scores.jsonl")
        if (s.task, s.source, s.target) == ("sentence_retrieval", source, target) and s.details["part"] == "held_out"
    ]
    for condition, control in (("unaligned", "random_encoder"), ("procrustes", "random_encoder_procrustes")):
        best = max((s for s in scores if s.condition == condition), key=lambda s: s.value)
        assert best.n == 300
        assert best.low > max(s.high for s in scores if s.condition == control)


def test_identification_is_clearly_above_the_random_encoder_at_every_layer(quickstart):
    scores = [s for s in read_scores(quickstart / "scores.jsonl") if s.task == "language_id"]
    control = {s.layer: s.high for s in scores if s.condition == "random_encoder"}
    found = {s.layer: s.low for s in scores if s.condition is None}
    assert set(found) == set(control) and all(found[layer] > control[layer] for layer in found)


def test_the_same_seed_gives_the_same_scores(quickstart, tmp_path, capsys):
    assert main(["quickstart", "--out", str(tmp_path / "second"), "--quiet"]) == 0
    assert (tmp_path / "second" / "scores.jsonl").read_bytes() == (quickstart / "scores.jsonl").read_bytes()
    printed = capsys.readouterr().out
    assert f"Report: {tmp_path / 'second' / 'report.html'}" in printed and "eng → / ← fra" in printed
    settings = json.loads((quickstart / "config.json").read_text())["settings"]
    assert settings["languages"] == list(LANGUAGES) and settings["seed"] == 0
