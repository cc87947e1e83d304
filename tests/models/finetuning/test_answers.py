"""Fine-tuning for answers: transformers' loss and gradient, the best spans, and what is learnt."""

import dataclasses

import numpy as np
import pytest
import torch
import transformers

from crosslens.corpus import Corpus
from crosslens.errors import InputError
from crosslens.models.finetuning.answer import Answer, Candidate
from crosslens.models.finetuning.batches import padded
from crosslens.models.finetuning.examples import QuestionExamples
from crosslens.models.finetuning.finetune import FineTuned, fine_tune
from crosslens.models.finetuning.model import FineTunedModel
from crosslens.models.finetuning.save import save_fine_tuned
from crosslens.models.finetuning.settings import FineTuning
from crosslens.models.saved.loading import load_encoder
from crosslens.readers.questions import Answer as Gold
from crosslens.recipes.quickstart import DATA

ANIMALS = ("dog", "cat", "bird", "cow", "horse", "fish", "mouse", "goat")
PLACES = ("house", "garden", "river", "town")
TINY = Answer(max_length=24, stride=4, max_question=6)


def examples_of(n, start=0, language="eng", filler=1):
    """Which animal is where: the word behind "the"."""
    asked, contexts, answers = [], [], []
    for i in range(start, start + n):
        animal, place = ANIMALS[i % 8], PLACES[(i // 8) % 4]
        context = "it rains now , " * (filler + i % 2) + f"but the {animal} is in a {place} ."
        asked.append(f"what is in a {place} ?")
        contexts.append(context)
        answers.append([Gold(animal, context.index(animal))])
    ids = [str(i) for i in range(n)]
    corpora = (Corpus(language, some, ids, "toy") for some in (asked, contexts))
    return QuestionExamples(*corpora, answers)


@pytest.fixture(scope="module")
def encoders(originals):
    found = {kind: load_encoder(originals[kind]) for kind in ("bert", "roberta", "xlm-roberta")}
    return {**found, "tiny": load_encoder(DATA / "tiny-encoder")}


def still(model):
    """Without dropout, to the last."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model.eval()


# -- one step beside transformers' own models


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta"])
def test_a_step_is_that_of_the_head_of_transformers(encoders, tmp_path, family):
    """Window by window, since what fills windows up is in transformers' loss."""
    encoder, examples = encoders[family], examples_of(3, filler=2)
    model = still(FineTunedModel(encoder, TINY, FineTuning()))
    with torch.no_grad():
        model.head.classifier.weight.mul_(20)
    rows = TINY.rows(model.encoder, examples)
    bounds = [row.targets["bounds"] for row in rows]
    assert (0, 0) in bounds and len({*bounds}) > 2 and len({len(row.ids) for row in rows}) > 1
    given = padded(TINY, rows, encoder.pad_id)
    loss = model(**given) / len(rows)
    loss.backward()

    tuned = FineTuned(model, TINY, FineTuning(), tmp_path, {})
    assert save_fine_tuned(tuned, ["start", "end"], tmp_path / "saved")
    maker = transformers.AutoModelForQuestionAnswering
    other = still(maker.from_pretrained(tmp_path / "saved"))
    theirs = torch.zeros(())
    for row in rows:
        inputs = {"input_ids": torch.tensor(row.ids)[None]}
        if family == "bert":
            inputs["token_type_ids"] = torch.tensor(row.segments)[None]
        places = [torch.tensor([place]) for place in row.targets["bounds"]]
        theirs = theirs + other(**inputs, start_positions=places[0], end_positions=places[1]).loss
    theirs = theirs / len(rows)
    theirs.backward()
    torch.testing.assert_close(loss, theirs, rtol=1e-5, atol=1e-5)
    found = {n.partition(".")[2]: p.grad for n, p in other.named_parameters()}
    compared = 0
    for name, p in model.named_parameters():
        name = name.removeprefix("module.")
        if name.startswith("head."):
            name = name.removeprefix("head.classifier.")
        if p.grad is not None and "pooler" not in name:
            torch.testing.assert_close(p.grad, found[name], rtol=1e-3, atol=1e-5)
            compared += 1
    assert compared > 30


def test_a_window_s_loss_does_not_depend_on_those_beside_it(encoders):
    model = still(FineTunedModel(encoders["bert"], TINY, FineTuning()))
    rows = TINY.rows(model.encoder, examples_of(5))
    alone = [model(**padded(TINY, [row], 0)) for row in rows]
    torch.testing.assert_close(model(**padded(TINY, rows, 0)), sum(alone))


def test_a_window_without_a_token_of_the_answer_is_not_counted(encoders):
    there = "the cat \u200b sat"  # a character that BERT leaves out
    corpora = (Corpus("eng", [text], ["0"], "toy") for text in ("what ?", there))
    examples = QuestionExamples(*corpora, [[Gold("\u200b", 8)]])
    model = still(FineTunedModel(encoders["bert"], TINY, FineTuning()))
    (row,) = TINY.rows(model.encoder, examples)
    assert (row.counted, row.targets["bounds"]) == (0, (-100, -100))
    assert model(**padded(TINY, [row], 0)).item() == 0


# -- the best spans


class Given(torch.nn.Module):
    """A head whose scores are the states themselves."""

    def forward(self, states, allowed):
        return states.masked_fill(~allowed.bool().unsqueeze(-1), -torch.inf)


@pytest.mark.parametrize(("most", "n_best"), [(1, 3), (4, 1), (4, 500), (50, 20)])
def test_spans_are_the_best_of_all(most, n_best):
    kind = Answer(max_answer=most, n_best=n_best)
    draw = torch.Generator().manual_seed(0)
    states = torch.randn(3, 13, 2, generator=draw)
    allowed = torch.rand(3, 13, generator=draw) < 0.7
    allowed[:, 0] = False
    states[:, 0] = 100.0  # "not here" is never said
    found = kind.outputs(Given(), states, torch.ones(3, 13), {"allowed": allowed})
    for row in range(3):
        every = [
            (float(states[row, i, 0] + states[row, j, 1]), i, j)
            for i in range(13)
            for j in range(i, min(13, i + most))
            if allowed[row, i] and allowed[row, j]
        ]
        every = sorted(every, reverse=True)[:n_best]
        assert len(found[row]) == len(every)
        np.testing.assert_allclose(found[row][:, 2], [score for score, *_ in every], rtol=1e-6)
        assert found[row][:, :2].tolist() == [[i, j] for _, i, j in every]


def test_the_best_window_answers_with_the_text_of_the_context(encoders):
    text = "Ein\tHund – 12,5 km   weit , " * 3
    corpora = (Corpus("deu", [one] * 2, ["0", "1"], "toy") for one in ("Wie weit ?", text))
    examples = QuestionExamples(*corpora)
    rows = TINY.rows(encoders["tiny"], examples)
    mine = [number for number, row in enumerate(rows) if row.items[0] == 0]
    assert len(mine) > 2 and "bounds" not in rows[0].targets
    outputs = [np.zeros((0, 3))] * len(rows)
    window = rows[mine[1]].targets["window"]
    columns = np.flatnonzero(window.starts >= 0)[[0, 3]]
    outputs[mine[0]] = np.array([[*np.flatnonzero(rows[mine[0]].targets["allowed"])[:1], 9, 1.5]])
    outputs[mine[1]] = np.array([[*columns, 2.5], [columns[0], columns[0], 0.5]])
    first, last = window.starts[columns[0]], window.ends[columns[1]]
    answers = TINY.join(examples, rows, outputs)
    assert answers == [text[first:last], ""] and answers[0].strip() == answers[0]
    best = TINY.candidates(examples, rows, outputs)[0]
    assert best[0] == Candidate(text[first:last], int(first), 2.5)
    assert [one.score for one in best] == [2.5, 1.5, 0.5]


def test_spans_that_several_windows_have_count_once_with_their_best_score(encoders):
    examples = examples_of(1, filler=3)
    rows = TINY.rows(encoders["bert"], examples)
    answer, outputs = examples.answers[0][0], []
    for number, row in enumerate(rows):
        score = (1.0, 3.0, 2.0)[number % 3]
        window = row.targets["window"]
        here = np.flatnonzero(window.starts == answer.start)
        outputs.append(np.array([[column, column, score] for column in here]).reshape(-1, 3))
    held = [spans[0, 2] for spans in outputs if len(spans)]
    assert len(held) > 1 and max(held) > held[-1]
    assert TINY.candidates(examples, rows, outputs) == [
        [Candidate(answer.text, answer.start, float(max(held)))]
    ]


# -- training


def test_answers_are_learnt_and_come_out_of_other_windows_too(encoders, tmp_path):
    train, settings = examples_of(64), FineTuning(epochs=6, batch_size=8, peak_rate=2e-3, seed=1)
    test = dataclasses.replace(examples_of(16, start=5, filler=2), answers=None)
    gold = [some[0].text for some in examples_of(16, start=5, filler=2).answers]
    kind = Answer(max_length=48, stride=12, max_question=12)

    def right(predict):
        return float(np.mean([a == b for a, b in zip(predict(test), gold, strict=True)]))

    tuned = fine_tune(encoders["tiny"], kind, [train], settings, tmp_path, {"dev": right})
    assert right(tuned.predict) >= 0.75
    assert tuned.predict(test) == tuned.predict(test)


@pytest.mark.parametrize("name", ["max_length", "stride", "max_question", "max_answer", "n_best"])
def test_numbers_below_1_are_refused(name):
    with pytest.raises(InputError, match=f"^{name}: expected 1 or more, got 0"):
        Answer(**{name: 0})
