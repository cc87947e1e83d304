"""Bad input through the whole command line: one line on stderr in the one grammar, status 2, and
nothing written."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from ground_tools import GRAMMAR, snapshot
from typed import typed

from crosslens.cli.main import main

WORDS = "the cat dog sun sea red big old new sees eats runs sits finds on in by and a house".split()


def lines(n: int) -> list[str]:
    return [f"{WORDS[i % 20]} {WORDS[i // 20 % 20]} {WORDS[i * 7 % 20]}." for i in range(n)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two good texts of 24 lines, a small encoder, stores of both texts. Read only: ``place`` makes
    copies."""
    from crosslens.models.network.encoder import EncoderConfig, MaskedLM
    from crosslens.models.saved.interop import export_model
    from crosslens.models.text.tokenisation import Vocabulary, train_tokenizer

    top = tmp_path_factory.mktemp("made")
    for language in ("eng", "fra"):
        (top / f"{language}.txt").write_text(
            "".join(f"{line}\n" for line in lines(24)), encoding="utf-8"
        )
    tokenizer = train_tokenizer({"eng": lines(200)}, Vocabulary(size=60, sentences=200))
    config = EncoderConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=8,
        layers=1,
        heads=2,
        ffn_size=8,
        max_positions=32,
    )
    export_model(MaskedLM(config), tokenizer, top / "encoder")
    (top / "recipe.toml").write_text(
        'name = "r"\nsteps = 2\n[[sources]]\nname = "s"\ntexts = {eng = "eng.txt", fra = '
        '"fra.txt"}\n'
    )
    texts = [f"{language}={top / f'{language}.txt'}" for language in ("eng", "fra")]
    assert (
        typed(
            "extract",
            "--encoder",
            str(top / "encoder"),
            "--text",
            *texts,
            "--out",
            str(top / "stores"),
            "--quiet",
        )
        == 0
    )
    return top


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    """A folder to stand in, with copies of everything, that a test may spoil; hub names are looked
    for in the cache only."""
    shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path / "here"


@pytest.fixture
def refused(place, capsys):
    """Run a command that must be refused; returns its message. Nothing may be written, wherever it
    would have been."""

    def run(*arguments: str) -> str:
        before = snapshot(place)
        capsys.readouterr()
        try:
            status = main(list(arguments))
        except SystemExit as ended:  # argparse ends the process itself
            status = ended.code
        out, err = capsys.readouterr()
        assert (status, out) == (2, ""), err
        assert err.startswith("crosslens: ") and err.endswith("\n") and err.count("\n") == 1, err
        message = err.removeprefix("crosslens: ").rstrip("\n")
        assert GRAMMAR.fullmatch(message), message
        assert snapshot(place) == before
        return message

    return run


SPOILT_TEXTS = {
    "missing": (
        lambda p: (p / "fra.txt").unlink(),
        "fra.txt: expected a text file that can be read, got no such file; check the path",
    ),
    "a folder": (
        lambda p: ((p / "fra.txt").unlink(), (p / "fra.txt").mkdir()),
        "fra.txt: expected a text file, got a folder; ",
    ),
    "empty": (
        lambda p: (p / "fra.txt").write_bytes(b""),
        "fra.txt: expected at least one line of text, got an empty file; ",
    ),
    "blank line": (
        lambda p: (p / "fra.txt").write_bytes(b"a\n\n" + b"b\n" * 22),
        "fra.txt:2: expected a sentence, got a blank line; ",
    ),
    "Latin-1": (
        lambda p: (p / "fra.txt").write_bytes(b"a\ncaf\xe9\n" * 12),
        "fra.txt:2: expected UTF-8 text, got byte 0xe9; ",
    ),
    "UTF-16": (
        lambda p: (p / "fra.txt").write_bytes("a\nb\n".encode("utf-16")),
        "fra.txt:1: expected text, got a NUL byte; ",
    ),
}
SPOILT_ENCODERS = {
    "no folder": (
        lambda e: shutil.rmtree(e),
        "encoder: expected a model folder or the name of a model on the hub, got 'encoder', ",
    ),
    "no weights": (
        lambda e: (e / "model.safetensors").unlink(),
        "encoder encoder: expected weights as safetensors, got no weights; ",
    ),
    "pickled weights": (
        lambda e: (e / "model.safetensors").rename(e / "pytorch_model.bin"),
        (
            "encoder encoder: expected weights as safetensors, got only pickled weights "
            "(pytorch_model.bin); "
        ),
    ),
    "no tokeniser": (
        lambda e: (e / "tokenizer.json").unlink(),
        "encoder encoder: expected a tokeniser (tokenizer.json), got none ",
    ),
    "no config": (
        lambda e: (e / "config.json").unlink(),
        "encoder encoder: expected a model folder with config.json, got none in it; ",
    ),
}
STUDY = "study --encoder encoder --text eng=eng.txt --text fra=fra.txt --out out".split()
EXTRACT = "extract --encoder encoder --text eng=eng.txt fra=fra.txt --out out".split()


