"""Fine-tuning: the loss and gradient of transformers' own heads, windows, batches, freezing, epochs,
resuming, and what is saved."""

import contextlib
import copy
import dataclasses
import itertools
import json
import shutil

import numpy as np
import pytest
import torch
import toy_texts
import transformers
from safetensors.torch import load_file

from crosslens.corpus import Corpus
from crosslens.errors import InputError, OutputError, StoreError
from crosslens.models.extraction.units import Reading, locate
from crosslens.models.finetuning import finetune
from crosslens.models.finetuning.batches import EpochBatches, _cuts, by_length, padded
from crosslens.models.finetuning.classify import Classify
from crosslens.models.finetuning.examples import TextExamples, WordExamples
from crosslens.models.finetuning.finetune import FineTuned, drop_weights, fine_tune
from crosslens.models.finetuning.kind import no_longer
from crosslens.models.finetuning.model import FineTunedModel
from crosslens.models.finetuning.save import save_fine_tuned
from crosslens.models.finetuning.settings import FineTuning
from crosslens.models.finetuning.tag import Tag
from crosslens.models.network.encoder import EncoderConfig, MaskedLM
from crosslens.models.network.sharing import SharingPlan
from crosslens.models.saved.loading import load_encoder
from crosslens.models.saved.native import save_model
from crosslens.models.text.tokenisation import Vocabulary
from crosslens.models.text.vocabularies import learn_vocabularies
from crosslens.models.training import loop
from crosslens.readers.words import whitespace_spans
from crosslens.recipes.quickstart import DATA

ENGLISH, DUTCH = toy_texts.two_languages(48)


def texts_of(lines, language="eng", second=None):
    ids = [str(i) for i in range(len(lines))]
    labels = np.array(["cat" in line or "ket" in line for line in lines], int)
    return TextExamples(
        Corpus(language, lines, ids, "toy"),
        labels,
        None if second is None else Corpus(language, second, ids, "toy"),
    )


def words_of(lines, language="eng"):
    spans = [whitespace_spans(line) for line in lines]
    corpus = Corpus(language, lines, [str(i) for i in range(len(lines))], "toy", words=spans)
    return WordExamples(corpus, [np.array([len(w) % 3 for w in line.split()]) for line in lines])


def right(examples):
    def measure(predict):
        found = predict(examples)
        if isinstance(examples, TextExamples):
            return float((found.argmax(1) == examples.labels).mean())
        return float(np.mean(np.concatenate(found) == np.concatenate(examples.labels)))

    return measure


@pytest.fixture(scope="module")
def encoders(originals):
    found = {kind: load_encoder(originals[kind]) for kind in ("bert", "roberta")}
    return {**found, "tiny": load_encoder(DATA / "tiny-encoder")}


def plain(encoder, kind, **changes):
    settings = FineTuning(dropout=0.0, **changes)
    model = FineTunedModel(encoder, kind, settings)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    for name in ("attention_probs_dropout_prob", "attention_dropout"):
        if hasattr(model.module.config, name):
            setattr(model.module.config, name, 0.0)
    return model.eval()


