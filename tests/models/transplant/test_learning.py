"""New embeddings that are trained under a frozen body: what moves, what it costs, how it is resumed."""

import contextlib
import copy
import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from processes import command
from safetensors.torch import load_file
from torch.nn import functional as F
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoTokenizer,
    XLMConfig,
    XLMModel,
    XLMWithLMHeadModel,
)

from crosslens.cli.main import main
from crosslens.corpus import Corpus
from crosslens.errors import InputError, OutputError, StoreError, TrainingError
from crosslens.models.machine.distributed import World
from crosslens.models.transplant import learning, transplant
from crosslens.models.transplant.learning import _MaskedWords, _Objective, _Rows
from crosslens.models.transplant.new_vocabulary import load_whole_encoder
from crosslens.models.transplant.transplant import transplant_vocabulary
from crosslens.recipes.quickstart import DATA

FRENCH = (DATA / "corpus" / "fra.txt").read_text(encoding="utf-8").splitlines()[:300]
TEXT = Corpus("fra", FRENCH, [str(n) for n in range(len(FRENCH))], "french")
FEW = Corpus("fra", FRENCH[:30], [str(n) for n in range(30)], "few")
TINY = DATA / "tiny-encoder"
STEPS = 12
TOKENS = STEPS * learning.BATCH_TOKENS