@pytest.mark.parametrize("command", [STUDY, EXTRACT], ids=["study", "extract"])
@pytest.mark.parametrize(("spoil", "told"), SPOILT_TEXTS.values(), ids=SPOILT_TEXTS.keys())
def test_bad_text(refused, place, command, spoil, told):
    spoil(place)
    assert refused(*command).startswith(told)


@pytest.mark.parametrize("command", [STUDY, EXTRACT], ids=["study", "extract"])
@pytest.mark.parametrize(("spoil", "told"), SPOILT_ENCODERS.values(), ids=SPOILT_ENCODERS.keys())
def test_bad_encoder(refused, place, command, spoil, told):
    spoil(place / "encoder")
    assert refused(*command).startswith(told)


@pytest.mark.parametrize("name", ["no-such-organisation/no-such-model", "no-such-model-anywhere"])
def test_unknown_hub_name(refused, name):
    told = refused("extract", "--encoder", name, "--text", "eng=eng.txt", "--out", "out")
    assert told.startswith(
        f"encoder: expected a model folder or the name of a model on the hub, got '{name}', "
        f"which could not be had ("
    )


def test_line_counts_that_differ_are_named(refused, place):
    (place / "fra.txt").write_text("a\n" * 23)
    assert refused(*STUDY).startswith(
        "texts: expected the same number of lines in every language, got eng 24, fra 23; "
    )


def test_too_few_sentences(refused, place):
    for language in ("eng", "fra"):
        (place / f"{language}.txt").write_text("a\n" * 19)
    assert refused(*STUDY).startswith("texts: expected at least 20 sentences, got 19; ")


