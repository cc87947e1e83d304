"""Data of transfer that is not what it should be: named by file and line, before anything is
trained or written."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
import shared_transfer
from typed import typed

from crosslens.models.finetuning.finetune import FineTuned
from crosslens.recipes.quickstart import DATA
from crosslens.score import read_scores

ENCODER = str(DATA / "tiny-encoder")
PAIR = "A {} sleeps here {}.\tIt is {}.\t{}\n"
TAGGED = "Ada\tB-PER\nLovelace\tI-PER\nwas{}\tO\n\n"
WORD = "{}\t{}\t_\t{}\t_\t_\t{}\t{}\t_\t_\n"


def pairs(n, label="entailment"):
    labels = ("neutral", label)
    return "".join(PAIR.format("dog", i, i, labels[i % 2]) for i in range(n))


def tagged(n):
    return "".join(TAGGED.format(i) for i in range(n))


def tree(heads, name="s"):
    words = "".join(
        WORD.format(n + 1, f"w{n}", "VERB", head, "root" if head == "0" else "obj")
        for n, head in enumerate(heads)
    )
    return f"# sent_id = {name}\n{words}\n"


def treebank(n, heads=("2", "0", "2")):
    return "".join(tree(heads, f"s{i}") for i in range(n))


def questions(start=10, n=12, given=True):
    asked = [
        {"context": f"She is in Rome {i}.", "qas": [{"id": f"q{i}", "question": f"Where {i}?"}]}
        for i in range(n)
    ]
    for one in asked:
        one["qas"][0]["answers"] = [{"text": "Rome", "answer_start": start}] * given
    return json.dumps({"data": [{"title": "Ada", "paragraphs": asked}]})


SOUND = {
    "xnli": {f"xnli/{name}.tsv": pairs(8) for name in ("train-en", "dev-en", "test-en", "test-de")},
    "ner": {
        f"ner/{name}.iob2": tagged(8)
        for name in ("en_x-ud-train", "en_x-ud-dev", "en_x-ud-test", "de_x-ud-test")
    },
    "parsing": {
        f"ud/{name}.conllu": treebank(8)
        for name in ("en_x-ud-train", "en_x-ud-dev", "en_x-ud-test", "de_x-ud-test")
    },
    "xquad": {f"xquad/xquad.{name}.json": questions() for name in ("en", "de")},
}
FAULTS = {
    "an unknown label to train on": (
        "xnli", "xnli/train-en.tsv", pairs(8) + PAIR.format("cat", 9, 9, "entailmnt"),
        ["train-en.tsv:9: expected a label (contradiction, entailment, neutral), got 'entailmnt'"],
    ),
    "a label that training lacks": (
        "xnli", "xnli/test-de.tsv", pairs(8, "contradiction"),
        ["test-de.tsv:2: expected a label that training items have (entailment, neutral)"],
    ),
    "a column too few": (
        "xnli", "xnli/test-de.tsv", pairs(4) + "A dog.\tneutral\n",
        ["test-de.tsv:5: expected 3 tab-separated columns", "got 2"],
    ),
    "XTREME's test file": (
        "xnli", "xnli/test-de.tsv", "A dog.\tIt is.\n",
        ["test-de.tsv: expected pairs with their labels, got 2 columns"],
    ),
    "another encoding": (
        "xnli", "xnli/test-de.tsv", (pairs(4) + "Ein Fuß.\tEs.\tneutral\n").encode("latin-1"),
        ["test-de.tsv:5: expected UTF-8 text, got byte 0xdf"],
    ),
    "an empty file": ("xnli", "xnli/dev-en.tsv", "", ["dev-en.tsv: expected at least one line of text, got an empty file"]),
    "0 test items": (
        "xnli", "xnli/test-de.tsv", "premise\thypo\tlabel\n",
        ["test-de.tsv: expected labelled pairs, got none"],
    ),
    "a language without data": (
        "xnli", "xnli/test-de.tsv", None, ["task xnli: expected a language of the data", "got deu"],
    ),
    "I- without B-": (
        "ner", "ner/de_x-ud-test.iob2", tagged(2) + "Bea\tI-PER\n\n",
        ["test.iob2:9: expected B-PER at the beginning of a name, as line 1 has, got 'I-PER'"],
    ),
    "a tag of another scheme": (
        "ner", "ner/en_x-ud-train.iob2", tagged(8) + "Bea\tS-PER\n\n",
        ["train.iob2:33: expected a tag B-TYPE, I-TYPE or O, got 'S-PER'"],
    ),
    "a line without a tag": (
        "ner", "ner/en_x-ud-dev.iob2", tagged(1) + "Bea\n\n",
        ["dev.iob2:5: expected a word and its tag, got 'Bea'"],
    ),
    "no names at all": ("ner", "ner/de_x-ud-test.iob2", "\n\n", ["test.iob2: expected at least one line of text"]),
    "a circle": (
        "parsing", "ud/en_x-ud-train.conllu", treebank(8) + tree(["2", "1", "0"], "round"),
        ["en_x-ud-train.conllu", "expected a tree in sentence round"],
    ),
    "two roots": (
        "parsing", "ud/en_x-ud-dev.conllu", treebank(2) + tree(["0", "0"], "two"),
        ["en_x-ud-dev.conllu", "expected one root (head 0) in sentence two, got 2"],
    ),
    "a head out of range": (
        "parsing", "ud/de_x-ud-test.conllu", treebank(2) + tree(["0", "7"], "far"),
        ["de_x-ud-test.conllu", "expected numbers from 0 to 2 in sentence far, got 7"],
    ),
    "a head that is no number": (
        "parsing", "ud/de_x-ud-test.conllu", treebank(2) + tree(["0", "_"], "none"),
        ["de_x-ud-test.conllu", "(sentence none)", "got '_'"],
    ),
    "a line of a treebank that is cut off": (
        "parsing", "ud/de_x-ud-test.conllu", treebank(2) + "1\tw\t_\n",
        ["de_x-ud-test.conllu:11: expected 10 tab-separated columns"],
    ),
    "an answer that is elsewhere": (
        "xquad", "xquad/xquad.de.json", questions(9),
        ["xquad.de.json, question 'q0': expected the answer 'Rome' at character 9", "got ' Rom'"],
    ),
    "questions without an answer": (
        "xquad", "xquad/xquad.de.json", questions(given=False),
        ["xquad.de.json: expected an answer to each question, got 12 of 12 without one"],
    ),
    "no question": (
        "xquad", "xquad/xquad.de.json", questions(n=0), ["xquad.de.json: expected questions, got"],
    ),
    "JSON that is cut off": (
        "xquad", "xquad/xquad.en.json", questions()[:-9], ["xquad.en.json: expected "],
    ),
}  # fmt: skip


def write(folder, files):
    for name, content in files.items():
        path = folder / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize("what", FAULTS)
def test_what_is_wrong_is_named_before_anything_is_trained(tmp_path, capsys, what):
    task, name, content, expected = FAULTS[what]
    write(tmp_path, SOUND[task])
    (tmp_path / "data" / name).unlink()
    if content is not None:
        write(tmp_path, {name: content})
    line = f"transfer --encoder {ENCODER} --tasks {task} --train eng --test eng,deu --quiet"
    assert typed(line, "--data", str(tmp_path / "data"), "--out", str(tmp_path / "run")) == 2
    said = capsys.readouterr().err
    assert all(one in said for one in expected), said
    assert said.count("\n") == 1 and "Traceback" not in said
    assert not (tmp_path / "run").exists()


# -- files of a run that was stopped


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """The command line, a function that lays down a run which was stopped in its second epoch, and
    the scores of one that was not."""
    folder = tmp_path_factory.mktemp("stopped")
    write(folder, SOUND["xnli"])
    line = f"transfer --encoder {ENCODER} --tasks xnli --train eng --test deu --quiet --epochs 2"
    line += " --batch-size 4 --seeds 1 --no-random-control --data"
    assert typed(line, str(folder / "data"), "--out", str(folder / "whole")) == 0

    def run(out):
        return typed(line, str(folder / "data"), "--out", str(out))

    keep = FineTuned.keep

    def keep_one(tuned, epoch, found):
        if epoch == 2:
            raise KeyboardInterrupt
        keep(tuned, epoch, found)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FineTuned, "keep", keep_one)
        assert run(folder / "half") == 130

    def stop(out):
        shutil.copytree(folder / "half", out)
        return next((out / "models").iterdir())

    return run, stop, (folder / "whole" / "scores.jsonl").read_bytes()


def cut(data):
    return data[: len(data) // 2]


def flipped(data):
    return data[:-40] + bytes([data[-40] ^ 1]) + data[-39:]


def misread(data):
    """Another number in a file that is whole."""
    return re.sub(rb"(\.\d*)(\d)", lambda m: m[1] + b"%d" % (9 - int(m[2])), data, count=1)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("checkpoints/*/model.safetensors", cut),
        ("checkpoints/*/model.safetensors", flipped),
        ("checkpoints/*/optimiser.safetensors", flipped),
        ("checkpoints/*/state.json", cut),
        ("epochs/epoch-001.safetensors", cut),
        ("epochs/epoch-001.safetensors", flipped),
        ("epochs/checksums.json", cut),
        ("epochs/checksums.json", flipped),
        ("epochs.json", cut),
        ("epochs.json", misread),
    ],
)
def test_a_damaged_file_is_named_and_nothing_else_is_lost(stopped, tmp_path, capsys, name, damage):
    run, stop, scores = stopped
    fit = stop(tmp_path / "run")
    (path,) = fit.glob(name)
    sound = path.read_bytes()
    path.write_bytes(damage(sound))
    capsys.readouterr()
    assert run(tmp_path / "run") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and str(path.parent) in said, said
    path.write_bytes(sound)
    assert run(tmp_path / "run") == 0
    assert (tmp_path / "run" / "scores.jsonl").read_bytes() == scores


def test_weights_that_are_gone_are_named(stopped, tmp_path, capsys):
    run, stop, scores = stopped
    fit = stop(tmp_path / "run")
    (fit / "epochs" / "epoch-001.safetensors").unlink()
    assert run(tmp_path / "run") == 2
    said = capsys.readouterr().err
    assert "epoch-001.safetensors: expected the weights that were written" in said
    assert f"delete {fit}" in said
    shutil.rmtree(fit)
    assert run(tmp_path / "run") == 0
    assert (tmp_path / "run" / "scores.jsonl").read_bytes() == scores


# -- several processes


def started(folder, out, *before):
    line = f"transfer --encoder {ENCODER} --tasks xnli,ner --train eng --test deu --in-language"
    line += " --epochs 2 --batch-size 4 --seeds 2 --data"
    command = [sys.executable, *before, shared_transfer.__file__, *line.split()]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, str(folder / "data"), "--out", str(out)],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_two_processes_end_in_the_scores_of_one(tmp_path):
    write(tmp_path, SOUND["xnli"] | SOUND["ner"] | {"xnli/train-de.tsv": pairs(8)})
    two = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    said = []
    for name, before in (("one", ()), ("two", two), ("two", two)):  # the last one is finished
        done = started(tmp_path, tmp_path / name, *before)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert said[0].replace("/one/", "/two/") == said[1] == said[2]
    alone, shared = (read_scores(tmp_path / name / "scores.jsonl") for name in ("one", "two"))
    for mine, theirs in zip(alone, shared, strict=True):
        assert mine.value == pytest.approx(theirs.value, nan_ok=True)
        assert (mine.n, mine.condition, mine.seed) == (theirs.n, theirs.condition, theirs.seed)
    (tmp_path / "data" / "xnli" / "test-de.tsv").write_text("A dog.\tneutral\n")
    done = started(tmp_path, tmp_path / "wrong", *two)
    assert done.returncode and "test-de.tsv: expected pairs with their labels" in done.stderr
    assert not (tmp_path / "wrong").exists()


@pytest.mark.parametrize("task", SOUND)
def test_what_is_right_is_no_fault(tmp_path, task):
    from crosslens.probes.tasks.data_folder import DataFolder
    from crosslens.run.transfer.data import transfer_data

    write(tmp_path, SOUND[task])
    data = transfer_data(task, DataFolder(tmp_path / "data"), ["eng"], ["eng", "deu"])
    assert "deu" in data.tests
