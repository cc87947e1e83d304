"""Transfer of the conditions whose copy is a text in another word order, on data that `derive` has
put in that order."""

import dataclasses
import json
import re
import shutil

import numpy as np
import pytest
from battery_data import write
from controlled_toy import SMALL, sentences

from crosslens.cli.main import main
from crosslens.errors import InputError
from crosslens.front.derived import derive_files
from crosslens.front.study_transferred import study_transfer
from crosslens.models.saved.derived_languages import DerivedLanguage
from crosslens.outcomes import read_outcomes, sums_by_group
from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.recipes.controlled import controlled_study
from crosslens.recipes.controlled_texts import study_texts
from crosslens.report import write_report
from crosslens.report.folders.study_transfer import load_study_transfer
from crosslens.run.trainings.controlled import run_controlled
from crosslens.run.transfer.data import transfer_data
from crosslens.run.transfer.reordered import check_reordered
from crosslens.run.transfer.settings import Transfer
from crosslens.run.transfer.splits import Reading
from crosslens.run.transfer.transfer import run_transfer
from crosslens.score import read_scores
from crosslens.seed_intervals import seeds_difference

TINY = {"epochs": 12, "batch_size": 8, "peak_rate": 1e-2, "head_rate": 1e-2}
FIRST, SYNTAX, UNION = "transliteration", "transliteration-syntax", "syntax"
COLUMNS = "{}\t{}\t_\t{}\t_\t_\t{}\t{}\t_\t{}"


def trees(n, start=0):
    """A cat sees a dog, and a comma is glued to the word before it."""
    rng = np.random.default_rng(start)
    for i in range(start, start + n):
        first, second = rng.choice(["cat", "dog", "mat", "sun", "sea"], 2)
        adjective = rng.choice(["red", "big", "old"])
        words = [
            ("the", "DET", 2, "det", "_"),
            (first, "NOUN", 3, "nsubj", "_"),
            ("sees", "VERB", 0, "root", "_"),
            ("a", "DET", 6, "det", "_"),
            (adjective, "ADJ", 6, "amod", "_"),
            (second, "NOUN", 3, "obj", "SpaceAfter=No"),
            (",", "PUNCT", 3, "punct", "_"),
            (f"number{i}", "NUM", 3, "nummod", "_"),
        ]
        text = f"the {first} sees a {adjective} {second}, number{i}"
        rows = [
            COLUMNS.format(k, form, tag, head, relation, space)
            for k, (form, tag, head, relation, space) in enumerate(words, 1)
        ]
        yield "\n".join([f"# sent_id = s{i}", f"# text = {text}", *rows, ""])


@pytest.fixture(scope="module")
def place(tmp_path_factory, few_kept):
    """A study of three conditions and one seed, and treebanks in English order and turned round. Not to
    be written to."""
    place = tmp_path_factory.mktemp("reordered")
    ud = place / "data" / "ud"
    ud.mkdir(parents=True)
    for part, n, start in (("train", 24, 0), ("dev", 8, 24), ("test", 16, 32)):
        file = write(ud / f"en_ewt-ud-{part}.conllu", list(trees(n, start)))
        derive_files("inversion", ud, treebank={"eng": str(file)})
    lines = sentences(400)
    write(place / "eng.txt", lines)
    write(place / "syntax.txt", [" ".join(line.split()[::-1]) for line in lines])
    settings = {**SMALL, "data": str(place / "eng.txt"), "syntax": str(place / "syntax.txt")}
    told = controlled_study("deshpande-compositions", settings)
    pairs = controlled_study("deshpande-pairs", settings)
    every = {**told.conditions, UNION: pairs.conditions[UNION]}
    conditions = {name: every[name] for name in (FIRST, SYNTAX, UNION)}
    told = dataclasses.replace(told, conditions=conditions)
    run_controlled(told, study_texts(told, settings), place / "run", seeds=1)
    return place