def made(out, **more):
    told = {"by": "overlap", "size": 400, "tokens": TOKENS, "device": "cpu", **more}
    encoder, text = told.pop("encoder", TINY), told.pop("text", TEXT)
    return transplant_vocabulary(encoder, text, out, **told)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished transplant. Not to be written to."""
    return made(tmp_path_factory.mktemp("trained") / "fra")


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    """What that begins with: nothing of it knows the sentences that are held out."""
    known = learning.held_out(FRENCH, 0)[0]
    text = Corpus("fra", known, [str(n) for n in range(len(known))], "french")
    return made(tmp_path_factory.mktemp("untrained") / "fra", tokens=None, text=text)


def test_nothing_moves_but_rows_of_the_new_subwords_and_their_bias(trained, untrained):
    before, after = (load_file(one.folder / "model.safetensors") for one in (untrained, trained))
    table, bias = "bert.embeddings.word_embeddings.weight", "cls.predictions.bias"
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {table, bias} and before.keys() == after.keys()
    tokenizer = AutoTokenizer.from_pretrained(trained.folder)
    special = sorted(tokenizer.all_special_ids)
    others = sorted(set(range(400)) - set(special))
    for name in (table, bias):
        assert torch.equal(before[name][special], after[name][special])
        still = (before[name][others] == after[name][others]).reshape(len(others), -1).all(1)
        assert not still.any()
    assert sorted(path.name for path in trained.folder.parent.iterdir()) == ["fra"]


def test_the_perplexities_are_those_of_transformers_own_model(trained, untrained):
    """Of the finished folder and of the first one, on the same masks, by transformers alone."""
    curve = trained.learnt.perplexities
    assert [*curve][0] == 0 and len(curve) > 5 and min(curve.values()) < curve[0] / 1.3
    for folder, expected in (
        (untrained.folder, curve[0]),
        (trained.folder, [*curve.values()][-1]),
    ):
        model = AutoModelForMaskedLM.from_pretrained(folder).eval()
        rows = _Rows(AutoTokenizer.from_pretrained(folder), TEXT, 126, 0, "cpu")
        losses = []
        for part in rows.judged().parts:
            labels = torch.full_like(part["ids"], -100)
            labels[tuple(part["at"].T)] = part["answers"]
            with torch.no_grad():
                logits = model(input_ids=part["ids"], attention_mask=part["mask"]).logits
            losses.append(F.cross_entropy(logits.transpose(1, 2), labels, reduction="none"))
        masked = sum(len(part["at"]) for part in rows.judged().parts)
        assert np.exp(sum(float(one.sum()) for one in losses) / masked) == pytest.approx(
            expected, rel=1e-4
        )
        assert trained.learnt.masked == masked
    told = json.loads((trained.folder / "transplant.json").read_text())
    assert told["learnt"]["perplexities"] == {str(n): value for n, value in curve.items()}


@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta", "xlm-roberta"])
def test_loss_and_gradients_are_those_of_a_tied_model(originals, family):
    """Every layout of a head: what the rows get is what the input and the output would get."""
    model = AutoModelForMaskedLM.from_pretrained(originals[family]).eval()
    plain = copy.deepcopy(model)
    tokenizer = AutoTokenizer.from_pretrained(originals[family])
    rows = _Rows(tokenizer, TEXT, 40, 0, "cpu")
    part = rows.batch(3).parts[0]
    learner = _MaskedWords(model, rows.learnt, 0).eval()
    loss = learner(**part)
    loss.backward()
    mine = learner.rows.grad, learner.bias.grad
    logits = plain(input_ids=part["ids"], attention_mask=part["mask"]).logits
    expected = F.cross_entropy(logits[tuple(part["at"].T)], part["answers"], reduction="sum")
    expected.backward()
    torch.testing.assert_close(loss, expected)
    table, output = plain.get_input_embeddings(), plain.get_output_embeddings()
    pad = table.padding_idx  # transformers' table has no gradient there, and it is special
    assert pad is None or pad not in rows.learnt
    torch.testing.assert_close(mine[0], table.weight.grad[rows.learnt], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mine[1], output.bias.grad[rows.learnt], rtol=1e-4, atol=1e-5)
    assert all(one.grad is None for one in model.parameters())


def test_xlm_keeps_a_head_that_shares_the_embeddings(tmp_path):
    shape = XLMConfig(vocab_size=90, emb_dim=16, n_layers=1, n_heads=2)
    XLMWithLMHeadModel(shape).save_pretrained(tmp_path)
    model = load_whole_encoder("xlm", tmp_path, False).model
    assert isinstance(model, XLMWithLMHeadModel)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    told = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**told, "asm": True}))
    model = load_whole_encoder("xlm", tmp_path, False).model  # an adaptive softmax shares nothing
    assert isinstance(model, XLMModel)


@pytest.fixture(scope="module")
def headless(tmp_path_factory):
    """An encoder without a head for masked words; new ones are trained for few updates here, since
    the text is short."""
    folder = tmp_path_factory.mktemp("headless") / "body"
    AutoModel.from_pretrained(TINY).save_pretrained(folder)
    AutoTokenizer.from_pretrained(TINY).save_pretrained(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(learning, "HEAD_STEPS", 8)
        yield folder


@pytest.fixture(scope="module")
def trained_below_a_new_head(headless, tmp_path_factory):
    """A finished transplant of it. Not to be written to."""
    return made(tmp_path_factory.mktemp("trained") / "fra", encoder=headless)


def test_an_encoder_without_a_head_has_none_afterwards(headless, trained_below_a_new_head):
    found = trained_below_a_new_head
    old, new = (load_file(one / "model.safetensors") for one in (headless, found.folder))
    moved = {name for name in old if name not in new or not torch.equal(old[name], new[name])}
    table = "embeddings.word_embeddings.weight"
    assert moved == {table} and old.keys() == new.keys()
    tokenizer = AutoTokenizer.from_pretrained(found.folder)
    theirs = AutoTokenizer.from_pretrained(headless)
    for name in tokenizer.all_special_tokens:
        mine, other = (t.convert_tokens_to_ids(name) for t in (tokenizer, theirs))
        assert torch.equal(new[table][mine], old[table][other])


def test_a_new_head_is_trained_first_with_the_embeddings_as_they_are(
    headless, trained_below_a_new_head, tmp_path, monkeypatch
):
    """So the perplexity before is that of what the embeddings begin with: the same whatever they are
    trained on, and below a unigram model's, which a head that is just sampled is far from."""
    found = trained_below_a_new_head.learnt
    curve = [*found.perplexities.values()]
    assert found.new_head and [*found.perplexities][0] == 0
    assert 5_000 < found.head_tokens < learning.HEAD_STEPS * learning.BATCH_TOKENS
    assert curve[-1] < curve[0] < found.unigram
    told = json.loads((trained_below_a_new_head.folder / "transplant.json").read_text())["learnt"]
    assert told["new_head"] is True and told["head_tokens"] == found.head_tokens
    moved, stood = [], {}
    run_loop = learning.run_loop

    def watched(objective, settings, *others):
        before = {name: one.clone() for name, one in objective.model.state_dict().items()}
        # frequencies, of which special tokens, whose bias is 0, have the least
        assert settings.name != "head" or 0 <= before["bias"].min() < before["bias"].max()
        weights = run_loop(objective, settings, *others)
        moved.append({name for name in before if not torch.equal(before[name], weights[name])})
        stood.update({settings.name: settings.steps})
        return weights

    monkeypatch.setattr(learning, "run_loop", watched)
    other = made(tmp_path / "fra", encoder=headless, tokens=learning.BATCH_TOKENS)
    assert "rows" not in moved[0] and {"bias", "head.0.weight"} <= moved[0]
    assert {"rows", "bias", "head.0.weight"} <= moved[1]
    assert stood == {"head": learning.HEAD_STEPS, "embeddings": 1}
    assert other.learnt.perplexities[0] == curve[0]