# -- one step beside transformers' own models


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("what", ["texts", "pairs", "words"])
def test_a_step_is_that_of_the_heads_of_transformers(encoders, tmp_path, family, what):
    encoder = encoders[family]
    if what == "words":
        kind, examples = Tag(3, max_length=40, dropout=0.0), words_of(ENGLISH[:5])
        maker = transformers.AutoModelForTokenClassification
    else:
        kind = Classify(2, max_length=40, dropout=0.0, pool="pooled")
        examples = texts_of(ENGLISH[:5], second=DUTCH[:5] if what == "pairs" else None)
        maker = transformers.AutoModelForSequenceClassification
    model = plain(encoder, kind)
    rows = kind.rows(model.encoder, examples)
    given = padded(kind, rows, encoder.pad_id)
    counted = sum(row.counted for row in rows)
    (model(**given) / counted).backward()

    tuned = FineTuned(model, kind, FineTuning(), tmp_path, {})
    names = [f"class {number}" for number in range(kind.classes)]
    assert save_fine_tuned(tuned, names, tmp_path / "saved")
    other = maker.from_pretrained(tmp_path / "saved").eval()
    assert other.config.id2label == dict(enumerate(names))
    for module in other.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    inputs = {"input_ids": given["ids"], "attention_mask": given["mask"]}
    if family == "bert":
        inputs["token_type_ids"] = given["segments"]
    if what == "words":
        labels = torch.full_like(given["ids"], -100)
        for row, (places, classes) in enumerate(
            zip(given["first"].tolist(), given["labels"].tolist(), strict=True)
        ):
            for place, number in zip(places, classes, strict=True):
                if number >= 0:
                    labels[row, place] = number
    else:
        labels = given["labels"]
    loss = other(**inputs, labels=labels).loss
    loss.backward()
    torch.testing.assert_close(model(**given) / counted, loss)
    gradients = {
        name.removeprefix("module."): p.grad
        for name, p in model.named_parameters()
        if p.grad is not None and name.startswith("module.")
    }
    found = {
        name.partition(".")[2]: p.grad
        for name, p in other.named_parameters()
        if p.grad is not None and name.startswith(other.base_model_prefix)
    }
    shared = {name for name in gradients if "pooler" not in name}
    assert len(shared) > 30 and shared <= found.keys()
    for name in shared:
        torch.testing.assert_close(gradients[name], found[name], rtol=1e-4, atol=1e-6)
    assert load_encoder(tmp_path / "saved").layers == encoder.layers


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("pool", ["first", "pooled", "mean"])
def test_the_last_layer_is_computed_where_the_head_reads_it(encoders, family, pool):
    kind = Classify(2, pool=pool)
    model = FineTunedModel(encoders[family], kind, FineTuning()).eval()
    rows = model.rows(texts_of(ENGLISH[:6]))
    inputs = padded(kind, rows, encoders[family].pad_id)
    ids, mask, segments = (inputs[name] for name in ("ids", "mask", "segments"))
    found = model.states(ids, mask, segments, "eng", None)
    whole = model.encoder.states(ids, mask, segments=segments)["hidden"][-1]  # as it was
    assert found.shape[1] == (ids.shape[1] if pool == "mean" else 1)
    torch.testing.assert_close(found, whole[:, : found.shape[1]], rtol=1e-4, atol=1e-5)


def test_a_head_that_transformers_lacks_is_written_beside(encoders, tmp_path):
    examples = texts_of(ENGLISH[:16])
    tuned = fine_tune(
        encoders["bert"], Classify(2), [examples], FineTuning(epochs=1), tmp_path / "run",
        {"dev": right(examples)},
    )  # fmt: skip
    assert not save_fine_tuned(tuned, ["no", "yes"], tmp_path / "saved")
    assert load_file(tmp_path / "saved" / "head.safetensors").keys() == {
        "classifier.weight",
        "classifier.bias",
    }
    again = load_encoder(tmp_path / "saved")
    ids = torch.tensor([[2, 7, 8, 3]])
    mine = tuned.model.eval().encoder.states(ids, torch.ones_like(ids))["hidden"][-1]
    torch.testing.assert_close(again.states(ids, torch.ones_like(ids))["hidden"][-1], mine)
    with pytest.raises(OutputError, match="expected a new folder"):
        save_fine_tuned(tuned, ["no", "yes"], tmp_path / "saved")


# -- rows and batches


def test_long_sentences_come_back_whole_from_their_windows(encoders):
    encoder = encoders["bert"]
    long = [" ".join(ENGLISH[i : i + 9]) for i in range(0, 18, 9)] + ENGLISH[:2]
    examples, kind = words_of(long), Tag(3, max_length=16)
    rows = kind.rows(encoder, examples)
    assert max(len(row.ids) for row in rows) <= 16 and len(rows) > len(long) + 4
    words = np.concatenate([row.items for row in rows])
    assert sorted(words.tolist()) == list(range(sum(map(len, examples.labels))))
    spelt = [w for line in long for w in line.split()]
    starts = encoder.tokenizer.convert_ids_to_tokens
    for row in rows:
        for word, column in zip(row.items.tolist(), row.targets["first"].tolist(), strict=True):
            token = starts(int(row.ids[column]))
            assert spelt[word].startswith(token.removeprefix("##")) or token == "[UNK]"
    outputs = [row.targets["labels"] for row in rows]
    found = kind.join(examples, rows, outputs)
    assert all((a == b).all() for a, b in zip(found, examples.labels, strict=True))


