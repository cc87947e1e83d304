"""The page of encoders with another vocabulary."""

import json
import math

import pytest
from pages import Page

from crosslens.cli.main import main
from crosslens.errors import InputError, StoreError
from crosslens.report.pages.page import write_comparison
from crosslens.report.pages.transplant import transplants_page

ROWS = {"sampled": 17, "copied": 3531, "combined": 12452}


def made(folder, by, *, last=None, size=16000, **learnt):
    folder.mkdir(parents=True)
    told = {"encoder": "a", "text": "b", "by": by, "seed": 0, "size": size, "subwords": size}
    told["rows"] = ROWS
    if last is not None:
        curve = {"0": 26088.0, "200000": 900.0, "391944": None if math.isnan(last) else last}
        told["learnt"] = {"perplexities": curve, "unigram": 905.7, "masked": 1876}
        told["learnt"] |= learnt
    (folder / "transplant.json").write_text(json.dumps(told))
    return folder


def test_curves_and_rows_of_several_are_on_one_page(tmp_path, capsys):
    folders = [made(tmp_path / "a", "similarity", last=608.3), made(tmp_path / "b", "random")]
    out = tmp_path / "page.html"
    assert main(["report", *map(str, folders), "--out", str(out)]) == 0
    page = Page(out.read_text())
    assert "26,088 before and 608 after" in page.text and "a unigram model has 906" in page.text
    assert "3,531" in page.text and "similarity" in page.text and "391,944" in page.text
    labels = [one["aria-label"] for one in page.all("svg") if "aria-label" in one]
    assert "held-out perplexity over tokens: a" in labels
    assert "cannot be compared" not in page.text
    other = made(tmp_path / "c" / "a", "overlap", last=500.0, size=8000)  # a name that is taken
    told = Page(transplants_page([*folders, other])).text
    assert "cannot be compared" in told and str(other) in told


def test_new_heads_and_trainings_that_did_not_converge_are_said(tmp_path):
    told = {"new_head": True, "head_tokens": 178_432, "converged": True}
    one = made(tmp_path / "a", "similarity", last=608.3, **told)
    other = made(tmp_path / "b", "random", last=1040.0, **{**told, "converged": False})
    own = made(tmp_path / "c", "overlap", last=500.0, new_head=False, head_tokens=0, converged=True)
    page = Page(transplants_page([one, other, own]))
    assert "a unigram model has 906: it did not converge." in page.text
    assert "1 of 3 trainings did not converge (b): no better than a unigram model" in page.text
    assert "a and b have no head for masked words: a new one was trained first" in page.text
    assert "178,432" in page.text
    for folders in ([own], [made(tmp_path / "d", "overlap", last=608.3)]):
        page = Page(transplants_page(folders))
        assert "converge" not in page.text and "new one" not in page.text
    assert "1 of 1 training did not converge (b)" in Page(transplants_page([other])).text


def test_the_best_of_several_trainings_says_what_it_was_chosen_by(tmp_path):
    ends = {"0": 640.0, "1": 608.3, "2": None}
    told = Page(
        transplants_page(
            [made(tmp_path / "a", "random", last=608.3, repeats=ends, kept=1, not_converged=1)]
        )
    ).text
    assert (
        "a is the best of 3 trainings, from seed 1 (seed 0: 640, seed 1: 608, seed 2: given up), chosen"
        in told
    )
    assert "1 of them did not converge." in told


def test_a_perplexity_that_is_no_number_is_called_so(tmp_path):
    told = Page(transplants_page([made(tmp_path / "a", "random", last=math.nan)])).text
    assert "26,088 before and not a number after" in told and "nan" not in told


def test_embeddings_that_were_not_trained_say_so(tmp_path):
    page = Page(transplants_page([made(tmp_path / "a", "overlap")]))
    assert "None of these embeddings was trained." in page.text and not page.all("svg")


def test_what_is_none_is_refused(tmp_path, capsys):
    folder = made(tmp_path / "a", "overlap")
    assert main(["report", str(folder)]) == 2
    assert "--out: expected a file for this page" in capsys.readouterr().err
    assert not (folder / "report.html").exists()
    with pytest.raises(InputError, match="a folder that crosslens transplant has made"):
        transplants_page([folder, tmp_path])
    with pytest.raises(InputError, match="each folder once"):
        write_comparison([folder, folder], tmp_path / "page.html")
    (folder / "transplant.json").write_text('{"by": "overlap"}')
    with pytest.raises(StoreError, match="transplant.json"):
        transplants_page([folder])
