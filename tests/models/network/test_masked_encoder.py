"""Our encoder: transformers' numbers, no leak from padding, and a head that is computed only where
it is needed."""

import dataclasses

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from toy_models import lively
from transformers import AutoModel, BertForMaskedLM

from crosslens.errors import InputError
from crosslens.models.network.encoder import EncoderConfig, Group, MaskedLM

TOLERANCE = 1e-5  # float32: values near 1, sums of at most 24 terms


@pytest.fixture
def batch(toy_model):
    """A padded batch: ids, positions and lengths."""
    rng = np.random.default_rng(3)
    lengths = torch.tensor([9, 4, 12, 1])
    ids = torch.from_numpy(rng.integers(5, toy_model.config.vocab_size, size=(4, 12)))
    ids[torch.arange(12) >= lengths[:, None]] = 0
    return ids, torch.arange(12).expand(4, 12), lengths


def real(lengths, width=12):
    return torch.arange(width) < lengths[:, None]


def our_logits(model, ids, positions, lengths):
    with torch.no_grad():
        return model.scores(model.encoder(ids, positions, lengths)[-1])


def test_transformers_computes_the_same_logits_from_the_exported_folder(
    toy_model, originals, batch
):
    ids, positions, lengths = batch
    theirs = BertForMaskedLM.from_pretrained(originals["ours"]).eval()
    with torch.no_grad():
        padded = theirs(input_ids=ids, attention_mask=real(lengths).long()).logits
        # positions as a pair of sentences has them; nothing padded
        reset = theirs(input_ids=ids, position_ids=positions % 5).logits
    assert torch.allclose(
        our_logits(toy_model, ids, positions, lengths)[real(lengths)],
        padded[real(lengths)],
        atol=TOLERANCE,
    )
    assert torch.allclose(our_logits(toy_model, ids, positions % 5, None), reset, atol=TOLERANCE)


def test_transformers_computes_the_same_hidden_states_in_every_layer(toy_model, originals, batch):
    ids, positions, lengths = batch
    theirs = AutoModel.from_pretrained(originals["ours"]).eval()
    with torch.no_grad():
        reference = theirs(
            input_ids=ids, attention_mask=real(lengths).long(), output_hidden_states=True
        ).hidden_states
        states = toy_model.encoder(ids, positions, lengths)
    assert len(states) == len(reference) == 4
    for ours, other in zip(states, reference, strict=True):
        assert torch.allclose(ours[real(lengths)], other[real(lengths)], atol=TOLERANCE)


def test_what_stands_in_padded_places_changes_nothing(toy_model, batch):
    ids, positions, lengths = batch
    other = torch.where(real(lengths), ids, 7)
    with torch.no_grad():
        first, second = (
            toy_model.encoder(ids, positions, lengths)[-1],
            toy_model.encoder(other, positions, lengths)[-1],
        )
    assert torch.equal(first[real(lengths)], second[real(lengths)])


def test_a_sentence_alone_is_the_sentence_in_a_padded_batch(toy_model, batch):
    ids, positions, lengths = batch
    with torch.no_grad():
        together = toy_model.encoder(ids, positions, lengths)[-1]
        for row, length in enumerate(lengths.tolist()):
            alone = toy_model.encoder(
                ids[row : row + 1, :length], positions[row : row + 1, :length]
            )[-1]
            assert torch.allclose(alone[0], together[row, :length], atol=TOLERANCE)


def test_the_masked_only_head_is_the_full_head_with_ignored_places():
    """Golden check 19, in float64: loss and every gradient."""
    config = EncoderConfig(
        vocab_size=50, hidden_size=12, layers=2, heads=3, ffn_size=20, max_positions=16, dropout=0.0
    )
    rng = np.random.default_rng(4)
    ids = torch.from_numpy(rng.integers(5, 50, size=(3, 10)))
    positions, lengths = torch.arange(10).expand(3, 10), torch.tensor([10, 7, 9])
    masked, labels = torch.tensor([1, 4, 12, 28]), torch.tensor([8, 9, 30, 8])
    sparse, full = (lively(MaskedLM(config)).double() for _ in range(2))

    loss = sparse(ids, positions, lengths, masked, labels)
    loss.backward()
    target = torch.full((30,), -100)
    target[masked] = labels
    every = full.scores(full.encoder(ids, positions, lengths)[-1]).view(30, 50)
    reference = F.cross_entropy(every, target, ignore_index=-100, reduction="sum")
    reference.backward()

    near = {"rtol": 1e-12, "atol": 1e-12}  # float64: sums of at most 50 terms near 1
    assert torch.allclose(loss, reference, **near)
    gradients = dict(full.named_parameters())
    for name, parameter in sparse.named_parameters():
        assert torch.allclose(parameter.grad, gradients[name].grad, **near), name