def test_words_without_a_subword_are_not_shifted(encoders):
    line = "the \u200b cat"  # the tokeniser drops it
    spans = [(0, 3), (4, 5), (6, 9)]
    corpus = Corpus("eng", [line], ["0"], "toy", words=[spans])
    examples = WordExamples(corpus, [np.array([0, 1, 2])])
    kind = Tag(3)
    rows = kind.rows(encoders["bert"], examples)
    found = locate(encoders["bert"], corpus, range(1), Reading(unit="word", pool="first"))
    empty = np.flatnonzero(found.pieces == 0).tolist()
    joined = kind.join(examples, rows, [row.targets["labels"] for row in rows])[0]
    assert joined.tolist() == [-1 if i in empty else i for i in range(3)]


def test_an_epoch_has_each_row_once_and_another_order_than_the_next(encoders):
    kind = Classify(2)
    rows = kind.rows(encoders["bert"], texts_of(ENGLISH))
    batches = EpochBatches(kind, rows, batch_size=10, seed=3, pad_id=0)
    assert batches.per_epoch == 5
    epochs = [[batches.numbers(step).tolist() for step in range(5 * e, 5 * e + 5)] for e in (0, 1)]
    assert epochs[0] != epochs[1]
    for epoch in epochs:
        assert sorted(sum(epoch, [])) == list(range(48))
    assert [len(batch) for batch in epochs[0]] == [10, 10, 10, 10, 8]
    halves = [EpochBatches(kind, rows, 10, 3, 0, rank=r, size=2)[0] for r in (0, 1)]
    assert sum(len(p["ids"]) for half in halves for p in half.parts) == 10
    assert {half.predicted for half in halves} == {10}
    assert {half.tokens for half in halves} == {batches[0].tokens}  # of the whole batch


def test_it_is_trained_on_the_very_gpu_that_the_encoder_is_on(encoders, tmp_path, monkeypatch):
    encoder, asked = copy.copy(encoders["bert"]), []
    encoder.device = torch.device("cuda", 1)

    def join(device):
        asked.append(device)
        raise KeyboardInterrupt

    monkeypatch.setattr("crosslens.models.finetuning.finetune.join_world", join)
    with pytest.raises(KeyboardInterrupt):
        examples, measures = [texts_of(ENGLISH)], {"dev": lambda predict: 0.0}
        fine_tune(encoder, Classify(2), examples, FineTuning(), tmp_path / "tuned", measures)
    assert asked == ["cuda:1"]


def test_parts_of_like_length_have_the_loss_of_the_whole_batch(encoders, monkeypatch):
    monkeypatch.setattr("crosslens.models.finetuning.batches._PART_TOKENS", {"cpu": 40})
    kind, examples = Tag(3, dropout=0.0), words_of(ENGLISH[:20])
    model = plain(encoders["bert"], kind)
    rows = kind.rows(model.encoder, examples)
    parts = EpochBatches(kind, rows, 20, 0, 0)[0].parts
    assert len(parts) > 3 and all(
        part["ids"].numel() <= 40 or len(part["ids"]) == 1 for part in parts
    )
    whole = model(**padded(kind, rows, 0))
    torch.testing.assert_close(sum(model(**part) for part in parts), whole)
    languages = [
        dataclasses.replace(row, languages=(f"l{n % 2}", None)) for n, row in enumerate(rows)
    ]
    for part in by_length(languages, np.arange(20), "cpu"):
        assert len({languages[n].languages for n in part}) == 1


def all_cuts(n):
    """Every way to cut n places into parts."""
    for inner in itertools.product((False, True), repeat=max(0, n - 1)):
        at = [0, *(i + 1 for i, cut in enumerate(inner) if cut), n]
        yield list(itertools.pairwise(at))


