"""Heads are those of transformers: the same loss and the same gradients, of head and encoder."""

import pytest
import torch
from torch.nn import functional as F
from transformers import (
    BertConfig,
    BertForQuestionAnswering,
    BertForTokenClassification,
    RobertaConfig,
)
from transformers.models.roberta.modeling_roberta import RobertaForTokenClassification

from crosslens.errors import InputError
from crosslens.models.network.heads import AnswerHead, ClassificationHead, TaggingHead

SIZES = {
    "vocab_size": 30,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def inputs() -> dict[str, torch.Tensor]:
    ids = torch.randint(5, 30, (3, 7), generator=torch.Generator().manual_seed(0))
    mask = torch.ones(3, 7, dtype=torch.long)
    mask[1, 5:] = 0
    return {"input_ids": ids, "attention_mask": mask}


def same(loss: torch.Tensor, theirs: torch.nn.Module, head: torch.nn.Module, read: str) -> None:
    """Loss and gradients of our head on their encoder, beside those of theirs."""
    assert loss.requires_grad
    encoder = theirs.base_model
    ours = torch.autograd.grad(loss, [*encoder.parameters(), *head.parameters()], allow_unused=True)
    expected = [p.grad for p in encoder.parameters()]
    expected += [p.grad for p in getattr(theirs, read).parameters()]
    assert any(g is not None and g.abs().max() > 0 for g in ours)
    for a, b in zip(ours, expected, strict=True):
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        (BertConfig, BertForTokenClassification),
        (RobertaConfig, RobertaForTokenClassification),
    ],
)
def test_tagging_is_token_classification(config: type, kind: type) -> None:
    torch.manual_seed(0)
    theirs, head = kind(config(**SIZES, num_labels=4)), TaggingHead(16, 4, 0.0)
    head.classifier.load_state_dict(theirs.classifier.state_dict())
    first = torch.tensor([[1, 3, 4], [2, 3, 0], [1, 5, 6]])
    tags = torch.tensor([[0, 3, 1], [2, 1, -1], [3, 3, 0]])
    labels = torch.full((3, 7), -100)
    for row in range(3):
        for column, tag in zip(first[row], tags[row], strict=True):
            if tag >= 0:
                labels[row, column] = tag
    out = theirs(**inputs(), labels=labels)
    out.loss.backward()
    scores = head(theirs.base_model(**inputs()).last_hidden_state, first)
    loss = F.cross_entropy(scores.flatten(0, 1), tags.flatten(), ignore_index=-1)
    torch.testing.assert_close(loss, out.loss)
    same(loss, theirs, head, "classifier")


def test_answers_are_question_answering() -> None:
    torch.manual_seed(0)
    theirs, head = BertForQuestionAnswering(BertConfig(**SIZES)), AnswerHead(16)
    head.classifier.load_state_dict(theirs.qa_outputs.state_dict())
    start, end = torch.tensor([1, 2, 3]), torch.tensor([2, 4, 3])
    out = theirs(**inputs(), start_positions=start, end_positions=end)
    out.loss.backward()
    scores = head(theirs.base_model(**inputs()).last_hidden_state)
    loss = (F.cross_entropy(scores[..., 0], start) + F.cross_entropy(scores[..., 1], end)) / 2
    torch.testing.assert_close(loss, out.loss)
    same(loss, theirs, head, "qa_outputs")


def test_classification_reads_position_0_or_the_mean_without_padding() -> None:
    states = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(1))
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    for pool, expected in (
        ("first", states[:, 0]),
        ("mean", torch.stack([states[0].mean(0), states[1, :2].mean(0)])),
    ):
        head = ClassificationHead(8, 3, 0.5, pool).eval()
        torch.testing.assert_close(head(states, mask), head.classifier(expected))


def test_an_answer_is_never_outside_the_context() -> None:
    head = AnswerHead(8)
    allowed = torch.tensor([[0, 0, 1, 1]])
    chances = head(torch.randn(1, 4, 8), allowed).softmax(1)
    assert chances[0, :2].abs().max() == 0
    torch.testing.assert_close(chances.sum(1), torch.ones(1, 2))


def test_dropout_is_of_training_only() -> None:
    states, first = torch.ones(1, 2, 64), torch.tensor([[1]])
    head = TaggingHead(64, 2, 0.5)
    torch.manual_seed(0)
    assert not torch.equal(head.train()(states, first), head(states, first))
    assert torch.equal(head.eval()(states, first), head(states, first))


@pytest.mark.parametrize(
    ("settings", "which"),
    [({"classes": 1}, "classes"), ({"rate": 1.0}, "dropout"), ({"pool": "last"}, "pool")],
)
def test_refusals(settings: dict[str, object], which: str) -> None:
    with pytest.raises(InputError, match=which):
        ClassificationHead(**{"d": 4, "classes": 2, **settings})  # type: ignore[arg-type]