@pytest.fixture(scope="module")
def finished(place, tmp_path_factory):
    """A finished run, MZ included. Not to be written to."""
    out = tmp_path_factory.mktemp("transfer") / "run"
    told = {"random_control": False, "monolingual": True, **TINY}
    study_transfer(place / "run", "upos", place / "data", out, syntax="eng-inversion", **told)
    return out


def one(folder, **wanted):
    (found,) = [
        score
        for score in read_scores(folder / "scores.jsonl")
        if score.evidence.part == "test"
        and all(getattr(score, name) == value for name, value in wanted.items())
    ]
    return found


def test_a_text_of_its_own_is_tested_on_data_in_its_order(place, finished, tmp_path):
    for name in (SYNTAX, UNION):
        told = Transfer(
            encoders=[str(place / "run" / name / "seed-0" / "model")],
            tasks=["upos"],
            data=str(place / "data"),
            train=["eng"],
            test=["eng", "eng-x"],
            data_of={"eng-x": "eng-inversion"},
            words_apart=True,
            seeds=1,
            in_language=True,
            random_control=False,
            checkpoints=False,
            **TINY,
        )
        own = run_transfer(told, tmp_path / name)
        for condition in (None, "in_language"):
            wanted = {"condition": condition, "target": "eng-x", "quantity": "accuracy"}
            theirs = one(own, **wanted)
            assert one(finished, **wanted, encoder=name, seed=0).value == theirs.value
            assert theirs.value > 0.2
    files = json.loads((finished / "config.json").read_text())["settings"]["files"]
    assert sum("eng-inversion" in file for file in files) == 3
    of_trainings = [s for s in read_scores(finished / "scores.jsonl") if s.seed is not None]
    assert {s.evidence.part for s in of_trainings} == {"test"}


def test_the_original_alone_reads_the_words_in_that_order(place, finished):
    config = json.loads((finished / "transfers" / "monolingual-0" / "config.json").read_text())
    (derived,) = config["settings"]["derived"].values()
    by = {code: told["by"] for code, told in derived.items()}
    assert by == {
        "eng-x-1": "transliteration",
        "eng-x-2": "transliteration",
        "eng-x-3": "identity",
    }
    assert config["settings"]["items"] == {code: "eng-inversion" for code in ("eng-x-2", "eng-x-3")}
    wanted = {"condition": "monolingual", "quantity": "accuracy", "target": "eng-x", "seed": 0}
    first, same, union = (one(finished, **wanted, encoder=name) for name in (FIRST, SYNTAX, UNION))
    assert same.value < first.value  # unknown tokens tell tags by their places alone
    assert same.value < union.value  # English words, turned round
    moves = [Reading(DerivedLanguage("eng", how), "eng").moves for how in ("identity", "inversion")]
    assert moves == [False, True]


def test_conditions_are_compared_sentence_by_sentence(finished):
    def answers(name):
        for found in read_outcomes(finished / "transfers" / name / "seed-0"):
            if (found.quantity, found.target, found.suite) == ("accuracy", "eng-x", "dev"):
                yield found.condition, found

    first, other = dict(answers(FIRST)), dict(answers(SYNTAX))
    assert first[None].item_id.tolist() != other[None].item_id.tolist()
    lost = [found[None].mean - found["in_language"].mean for found in (first, other)]
    difference = one(finished, condition="conditions", encoder=f"{FIRST} / {SYNTAX}")
    assert difference.value == pytest.approx(lost[0] - lost[1])
    renamed = dataclasses.replace(other[None], group=first[None].group)
    counts = [sums_by_group([found]) for found in (first[None], renamed)]
    value = seeds_difference(*counts)[0]
    assert value == pytest.approx(first[None].mean - other[None].mean)
    notes = load_study_transfer(finished).notes("upos")
    assert not any("left out" in note for note in notes)
    page = write_report(finished).read_text()
    assert "tested on eng-inversion; in all data a space stands between any two words" in page
    assert "dark blue: Accuracy, per cent" in page  # not what stands beside the loss