def test_an_encoder_with_a_head_keeps_it_and_says_so(trained):
    assert not trained.learnt.new_head and trained.learnt.head_tokens == 0
    told = json.loads((trained.folder / "transplant.json").read_text())["learnt"]
    assert told["new_head"] is False
    assert told["converged"] is True is trained.learnt.converged


@pytest.mark.parametrize(
    ("curve", "converged"),
    [((90.0, 60.0), True), ((50.0, 51.0), False), ((900.0, 75.0), False), ((9.0, math.nan), False)],
)
def test_a_training_converges_that_ends_below_its_start_and_a_unigram_model(curve, converged):
    learnt = learning.Learnt(dict(zip((0, 4096), curve, strict=True)), unigram=75.0, masked=9)
    assert learnt.converged is converged and learnt.told()["converged"] is converged


def test_a_sentence_that_is_held_out_is_nowhere_trained_on_however_often_it_stands():
    twice = Corpus("fra", FRENCH * 2, [str(n) for n in range(600)], "french twice")
    rows = _Rows(AutoTokenizer.from_pretrained(TINY), twice, 126, 0, "cpu")
    assert (len(rows.held_out), len(rows.rows)) == (15, 570)
    kept = {tuple(row.tolist()) for row in rows.held_out}
    assert len(kept) == 15 and not kept & {tuple(row.tolist()) for row in rows.rows}


def test_masks_are_of_the_text_and_held_out_sentences_are_not_trained_on():
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    rows = _Rows(tokenizer, TEXT, 40, 7, "cpu")
    assert len(rows.held_out) == 15 and len(rows.rows) == 285
    n = masks = chosen = 0
    for step in range(6):
        batch = rows.batch(step)
        assert batch.predicted == sum(len(part["at"]) for part in batch.parts)
        for part in batch.parts:
            answers, shown = part["answers"].numpy(), part["ids"][tuple(part["at"].T)].numpy()
            assert not rows.special[answers].any() and part["mask"][tuple(part["at"].T)].all()
            chosen, masks = (
                chosen + len(answers),
                masks + int((shown == tokenizer.mask_token_id).sum()),
            )
            n += int(part["mask"].sum()) - 2 * len(part["ids"])  # [CLS] and [SEP]
    assert chosen / n == pytest.approx(0.15, abs=0.01)
    assert masks / chosen == pytest.approx(0.8, abs=0.06)
    again, first = rows.batch(2).parts[0], _Rows(tokenizer, TEXT, 40, 7, "cpu").batch(2).parts[0]
    assert all(torch.equal(again[name], first[name]) for name in again)
    seen = np.sort(np.concatenate(rows.plans[0]))
    assert seen.tolist() == list(range(285))  # each once in an epoch


