"""CKA of two models, and of one model of two languages: measured as `compare` measures it, averaged
over layers, and held against retrieval."""

import json
import math

import numpy as np
import pytest
from controlled_toy import SMALL, sentences
from scipy.stats import pearsonr, ttest_ind

import crosslens as cl
from crosslens.errors import InputError
from crosslens.front.calls import train, training_recipes
from crosslens.recipes.controlled import controlled_study
from crosslens.report import write_report
from crosslens.report.folders.controlled import load_study
from crosslens.report.folders.controlled_similarity import (
    average_differences,
    curves_by_pair,
    has_two_models,
    layer_correlations,
    over_layers_told,
)
from crosslens.report.folders.controlled_summary import summary
from crosslens.report.sections.controlled_similarity import similarity_section
from crosslens.score import Score, read_scores
from crosslens.seed_means import means
from crosslens.stats import mean_interval

CONDITIONS = ["bilingual-paraphrase", "monolingual-paraphrase", "bilingual-nld", "monolingual-nld"]
pytestmark = pytest.mark.usefixtures("few_kept")


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    lines = sentences(400)
    turned = [" ".join(line.split()[::-1]) for line in lines]
    dutch = [" ".join(f"{word}o" for word in line.split()) for line in lines]
    for name, some in (("data", lines), ("paraphrase", turned), ("nld", dutch)):
        (folder / f"{name}.txt").write_text("".join(line + "\n" for line in some))
    files = {name: str(folder / f"{name}.txt") for name in ("data", "paraphrase")}
    pair = f"nld:{folder / 'nld.txt'}"
    return {**SMALL, "encoder.layers": 3, **files, "pair": pair}


@pytest.fixture(scope="module")
def finished(settings, tmp_path_factory):
    """A finished study of one seed. Not to be written to."""
    out = tmp_path_factory.mktemp("similarity") / "run"
    return train("conneau-cka", out, seeds=1, settings=settings).folder


def test_conditions_are_a_model_for_each_language_and_one_for_both(settings):
    study = controlled_study("conneau-cka", settings)
    assert list(study.conditions) == ["english", *CONDITIONS]
    assert study.readers("english") == {"eng": "english"}
    assert study.readers("bilingual-nld") == dict.fromkeys(("eng", "nld"), "bilingual-nld")
    assert study.readers("monolingual-nld") == {"eng": "english", "nld": "monolingual-nld"}
    english, sep, again, _, dutch = (one.recipe for one in study.conditions.values())
    assert english.languages == ("eng",) and again.languages == ("eng-x",)
    assert english.seed == 0 and {again.seed, dutch.seed} == {1000}  # other weights, another order
    assert [source.texts for source in again.sources] == [{"eng-x": "training"}]
    assert sep.sharing == "sep=emb" and sep.languages == ("eng", "eng-x")
    alone = training_recipes("conneau-cka", {**settings, "paraphrase": None})
    assert list(alone) == ["english", "bilingual-nld", "monolingual-nld"]


def test_cka_of_two_models_is_what_compare_says_of_them(finished):
    scores = list(read_scores(finished / "scores.jsonl"))
    assert {score.encoder for score in scores} == set(CONDITIONS)
    for name, text, language in (
        ("monolingual-paraphrase", "kept-paraphrase", "eng-x"),
        ("monolingual-nld", "kept-pair", "nld"),
    ):
        sides = {}
        for side, code, kept in (
            ("english/seed-0", "eng", "kept"),
            (f"{name}/seed-1000", language, text),
        ):
            corpus = cl.read_text(finished / "text" / f"{kept}.txt", code)
            sides[code] = cl.extract(cl.load_encoder(finished / side / "model"), corpus)
        found = cl.compare(sides)
        for quantity in ("linear_cka", "debiased_linear_cka"):
            wanted = {
                one.layer: one.value
                for one in found
                if (one.quantity, one.condition, one.layer) == (quantity, None, one.other_layer)
            }
            mine = {
                one.layer: one.value
                for one in scores
                if (one.encoder, one.quantity, one.condition, one.seed)
                == (name, quantity, None, 1000)
            }
            assert list(mine) == [0, 1, 2, 3] and mine == pytest.approx(wanted, abs=1e-5)
    random = [
        one.value
        for one in scores
        if (one.encoder, one.quantity, one.condition, one.seed)
        == ("monolingual-nld", "linear_cka", "random_encoder", 1000)
    ]
    assert len(random) == 4 and all(0 <= value <= 1 for value in random)
    assert not set(random) & set(mine.values())


