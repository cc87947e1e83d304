"""The study on a real pretrained encoder and the Tatoeba test sets, against numbers made by plain
transformers and numpy."""

import pytest
from typed import typed

from crosslens.score import read_scores

# Mean over non-special tokens, layers 0-12: cosine nearest neighbour xx -> en in per cent, and
# centred linear CKA.
REFERENCE = {
    "fra": (
        "21.3 38.1 45.9 58.5 69.6 79.0 81.7 83.5 81.1 80.8 86.3 91.7 92.5",
        ".416 .464 .520 .585 .655 .716 .763 .798 .797 .804 .807 .791 .815",
    ),
    "rus": (
        "32.8 41.5 50.1 60.3 72.1 82.3 84.7 85.9 84.5 83.7 86.2 90.9 91.8",
        ".493 .509 .546 .593 .659 .709 .743 .789 .794 .799 .809 .808 .836",
    ),
    "cmn": (
        "34.4 46.2 49.0 53.5 65.1 75.1 80.7 84.5 82.1 82.9 86.9 90.2 92.0",
        ".413 .441 .457 .506 .568 .623 .663 .690 .695 .710 .739 .721 .749",
    ),
    "hin": (
        "32.9 44.7 46.5 57.8 73.3 84.6 86.1 86.2 84.9 86.4 91.2 93.8 96.0",
        ".524 .555 .589 .634 .684 .737 .769 .803 .803 .814 .817 .805 .829",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("language", REFERENCE)
def test_tatoeba_retrieval_and_cka_are_the_reference(language, shared_data, real_encoder, tmp_path):
    stem = shared_data / "tatoeba" / f"tatoeba.{language}-eng"
    texts = [f"--text={language}={stem}.{language}", f"--text=eng={stem}.eng"]
    assert (
        typed(
            "study",
            "--encoder",
            str(real_encoder),
            *texts,
            "--out",
            str(tmp_path / "run"),
            "--quiet",
        )
        == 0
    )
    scores = list(read_scores(tmp_path / "run" / "scores.jsonl"))
    precision = {
        s.layer: s.value
        for s in scores
        if (s.quantity, s.condition, s.source) == ("precision_at_1", "unaligned", language)
        and s.details["part"] == "all"
        and s.n == 1000
    }
    cka = {
        s.layer: s.value
        for s in scores
        if (s.quantity, s.condition) == ("linear_cka", None) and s.layer == s.other_layer
    }
    expected_precision, expected_cka = (
        [float(x) for x in row.split()] for row in REFERENCE[language]
    )
    assert [100 * precision[layer] for layer in range(13)] == pytest.approx(
        expected_precision, abs=0.3
    )
    assert [cka[layer] for layer in range(13)] == pytest.approx(expected_cka, abs=0.002)
