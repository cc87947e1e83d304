"""What the package carries: the texts are clean, the encoder is whole, and the quickstart tells a
true story twice."""

import collections
import itertools
import json
import os
import re
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from typed import typed

from crosslens.recipes.quickstart import DATA, LANGUAGES
from crosslens.score import read_scores


def read(folder):
    return {
        language: (DATA / folder / f"{language}.txt").read_text(encoding="utf-8").splitlines()
        for language in LANGUAGES
    }


@pytest.fixture(scope="module", params=["corpus", "everyday"])
def lines(request):
    """What the quickstart asks about, and what its encoder was trained on."""
    return read(request.param)


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory):
    """The folder of a quickstart: that which the whole check has made, or else one run for this
    module."""
    if made := os.environ.get("CROSSLENS_QUICKSTART"):
        return Path(made)
    out = tmp_path_factory.mktemp("quickstart") / "first"
    assert typed("quickstart", "--out", str(out), "--quiet") == 0
    return out


def test_both_texts_have_their_size():
    assert {len(column) for column in read("corpus").values()} == {600}
    assert {len(column) for column in read("everyday").values()} == {7481}


def test_lines_are_aligned_distinct_and_tidy(lines):
    assert len({len(column) for column in lines.values()}) == 1
    for column in lines.values():
        assert len(set(column)) == len(column)
        assert all(
            line == unicodedata.normalize("NFC", line).strip()
            and "  " not in line
            and "\t" not in line
            for line in column
        )


@pytest.mark.slow
def test_no_sentence_of_the_encoders_text_is_much_like_one_of_the_quickstarts():
    def pieces(line, k):
        letters = "".join(c for c in line.lower() if c.isalnum())
        return {letters[i : i + k] for i in range(max(1, len(letters) - k + 1))}

    corpus, everyday = read("corpus"), read("everyday")
    for language in LANGUAGES:
        k, where = (2 if language == "cmn" else 3), collections.defaultdict(list)
        asked = [pieces(line, k) for line in corpus[language]]
        for i, some in enumerate(asked):
            for piece in some:
                where[piece].append(i)
        for line in everyday[language]:
            mine = pieces(line, k)
            for i, both in collections.Counter(i for piece in mine for i in where[piece]).items():
                assert both < 0.5 * len(mine | asked[i]), (line, corpus[language][i])


def test_each_language_is_in_its_own_script(lines):
    def share(column, name):
        letters = [c for line in column for c in line if c.isalpha()]
        return np.mean([unicodedata.name(c).startswith(name) for c in letters])

    for language, script in {
        "eng": "LATIN",
        "fra": "LATIN",
        "deu": "LATIN",
        "spa": "LATIN",
        "rus": "CYRILLIC",
        "cmn": "CJK",
    }.items():
        assert share(lines[language], script) == 1.0


def test_numbers_in_digits_are_the_same_in_every_language(lines):
    def digits(line):
        # thousands are set apart as each language does
        return set(re.findall(r"\d+", re.sub(r"(?<=\d)[ ,.](?=\d{3}\b)", "", line)))

    for eng, *others, cmn in zip(*lines.values(), strict=True):
        assert all(digits(line) == digits(eng) for line in others), (eng, *others)
        assert digits(cmn) >= digits(eng), (eng, cmn)  # Chinese writes months in digits, too


def test_the_encoder_is_small_half_precision_and_described():
    folder = DATA / "tiny-encoder"
    assert (folder / "model.safetensors").stat().st_size < 8e6
    with safe_open(folder / "model.safetensors", "np") as weights:
        assert {str(weights.get_tensor(name).dtype) for name in weights.keys()} == {"float16"}  # noqa: SIM118 (it is no dictionary)
    card = (folder / "README.md").read_text(encoding="utf-8")
    for needed in (
        "crosslens train tiny-encoder",
        "Tatoeba",
        "CC BY 2.0",
        "LibreOffice",
        "MPL-2.0",
        "public domain",
        "Seed",
        "loss.svg",
    ):
        assert needed in card
    assert (folder / "loss.svg").read_text(encoding="utf-8").startswith("<")


@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(LANGUAGES, 2)))
def test_retrieval_is_clearly_above_the_random_encoder_in_every_direction(
    quickstart, source, target
):
    scores = [
        s
        for s in read_scores(quickstart / "scores.jsonl")
        if (s.task, s.source, s.target) == ("sentence_retrieval", source, target)
        and s.details["part"] == "held_out"
    ]
    best = max((s for s in scores if s.condition == "procrustes"), key=lambda s: s.value)
    assert best.n == 300
    assert best.low > max(s.high for s in scores if s.condition == "random_encoder_procrustes")


def test_retrieval_is_clearly_above_the_random_encoder_over_all_directions(quickstart):
    scores = [
        s for s in read_scores(quickstart / "scores.jsonl") if s.task == "mean_sentence_retrieval"
    ]
    for condition in ("unaligned", "procrustes"):
        best = max((s for s in scores if s.condition == condition), key=lambda s: s.value)
        assert best.details["above_control"]["low"] > 0.1


def test_identification_is_clearly_above_the_random_encoder_at_every_layer(quickstart):
    scores = [s for s in read_scores(quickstart / "scores.jsonl") if s.task == "language_id"]
    control = {s.layer: s.high for s in scores if s.condition == "random_encoder"}
    found = {s.layer: s.low for s in scores if s.condition is None}
    assert set(found) == set(control) and all(found[layer] > control[layer] for layer in found)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_scores(quickstart, tmp_path, capsys):
    assert typed("quickstart", "--out", str(tmp_path / "second"), "--quiet") == 0
    assert (tmp_path / "second" / "scores.jsonl").read_bytes() == (
        quickstart / "scores.jsonl"
    ).read_bytes()
    printed = capsys.readouterr().out
    assert (
        f"Report: {tmp_path / 'second' / 'report.html'}" in printed and "eng → / ← fra" in printed
    )
    settings = json.loads((quickstart / "config.json").read_text())["settings"]
    assert settings["languages"] == list(LANGUAGES) and settings["seed"] == 0