MISTAKES = {
    "mistyped verb": (
        ["stduy"],
        (
            "arguments: expected those of `crosslens --help`, got a mistake (no verb is called "
            "'stduy': did you mean study"
        ),
    ),
    "unknown verb": (["zzz"], "arguments: expected those of `crosslens --help`, got a mistake ("),
    "mistyped option": (
        ["study", "--encodr", "x"],
        (
            "arguments: expected those of `crosslens study --help`, got a mistake (no option is "
            "called --encodr: did you mean --encoder?"
        ),
    ),
    "unknown option": (
        [*STUDY, "--zzz"],
        (
            "arguments: expected those of `crosslens study --help`, got a mistake (unrecognized "
            "arguments: --zzz"
        ),
    ),
    "missing option": (
        STUDY[:-2],
        "arguments: expected those of `crosslens study --help`, got a mistake (",
    ),
    "seed a word": (
        [*STUDY, "--seed", "x"],
        "arguments: expected those of `crosslens study --help`, got a mistake (argument --seed: ",
    ),
    "seed below 0": (
        [*STUDY, "--seed", "-1"],
        "arguments: expected those of `crosslens study --help`, got a mistake (argument --seed: ",
    ),
    "seed too large": (
        [*EXTRACT, "--random-seed", "9" * 30],
        "arguments: expected those of `crosslens extract --help`, got a mistake ",
    ),
    "no place": (
        ["derive", "--text", "eng=eng.txt", "--by", "inversion", "--out", ""],
        (
            "arguments: expected those of `crosslens derive --help`, got a mistake (argument "
            "--out: a place is needed, not ''"
        ),
    ),
    "fraction 2": (
        [*STUDY, "--train-fraction", "2"],
        "arguments: expected those of `crosslens study --help`, got a mistake (argument --tr",
    ),
    "fraction NaN": (
        ["align", "stores/eng", "stores/fra", "--train-fraction", "nan"],
        (
            "arguments: expected those of `crosslens align --help`, got a mistake (argument "
            "--train-fraction: "
        ),
    ),
    "nothing to train on": (
        [*STUDY, "--train-fraction", "0.01"],
        "train_fraction: expected at least 10 sentences on either side, got 0 and 24; ",
    ),
    "one text": (STUDY[:5] + STUDY[7:], "texts: expected texts in two or more languages, got 1; "),
    "text without language": (
        ["extract", "--encoder", "encoder", "--text", "eng.txt", "--out", "out"],
        "--text: expected LANGUAGE=FILE, such as fra=fra.txt, got 'eng.txt'; ",
    ),
    "a language twice": (
        ["extract", "--encoder", "encoder", "--text", "eng=eng.txt", "eng=fra.txt", "--out", "out"],
        "--text: expected each language once, got eng twice; ",
    ),
    "an encoder too few": (
        [*STUDY, "--encoder", "fra=encoder"],
        "--encoder: expected one encoder, or LANGUAGE=ENCODER for each text, got ",
    ),
    "encoders of other languages": (
        ["study", "--encoder", "deu=encoder", "--encoder", "eng=encoder", *STUDY[3:]],
        (
            "encoders: expected one encoder for all, or exactly one for each text's language, "
            "got encoders for deu, eng and texts "
        ),
    ),
    "no store": (
        ["align", "stores/eng", "stores/deu"],
        "stores/deu: expected a folder of activations, got no manifest.json in it; ",
    ),
    "the same store twice": (
        ["compare", "stores/eng", "stores/eng"],
        "sides: expected different ones, got stores/eng, stores/eng; ",
    ),
    "one language twice": (
        ["align", "stores/eng", "stores/eng"],
        "sides: expected different ones, got stores/eng, stores/eng; ",
    ),
    "one store": (
        ["probe", "stores/eng"],
        "ACTIVATIONS: expected activations of two or more languages, got 1; ",
    ),
    "no study": (["report", "stores"], "folder: expected a run of "),
    "no folder to report": (
        ["report", "nowhere"],
        "nowhere: expected the folder of a finished study, got no such folder; check the path",
    ),
    "a file to report": (
        ["report", "eng.txt"],
        "eng.txt: expected the folder of a finished study, got a file; check the path",
    ),
    "no recipe": (
        ["train", "none.toml", "--out", "out"],
        "recipe: expected a TOML file, one of tiny-encoder, emergence, ",
    ),
    "no TOML": (
        ["train", "eng.txt", "--out", "out"],
        "eng.txt: expected a TOML file, got something else (",
    ),
    "unknown setting": (
        ["train", "recipe.toml", "maskin.rate=1", "--out", "out"],
        "maskin.rate: expected a setting of the recipe, got ",
    ),
    "setting of another type": (
        ["train", "recipe.toml", "steps=many", "--out", "out"],
        "steps: expected int, got 'many'; ",
    ),
    "setting without a value": (
        ["train", "recipe.toml", "steps", "--out", "out"],
        "settings: expected key=value, such as steps=2000, got 'steps'; ",
    ),
    "value without a setting": (
        ["train", "recipe.toml", "=3", "--out", "out"],
        "settings: expected key=value, such as steps=2000, got '=3'; ",
    ),
    "dry run without a seed": (
        ["train", "deshpande-pairs", "--seeds", "0", "--dry-run"],
        "--seeds: expected 1 or more, got 0; ",
    ),
    "dry run with seeds of one training": (
        ["train", "emergence", "--seeds", "2", "--dry-run"],
        "seeds: expected a controlled study by name, got emergence; ",
    ),
}


