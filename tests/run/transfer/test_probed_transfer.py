"""What came over from the language that an encoder was trained on: its second language probed, and
the control, which learns the same language again under another name."""

import numpy as np
import pytest
from monotrans_toy import SMALL
from toy_texts import two_languages, write_lines
from typed import typed

from crosslens.models.saved.native import load_model
from crosslens.models.scoring.cloze import load_scorer
from crosslens.outcomes import read_outcomes
from crosslens.probes.methods.minimal_pairs import score_words
from crosslens.readers.minimal_pairs import read_minimal_pairs
from crosslens.recipes.monotrans import monotrans
from crosslens.run.trainings.monotrans import run_monotrans
from crosslens.score import read_scores

PLAIN = ["--no-random-control", "--quiet"]
ENGLISH, _ = two_languages(120)
PAIRS = [
    ("simple_agrmt", "the cat runs", "the cat sits"),
    ("simple_agrmt", "a dog eats", "a dog finds"),
    ("simple_agrmt", "the sun eats", "the sun sees"),
    ("simple_agrmt", "the dog catrunsdog", "the dog sees"),  # more than a subword
    ("simple_reflexives", "the mat sees by", "the mat sees in"),
    ("simple_reflexives", "the mat sees dogsun", "the mat sees suncatmat"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The control's run, and a folder of data. Not to be written to."""
    folder = tmp_path_factory.mktemp("control")
    write_lines(folder / "eng.txt", ENGLISH)
    (folder / "data" / "marvin_linzen").mkdir(parents=True)
    head = "template\tcase\tgrammatical\tungrammatical\textra"
    lines = [head, *(f"{kind}\tsing\t{good}\t{bad}\t" for kind, good, bad in PAIRS)]
    write_lines(folder / "data" / "marvin_linzen" / "pairs.tsv", lines)
    texts = {"source": f"eng:{folder}/eng.txt", "target": f"eng-x:{folder}/eng.txt"}
    small = {**SMALL, "steps": 2, "vocabulary.size": 110}
    run_monotrans(monotrans({**small, **texts}, folder / "run"), folder / "run", device="cpu")
    return folder


def test_the_control_has_one_text_in_two_languages_and_two_embeddings(place):
    model, vocabularies = load_model(place / "run" / "model")
    assert model.languages == ("eng", "eng-x")
    one, other = (vocabularies.tokenizers[name].to_str() for name in model.languages)
    assert one == other  # of the same text and seed
    mine, new = (model.encoder.token.of(name).weight for name in model.languages)
    assert mine.shape == new.shape and not (mine == new).any()


def test_a_language_of_the_model_is_probed_by_name_and_pairs_of_more_subwords_are_counted(
    place, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "200")  # rows, not blocks
    found, model = {}, place / "run" / "model"
    for language in ("eng", "eng-x"):
        out = tmp_path / language
        line = f"probe --tasks minimal_pairs --encoder {model} --language {language}"
        assert typed(line, "--data", str(place / "data"), "--out", str(out), *PLAIN) == 0
        said = capsys.readouterr().out
        (row,) = (one for one in said.splitlines() if "simple agreement" in one)
        assert row.split()[2:5] == ["4", "3", "75.0"]
        (mine,) = read_outcomes(out, task="minimal_pairs", condition=None)
        pairs, scorer = (
            read_minimal_pairs(place / "data" / "marvin_linzen" / "pairs.tsv"),
            load_scorer(str(model), language=language),
        )
        scores = score_words(pairs, scorer.tokenise, scorer.score_candidates)
        assert scores.covered.tolist() == [True, True, True, False, True, False]
        assert scores.reasons[3] == scores.reasons[5] == "not one subword each"
        expected = np.where(scores.covered, scores.good > scores.bad, np.nan)
        assert np.array_equal(mine.outcome, expected, equal_nan=True)
        found[language] = scores.good
        whole = read_scores(out / "scores.jsonl")
        (reflexive,) = (
            s for s in whole if s.evidence.category == "simple reflexive" and not s.condition
        )
        assert reflexive.n == 1 and reflexive.evidence.covered == 1
    assert not np.isclose(found["eng"], found["eng-x"])[:3].any()
