"""Data sets of the hub: the same items as those of the official files, and what is refused."""

import importlib.util
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from battery_data import PARTS, add_treebanks, make_data, tree, write
from hub_copies import card, make_copies, parquet, table

from crosslens.asked import absolute
from crosslens.errors import InputError
from crosslens.probes.tasks.catalogue import find_task
from crosslens.probes.tasks.data_folder import Absent, DataFolder
from crosslens.readers.hub import Hub, HubSet
from crosslens.readers.minimal_pairs import read_minimal_pairs
from crosslens.run.probing.data import Sources, read_tasks

SIB = HubSet(name="Davlan/sib200", columns=("index_id", "category", "text"))


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if importlib.util.find_spec("datasets") is None:
        pytest.skip(reason="the extra datasets is not installed")
    import datasets

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
        yield datasets


@pytest.fixture(scope="module")
def official(tmp_path_factory):
    folder = make_data(tmp_path_factory.mktemp("official"))
    add_treebanks(folder)
    du = "1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n1\tde\tde\tADP\t_\t_\t0\troot\t_\t_\n2\tle\tle\tDET\t_\t_\t1\tdet\t_\t_\n"
    write(
        folder / "ud" / "fr_gsd-ud-train.conllu",
        [f"# sent_id = m{i}\n# text = du\n{du}" for i in range(2)] + [tree("t", 1)],
    )
    return folder


@pytest.fixture(scope="module")
def copies(library, official, tmp_path_factory):
    return make_copies(tmp_path_factory.mktemp("copies"), official)


def read(folder, *tasks, **more):
    return read_tasks(Sources(folder=folder, tasks=tasks, labels={}, **more))


def items(folder, task, language):
    return find_task(task).read(DataFolder(folder), language)


def test_topics_are_those_of_the_table(copies, official):
    hub, table_ = (items(folder, "topic", "fra").texts for folder in (f"hf:{copies}", official))
    for column in ("labels", "texts", "parts", "groups"):
        assert list(getattr(hub, column)) == list(getattr(table_, column))
    assert hub.places[0] == "hf:Davlan/sib200/fra_Latn/train:0"
    assert find_task("topic").languages(DataFolder(f"hf:{copies}")) == ["eng", "fra", "rus"]


@pytest.mark.parametrize(("language", "name"), [("eng", "en_ewt"), ("fra", "fr_gsd")])
def test_treebanks_are_those_of_the_files_with_their_multiword_tokens(
    copies, official, language, name
):
    hub, files = (items(folder, "upos", language) for folder in (f"hf:{copies}", official))
    assert hub.name == files.name == name and hub.language == files.language
    assert list(hub.splits) == list(files.splits)
    for split, corpus in files.splits.items():
        mine = hub.splits[split]
        for part in ("sentences", "words", "ids"):
            assert list(getattr(mine, part)) == list(getattr(corpus, part))
        for column in ("form", "upos", "feats", "head", "deprel"):
            assert mine.annotations[column] == corpus.annotations[column]


def test_word_in_context_has_its_answers_and_no_word_on_two_sides(copies, official):
    task = read(f"hf:{copies}", "wic").tasks["wic"]
    there = [*items(official, "wic", "eng").splits["train"].items]
    there += items(official, "wic", "eng").splits["dev"].items
    mine = task.items.items
    assert [(one.sentences, one.spans, one.same) for one in mine] == [
        (one.sentences, one.spans, one.same) for one in there
    ]
    assert len(task.parts.test) == 2 * PARTS["dev"]
    assert len(task.parts.train) + len(task.parts.dev) == 2 * PARTS["train"]
    words = np.array([one.word for one in mine])
    assert len(task.parts.dev) and not {*words[task.parts.dev]} & {*words[task.parts.train]}


def test_minimal_pairs_are_those_of_the_files(copies, official):
    (hub,) = [items(f"hf:{copies}", "blimp", "eng").pairs]
    files = items(official, "blimp", "eng").pairs
    assert [pair[:4] for pair in hub] == [pair[:4] for pair in files]
    for name in ("blimp", "wic", "upos"):
        assert "eng" in find_task(name).languages(DataFolder(f"hf:{copies}"))
    assert list(find_task("scws").languages(DataFolder(f"hf:{copies}"))) == []
    assert hub[0].where == "hf:nyu-mll/blimp/agreement/train:0"


def test_multiblimp_has_the_columns_of_its_files(library, tmp_path):
    """The columns are those of the official tables, of which the first has no name."""
    folder = tmp_path / "jumelet" / "multiblimp"
    header = (
        ",prefix,sen,wrong_sen,verb,swap_head,child,head,feature_vals,phenomenon,"
        "grammatical_feature,ungrammatical_feature,distance,has_attractors"
    ).split(",")
    rows = [
        f"{i},La,La nuit tombe {i}.,La nuit tombent {i}.,tombe,tombent,nuit,tombe,SG -> PL,"
        f"SV-{'#P'[i % 2]},SG,PL,1,False".split(",")
        for i in range(4)
    ]
    table(folder / "fra" / "data.tsv", header, rows)
    card(folder, {"fra": {"train": "fra/data.tsv"}})
    hub = items(f"hf:{tmp_path}", "multiblimp", "fr")
    files = read_minimal_pairs(folder / "fra" / "data.tsv")
    assert [pair[:3] for pair in hub.pairs] == [pair[:3] for pair in files]
    assert hub.language == "fra" and {pair.category for pair in files} == {"SV-#", "SV-P"}


