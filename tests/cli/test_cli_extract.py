"""``crosslens extract`` as a user types it: units, words, layers, several texts, and what is
refused."""

import json
import shutil
import sys
import types

import numpy as np
import pytest
from ground_tools import GRAMMAR, snapshot
from typed import typed

import crosslens as cl
from crosslens.activations import Activations
from crosslens.asked import read_asked
from crosslens.errors import InputError

TEXT = "The cat sat.\nA dog ran home, and the cat ran.\n"
TREE = "# sent_id = a\n# text = du pain\n1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n" + "".join(
    f"{i}\t{form}\t{form}\t{tag}\t_\t_\t0\troot\t_\t_\n"
    for i, form, tag in ((1, "de", "ADP"), (2, "le", "DET"), (3, "pain", "NOUN"))
)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    from crosslens.models.network.encoder import EncoderConfig, MaskedLM
    from crosslens.models.saved.interop import export_model
    from crosslens.models.text.tokenisation import Vocabulary, train_tokenizer

    folder = tmp_path_factory.mktemp("made") / "encoder"
    tokenizer = train_tokenizer(
        {"eng": TEXT.splitlines() * 20}, Vocabulary(size=60, kind="bpe", sentences=200)
    )
    config = EncoderConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=8,
        layers=2,
        heads=2,
        ffn_size=8,
        max_positions=16,
    )
    export_model(MaskedLM(config), tokenizer, folder)
    return folder


