"""Text from data sets of Hugging Face, of a stand-in for the library and of the library."""

import importlib.util
import json
import sys
import types

import pytest

from crosslens.corpus import Corpus
from crosslens.errors import InputError
from crosslens.readers.data_set import read_dataset


def refusal(call, *arguments, **keywords) -> str:
    with pytest.raises(InputError) as refused:
        call(*arguments, **keywords)
    return str(refused.value)


RECORDS = [
    {"text": "one\ntwo\n", "pair": {"fr": "un"}},
    {"text": "", "pair": {"fr": "deux"}},
    {"text": "three\r\nfour", "pair": {"fr": 3}},
]


@pytest.fixture
def library(monkeypatch):
    """A stand-in for Hugging Face's library; what it was asked for."""
    asked = []

    def load_dataset(path, config, *, split, streaming):
        asked.append((path, config, split, streaming))
        if path == "nowhere":
            raise FileNotFoundError("no data set\n  of this name")

        def stream():
            for number, record in enumerate(RECORDS):
                asked.append(number)
                yield record

        return stream()

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    return asked


def test_a_data_set_is_streamed_once_and_blank_lines_stay(library):
    corpus = read_dataset("hf:some/set", "eng")
    assert corpus == Corpus(
        "eng", ["one", "two", "", "three", "four"], ["0", "1", "2", "3", "4"], "some/set train"
    )
    assert library == [("some/set", None, "train", True), 0, 1, 2]


def test_an_address_names_config_split_field_and_limit(library):
    corpus = read_dataset("hf:C:/a folder?field=pair.fr&limit=2&config=v1%20x&split=test", "fra")
    assert corpus.sentences == ["un", "deux"]
    # no record is fetched that is not used
    assert library == [("C:/a folder", "v1 x", "test", True), 0, 1]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?split=a",
        "x?lim=1",
        "x?limit=0",
        "x?limit=-1",
        "x?limit=1.5",
        "x?split=",
        "x?split=a&split=b",
        "x?a&split=b",
    ],
)
def test_an_address_that_cannot_be_read_is_refused(library, query):
    told = refusal(read_dataset, f"hf:{query}", "eng")
    assert told.startswith(
        "hf:: expected hf:PATH?config=NAME&split=NAME&field=NAME&limit=NUMBER (all but PATH "
        "may be left out), got "
    )
    assert told.endswith(f"'hf:{query}'; correct the address") and library == []


def test_what_a_data_set_does_not_have_is_refused(library, monkeypatch):
    told = refusal(read_dataset, "hf:x?field=title", "eng")
    assert told == (
        "hf:x?field=title (record 0): expected a field 'title', got the fields text, pair; "
        "name one of them"
    )
    assert refusal(read_dataset, "hf:x?field=text.en", "eng").endswith(
        "expected a field 'text.en', got the fields none; name one of them"
    )
    told = refusal(read_dataset, "hf:x?field=pair.fr", "fra")
    assert told == (
        "hf:x?field=pair.fr (record 2): expected text in the field 'pair.fr', got int; name a "
        "field of text"
    )
    told = refusal(read_dataset, "hf:nowhere", "eng")
    found = "FileNotFoundError: no data set of this name; check path, config, split and connection"
    assert told == f"hf:nowhere: expected a data set that can be read, got {found}"
    monkeypatch.setitem(globals(), "RECORDS", [{"text": " \n"}])
    assert (
        refusal(read_dataset, "hf:x", "eng")
        == "hf:x: expected at least one sentence, got no text; check split and field"
    )


def test_without_the_library_the_command_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    told = refusal(read_dataset, "hf:x", "eng")
    assert told == (
        "hf:x: expected the library that reads data sets, got none installed; type: pip "
        "install 'crosslens[datasets]'"
    )


def test_the_real_library_reads_a_folder(tmp_path, monkeypatch):
    if importlib.util.find_spec("datasets") is None:
        pytest.skip(reason="the extra datasets is not installed")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "train.jsonl").write_text(
        "".join(
            json.dumps({"text": f"a{i}\nb{i}", "pair": {"fr": f"c{i}"}}) + "\n" for i in range(4)
        )
    )
    assert read_dataset(f"hf:{folder}?limit=2", "eng").sentences == ["a0", "b0", "a1", "b1"]
    assert read_dataset(f"hf:{folder}?field=pair.fr", "fra").sentences == ["c0", "c1", "c2", "c3"]
    assert "Bad split: nope" in refusal(read_dataset, f"hf:{folder}?split=nope", "eng")
    assert "expected a data set that can be read, got " in refusal(
        read_dataset, f"hf:{folder}/none", "eng"
    )