@pytest.mark.parametrize(
    ("part", "step"), [pytest.param("head", 5, marks=pytest.mark.slow), (".", 9)]
)
def test_a_new_head_and_what_is_below_it_are_resumed_to_the_same_bytes(
    headless, trained_below_a_new_head, tmp_path, monkeypatch, part, step
):
    batch = _Objective.batch

    def stopped(self, number):
        if number == step and self.model.rows.requires_grad is (part == "."):
            raise KeyboardInterrupt
        return batch(self, number)

    with monkeypatch.context() as patched:
        patched.setattr(_Objective, "batch", stopped)
        with pytest.raises(KeyboardInterrupt):
            made(tmp_path / "fra", encoder=headless)
    assert list((tmp_path / "fra.training" / "seed-0" / part).glob("checkpoints/step-*"))
    again = made(tmp_path / "fra", encoder=headless)
    assert [path.name for path in tmp_path.iterdir()] == ["fra"]
    for name in ("model.safetensors", "transplant.json"):
        expected = (trained_below_a_new_head.folder / name).read_bytes()
        assert (again.folder / name).read_bytes() == expected, name


def test_a_stopped_training_is_resumed_to_the_same_bytes(trained, tmp_path, monkeypatch):
    forward, left = _MaskedWords.forward, [9 * 4]

    def counted(self, **inputs):
        left[0] -= self.training
        if left[0] == 0:
            raise KeyboardInterrupt
        return forward(self, **inputs)

    with monkeypatch.context() as patched:
        patched.setattr(_MaskedWords, "forward", counted)
        with pytest.raises(KeyboardInterrupt):
            made(tmp_path / "fra")
    beside = tmp_path / "fra.training"
    assert not (tmp_path / "fra").exists() and list(beside.glob("seed-0/checkpoints/step-*"))
    with pytest.raises(OutputError, match=r"the transplant that was begun \(tokens differ\)"):
        made(tmp_path / "fra", tokens=2 * TOKENS)
    again = made(tmp_path / "fra")
    assert not beside.exists()
    for name in ("model.safetensors", "config.json", "transplant.json", "tokenizer.json"):
        assert (again.folder / name).read_bytes() == (trained.folder / name).read_bytes(), name


def test_a_training_that_is_done_is_returned_where_a_kill_left_what_lies_beside(
    trained, tmp_path, monkeypatch
):
    from crosslens.models.transplant import transplant as module

    write = module.write_encoder

    def killed(model, tokenizer, told, out):
        write(model, tokenizer, told, out)
        if out == tmp_path / "fra":
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, "write_encoder", killed)
        with pytest.raises(KeyboardInterrupt):
            made(tmp_path / "fra")
    beside, model = tmp_path / "fra.training", tmp_path / "fra" / "model.safetensors"
    assert beside.is_dir() and model.read_bytes()
    with pytest.raises(OutputError, match="--out: expected a new folder"):
        made(tmp_path / "fra", tokens=2 * TOKENS)
    with pytest.raises(OutputError, match="--out: expected a new folder"):
        made(tmp_path / "fra", tokens=None)
    assert beside.is_dir()
    monkeypatch.setattr(module, "_train", None)
    again = made(tmp_path / "fra")
    assert dataclasses.replace(again, folder=trained.folder) == trained
    assert not beside.exists()
    with pytest.raises(OutputError, match="--out: expected a new folder"):
        made(tmp_path / "fra")