def test_a_run_is_asked_again_and_without_syntax_leaves_it_out(place, finished, tmp_path):
    assert main(["study-transfer", "--config", str(finished), "--out", str(finished)]) == 0
    told = {"random_control": False, **TINY, "epochs": 1}
    left = study_transfer(place / "run", "upos", place / "data", tmp_path / "left", **told)
    notes = load_study_transfer(left.folder).notes("upos")
    assert [note.partition(" is left out")[0] for note in notes[-2:]] == [SYNTAX, UNION]
    assert {score.encoder for score in left.scores if score.seed == 0} == {FIRST}


def test_items_of_another_language_are_read_as_the_copy_s(place, tmp_path):
    """A model that knows no transformation, given a copy of the data, reads what its twin derives."""
    model = place / "run" / FIRST / "seed-0" / "model"
    twin, data = tmp_path / "twin", tmp_path / "data"
    shutil.copytree(model, twin)
    config = json.loads((twin / "config.json").read_text())
    del config["derived"]
    (twin / "config.json").write_text(json.dumps(config))
    shutil.copytree(place / "data", data)
    for file in (data / "ud").glob("en_ewt-*.conllu"):
        shutil.copy(file, file.with_name(file.name.replace("en_", "eng-same_")))
    told = {"tasks": ["upos"], "data": str(data), "train": ["eng"], "test": ["eng-x"], "seeds": 1}
    told |= {"random_control": False, "checkpoints": False, **TINY}
    derives = run_transfer(Transfer(encoders=[str(model)], **told), tmp_path / "derives")
    for code, same in (("eng-same", True), ("eng-inversion", False)):
        items = {"eng-x": code}
        reads = run_transfer(Transfer(encoders=[str(twin)], data_of=items, **told), tmp_path / code)
        mine, other = (
            [(one.item_id.tolist(), one.predicted.tolist()) for one in read_outcomes(run)]
            for run in (reads, derives)
        )
        assert (mine == other) == same
        assert len({tag for _, rows in mine for row in rows for tag in row.split()}) > 1


def test_words_of_all_treebanks_have_a_space_between_any_two(place):
    """In a treebank that derive wrote, and in the one that it was made from."""
    folder = DataFolder(str(place / "data"))
    for apart in (False, True):
        data = transfer_data("upos", folder, ["eng"], ["eng", "eng-inversion"], apart=apart)
        first, other = (data.tests[code] for code in ("eng", "eng-inversion"))
        assert (" , " in first.texts[0]) == apart and " , " in other.texts[0]
        words = [[text.split() for text in split.texts] for split in (first, other)]
        assert ([row[::-1] for row in words[0]] == words[1]) == apart


def swapped(text):
    blocks = text.strip().split("\n\n")
    return "\n\n".join([blocks[1], blocks[0], *blocks[2:]]) + "\n\n"


@pytest.mark.parametrize(
    ("part", "how", "told"),
    [
        ("test", lambda text: text.replace("sun", "cow"), "test of task upos: item "),
        ("test", lambda text: text.replace("ADJ", "DET", 1), "test of task upos: item 1 "),
        ("dev", lambda text: text.replace("ADJ", "DET", 1), "dev of task upos: item 1 "),
        ("train", swapped, "train of task upos: item "),
        ("test", lambda text: text.partition("\n\n")[0] + "\n\n", "1 items, where there are 16"),
        ("dev", None, "train of task upos: 22 items, where there are 24"),
        ("test", None, "upos"),
    ],
)
def test_data_that_are_not_the_original_s_in_another_order_are_refused(
    place, tmp_path, part, how, told
):
    data = tmp_path / "data"
    shutil.copytree(place / "data", data)
    file = data / "ud" / f"eng-inversion_ewt-ud-{part}.conllu"
    file.write_text(how(file.read_text())) if how else file.unlink()
    with pytest.raises(InputError, match=f"--syntax: expected .*{re.escape(told)}"):
        study_transfer(place / "run", "upos", data, tmp_path / "x", syntax="eng-inversion", **TINY)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("syntax", "told"),
    [("eng", "whose data are"), ("en", "whose data are"), ("fra", "with data"), ("", "with data")],
)
def test_no_other_language_is_taken_for_it(place, tmp_path, syntax, told):
    with pytest.raises(InputError, match=f"--syntax: expected a language {told}"):
        study_transfer(place / "run", "upos", place / "data", tmp_path / "x", syntax=syntax, **TINY)


