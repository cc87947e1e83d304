"""Tasks declare themselves: names, kinds, cards, languages, and where their files are found."""

import dataclasses
import json
import re

import pytest
from battery_data import make_data, tree, write

from crosslens.errors import InputError
from crosslens.probes.tasks.catalogue import TASKS, cards, choose_tasks, find_task, task_names
from crosslens.probes.tasks.data_folder import Absent, DataFolder
from crosslens.probes.tasks.items import (
    PairsOfSentences,
    Questions,
    RatedWords,
    TextPairs,
    Texts,
    WordPairs,
    Words,
)
from crosslens.probes.tasks.task import GROUPS, KINDS
from crosslens.probes.tasks.treebanks import read_treebank, treebank_languages
from crosslens.score import QUANTITIES

ITEMS = {"classify": Texts, "classify_pair": WordPairs, "tag": Words, "span": Words, "parse": Words}
ITEMS |= {"pair": TextPairs, "tree": Words, "rank": RatedWords, "minimal_pairs": PairsOfSentences}
ITEMS |= {"answer": Questions}
ASKED = (
    '{"data": [{"paragraphs": [{"context": "In Rome.", "qas": [{"id": "a", "question": "Where?", '
    '"answers": [{"text": "Rome", "answer_start": 3}]}]}]}]}'
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = make_data(tmp_path_factory.mktemp("data"))
    (folder / "multiblimp" / "fra").mkdir(parents=True)
    rows = [
        "\tsen\twrong_sen\tphenomenon",
        "0\tLe roi est là\tLe roi sont là\tSV-#",
        "1\tIl est grand\tIl sont grand\tSV-P",
    ]
    write(folder / "multiblimp" / "fra" / "data.tsv", rows)
    write(
        folder / "multiblimp" / "multiblimp.csv",
        ["sen,wrong_sen,language", "Er ist da,Er sind da,deu", "Hän on,Hän ovat,fin"],
    )
    german = folder / "xlwic_datasets" / "xlwic_wikt" / "german_de"
    german.mkdir(parents=True)
    write(german / "de_test_data.txt", ["Bank\tN\t4\t8\t0\t4\tDie Bank\tBank am Fluss"])
    write(german / "de_test_gold.txt", ["0"])
    write(folder / "ud" / "fr_gsd-ud-test.conllu", [tree(f"fr-{i}", i) for i in range(5)])
    write(folder / "ud" / "fr_gsd-ud-dev.conllu", [tree(f"frd-{i}", i) for i in range(5)])
    write(folder / "ud" / "fr_pud-ud-test.conllu", [tree(f"pud-{i}", i) for i in range(5)])
    for name, line in {
        "mldoc/english.test": "CCAT\tShares rose.",
        "documents/swh.test.tsv": "good\tIt is warm.",
        "xnli/xnli.dev.en.tsv": "It rains.\tIt is wet.\tentailment",
        "pawsx/dev-en.tsv": "It rains.\tRain falls.\t1",
        "ner/en_ewt-ud-test.iob2": "Ada\tB-PER",
        "xquad/xquad.en.json": ASKED,
        "mlqa/dev-context-en-question-en.json": ASKED,
        "squad/dev-v1.1.json": ASKED,
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        write(folder / name, [line])
    return folder


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_task_declares_all_that_is_asked_of_it(task, data):
    assert re.fullmatch(r"[a-z_]+", task.name) and task.kind in KINDS and task.group in GROUPS
    assert task.metrics and set(task.metrics) <= set(QUANTITIES)
    assert all(
        isinstance(value, str) and value.strip() == value != ""
        for name, value in dataclasses.asdict(task.card).items()
        if name not in ("citation", "address") or task.card.licence != "yours"
    )
    assert ("https://" in task.card.address or "http://" in task.card.address) == (
        task.card.licence != "yours"
    )
    cited = re.search(r"^@\w+\{\w+,", task.card.citation)
    assert "address" not in task.record()  # a page names nothing that lies elsewhere
    assert task.card.says.count(". ") <= 3 and bool(cited) == (task.card.licence != "yours")
    assert task.card.citation.count("{") == task.card.citation.count("}")
    assert bool(task.label) == (task.kind in ("tag", "tree")) and bool(task.pick) == (
        task.kind == "span"
    )
    assert bool(task.shape) == (task.kind == "parse")
    languages = list(task.languages(DataFolder(data)))
    assert languages and all(re.fullmatch(r"[a-z]{3}", code) for code in languages)
    assert isinstance(task.read(DataFolder(data), languages[0]), ITEMS[task.kind])


def test_names_are_unlike_and_find_their_tasks():
    assert len({task.name for task in TASKS}) == len(TASKS)
    for name, task in zip(task_names(), TASKS, strict=True):
        assert find_task(name).name == name and find_task(name).kind == task.kind
    assert find_task("feature_") is None and find_task("feature") is None
    assert find_task("feature_Case").label == "feature:Case"


def test_cards_are_plain_data():
    assert json.loads(json.dumps(cards())) == cards() and list(cards()) == list(task_names())


def test_what_is_not_there_is_said():
    for task in TASKS:
        if task.name != "minimal_pairs":  # which are generated
            assert list(task.languages(DataFolder(None))) in ([], ["eng"], ["mul"])
            with pytest.raises(Absent, match="no "):
                task.read(DataFolder(None), "eng")


def test_groups_are_chosen_among():
    assert choose_tasks("language", ["language_id_paper"]) == ("language_id_paper",)
    assert "feature_Number" in choose_tasks("syntactic") and "multiblimp" not in choose_tasks("all")
    for group, only in (
        ("semantic", ["upos"]),
        ("every", []),
        (None, ["uposs"]),
        ("all", ["feature_"]),
    ):
        with pytest.raises(InputError, match=r"--(tasks|battery): expected"):
            choose_tasks(group, only)


def test_a_treebank_is_found_by_any_code_of_its_language(data):
    folder = DataFolder(data)
    assert list(treebank_languages(folder)) == ["eng", "fra"]
    for code in ("fr", "fra", "fra_Latn", "fr_gsd"):
        words = read_treebank(folder, code)
        assert (words.name, words.language, list(words.splits)) == (
            "fr_gsd",
            "fra",
            ["dev", "test"],
        )
    assert read_treebank(folder, "fr_pud").name == "fr_pud"
    assert read_treebank(DataFolder(data, "fr_pud"), "fra").name == "fr_pud"
    assert read_treebank(DataFolder(data, "fr_pud"), "eng").name == "en_ewt"
    assert read_treebank(folder, "fra") is read_treebank(folder, "fr")
    assert set(folder.files) == {
        "ud/fr_gsd-ud-dev.conllu",
        "ud/fr_gsd-ud-test.conllu",
        "ud/fr_pud-ud-test.conllu",
    }
    with pytest.raises(Absent, match=r"ud/fr_partut-ud-train.* \(there is fr_gsd, fr_pud\)"):
        read_treebank(folder, "fr_partut")  # another treebank's numbers are not its own
    with pytest.raises(Absent, match=r"no ud/hin_\*-ud-train\.conllu"):
        read_treebank(folder, "hin")
    with pytest.raises(Absent, match=r"no ud/en_gum-ud-train\.conllu"):
        read_treebank(DataFolder(data, "en_gum"), "eng")


def test_pairs_of_multiblimp_are_found_by_language_in_folders_and_in_columns(data):
    task = find_task("multiblimp")
    assert list(task.languages(DataFolder(data))) == ["deu", "fin", "fra"]
    folder = DataFolder(data)
    french, german = task.read(folder, "fr"), task.read(DataFolder(data), "deu")
    assert [pair.category for pair in french.pairs] == ["SV-#", "SV-P"] and [
        pair.good for pair in german.pairs
    ] == ["Er ist da"]
    assert list(folder.files) == ["multiblimp/fra/data.tsv"]


def test_topics_are_read_in_every_language_of_the_table(data):
    task = find_task("topic")
    assert list(task.languages(DataFolder(data))) == ["eng", "fra", "rus"]
    texts = [task.read(DataFolder(data), code) for code in ("en", "fra", "rus_Cyrl")]
    assert [one.language for one in texts] == ["eng", "fra", "rus"]
    assert (
        len({tuple(one.texts.labels) for one in texts}) == 1
        and len({one.texts.texts[0] for one in texts}) == 3
    )