@pytest.fixture
def place(encoder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    shutil.copytree(encoder, tmp_path / "encoder")
    (tmp_path / "eng.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "fra.conllu").write_text(TREE + "\n", encoding="utf-8")
    (tmp_path / "words.jsonl").write_text(
        json.dumps({"text": "Don't go", "words": ["Do", "n't", "go"]}) + "\n", encoding="utf-8"
    )
    (tmp_path / "pairs.txt").write_text("the cat\tthe dog\na\tb\n", encoding="utf-8")
    return tmp_path


def extract(line, *more):
    return typed(f"extract --encoder encoder --text {line}", *more, *"--out out --quiet".split())


def test_words_of_a_text_a_treebank_and_a_list(place, capsys):
    texts = "eng=eng.txt fra=fra.conllu deu=words.jsonl"
    assert extract(f"{texts} --unit word --dtype float16") == 0
    assert Activations("out/eng").index()["word"] == TEXT.split()
    french = Activations("out/fra").index()
    assert (
        french["word"] == ["du", "du", "pain"]
        and french["form"] == ["de", "le", "pain"]
        and french["upos"] == ["ADP", "DET", "NOUN"]
    )
    assert Activations("out/deu").index()["word"] == ["Do", "n't", "go"]
    assert (
        capsys.readouterr().out.splitlines()[0] == "out/eng: 11 words, layers 0-2, d = 8, float16"
    )


def test_layers_outputs_and_pooling(place, capsys):
    assert extract("eng=eng.txt --unit word --layers 0,1-2 --outputs hidden,mlp --pool first") == 0
    store = Activations("out/eng")
    assert (
        store.arrays == ["layer_00", "layer_01", "layer_02", "mlp_01", "mlp_02"]
        and store.manifest["settings"]["pooling"] == "first"
    )
    assert "layer 00, layer 01, layer 02, mlp 01, mlp 02" in capsys.readouterr().out


def test_pairs_types_and_embeddings(place, capsys):
    assert extract("eng=pairs.txt --unit pair --pool first --special-tokens") == 0
    assert len(Activations("out/eng")) == 2
    assert (
        typed(
            "extract --encoder encoder --text eng=eng.txt --unit type --lowercase "
            "--min-count 2 --out types --quiet"
        )
        == 0
    )
    assert (
        sorted(Activations("types/eng").index()["word"]) == ["cat", "ran", "the"]
        or "rarer types" in capsys.readouterr().out
    )
    assert (
        typed("extract --encoder encoder --text eng=eng.txt --unit embedding --out rows --quiet")
        == 0
    )
    assert Activations("rows/eng").layers == 1


RECORDS = [
    {"text": "The cat sat.\n\nA dog ran home.", "pair": {"fr": "du pain"}},
    {"text": " ", "pair": {"fr": "le pain"}},
]


def test_a_data_set_is_read_as_training_reads_it(place, capsys, monkeypatch):
    library = types.SimpleNamespace(
        load_dataset=lambda path, config, split, streaming: iter(RECORDS)
    )
    monkeypatch.setitem(sys.modules, "datasets", library)
    assert (
        typed(
            "extract --encoder encoder --text eng=hf:some/set "
            "fra=hf:some/set?field=pair.fr&limit=1 --out out"
        )
        == 0
    )
    assert "some/set train: 2 blank lines left out" in capsys.readouterr().err
    assert (
        Activations("out/eng").index()["id"] == ["0", "2"]
        and Activations("out/eng").manifest["text"] == "some/set train"
    )
    (place / "two.txt").write_text("The cat sat.\nA dog ran home.\n")
    assert typed("extract --encoder encoder --text eng=two.txt --out plain --quiet") == 0
    assert (
        np.array_equal(Activations("out/eng").layer(2), Activations("plain/eng").layer(2))
        and Activations("out/fra").n == 1
    )
    assert (
        typed("extract --encoder encoder --text eng=hf:some/set --unit pair --out pairs --quiet")
        == 2
    )
    assert "unit: expected another unit than pair for a data set" in capsys.readouterr().err
    assert typed("extract --encoder encoder --text eng=hf:some/set?lines=3 --out none --quiet") == 2
    assert (
        "expected hf:PATH?config=NAME" in capsys.readouterr().err and not (place / "none").exists()
    )


def test_a_revision_of_an_encoder_of_the_hub_is_asked_for_and_kept(
    place, encoder, capsys, monkeypatch
):
    snapshot_of, asked = place / "cache" / "snapshots" / ("0123abcd" * 5), []
    shutil.copytree(encoder, snapshot_of)
    monkeypatch.setattr(
        "huggingface_hub.snapshot_download",
        lambda name, **given: asked.append(given["revision"]) or str(snapshot_of),
    )
    assert (
        typed("extract --encoder some/bert --text eng=eng.txt --revision v1.0 --out hub --quiet")
        == 0
    )
    assert asked == ["v1.0"] and Activations("hub/eng").manifest["revision"] == "0123abcd" * 5
    assert typed(
        "extract --encoder some/bert --text eng=eng.txt --out main --quiet"
    ) == 0 and asked == ["v1.0", None]
    assert extract("eng=eng.txt") == 0 and "revision" not in Activations("out/eng").manifest
    for name, revision, told in (
        (
            "encoder",
            "v1.0",
            (
                "revision: expected a hub name that it is a revision of, got the folder encoder; "
                "leave the revision out"
            ),
        ),
        (
            "some/bert",
            " ",
            (
                "revision: expected a commit, tag or branch of the hub, got ' '; name one, or "
                "leave it out"
            ),
        ),
    ):
        assert (
            typed(
                "extract",
                "--encoder",
                name,
                "--text",
                "eng=eng.txt",
                "--revision",
                revision,
                "--out",
                "none",
                "--quiet",
            )
            == 2
        )
        assert told in capsys.readouterr().err and not (place / "none").exists()
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **given: 1 / 0)
    assert (
        typed("extract --encoder some/bert --text eng=eng.txt --revision v2 --out none --quiet")
        == 2
    )
    assert "got 'some/bert' at revision 'v2', which could not be had" in capsys.readouterr().err


def test_a_third_column_of_pairs_is_refused_with_its_line_and_not_dropped(place, capsys):
    (place / "three.txt").write_text("the cat\tthe dog\na\tb\t1\n", encoding="utf-8")
    assert extract("eng=three.txt", "--unit", "pair") == 2
    assert (
        "three.txt:2: expected 2 tab-separated columns, got 3; repair the line, or cut the "
        "others off"
    ) in capsys.readouterr().err and not (place / "out").exists()


def test_a_random_copy_differs(place):
    assert extract("eng=eng.txt") == 0
    assert (
        typed("extract --encoder encoder --text eng=eng.txt --random-seed 0 --out random --quiet")
        == 0
    )
    assert not np.allclose(
        Activations("out/eng").layer(1), Activations("random/eng").layer(1), atol=0.01
    )


def test_the_same_command_does_nothing_and_another_is_refused(place, capsys):
    assert extract("eng=eng.txt") == 0
    before = snapshot(place)
    assert extract("eng=eng.txt") == 0 and snapshot(place) == before
    assert extract("eng=eng.txt", "--pool", "max") == 2
    assert (
        "(pooling: 'mean' there, 'max' here); choose another folder" in capsys.readouterr().err
        and snapshot(place) == before
    )


def stop_in_the_middle(monkeypatch):
    """The next extraction is stopped when its first block is written."""
    from crosslens.activations_writer import ActivationsWriter

    def end(self, block):
        done(self, block)
        monkeypatch.setattr(ActivationsWriter, "end", done)
        raise KeyboardInterrupt

    done = ActivationsWriter.end
    monkeypatch.setattr(ActivationsWriter, "end", end)


def test_what_a_stopped_run_has_written_is_not_deleted_by_another_command(
    place, capsys, monkeypatch
):
    assert extract("eng=eng.txt") == 0
    whole = snapshot(place / "out")
    shutil.rmtree(place / "out")
    stop_in_the_middle(monkeypatch)
    assert extract("eng=eng.txt") == 130 and not (place / "out" / "eng").exists()
    before = snapshot(place)
    # and nothing is done before it is refused
    for texts in (["eng=eng.txt"], ["fra=fra.conllu", "eng=eng.txt"]):
        assert extract(*texts, "--layers", "1") == 2
        told = capsys.readouterr().err
        assert (
            "out/eng.partial: expected the same settings, got other ones (arrays: "
            "['layer_00', 'layer_01', 'layer_02'] there"
        ) in told
        assert (
            "['layer_01'] here" in told
            and "begin anew with --restart" in told
            and GRAMMAR.fullmatch(told.strip().partition(": ")[2])
        )
        assert snapshot(place) == before
    assert extract("eng=eng.txt") == 0 and snapshot(place / "out") == whole  # it goes on
    shutil.rmtree(place / "out")
    stop_in_the_middle(monkeypatch)
    assert extract("eng=eng.txt") == 130
    assert extract("eng=eng.txt", "--layers", "1", "--restart") == 0
    assert Activations("out/eng").arrays == ["layer_01"] and sorted(
        path.name for path in (place / "out").iterdir()
    ) == ["config.json", "eng"]


def test_two_calls_at_once_into_one_folder_lose_nothing(place, encoder):
    """The second is refused; the first ends with its store."""
    import threading

    from crosslens.errors import OutputError
    from crosslens.models.extraction.extract import extract as run
    from crosslens.models.saved.loading import load_encoder
    from crosslens.readers.plain import open_text

    loaded, go, told = load_encoder(str(encoder)), threading.Barrier(2), []

    def call(layers):
        go.wait()
        try:
            run(loaded, open_text("eng.txt", "eng"), "store", layers=layers)
            told.append("written")
        except OutputError as error:
            told.append(str(error))

    threads = [threading.Thread(target=call, args=(layers,)) for layers in ([0], [1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "written" in told and any(
        "expected a folder that nobody else works in" in one or "same settings" in one
        for one in told
    ), told
    Activations("store").verify()


BAD = {
    "a layer that is not there": (
        ["--layers", "0,7"],
        "layers: expected layers from 0 to 2, each once, got 7",
    ),
    "layers that are no numbers": (
        ["--layers", "top"],
        "--layers: expected all, or numbers and ranges",
    ),
    "layers backwards": (["--layers", "2-1"], "--layers: expected all, or numbers and ranges"),
    "an unknown output": (["--outputs", "gates"], "outputs: expected"),
    "special tokens of words": (
        ["--unit", "word", "--special-tokens"],
        "special_tokens: expected False for words",
    ),
    "a device that is not there": (["--device", "cuda:77"], "device: expected"),
    "a segmenter that does not exist": (
        ["--unit", "word", "--words", "scissors"],
        "segmenter: expected",
    ),
    "lower case for words": (
        ["--unit", "word", "--lowercase"],
        "lowercase, min_count: expected no such setting",
    ),
    "no occurrences": (
        ["--unit", "type", "--min-count", "0"],
        "min_count: expected 1 or more, got 0",
    ),
    "pairs without a tab": (
        ["--unit", "pair"],
        "eng.txt:1: expected 2 tab-separated columns, got 1",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_settings_that_do_not_fit_are_refused_before_anything_is_written(place, capsys, case):
    arguments, told = BAD[case]
    before = snapshot(place)
    assert extract("eng=eng.txt", *arguments) == 2
    message = capsys.readouterr().err
    assert told in message and GRAMMAR.fullmatch(message.removeprefix("crosslens: ").strip()), (
        message
    )
    left = {
        name: what
        for name, what in snapshot(place).items()
        if name not in before and not name.startswith("out")
    }
    assert not left and not list((place / "out").glob("*") if (place / "out").exists() else [])


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("eng.txt", b"a\0b\n", "eng.txt:1: expected text, got a NUL byte"),
        ("eng.txt", b"a\xed\xa0\x80b\n", "eng.txt:1: expected UTF-8 text"),  # a lone surrogate
        (
            "words.jsonl",
            b'{"text": "a b", "words": ["a", "c"]}\n',
            "words.jsonl:1: expected word 2, 'c'",
        ),
        ("words.jsonl", b'{"text": "a \\ud800 b", "words": ["a", "b"]}\n', "words.jsonl:1: "),
        ("words.jsonl", b'{"text": "a", "spans": [[0, 9]]}\n', "words.jsonl:1: "),
        ("fra.conllu", TREE.replace("# text = du pain", "# text = du vin").encode(), "fra.conllu:"),
    ],
)
def test_texts_that_cannot_be_right_are_refused_with_their_line(place, capsys, name, content, told):
    (place / name).write_bytes(content)
    assert extract(f"eng={name}", "--unit", "word") == 2
    message = capsys.readouterr().err
    assert told in message and GRAMMAR.fullmatch(message.removeprefix("crosslens: ").strip()), (
        message
    )
    assert not (place / "out").exists()


def test_code_of_an_encoder_is_run_only_by_flag(place, capsys):
    config = json.loads((place / "encoder" / "config.json").read_text())
    config["auto_map"] = {"AutoModel": "mine.Mine", "AutoConfig": "mine.Config"}
    (place / "encoder" / "config.json").write_text(json.dumps(config))
    # Classes of its own: transformers marks those that it takes from a folder, and models saved
    # later would bring the code along.
    (place / "encoder" / "mine.py").write_text(
        "import pathlib\nfrom transformers import BertConfig, "
        "BertModel\npathlib.Path('ran').touch()\n"
        "class Config(BertConfig):\n    pass\nclass Mine(BertModel):\n    config_class = Config\n"
    )
    assert extract("eng=eng.txt") == 2
    assert "--trust-remote-code" in capsys.readouterr().err and not (place / "ran").exists()
    for name in ("fra", "deu"):
        lines = [f"{name} {i}\n" for i in range(20)]
        (place / f"{name}.txt").write_text("".join(lines), encoding="utf-8")
    assert (
        typed("study --encoder encoder --text deu=deu.txt --text fra=fra.txt --out study --quiet")
        == 2
    )
    assert (
        "--trust-remote-code" in capsys.readouterr().err
        and not (place / "ran").exists()
        and not (place / "study").exists()
    )
    assert extract("eng=eng.txt", "--trust-remote-code") == 0 and (place / "ran").exists()


def test_layers_that_are_no_list_are_refused_and_an_array_is_one(place):
    for wrong in (1, "12"):
        with pytest.raises(InputError, match="^layers: expected a list of whole numbers, got"):
            cl.extract_files("encoder", {"eng": "eng.txt"}, "out", layers=wrong)
    assert not (place / "out").exists()
    kept = cl.extract_files("encoder", {"eng": "eng.txt"}, "out", layers=np.array([0, 2]))["eng"]
    assert kept.layer_numbers == [0, 2] and read_asked("out", "extract")[0]["layers"] == "0,2"


def test_a_damaged_block_is_named_with_its_rows(place):
    assert extract("eng=eng.txt") == 0
    path = place / "out" / "eng" / "layer_01.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(Exception, match=r"layer_01.safetensors.*0 to 1"):
        Activations("out/eng").verify()


def change_a_bit(path, at=-1):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


DAMAGE = {
    "a block that has changed": (
        "layer_01.safetensors",
        change_a_bit,
        "rows 0 to 1: expected sha256 ",
    ),
    "a header that has changed": (
        "layer_01.safetensors",
        lambda path: change_a_bit(path, 20),
        "expected the header ",
    ),
    "an array that is cut": (
        "layer_01.safetensors",
        lambda path: path.write_bytes(path.read_bytes()[:-7]),
        "expected a file of 320 bytes",
    ),
    "no array": (
        "layer_01.safetensors",
        lambda path: path.unlink(),
        "expected a file of 320 bytes, got 0 bytes",
    ),
    "an index that has changed": (
        "index.parquet",
        lambda path: change_a_bit(path, 30),
        "expected sha256 ",
    ),
    "no index": ("index.parquet", lambda path: path.unlink(), "got no such file"),
    "a folder for an index": (
        "index.parquet",
        lambda path: (path.unlink(), path.mkdir()),
        "expected sha256 ",
    ),
    "checksums that have changed": ("checksums.bin", change_a_bit, "expected sha256 "),
    "no checksums": (
        "checksums.bin",
        lambda path: path.unlink(),
        "expected the checksums of the blocks",
    ),
    "an empty manifest": ("manifest.json", lambda path: path.write_bytes(b""), "expected JSON"),
    "no manifest": (
        "",
        lambda path: (path / "manifest.json").unlink(),
        "expected a folder of activations, got one without manifest.json; restore it",
    ),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_the_same_command_on_a_damaged_store_names_the_file_and_what_to_do(place, capsys, what):
    name, spoil, told = DAMAGE[what]
    assert extract("eng=eng.txt") == 0
    whole = snapshot(place / "out")
    spoil(place / "out" / "eng" / name)
    before = snapshot(place)
    capsys.readouterr()
    assert extract("eng=eng.txt") == 2
    message = capsys.readouterr()
    assert f"out/eng/{name}".rstrip("/") in message.err and told in message.err and not message.out
    assert (
        GRAMMAR.fullmatch(message.err.removeprefix("crosslens: ").strip())
        and snapshot(place) == before
    )
    shutil.rmtree(place / "out" / "eng")
    assert extract("eng=eng.txt") == 0 and snapshot(place / "out") == whole