def test_a_run_remembers_what_it_read(copies, tmp_path):
    found = read(f"hf:{copies}", "topic", "upos", "scws", train=["eng"], test=["fra"])
    names = {name.split("/", 2)[1] + "/" + name.split("/", 2)[2] for name in found.files}
    assert {"sib200/fra_Latn/test", "universal_dependencies/en_ewt/train"} <= names
    assert all(len(digest) == 64 for digest in found.files.values())
    assert found.revisions == {"Davlan/sib200": None, "commul/universal_dependencies": None}
    assert "read from files (scws/ratings.txt)" in found.not_measured["scws"]
    again = read(f"hf:{copies}", "topic", "upos", train=["eng"], test=["fra"])
    assert again.files == found.files
    row = {"index_id": 1, "category": "a", "text": "b"}
    for split in ("train", "validation", "test"):
        parquet(tmp_path / SIB.name / "eng_Latn" / f"{split}.parquet", [row])
    card(
        tmp_path / SIB.name,
        {"eng_Latn": {s: f"eng_Latn/{s}.parquet" for s in ("train", "validation", "test")}},
    )
    data = DataFolder(f"hf:{tmp_path}")
    data.records(SIB, "eng_Latn", "test")
    (digest,) = data.files.values()
    assert digest not in found.files.values()


def test_what_a_data_set_lacks_is_refused_or_not_measured(copies, tmp_path):
    data = DataFolder(f"hf:{copies}")
    with pytest.raises(Absent, match="no jumelet/multiblimp in the folder|no pairs of fra"):
        find_task("multiblimp").read(data, "fra")
    with pytest.raises(Absent, match="no sentences of hin in Davlan/sib200"):
        find_task("topic").read(data, "hin")
    with pytest.raises(InputError, match="hf:Davlan/sib200/hin_Deva/test: expected a data set"):
        data.records(SIB, "hin_Deva", "test")
    with pytest.raises(InputError, match="expected the columns text, label, got .*: no label"):
        data.records(HubSet(name=SIB.name, columns=("text", "label")), "eng_Latn", "test")
    table(tmp_path / "x" / "y" / "t.tsv", ["text"], [["null"], ["a dog"]])
    card(tmp_path / "x" / "y", {"eng": {"train": "t.tsv"}})
    some = DataFolder(f"hf:{tmp_path}").records(
        HubSet(name="x/y", columns=("text",)), "eng", "train"
    )
    with pytest.raises(InputError, match=r"hf:x/y/eng/train:0: expected text in the column 'text'"):
        some.texts("text")


def test_a_loading_script_is_never_run(library, tmp_path):
    folder = tmp_path / "x" / "evil"
    folder.mkdir(parents=True)
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(InputError, match="hf:x/evil"):
        Hub(str(tmp_path)).splits(HubSet(name="x/evil", columns=("text",)), "default")
    assert not (tmp_path / "ran").exists()


def test_a_folder_of_copies_has_to_be_there(library, tmp_path):
    with pytest.raises(InputError, match="--data: expected hf:, or hf:FOLDER"):
        read(f"hf:{tmp_path / 'none'}", "topic")


def test_the_library_has_to_be_there_and_of_a_version_that_runs_no_scripts(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"--data hf:: .* pip install 'crosslens\[datasets\]'"):
        DataFolder("hf:")
    old = types.SimpleNamespace(__version__="3.6.0")
    monkeypatch.setitem(sys.modules, "datasets", old)
    with pytest.raises(InputError, match="version 4 or later"):
        DataFolder("hf:")


def test_on_the_hub_the_commit_is_noted(monkeypatch):
    """A stand-in for the library, which is asked for the hub itself."""
    rows = [{"index_id": 1, "category": "a", "text": "b"}]

    class Table(list):
        column_names = ("index_id", "category", "text", "more")

        def select_columns(self, names):
            assert names == list(SIB.columns)
            return self

    builder = types.SimpleNamespace(
        hash="c0ffee", download_and_prepare=lambda: None, as_dataset=lambda split: Table(rows)
    )
    asked = []

    def load(path, **more):
        asked.append((path, more))
        return builder

    monkeypatch.setitem(
        sys.modules,
        "datasets",
        types.SimpleNamespace(
            __version__="4.0.0", disable_progress_bars=lambda: None, load_dataset_builder=load
        ),
    )
    data = DataFolder("hf:")
    data.records(SIB, "eng_Latn", "test")
    wic = HubSet(name="aps/super_glue", columns=SIB.columns, revision="refs/x", folders=True)
    data.records(wic, "wic", "train")
    assert data.revisions == {"Davlan/sib200": "c0ffee", "aps/super_glue": "c0ffee"}
    assert asked == [
        ("Davlan/sib200", {"revision": None, "name": "eng_Latn"}),
        ("aps/super_glue", {"revision": "refs/x", "data_dir": "wic"}),
    ]


def test_copies_are_found_again_from_elsewhere(tmp_path):
    (tmp_path / "copies").mkdir()
    assert absolute("hf:copies", tmp_path) == f"hf:{tmp_path / 'copies'}"
    assert absolute("hf:", tmp_path) == "hf:" and absolute("hf:no", Path("/")) == "hf:no"