def test_each_task_has_data_in_that_order(place, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(place / "data", data)
    (data / "ner").mkdir()
    for part, n in (("train", 12), ("dev", 4), ("test", 8)):
        write(
            data / "ner" / f"en_ewt-ud-{part}.iob2", [f"cat\tB-PER\nsees{i}\tO\n" for i in range(n)]
        )
    with pytest.raises(InputError, match="--syntax: expected a language with data of task ner"):
        study_transfer(
            place / "run", ["upos", "ner"], data, tmp_path / "x", syntax="eng-inversion", **TINY
        )


def test_names_may_be_torn_apart_and_heads_are_compared(place, tmp_path):
    """Files that derive wrote of names, and a tree whose words hang elsewhere."""
    data = tmp_path / "data"
    shutil.copytree(place / "data", data)
    (data / "ner").mkdir()
    sentence = "cat{0}\tB-PER\nsees\tI-PER\ndog\tO\nmat\tO\nsun\tO\nsea\tO\n"
    for part, n in (("train", 12), ("dev", 4), ("test", 8)):
        lines = [sentence.format(f"{part}{i}") for i in range(n)]
        file = write(data / "ner" / f"en_ewt-ud-{part}.iob2", lines)
        derive_files("permutation", data / "ner", iob2={"eng": str(file)})
    torn = (data / "ner" / "eng-permutation_ewt-ud-train.iob2").read_text()
    assert torn.count("B-PER") > 12
    told = {"apart": True, "limit": None, "seed": 0}
    check_reordered(["ner"], DataFolder(str(data)), "eng", "eng-permutation", **told)
    check_reordered(["parsing"], DataFolder(str(data)), "eng", "eng-inversion", **told)
    file = data / "ud" / "eng-inversion_ewt-ud-test.conllu"
    rows = file.read_text().replace("\t7\tdet\t", "\t6\tdet\t", 1)
    assert rows != file.read_text()
    file.write_text(rows)
    check_reordered(["upos"], DataFolder(str(data)), "eng", "eng-inversion", **told)
    with pytest.raises(InputError, match="test of task parsing: item 1 "):
        check_reordered(["parsing"], DataFolder(str(data)), "eng", "eng-inversion", **told)


def test_items_in_the_order_of_the_original_are_refused(place, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(place / "data", data)
    for file in (data / "ud").glob("en_ewt*"):
        shutil.copy(file, file.with_name(file.name.replace("en_", "eng-identity_")))
    told = {"apart": True, "limit": None, "seed": 0}
    with pytest.raises(InputError, match="train of task upos: each in the order"):
        check_reordered(["upos"], DataFolder(str(data)), "eng", "eng-identity", **told)


def test_texts_as_a_whole_have_no_order_that_could_be_checked(place, tmp_path):
    data = tmp_path / "data"
    (data / "xnli").mkdir(parents=True)
    rows = [f"a cat {i}\tit sees\t{'entailment' if i % 2 else 'neutral'}" for i in range(12)]
    for part in ("train", "dev", "test"):
        for code in ("eng", "eng-inversion"):
            write(data / "xnli" / f"xnli.{part}.{code}.tsv", rows)
    with pytest.raises(
        InputError, match="--syntax: expected tasks whose words have labels or heads"
    ):
        check_reordered(["xnli"], DataFolder(str(data)), "eng", "eng-inversion")