@pytest.mark.parametrize("most", [12, 40, 1_000])
def test_parts_cost_as_little_as_any(most):
    drawn = np.random.default_rng(most)
    for n in (1, 2, 5, 9):
        lengths = np.sort(drawn.integers(2, 30, n))[::-1]

        def cost(cuts, lengths=lengths):
            return sum(lengths[a] * (b - a) + 7 for a, b in cuts)

        allowed = [
            cuts
            for cuts in all_cuts(n)
            if all(b - a == 1 or lengths[a] * (b - a) <= most for a, b in cuts)
        ]
        found = _cuts(lengths, 7, most)
        assert found in allowed and cost(found) == min(map(cost, allowed))


def test_rows_of_like_length_make_batches_in_random_order(encoders):
    kind, chosen = Classify(2), np.random.default_rng(0)
    texts = [" ".join(chosen.choice(ENGLISH, chosen.integers(1, 5))) for _ in range(101)]
    rows = kind.rows(encoders["bert"], texts_of(texts))
    lengths = np.array([len(row.ids) for row in rows])
    grouped, mixed = (EpochBatches(kind, rows, 8, 3, 0, grouped=told) for told in (True, False))
    epochs = [[grouped.numbers(step) for step in range(13 * e, 13 * e + 13)] for e in (0, 1)]
    for epoch in epochs:
        assert sorted(np.concatenate(epoch)) == list(range(101))
        assert [len(batch) for batch in epoch] == [8] * 12 + [5]
    assert [b.tolist() for b in epochs[0]] != [b.tolist() for b in epochs[1]]
    assert [grouped.numbers(step).tolist() for step in range(13)] == [b.tolist() for b in epochs[0]]
    spread = [
        np.mean([np.ptp(lengths[made.numbers(step)]) for step in range(12)])
        for made in (grouped, mixed)
    ]
    assert spread[0] < 0.5 * spread[1]
    means = [lengths[batch].mean() for batch in epochs[0]]
    assert means != sorted(means) and means != sorted(means, reverse=True)


def test_nothing_to_learn_from_is_refused(encoders):
    blank = WordExamples(
        words_of(ENGLISH[:2]).corpus, [np.full(len(s.split()), -1) for s in ENGLISH[:2]]
    )
    kind = Tag(3)
    with pytest.raises(InputError, match="train: expected examples with labels"):
        EpochBatches(kind, kind.rows(encoders["bert"], blank), 2, 0, 0)


# -- training


def weights_of(tuned):
    return {name: tensor.clone() for name, tensor in tuned.model.trained().items()}


SETTINGS = FineTuning(epochs=3, batch_size=8, peak_rate=3e-3, average=2, seed=5, pool="mean")


@pytest.fixture(scope="module")
def finished(encoders, tmp_path_factory):
    train, dev = texts_of(ENGLISH[:40]), texts_of(ENGLISH[40:])
    folder = tmp_path_factory.mktemp("tuned")
    measures = {"dev": right(dev), "nld": lambda predict: -right(texts_of(DUTCH))(predict)}
    return fine_tune(
        encoders["tiny"], Classify(2, pool="mean"), [train], SETTINGS, folder, measures
    ), measures


