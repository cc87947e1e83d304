"""Tags chosen together: rows beside each alone, windows, and what neighbours' tags are learnt for."""

import numpy as np
import pytest
import torch
from test_fine_tuning import ENGLISH, right, words_of

from crosslens.corpus import Corpus
from crosslens.models.finetuning.batches import padded
from crosslens.models.finetuning.examples import WordExamples
from crosslens.models.finetuning.finetune import fine_tune
from crosslens.models.finetuning.model import FineTunedModel
from crosslens.models.finetuning.save import save_fine_tuned
from crosslens.models.finetuning.settings import FineTuning
from crosslens.models.finetuning.tag import Tag
from crosslens.models.saved.loading import load_encoder
from crosslens.readers.words import whitespace_spans
from crosslens.recipes.quickstart import DATA


@pytest.fixture(scope="module")
def encoder():
    return load_encoder(DATA / "tiny-encoder")


@pytest.fixture
def model(encoder):
    model = FineTunedModel(encoder, Tag(3, crf=True, max_length=12), FineTuning()).eval()
    with torch.no_grad():
        for p in model.head.crf.parameters():
            p.copy_(torch.linspace(-1, 1, p.numel()).view(p.shape))
    return model


def test_a_batch_is_its_rows_one_by_one(encoder, model):
    kind = model.kind
    examples = words_of([*ENGLISH[:5], " ".join(ENGLISH[5:9])])
    rows = model.rows(examples)
    assert len(rows) > 6  # the last sentence has windows, each a chain of its own
    assert len({len(row.items) for row in rows}) > 1
    together = model(**padded(kind, rows, encoder.pad_id))
    alone = [model(**padded(kind, [row], encoder.pad_id)) for row in rows]
    torch.testing.assert_close(together, sum(alone))

    def answered(some):
        given = padded(kind, some, encoder.pad_id)
        states = model.states(**{name: given.pop(name) for name in model.reads})
        return kind.outputs(model.head, states, torch.ones(1), given)

    for row, mine in zip(rows, answered(rows), strict=True):
        assert mine[: len(row.items)].tolist() == answered([row])[0].tolist()


def by_place(lines):
    """Every second word is of class 1, whatever it is."""
    lines = [" ".join(["word"] * (3 + n % 4)) for n in range(len(lines))]
    spans = [whitespace_spans(line) for line in lines]
    corpus = Corpus("eng", lines, [str(i) for i in range(len(lines))], "toy", words=spans)
    return WordExamples(corpus, [np.arange(len(row)) % 2 for row in spans])


def test_what_follows_what_is_learnt(encoder, tmp_path):
    examples = by_place(range(24))
    settings = FineTuning(
        epochs=6, batch_size=8, peak_rate=1e-6, head_rate=0.3, warmup=0.0, weight_decay=0.0
    )
    measures = {"dev": right(examples)}
    tuned = fine_tune(encoder, Tag(2, crf=True), [examples], settings, tmp_path / "run", measures)
    assert right(examples)(tuned.predict) > 0.9
    moves = tuned.model.head.crf.moves
    assert moves[0, 1] > moves[0, 0] and moves[1, 0] > moves[1, 1]
    assert not save_fine_tuned(tuned, ["a", "b"], tmp_path / "kept")  # transformers has no CRF
    assert (tmp_path / "kept" / "head.safetensors").exists()