@pytest.mark.parametrize(("arguments", "told"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_in_the_arguments(refused, arguments, told):
    assert refused(*arguments).startswith(told)


def test_stores_of_other_sentences(refused, place):
    (place / "short.txt").write_text("".join(f"{line}\n" for line in lines(21)))
    assert typed("extract --encoder encoder --text deu=short.txt --out stores --quiet") == 0
    assert refused("align", "stores/eng", "stores/deu").startswith(
        "stores/deu: expected the same items as stores/eng (24), got 21 others; "
    )


def test_a_damaged_store_is_named(refused, place):
    path = place / "stores" / "fra" / "layer_01.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    for verb in ("align", "compare", "probe"):
        assert refused(verb, "stores/eng", "stores/fra").startswith(
            "stores/fra/layer_01.safetensors: expected a file of "
        )


def test_a_store_of_other_settings_is_refused_naming_the_difference(refused, place):
    (place / "eng.txt").write_text("something else\n" * 24)
    told = refused("extract", "--encoder", "encoder", "--text", "eng=eng.txt", "--out", "stores")
    assert told.startswith(
        "stores/eng: expected the same settings, got other ones (text: '"
    ) and told.endswith("; choose another folder, or delete this one")


def test_a_run_of_other_settings_is_refused_naming_the_difference(refused, place):
    assert main([*STUDY, "--quiet"]) == 0
    told = refused(*STUDY, "--seed", "3", "--train-fraction", "0.6")
    assert (
        "out: expected the same settings, got other ones (seed: 0 there, 3 here; "
        "train_fraction: 0.5 there, 0.6 here); "
    ) in told
    told = refused("train", "recipe.toml", "--out", "out")
    assert told == (
        "out: expected a run made by `crosslens train`, got one of `crosslens study`; choose "
        "another folder"
    )


@pytest.mark.parametrize(
    "command",
    [STUDY, EXTRACT, ["train", "recipe.toml", "--out", "out"]],
    ids=["study", "extract", "train"],
)
def test_a_folder_with_other_files_is_refused(refused, place, command):
    folder = place / "out" / "eng" if command is EXTRACT else place / "out"
    folder.mkdir(parents=True)
    (folder / "thesis.tex").write_text("years of work")
    (place / "out" / ".lock").touch()  # extract locks the folder that holds its stores
    assert "choose another folder" in refused(*command)


@pytest.mark.parametrize("command", [STUDY, EXTRACT], ids=["study", "extract"])
def test_an_out_that_is_a_file_is_refused(refused, place, command):
    (place / "out").write_text("years of work")
    refused(*command)


def test_a_scores_file_that_is_damaged_is_named_with_its_line(refused, place):
    (place / "run").mkdir()
    (place / "run" / "config.json").write_text(json.dumps({"kind": "study", "settings": {}}))
    (place / "run" / "scores.jsonl").write_text('{"quantity": "loss", "val')
    assert refused("report", "run").startswith("run/scores.jsonl:1: expected JSON, got ")


def test_as_a_process_it_is_the_same_and_interrupts_and_faults_are_one_line(
    place, monkeypatch, capsys
):
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "crosslens.cli.main",
            "extract",
            "--encoder",
            "encoder",
            "--text",
            "eng=none.txt",
            "--out",
            "out",
        ],
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == (
        "crosslens: none.txt: expected a text file that can be read, got no such file; check "
        "the path\n"
    )
    from crosslens.cli import main as cli

    def raising(error):
        def doctor(_):
            raise error

        return doctor

    for error, status, told in [
        (KeyboardInterrupt(), 130, "stopped"),
        (
            MemoryError(),
            2,
            (
                "memory: expected enough for the work, got none left; give less text at a time, "
                "or a smaller encoder"
            ),
        ),
        (
            OSError(28, os.strerror(28), "out/x"),
            2,
            (
                "out/x: expected a file that can be read or written, got an error (No space left "
                "on device); free"
            ),
        ),
        (
            ZeroDivisionError("a\nb"),
            1,
            (
                "internal error: ZeroDivisionError: a b; set CROSSLENS_TRACEBACK=1 to see where, "
                "and report it"
            ),
        ),
    ]:
        monkeypatch.setitem(cli._VERBS, "doctor", (raising(error), *cli._VERBS["doctor"][1:]))
        assert main(["doctor"]) == status
        err = capsys.readouterr().err
        assert err.startswith(f"crosslens: {told}") and err.count("\n") == 1
    monkeypatch.setenv("CROSSLENS_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        main(["doctor"])


def test_json_output_is_json_in_every_line(place, capsys):
    for command in (
        ["align", "stores/eng", "stores/fra"],
        ["compare", "stores/eng", "stores/fra"],
        ["probe", "stores/eng", "stores/fra"],
    ):
        assert main([*command, "--json"]) == 0
        rows = [
            json.loads(line, parse_constant=pytest.fail)
            for line in capsys.readouterr().out.splitlines()
        ]
        assert rows and all({"quantity", "value", "n", "layer"} <= row.keys() for row in rows)