def test_what_can_be_learnt_is_learnt(finished):
    tuned, _ = finished
    assert sorted(tuned.epochs) == [1, 2, 3]
    assert right(texts_of(ENGLISH[:40]))(tuned.use("last").predict) > 0.9
    lines = [json.loads(line) for line in (tuned.folder / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines if "epoch" in line] == [1, 2, 3]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert losses[-1] < losses[0]


def test_epochs_are_chosen_by_what_was_measured(finished):
    tuned, measures = finished
    for name, measure in measures.items():
        best = max(tuned.epochs, key=lambda e: (tuned.epochs[e][name], -e))
        assert tuned.best_epoch(name) == best
        assert measure(tuned.use(name).predict) == pytest.approx(tuned.epochs[best][name])
    kept = {int(path.stem[-3:]) for path in (tuned.folder / "epochs").glob("epoch-*")}
    assert kept == {2, 3, tuned.best_epoch("dev"), tuned.best_epoch("nld")}


def test_the_average_is_the_mean_of_the_last_epochs(finished):
    tuned, _ = finished
    two, three = (weights_of(tuned.use(epoch)) for epoch in (2, 3))
    for name, tensor in weights_of(tuned.use("average")).items():
        torch.testing.assert_close(tensor, (two[name] + three[name]) / 2)
    tuned.use("dev")


def test_the_weights_of_the_last_epoch_are_those_that_training_ended_with(encoders, tmp_path):
    train = texts_of(ENGLISH[:12])
    settings = dataclasses.replace(SETTINGS, epochs=1)
    tuned = fine_tune(
        encoders["tiny"], Classify(2), [train], settings, tmp_path, {"dev": right(train)}
    )
    assert tuned.held == 1  # nothing was read again
    written = load_file(tmp_path / "epochs" / "epoch-001.safetensors")
    assert written and all(
        torch.equal(tensor, written[name]) for name, tensor in tuned.model.trained().items()
    )
    again = fine_tune(
        encoders["tiny"], Classify(2), [train], settings, tmp_path, {"dev": right(train)}
    )
    assert all(torch.equal(t, written[n]) for n, t in again.model.trained().items())


@pytest.mark.parametrize("step", [0, 7, 13])
def test_a_training_that_was_stopped_ends_in_the_same_bits(
    encoders, finished, tmp_path, monkeypatch, step
):
    tuned, measures = finished
    rate = loop.learning_rate

    def stop(now, *rest):
        if now == step:
            raise KeyboardInterrupt
        return rate(now, *rest)

    train = [texts_of(ENGLISH[:40])]
    arguments = (encoders["tiny"], Classify(2, pool="mean"), train, SETTINGS, tmp_path, measures)
    with monkeypatch.context() as patched:
        patched.setattr(loop, "learning_rate", stop)
        with pytest.raises(KeyboardInterrupt):
            fine_tune(*arguments)
    again = fine_tune(*arguments)
    assert again.epochs == tuned.epochs
    for epoch in ("last", "dev"):
        mine, theirs = weights_of(again.use(epoch)), weights_of(tuned.use(epoch))
        assert all(torch.equal(mine[name], theirs[name]) for name in theirs)


def test_weights_of_a_beaten_epoch_stay_until_a_checkpoint_remembers_the_better_one(
    encoders, tmp_path, monkeypatch
):
    """After a kill between the two, epochs may be measured otherwise: on a GPU, say."""
    settings = FineTuning(epochs=3, batch_size=8, average=1)
    train = texts_of(ENGLISH[:16])

    def tuned(values):
        found = iter(values)
        measures = {"dev": lambda predict: next(found)}
        return fine_tune(encoders["bert"], Classify(2), [train], settings, tmp_path, measures)

    save = loop.save_checkpoint

    def stop(folder, step, *rest):
        if step == 4:  # the second epoch is measured, and its weights are written
            raise KeyboardInterrupt
        return save(folder, step, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(loop, "save_checkpoint", stop)
        with pytest.raises(KeyboardInterrupt):
            tuned([0.5, 0.6])
    again = tuned([0.49, 0.48])
    assert again.best_epoch("dev") == again.held == 1


def test_weights_are_dropped_whole_or_not_at_all(encoders, tmp_path, monkeypatch):
    train, measures = [texts_of(ENGLISH[:16])], {"dev": right(texts_of(ENGLISH[16:20]))}
    arguments = (encoders["bert"], Classify(2), train, FineTuning(epochs=2, batch_size=8))
    first = fine_tune(*arguments, tmp_path, measures)
    removed, remove = [], shutil.rmtree

    def stop(path, **how):
        if len(removed) == at:
            raise KeyboardInterrupt
        removed.append(path)
        remove(path, **how)

    for at in (1, 2, 3):
        removed.clear()
        with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt):
            patched.setattr(finetune.shutil, "rmtree", stop)
            drop_weights(tmp_path)
        again = fine_tune(*arguments, tmp_path, measures)
        assert again.epochs == first.epochs, at
        mine, theirs = weights_of(again), weights_of(first)
        assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
    drop_weights(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == []


def test_a_folder_of_another_training_is_refused(encoders, tmp_path, monkeypatch):
    train, measures = [texts_of(ENGLISH[:16])], {"dev": right(texts_of(ENGLISH[16:20]))}
    settings = FineTuning(epochs=2, batch_size=8)
    rate = loop.learning_rate

    def stop(now, *rest):
        if now == 3:
            raise KeyboardInterrupt
        return rate(now, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(loop, "learning_rate", stop)
        with pytest.raises(KeyboardInterrupt):
            fine_tune(encoders["bert"], Classify(2), train, settings, tmp_path, measures)
    other = dataclasses.replace(settings, seed=1)
    with pytest.raises(StoreError, match="seed"):
        fine_tune(encoders["bert"], Classify(2), train, other, tmp_path, measures)


def test_a_finished_training_is_returned_for_what_it_was_trained_on_alone(encoders, tmp_path):
    train, measures = texts_of(ENGLISH[:16]), {"dev": right(texts_of(ENGLISH[16:20]))}
    settings = FineTuning(epochs=2, batch_size=8)
    first = fine_tune(encoders["bert"], Classify(2), [train], settings, tmp_path, measures)
    again = fine_tune(encoders["bert"], Classify(2), [train], settings, tmp_path, measures)
    assert again.epochs == first.epochs
    others = dataclasses.replace(train, labels=1 - train.labels)
    with pytest.raises(StoreError, match="epochs.json: expected the same settings"):
        fine_tune(encoders["bert"], Classify(2), [others], settings, tmp_path, measures)
    for changed in ({"epochs": 1}, {"seed": 1}, {"batch_size": 4}):
        other = dataclasses.replace(settings, **changed)
        with pytest.raises(StoreError, match=next(iter(changed))):
            fine_tune(encoders["bert"], Classify(2), [train], other, tmp_path, measures)


def test_the_encoder_itself_is_not_changed(encoders, finished):
    tuned, _ = finished
    theirs = dict(tuned.model.whole_module().named_parameters())
    mine = dict(encoders["tiny"].model.named_parameters())
    assert any(not torch.equal(mine[name], theirs[name]) for name in mine)
    again = dict(load_encoder(DATA / "tiny-encoder").model.named_parameters())
    stored = [name for name in mine if "pooler" not in name]  # it has none, and one is sampled
    assert all(torch.equal(mine[name], again[name]) for name in stored)


@pytest.mark.parametrize("n", [-1, 0, 2, 3])
def test_frozen_layers_keep_their_bits_through_weight_decay(encoders, tmp_path, n):
    examples = texts_of(ENGLISH[:16])
    settings = FineTuning(epochs=1, batch_size=8, peak_rate=1e-2, weight_decay=0.5, freeze=n)
    tuned = fine_tune(
        encoders["bert"], Classify(2), [examples], settings, tmp_path, {"dev": right(examples)}
    )
    before = dict(encoders["bert"].model.named_parameters())
    same = {
        name
        for name, p in tuned.model.whole_module().named_parameters()
        if torch.equal(p, before[name])
    }
    frozen = {
        name
        for name in before
        if (name.startswith("embeddings.") and n >= 0)
        or any(name.startswith(f"encoder.layer.{i}.") for i in range(n))
    }
    unused = {name for name in before if name.startswith("pooler.")}
    assert same == frozen | unused


def test_the_head_has_a_rate_of_its_own(encoders, tmp_path):
    examples = texts_of(ENGLISH[:16])
    settings = FineTuning(
        epochs=1, batch_size=16, peak_rate=1e-3, head_rate=1e-1, warmup=0.0, decay="constant", clip=0.0,
        weight_decay=0.0,
    )  # fmt: skip
    kind = Classify(2)
    before = FineTunedModel(encoders["bert"], kind, settings)
    tuned = fine_tune(
        encoders["bert"], kind, [examples], settings, tmp_path, {"dev": right(examples)}
    )
    moved = {  # Adam's first step is the rate itself
        name: (p - dict(before.named_parameters())[name]).abs().max().item()
        for name, p in tuned.model.named_parameters()
        if "word_embeddings" not in name
    }
    assert moved["head.classifier.weight"] == pytest.approx(1e-1, rel=1e-3)
    assert moved["module.encoder.layer.0.output.dense.weight"] == pytest.approx(1e-3, rel=1e-3)


# -- an encoder with modules of each language


def test_a_language_s_own_modules_are_frozen_and_the_other_s_plugged_in(tmp_path):
    vocabularies = learn_vocabularies(
        {"eng": ENGLISH, "nld": DUTCH},
        Vocabulary(size=90, kind="bpe", sentences=96, mode="separate"),
        0,
    )
    config = EncoderConfig(
        vocab_size=90, hidden_size=16, layers=2, heads=2, ffn_size=24, max_positions=32
    )
    sizes = {language: vocabularies.sizes[language] for language in ("eng", "nld")}
    plan = SharingPlan.parse("sep=emb", layers=2)
    model = MaskedLM(config, 0, languages=("eng", "nld"), plan=plan, sizes=sizes)
    save_model(model, vocabularies, tmp_path / "model")
    encoder = load_encoder(tmp_path / "model")
    before = {name: p.clone() for name, p in encoder.model.named_parameters()}
    train, settings = texts_of(ENGLISH), FineTuning(epochs=1, batch_size=16, peak_rate=1e-2)
    tuned = fine_tune(
        encoder, Classify(2), [train], settings, tmp_path / "run", {"dev": right(train)}
    )
    changed = {
        name
        for name, p in tuned.model.module.named_parameters()
        if not torch.equal(p, before[name])
    }
    assert changed and not any("own_" in name for name in changed)
    assert all(name.startswith("encoder.") for name in changed), changed
    found = tuned.predict(texts_of(DUTCH, "nld"))
    assert found.shape == (48, 2) and np.isfinite(found).all()
    with pytest.raises(InputError, match="language"):
        tuned.predict(texts_of(DUTCH, "deu"))


# -- settings and examples


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"epochs": 0}, "epochs"),
        ({"peak_rate": float("nan")}, "peak_rate"),
        ({"decay": "cosine"}, "decay"),
        ({"pool": "last"}, "pool"),
        ({"precision": "float16"}, "precision"),
        ({"dropout": 1.0}, "dropout"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(changes, match):
    with pytest.raises(InputError, match=f"^{match}: expected"):
        FineTuning(**changes)


def test_more_frozen_layers_than_there_are_is_refused(encoders):
    with pytest.raises(InputError, match="from -1 to 3, got 4"):
        FineTunedModel(encoders["bert"], Classify(2), FineTuning(freeze=4))


def test_examples_whose_labels_do_not_fit_are_refused():
    good = words_of(ENGLISH[:2])
    with pytest.raises(InputError, match="labels: expected 2"):
        WordExamples(good.corpus, good.labels[:1])
    with pytest.raises(InputError, match="one per word"):
        WordExamples(good.corpus, [good.labels[0][:-1], good.labels[1]])
    with pytest.raises(InputError, match="corpus: expected sentences with their words"):
        WordExamples(texts_of(ENGLISH[:2]).corpus)
    with pytest.raises(InputError, match="labels: expected 2"):
        TextExamples(texts_of(ENGLISH[:2]).corpus, np.array([1]))
    changed = TextExamples(texts_of(ENGLISH[:2]).corpus, np.array([1, 1]))
    assert changed.content != texts_of(ENGLISH[:2]).content


def test_inputs_are_no_longer_than_asked(encoders):
    assert no_longer(encoders["bert"], 10).max_length == 10
    assert no_longer(encoders["bert"], 10_000) is encoders["bert"]
    rows = Classify(2, max_length=10).rows(encoders["bert"], texts_of([" ".join(ENGLISH[:4])] * 2))
    assert [len(row.ids) for row in rows] == [10, 10]