def test_the_page_draws_a_panel_for_each_pair_of_texts(finished):
    page = write_report(finished).read_text()
    assert "conneau-cka: are models of two languages alike" in page
    assert "random-nld" in page and "CKA of models" in page and "English and Dutch" in page
    assert "bilingual-nld less monolingual-nld" in page and "6 comparisons" in page
    assert ">nan" not in page and " nan" not in page
    assert any(part.startswith("6 comparisons, ") for part in summary(finished) if part[0] == "6")
    told = [part for part in summary(finished) if not isinstance(part, str)]
    assert [row[1] for row in told[1][1:]] == [
        *CONDITIONS[:2], "random-paraphrase", *CONDITIONS[2:], "random-nld",
    ]  # fmt: skip
    assert [row[2] for row in told[2][1:]] == ["open"] * 6  # of one seed nothing is known


def toy(tmp_path, curves, hits):
    """A study of made-up curves: condition -> seed -> values by layer, of CKA and of retrieval."""
    scores = []
    for name, seeds in curves.items():
        for seed, values in enumerate(seeds):
            common = {"encoder": name, "seed": seed, "source": "eng", "target": "nld"}
            for layer, value in enumerate(values):
                for quantity in ("linear_cka", "debiased_linear_cka"):
                    for condition, less in ((None, 0.0), ("random_encoder", 0.2)):
                        scores.append(Score(quantity=quantity, value=value - less, n=50, layer=layer,
                                            other_layer=layer, condition=condition, **common))  # fmt: skip
                right = hits[name][seed][layer]
                for condition in ("unaligned", "procrustes"):
                    for part in ("held_out", "train"):
                        details = {"part": part, "chance": 0.02}
                        marks = "".join("1" if i < right else "0" for i in range(50))
                        details |= {"hits": marks} if part == "held_out" else {}
                        scores.append(Score(quantity="precision_at_1", value=right / 50, n=50,
                                            layer=layer, condition=condition, details=details, **common))  # fmt: skip
    told = {"name": "conneau-cka", "question": "?", "paper": "conneau", "order": []}
    told |= {"control": "bilingual-nld", "published": dict.fromkeys(curves, "")}
    conditions = {name: {"recipe": {}} for name in curves}
    for name in conditions.keys() & {"monolingual-nld"}:
        conditions[name]["beside"] = "english"
    config = {"kind": "controlled", "study": told, "settings": {"conditions": conditions}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = [*scores, *means(scores)]
    (tmp_path / "scores.jsonl").write_text("".join(score.as_json() + "\n" for score in found))
    return load_study(tmp_path)


def test_averages_and_correlations_are_those_of_each_seed(tmp_path):
    curves = {
        "bilingual-nld": [[0.9, 0.8, 0.7, 0.5], [0.95, 0.85, 0.6, 0.45], [0.9, 0.9, 0.7, 0.4]],
        "monolingual-nld": [[0.6, 0.5, 0.4, 0.3], [0.6, 0.6, 0.5, 0.4], [0.7, 0.5, 0.4, 0.4]],
    }
    hits = {
        "bilingual-nld": [[45, 40, 30, 10], [44, 42, 20, 5], [50, 40, 35, 6]],
        "monolingual-nld": [[5, 5, 5, 5]] * 3,  # nothing to correlate with
    }
    study = toy(tmp_path, curves, hits)
    assert has_two_models(study)
    ((target, found),) = curves_by_pair(study).items()
    names = [one.name for one in found]
    assert (target, names) == ("nld", [*curves, "random-nld"])
    means_of = {name: np.mean(seeds, axis=1) for name, seeds in curves.items()}
    for one, name in zip(found, curves, strict=False):
        assert one.average(study, "linear_cka") == pytest.approx(mean_interval(means_of[name]))
        assert list(one.layers(study, "linear_cka")) == [0, 1, 2, 3]
    assert found[2].average(study, "linear_cka")[0] == pytest.approx(
        means_of["monolingual-nld"].mean() - 0.2
    )
    rows = average_differences(study)
    assert [row[0] for row in rows] == [
        "bilingual-nld less monolingual-nld",
        "bilingual-nld less random-nld",
        "monolingual-nld less random-nld",
    ]
    assert {row[2] for row in rows} == {"above 0"}
    test = ttest_ind(*means_of.values(), equal_var=False)
    low, high = test.confidence_interval(0.95)
    assert rows[0][1].endswith(f"[{low:+.3f}, {high:+.3f}]")
    each = [
        pearsonr(*both)[0]
        for both in zip(curves["bilingual-nld"], hits["bilingual-nld"], strict=True)
    ]
    correlations = layer_correlations(study, "bilingual-nld")
    for condition in ("unaligned", "procrustes"):
        mean, low, high, n = correlations[condition]
        expected = mean_interval(np.array(each))
        assert (mean, low, high, n) == pytest.approx((*expected[:2], min(expected[2], 1.0), 4))
    assert layer_correlations(study, "monolingual-nld") == {}
    (sentence,) = over_layers_told(study)
    assert (
        sentence.startswith("Over 4 layers,") and f"bilingual-nld {np.mean(each):.2f} [" in sentence
    )


def test_cka_without_a_value_is_a_dash_and_no_comparison(tmp_path):
    curves = {
        "bilingual-nld": [[0.9, 0.8, 0.7, 0.5], [0.95, 0.85, 0.6, 0.45]],
        "monolingual-nld": [[math.nan, 0.5, 0.4, 0.3], [0.6, 0.6, 0.5, 0.4]],
    }
    study = toy(tmp_path, curves, {name: [[5, 5, 5, 5]] * 2 for name in curves})
    rows = average_differences(study)
    assert [row[1:] for row in rows] == [("-", "-")] * 3
    page = similarity_section(study, curves_by_pair(study))
    assert "nan" not in page and "0 comparisons, each" in page


def test_conditions_of_other_depths_are_told_with_their_own_number_of_layers(tmp_path):
    curves = {"bilingual-nld": [[0.9, 0.8, 0.7, 0.6]], "bilingual-deu": [[0.9, 0.8, 0.7, 0.5, 0.4]]}
    hits = {"bilingual-nld": [[45, 40, 30, 20]], "bilingual-deu": [[45, 40, 30, 20, 10]]}
    (sentence,) = over_layers_told(toy(tmp_path, curves, hits))
    assert sentence.startswith("Over layers, debiased CKA")
    for told in ("bilingual-nld (4 layers) ", "bilingual-deu (5 layers) "):
        assert told in sentence


def test_of_three_layers_no_correlation_is_told_and_of_one_seed_no_interval(tmp_path):
    curves = {"bilingual-nld": [[0.9, 0.8, 0.7]], "monolingual-nld": [[0.6, 0.5, 0.4]]}
    study = toy(tmp_path, curves, {name: [[45, 40, 30]] for name in curves})
    assert over_layers_told(study) == []
    first = curves_by_pair(study)["nld"][0]
    value, *interval = first.average(study, "debiased_linear_cka")
    assert value == pytest.approx(0.8) and all(map(math.isnan, interval))
    assert {row[2] for row in average_differences(study)} == {"open"}


def test_the_interval_of_an_average_stays_in_the_range_of_cka(tmp_path):
    curves = {"bilingual-nld": [[0.9, 0.9], [0.99, 0.99]]}
    study = toy(tmp_path, curves, {"bilingual-nld": [[45, 40]] * 2})
    first = curves_by_pair(study)["nld"][0]
    value, low, high = first.average(study, "debiased_linear_cka")
    assert value == pytest.approx(0.945) and 0.37 < low < 0.38 and high == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"paraphrase": None, "pair": None}, "paraphrase: expected English that says the same"),
        ({"paraphrase": "short"}, "paraphrase: expected 400 lines, as data has, got 9"),
        ({"dictionary": "x"}, "dictionary: expected none with conneau-cka, got 'x'"),
    ],
)
def test_what_is_missing_is_refused(settings, changes, message, tmp_path):
    if changes.get("paraphrase") == "short":
        (tmp_path / "short").write_text("a cat\n" * 9)
        changes = {"paraphrase": str(tmp_path / "short")}
    with pytest.raises(InputError, match=message):
        train("conneau-cka", tmp_path / "run", seeds=1, settings={**settings, **changes})
    assert not (tmp_path / "run").exists()