def test_eager_attention_is_the_fused_one(toy_model, batch):
    eager = MaskedLM(dataclasses.replace(toy_model.config, attention="eager")).eval()
    eager.load_state_dict(toy_model.state_dict())
    lengths = batch[2]
    assert torch.allclose(
        our_logits(eager, *batch)[real(lengths)],
        our_logits(toy_model, *batch)[real(lengths)],
        atol=TOLERANCE,
    )


def test_recomputing_activations_gives_the_same_gradients(toy_model, batch):
    """Dropout included: the backward pass draws again what the forward pass drew."""
    gradients = []
    for recompute in (False, True):
        model = MaskedLM(toy_model.config).train()
        model.encoder.recompute = recompute
        torch.manual_seed(4)
        ids, positions, lengths = batch
        masked = torch.tensor([1, 3, 13])
        model(ids, positions, lengths, masked, ids.flatten()[masked]).backward()
        gradients.append([p.grad for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


@torch.no_grad()
def test_positions_may_begin_further_down_the_table(toy_model, batch):
    shifted = MaskedLM(dataclasses.replace(toy_model.config, position_offset=2)).eval()
    state = toy_model.state_dict()
    table = torch.cat(
        [
            torch.full((2, toy_model.config.hidden_size), 9.0),
            state["encoder.position.shared.weight"],
        ]
    )
    shifted.load_state_dict({**state, "encoder.position.shared.weight": table})
    assert torch.equal(our_logits(shifted, *batch), our_logits(toy_model, *batch))


@torch.no_grad()
def test_segment_and_language_embeddings_are_added_where_they_belong(batch):
    ids, positions, lengths = batch
    config = EncoderConfig(
        vocab_size=110,
        hidden_size=16,
        layers=1,
        heads=2,
        ffn_size=24,
        segments=2,
        language_embeddings=True,
    )
    model = lively(MaskedLM(config, languages=("a", "b")))
    segments, languages = positions // 5 % 2, positions // 3 % 2
    table, place = model.encoder.token.of("a").weight, model.encoder.position.of("a").weight
    total = (
        table[ids]
        + place[positions]
        + model.encoder.segment.of("a").weight[segments]
        + model.encoder.language.weight[languages]
    )
    reference = model.encoder.norm.of("a")(total)
    found = model.encoder(ids, positions, lengths, None, segments, languages)[0]
    # float32, sums of four terms in another order
    assert torch.allclose(found, reference, atol=1e-6)
    by_rows = model.encoder(ids, positions, lengths, (Group("a", 1, 0), Group("b", 3, 0)))[0]
    language = model.encoder.language.weight[torch.tensor([0, 1, 1, 1])][:, None]
    expected = model.encoder.norm.of("a")(
        table[ids] + place[positions] + model.encoder.segment.of("a").weight[0] + language
    )
    assert torch.allclose(by_rows, expected, atol=1e-6)


@torch.no_grad()
def test_without_a_norm_the_embeddings_are_their_sum(batch):
    ids, positions, lengths = batch
    model = lively(
        MaskedLM(
            EncoderConfig(
                vocab_size=110,
                hidden_size=16,
                layers=1,
                heads=2,
                ffn_size=24,
                norm_embeddings=False,
            )
        )
    )
    total = (
        model.encoder.token.of("und").weight[ids]
        + model.encoder.position.of("und").weight[positions]
    )
    assert torch.equal(model.encoder(ids, positions, lengths)[0], total)


def test_the_next_sentence_head_reads_the_first_token(batch):
    """Its loss against the formula of Devlin et al.: softmax of a linear map of tanh(W h + b) at
    [CLS]."""
    ids, positions, lengths = batch
    config = EncoderConfig(
        vocab_size=110,
        hidden_size=16,
        layers=1,
        heads=2,
        ffn_size=24,
        segments=2,
        next_sentence=True,
    )
    model, following = lively(MaskedLM(config)), torch.tensor([0, 1, 1, 0])
    masked = torch.tensor([1, 3])
    loss, decision = model(
        ids, positions, lengths, masked, ids.flatten()[masked], following=following
    )
    first = model.encoder(ids, positions, lengths)[-1][:, 0]
    logits = (
        torch.tanh(first @ model.pooler.weight.T + model.pooler.bias) @ model.follows.weight.T
        + model.follows.bias
    )
    reference = -logits.log_softmax(-1)[torch.arange(4), following].sum()
    assert torch.allclose(decision, reference, rtol=1e-5)
    assert torch.equal(loss, model(ids, positions, lengths, masked, ids.flatten()[masked]))


def test_initialisation_as_in_xlm():
    config = EncoderConfig(
        vocab_size=500, hidden_size=64, layers=1, heads=2, ffn_size=64, init="xlm", head="plain"
    )
    model = MaskedLM(config)
    assert model.encoder.token.of("und").weight.std().item() == pytest.approx(64**-0.5, rel=0.05)
    qkv = model.encoder.layers[0].of("und").qkv
    # uniform
    assert qkv.weight.abs().max() <= 64**-0.5 and qkv.weight.std().item() == pytest.approx(
        (3 * 64) ** -0.5, rel=0.05
    )
    assert not hasattr(model, "transform")


def test_initial_weights_are_a_function_of_shape_and_seed_alone():
    config = EncoderConfig(vocab_size=40, hidden_size=8, layers=1, heads=2, ffn_size=16)
    torch.manual_seed(1)
    first = MaskedLM(config, 5).state_dict()
    torch.manual_seed(2)
    again, other = MaskedLM(config, 5).state_dict(), MaskedLM(config, 6).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(
        first["encoder.token.shared.weight"], other["encoder.token.shared.weight"]
    )


def test_making_a_model_leaves_the_global_generator_alone():
    torch.manual_seed(9)
    expected = torch.rand(3)
    torch.manual_seed(9)
    MaskedLM(EncoderConfig(vocab_size=10, hidden_size=4, layers=1, heads=1, ffn_size=4), 5)
    assert torch.equal(torch.rand(3), expected)


def test_initial_weights_have_the_spread_that_the_configuration_says():
    model = MaskedLM(
        EncoderConfig(vocab_size=500, hidden_size=64, layers=1, heads=2, ffn_size=64, init_std=0.05)
    )
    assert model.encoder.token.of("und").weight.std().item() == pytest.approx(
        0.05, rel=0.05
    )  # 32,000 draws: their spread is known to 0.4 %
    assert model.encoder.layers[0].of("und").qkv.weight.std().item() == pytest.approx(
        0.05, rel=0.05
    )
    assert not model.encoder.layers[0].of("und").qkv.bias.any() and torch.equal(
        model.encoder.norm.of("und").weight, torch.ones(64)
    )


def test_the_head_is_tied_to_the_token_embeddings():
    """Parameters as counted by hand: no matrix of the vocabulary's size but one."""
    vocabulary, d, wide, places = 50, 12, 20, 16
    model = MaskedLM(
        EncoderConfig(
            vocab_size=vocabulary,
            hidden_size=d,
            layers=2,
            heads=3,
            ffn_size=wide,
            max_positions=places,
        )
    )
    layer = 4 * (d * d + d) + (d * wide + wide) + (wide * d + d) + 4 * d
    embeddings, head = vocabulary * d + places * d + 2 * d, d * d + d + 2 * d + vocabulary
    assert sum(p.numel() for p in model.parameters()) == embeddings + 2 * layer + head


def test_dropout_is_drawn_in_training_and_off_in_evaluation(batch, toy_model):
    model = MaskedLM(toy_model.config)
    once, twice = (model.train().encoder(*batch)[-1] for _ in range(2))
    assert not torch.equal(once, twice)
    once, twice = (model.eval().encoder(*batch)[-1] for _ in range(2))
    assert torch.equal(once, twice)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"layers": 0},
            ("encoder.layers: expected a whole number from 1 to 10,000"),
        ),
        (
            {"vocab_size": -1},
            "encoder.vocab_size: expected a whole number from 1 to 100,000,000",
        ),
        (
            {"hidden_size": 10, "heads": 4},
            "encoder.heads: expected a divisor of hidden_size = 10",
        ),
        (
            {"head": "linear"},
            "encoder.head: expected one of transform, plain",
        ),
        (
            {"segments": -1},
            "encoder.segments: expected a whole number from 0 to 1,000,000,000",
        ),
        ({"dropout": 1.0}, "encoder.dropout: expected a number from 0 to below 1"),
    ],
)
def test_shapes_that_cannot_be_are_refused(changes, told):
    with pytest.raises(InputError, match=told):
        EncoderConfig(**{"vocab_size": 10, **changes})