@pytest.mark.slow  # processes that import torch
@pytest.mark.parametrize(
    ("until", "times"),
    [
        ("transplant.json", 1),
        ("seed-0/start", 1),
        ("seed-0/log.jsonl", 1),
        ("seed-0/checkpoints/step-00000006", 1),
        ("seed-1/start", 2),
        ("seed-1/checkpoints/step-00000006", 2),
    ],
)
def test_after_kill_9_the_same_command_ends_with_the_same_bytes(trained, tmp_path, until, times):
    (tmp_path / "french.txt").write_text("".join(f"{line}\n" for line in FRENCH), encoding="utf-8")
    line = [sys.executable, "-m", "crosslens.cli.main", "transplant", "--encoder", str(TINY)]
    line += ["--text", f"fra={tmp_path / 'french.txt'}", "--by", "overlap", "--vocabulary", "400"]
    line += ["--tokens", str(TOKENS), "--device", "cpu", "--quiet", "--out", str(tmp_path / "fra")]
    line += ["--times", str(times)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(line, env=environment)
    deadline = time.monotonic() + 120
    while not (tmp_path / "fra.training" / until).exists() and time.monotonic() < deadline:
        time.sleep(0.002)
    process.kill()
    assert process.wait() == -9 and not (tmp_path / "fra").exists()
    subprocess.run(line, env=environment, check=True, timeout=300)
    assert not (tmp_path / "fra.training").exists()
    whole = trained if times == 1 else made(tmp_path / "whole", times=times)
    model = (tmp_path / "fra" / "model.safetensors").read_bytes()
    assert model == (whole.folder / "model.safetensors").read_bytes()


@pytest.mark.slow  # three times two processes that import torch
@pytest.mark.parametrize("killed", [0, 1])
def test_two_processes_one_of_which_is_killed_end_with_the_same_bytes(tmp_path, killed):
    (tmp_path / "french.txt").write_text("".join(f"{line}\n" for line in FRENCH), encoding="utf-8")
    line = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    line += ["-m", "crosslens.cli.main", "transplant", "--encoder", str(TINY), "--by", "overlap"]
    line += ["--text", f"fra={tmp_path / 'french.txt'}", "--vocabulary", "400", "--quiet"]
    line += ["--tokens", str(TOKENS), "--device", "cpu", "--out"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*line, str(tmp_path / "whole")], env=environment, check=True, timeout=300)
    process = subprocess.Popen(
        [*line, str(tmp_path / "fra")], env=environment, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    until = tmp_path / "fra.training" / "seed-0" / "checkpoints" / "step-00000006"
    while not until.exists() and time.monotonic() < deadline:
        time.sleep(0.002)
    os.kill(_process_of_rank(process.pid, killed), signal.SIGKILL)
    told = process.communicate(timeout=120)[1]
    assert process.returncode and "Signal 9" in told, told
    assert until.parent.is_dir() and not (tmp_path / "fra").exists()
    subprocess.run([*line, str(tmp_path / "fra")], env=environment, check=True, timeout=300)
    assert not (tmp_path / "fra.training").exists()
    names = {path.name for path in (tmp_path / "whole").iterdir()}
    assert names == {path.name for path in (tmp_path / "fra").iterdir()}
    for name in names:
        assert (tmp_path / "fra" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def _process_of_rank(parent, rank):
    """The number of the process that torchrun has started for a rank."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    told = f"RANK={rank}".encode()
    (found,) = [
        int(one)
        for one in children
        if told in Path(f"/proc/{one}/environ").read_bytes().split(b"\0")
    ]
    return found


@pytest.mark.parametrize("processes", [2, 3, 50])
def test_the_shares_of_processes_are_the_batch_of_one(processes):
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    whole = _Rows(tokenizer, TEXT, 40, 7, "cpu")
    shares = [_Rows(tokenizer, TEXT, 40, 7, "cpu", (n, processes)) for n in range(processes)]
    for number in range(4):
        batch, parts = whole.batch(number), [one.batch(number) for one in shares]
        for one in parts:
            assert (one.predicted, one.tokens) == (batch.predicted, batch.tokens)
            assert one.parts and all(len(part["ids"]) for part in one.parts)
        assert sorted(_masked(batch)) == sorted(sum(map(_masked, parts), []))


def _masked(batch):
    """The masked places of a batch: the row as it is shown, the column, the answer."""
    found = []
    for part in batch.parts:
        for (row, column), answer in zip(
            part["at"].tolist(), part["answers"].tolist(), strict=True
        ):
            shown = part["ids"][row][part["mask"][row] > 0]
            found.append((shown.tolist(), column, answer))
    return found


@pytest.mark.slow  # three processes that import torch
@pytest.mark.parametrize(("kind", "times"), [(AutoModelForMaskedLM, 2), (AutoModel, 1)])
def test_two_processes_of_torchrun_train_the_embeddings_of_one(tmp_path, kind, times):
    encoder, text = tmp_path / "encoder", tmp_path / "fra.txt"
    model = kind.from_pretrained(TINY, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model.save_pretrained(encoder)
    AutoTokenizer.from_pretrained(TINY).save_pretrained(encoder)
    text.write_text("".join(f"{line}\n" for line in FRENCH[:80]), encoding="utf-8")
    line = ["transplant", "--encoder", encoder, "--text", f"fra={text}", "--by", "overlap"]
    line += ["--vocabulary", "300", "--device", "cpu", "--quiet", "--json", "--times", times]
    told = []
    for processes in (1, 2):
        out = tmp_path / str(processes)
        done = command([*line, "--tokens", 4 * learning.BATCH_TOKENS, "--out", out], processes)
        told.append(json.loads(done.stdout))  # said once
    for name in ("perplexities", "repeats"):
        curves = [one["learnt"].pop(name) for one in told]
        assert curves[0].keys() == curves[1].keys()
        np.testing.assert_allclose([*curves[0].values()], [*curves[1].values()], rtol=1e-5)
    assert told[0] == {**told[1], "folder": told[0]["folder"]}
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in "12")
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=0, atol=1e-4)
    assert {path.name for path in tmp_path.iterdir()} == {"encoder", "fra.txt", "1", "2"}


def test_what_the_first_process_begins_the_others_do_not(tmp_path, monkeypatch):
    from crosslens.models.transplant import transplant as module

    @contextlib.contextmanager
    def second(*_):
        yield World(1, 1, torch.device("cpu"))

    monkeypatch.setattr(module, "join_world", second)
    monkeypatch.setattr(module, "_begin", None)
    with pytest.raises(StoreError, match="transplant.json"):  # nobody has made it
        made(tmp_path / "fra", tokens=None)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("more", "error", "match"),
    [
        ({"tokens": 100}, InputError, "--tokens: expected 4,096"),
        ({"by": "guess"}, InputError, "--by: expected one of .*monotrans"),
        ({"text": FEW}, InputError, "--text: expected 40 different sentences"),
        ({"seed": -1}, InputError, "seed: expected a whole number from 0"),
        ({"seed": 2**32}, InputError, "seed: expected a whole number from 0"),
        ({"times": 0}, InputError, "--times: expected"),
        ({"times": 2, "tokens": None}, InputError, "--times: expected 1 where nothing is trained"),
        ({"times": 2, "seed": 2**32 - 1}, InputError, "seed: expected a whole number from 0"),
    ],
)
def test_what_cannot_be_trained_is_refused_and_nothing_written(more, error, match, tmp_path):
    with pytest.raises(error, match=match):
        made(tmp_path / "fra", **more)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("by", ["random", "similarity"])
def test_of_several_trainings_the_best_is_kept(tmp_path, monkeypatch, originals, by):
    """WordPiece: no two vocabularies that are learnt of one text need be the same."""
    few = {"by": by, "tokens": 4 * learning.BATCH_TOKENS, "encoder": originals["bert"]}
    calls, real = [], transplant.learn_embeddings

    def stopped(*given, seed, **more):
        calls.append(seed)
        if calls == [0, 1]:
            raise KeyboardInterrupt
        return real(*given, seed=seed, **more)

    monkeypatch.setattr(transplant, "learn_embeddings", stopped)
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path / "best", **few, times=2)
    beside = tmp_path / "best.training"
    vocabularies = {path.read_bytes() for path in beside.glob("seed-*/start/tokenizer.json")}
    assert len(vocabularies) == 1 and len(list(beside.glob("seed-*/start"))) == 2
    for other in ({"times": 1}, {"times": 3}, {"seed": 5}, {"by": "overlap"}):
        with pytest.raises(OutputError, match="expected the transplant that was begun"):
            made(tmp_path / "best", **{**few, "times": 2, **other})
    states = [load_file(beside / f"seed-{n}" / "start" / "model.safetensors") for n in (0, 1)]
    same = [torch.equal(states[0][name], states[1][name]) for name in states[0]]
    assert all(same) is (by == "similarity" and not transplant_counts(beside)["sampled"])
    best = made(tmp_path / "best", **few, times=2)
    assert calls == [0, 1, 0, 1] and not beside.exists()
    ends, kept = best.learnt.repeats, best.learnt.kept
    assert [*ends] == [0, 1] and best.learnt.last == ends[kept] == min(ends.values())
    assert json.loads((best.folder / "tokenizer.json").read_text())["truncation"] is None
    told = json.loads((best.folder / "transplant.json").read_text())
    assert (told["seed"], told["times"], told["learnt"]["kept"]) == (0, 2, kept)
    assert told["learnt"]["repeats"] == {str(seed): end for seed, end in ends.items()}


def transplant_counts(beside):
    return json.loads((beside / "seed-0" / "start" / "transplant.json").read_text())["rows"]


def test_the_first_of_several_trainings_is_the_one_that_stands_alone(tmp_path, monkeypatch):
    few = {"by": "random", "tokens": 4 * learning.BATCH_TOKENS}
    one = made(tmp_path / "one", **few)
    twice = made(tmp_path / "twice", **few, times=2)
    assert twice.learnt.repeats[0] == one.learnt.last and twice.learnt.not_converged == 2
    # what is held out is that of the first seed, and so is what is known of frequencies
    assert twice.learnt.unigram == one.learnt.unigram
    real = transplant.learn_embeddings

    def first_lost(*given, seed, **more):
        if seed == 0:
            raise TrainingError("the loss is nan")
        return real(*given, seed=seed, **more)

    monkeypatch.setattr(transplant, "learn_embeddings", first_lost)
    other = made(tmp_path / "other", **few, times=2)
    assert np.isnan(other.learnt.repeats[0]) and other.learnt.kept == 1
    assert other.learnt.last == twice.learnt.repeats[1]
    models = [(each.folder / "model.safetensors").read_bytes() for each in (one, twice, other)]
    assert (
        models[1] == (models[0] if twice.learnt.kept == 0 else models[2]) and models[0] != models[2]
    )


def test_a_training_that_is_lost_is_counted_and_the_others_go_on(tmp_path, monkeypatch, capsys):
    (tmp_path / "fra.txt").write_text("\n".join(FRENCH), encoding="utf-8")
    line = ["transplant", "--encoder", str(TINY), "--text", f"fra={tmp_path / 'fra.txt'}"]
    line += ["--by", "overlap", "--vocabulary", "300", "--tokens", "3e4", "--device", "cpu"]
    line += ["--times", "2", "--quiet"]
    lost, forward = {1}, _MaskedWords.forward

    def failing(self, **inputs):
        loss = forward(self, **inputs)
        return loss * math.nan if self.training and self.seed in lost else loss

    begun = _MaskedWords.__init__

    def knows(self, model, ids, seed):
        begun(self, model, ids, seed)
        self.seed = seed

    monkeypatch.setattr(_MaskedWords, "__init__", knows)
    monkeypatch.setattr(_MaskedWords, "forward", failing)
    assert main([*line, "--out", str(tmp_path / "out")]) == 0
    told = capsys.readouterr().out
    assert (
        "The best of 2 trainings, from seed 0 (seed 0: " in told and ", seed 1: given up)" in told
    )
    assert "1 of 2 did not converge" in told and "chosen on these very sentences" in told
    learnt = json.loads((tmp_path / "out" / "transplant.json").read_text())["learnt"]
    assert learnt["repeats"]["1"] is None and learnt["not_converged"] == 1 and learnt["converged"]
    lost.add(0)
    assert main([*line, "--out", str(tmp_path / "none")]) != 0
    assert "loss at step 0: expected a number, got nan" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("steps", "judged"), [(1, 1), (4, 2), (7, 3), (97, 10), (976, 10), (2000, 10)]
)
def test_held_out_sentences_are_judged_ten_times_at_most(trained, monkeypatch, steps, judged):
    """Of 14,339 tokens, as 500 sentences have."""
    found = []

    def loop(objective, told, *_):
        found.append(len({*range(told.validate_every, steps + 1, told.validate_every), steps}))
        raise KeyboardInterrupt

    monkeypatch.setattr(learning, "run_loop", loop)
    judge = _Rows.judged
    monkeypatch.setattr(
        _Rows, "judged", lambda self: dataclasses.replace(judge(self), tokens=14_339)
    )
    model = AutoModelForMaskedLM.from_pretrained(trained.folder)
    tokenizer, tokens = AutoTokenizer.from_pretrained(trained.folder), steps * learning.BATCH_TOKENS
    with pytest.raises(KeyboardInterrupt), tempfile.TemporaryDirectory() as folder:
        learning.learn_embeddings(model, tokenizer, TEXT, Path(folder), {}, tokens=tokens)
    assert found == [judged]


def test_a_perplexity_beyond_all_numbers_is_none_and_not_the_end(tmp_path, monkeypatch):
    forward = _MaskedWords.forward

    def huge(self, **inputs):
        return forward(self, **inputs) * (1 if self.training else 1e9)

    monkeypatch.setattr(_MaskedWords, "forward", huge)
    learnt = made(tmp_path / "fra", tokens=learning.BATCH_TOKENS).learnt
    assert np.isnan([*learnt.perplexities.values()]).all() and not learnt.converged
    told = json.loads((tmp_path / "fra" / "transplant.json").read_text())["learnt"]
    assert {*told["perplexities"].values()} == {None}


def test_the_command_says_that_it_made_a_head(headless, tmp_path, capsys):
    (tmp_path / "fra.txt").write_text("\n".join(FRENCH), encoding="utf-8")
    line = ["transplant", "--encoder", str(headless), "--text", f"fra={tmp_path / 'fra.txt'}"]
    line += ["--by", "overlap", "--vocabulary", "300", "--tokens", "3e4", "--device", "cpu"]
    assert main([*line, "--out", str(tmp_path / "out"), "--quiet"]) == 0
    told = capsys.readouterr().out
    assert "has no head for masked words: a new one was trained first" in told
    assert "with body and embeddings as they were" in told and "converge" not in told


def test_a_tokeniser_that_cannot_mask_is_refused_and_nothing_written(tmp_path):
    AutoModel.from_pretrained(TINY).save_pretrained(tmp_path / "body")
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    tokenizer.mask_token = None
    tokenizer.save_pretrained(tmp_path / "body")
    with pytest.raises(InputError, match="--encoder: expected a tokeniser with a mask"):
        made(tmp_path / "fra", encoder=tmp_path / "body")
    assert [path.name for path in tmp_path.iterdir()] == ["body"]


def test_held_out_sentences_that_are_unknown_are_refused_and_nothing_written(originals, tmp_path):
    """Characters that the vocabulary has never seen are one special token."""
    lines = FRENCH[:40]
    kept = learning.held_out(lines, 0)[1]
    lines = ["猫犬鳥"[n % 3] * (n + 1) if line in kept else line for n, line in enumerate(lines)]
    text = Corpus("fra", lines, [str(n) for n in range(40)], "french")
    with pytest.raises(InputError, match="--text: expected held-out sentences"):
        made(tmp_path / "fra", encoder=originals["bert"], by="random", text=text, size=300)
    assert not list(tmp_path.iterdir())


def test_the_command_trains_random_embeddings_and_shows_how(tmp_path, capsys):
    (tmp_path / "fra.txt").write_text("\n".join(FRENCH), encoding="utf-8")
    line = ["transplant", "--encoder", str(TINY), "--text", f"fra={tmp_path / 'fra.txt'}"]
    line += ["--by", "monotrans", "--vocabulary", "300", "--tokens", "1e4", "--device", "cpu"]
    assert main([*line, "--out", str(tmp_path / "out"), "--quiet"]) == 0
    told = capsys.readouterr().out
    assert "tokens trained on  perplexity" in told and "knows their frequency alone" in told
    assert "This training did not converge: it is no better than a unigram model" in told
    assert "head" not in told
    assert (
        json.loads((tmp_path / "out" / "transplant.json").read_text())["learnt"]["converged"]
        is False
    )
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(
                _MaskedWords, "forward", lambda *_, **__: signal.raise_signal(signal.SIGINT)
            )
            assert main([*line, "--out", str(tmp_path / "b"), "--quiet"]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert "what is finished is kept, the same command resumes it" in capsys.readouterr().err
    assert main([*line[:-4], "--tokens", "nan", "--out", str(tmp_path / "c"), "--quiet"]) == 2
    assert "--tokens: expected a number above 0" in capsys.readouterr().err
