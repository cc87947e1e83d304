"""Special tokens: a [CLS] without position and segment, and a table that is theirs alone."""

import pytest
import torch
from test_sharing import batch, shape

from crosslens.errors import InputError
from crosslens.models.network.encoder import Group, MaskedLM
from crosslens.models.network.sharing import SharingPlan
from crosslens.models.network.surgery import (
    freeze,
    freeze_all_but,
    parameter_counts,
    plug_in,
    split_special,
)
from crosslens.models.training.optimisers import build_optimiser
from crosslens.models.training.settings import Optimisation

IDS = torch.tensor([[2, 7, 8, 3, 9, 3], [2, 11, 3, 12, 3, 0]])
SEGMENTS = torch.tensor([[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0]])
POSITIONS = torch.arange(6).expand(2, 6)
TWO = {"sizes": {"a": 30, "b": 25}, "languages": ("a", "b")}


def make(text="sep=token,position", layers=3, **changes):
    given = {name: changes.pop(name) for name in ("sizes", "languages", "seed") if name in changes}
    plan = SharingPlan.parse(text, layers, tied=changes.get("tied", True))
    return MaskedLM(shape(**{"dropout": 0.0, **changes}), plan=plan, **given)


def embedded(model, language):
    groups = (Group(language, 2, 0),)
    return model.encoder.embed(IDS, POSITIONS, groups, SEGMENTS, None)


@pytest.mark.parametrize("text", ["", "sep=emb"])
def test_cls_is_its_word_embedding_alone_and_the_other_tokens_are_as_they_were(text):
    made = {"segments": 2, "norm_embeddings": False, "languages": ("a", "b")}
    bare, full = (make(text, cls_position=with_it, **made) for with_it in (False, True))
    for language in ("a", "b"):
        mine, other = (embedded(model, language) for model in (bare, full))
        word = bare.encoder.token.of(language).weight[2]
        assert torch.equal(mine[:, 0], word.expand(2, -1))
        assert torch.equal(mine[:, 1:5], other[:, 1:5]) and not torch.equal(mine[:, 0], other[:, 0])
    # no gradient reaches the position and the segment that it does without
    embedded(bare, "a").sum().backward()
    at = bare.encoder.position.of("a").weight.grad
    assert not at[0].any() and at[1:6].all()


def test_what_was_frozen_stays_frozen_in_a_table_of_its_own():
    model = make("sep=token", languages=("a", "b"))
    freeze(model, ["token"], ["b"])
    split_special(model)
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert {"encoder.special.weight", "encoder.token.own_a.weight"} <= trained
    assert "encoder.token.own_b.weight" not in trained
    model = make("", languages=("a", "b"))
    freeze(model, ["token"])
    split_special(model)
    assert not any(
        p.requires_grad for p in (*model.encoder.token.parameters(), model.encoder.special.weight)
    )


@pytest.mark.parametrize("text", ["", "sep=token", "sep=emb"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_table_of_special_tokens_changes_no_number(text, tied):
    model = make(text, tied=tied, languages=("a", "b")).double()
    both = batch(("a", "b"))
    both["ids"][:, 0], both["ids"][:, 5] = 2, 3
    with torch.no_grad():  # what is shared must be the same in both languages
        tables = list(model.encoder.token.values())
        for table in tables[1:]:
            table.weight[:5] = tables[0].weight[:5]
    before = model(**both)
    before.backward()
    whole = {name: p.grad.clone() for name, p in model.named_parameters()}
    split_special(model)
    model.zero_grad()
    after = model(**both)
    after.backward()
    assert torch.allclose(before, after, rtol=1e-12)
    for name, parameter in model.named_parameters():
        if name == "encoder.special.weight":
            rows = sum(whole[n][:5] for n in whole if n.startswith("encoder.token."))
            assert torch.allclose(parameter.grad, rows, atol=1e-12)
        elif name.startswith("encoder.token."):
            assert torch.allclose(parameter.grad, whole[name][5:], atol=1e-12)
        else:
            assert torch.allclose(parameter.grad, whole[name], atol=1e-12), name


@pytest.mark.parametrize("kind", ["adamw", "adam", "lamb"])
def test_of_the_token_rows_those_of_special_tokens_alone_are_trained(kind):
    """Golden check 18, with weight decay: MonoTrans' third step."""
    model = make(special_table=True, **TWO)
    freeze(model)
    tables = {language: model.encoder.token_table(language).detach().clone() for language in "ab"}
    states = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimiser = build_optimiser(model, Optimisation(optimiser=kind, weight_decay=0.3))
    for step in range(5):
        given = batch(("a",), seed=step)
        given["ids"][:] = torch.tensor([2, 1, 4, 3, 0, 7, 8])  # each special token
        model(**given).backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    for language in "ab":
        now = model.encoder.token_table(language)
        assert torch.equal(now[5:], tables[language][5:])
        assert (now[:5] != tables[language][:5]).any(1).all()
    assert torch.equal(model.encoder.token_table("a")[:5], model.encoder.token_table("b")[:5])
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, states[name]) == (".own_" in name), name


@pytest.mark.parametrize("kind", ["adamw", "adam", "lamb"])
@pytest.mark.parametrize("parts", [None, ["token", "bias"]])
def test_all_but_one_languages_own_stays_bit_by_bit(kind, parts):
    """MonoTrans' second step, with weight decay, momentum and LAMB's rescaling at work."""
    text = "sep=token,position,adapters"
    model = make(text, special_table=True, adapters=4, segments=2, next_sentence=True, **TWO)
    trained = freeze_all_but(model, "b", parts)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimiser = build_optimiser(model, Optimisation(optimiser=kind, weight_decay=0.3))
    for step in range(4):
        given = batch(("b",), size=25, seed=step)
        loss, following = model(**given, following=torch.tensor([0, 1]))
        (loss + following).backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    own = {name for name in before if ".own_b." in name}
    if parts is not None:
        own = {"encoder.token.own_b.weight", "output_bias.own_b.value"}
    assert moved == own and trained == sum(before[name].numel() for name in own)
    counts = parameter_counts(model, trained_only=True)
    assert sum(row["b"] for row in counts.values()) == trained
    assert {sum(row[owner] for row in counts.values()) for owner in ("", "a")} == {0}


def test_a_refused_freeze_leaves_the_model_as_it_was():
    model = make(**TWO)
    freeze(model, ["1"])
    before = [p.requires_grad for p in model.parameters()]
    for arguments in (("c",), ("a", ["adapters"]), ("a", ["2"])):
        with pytest.raises(InputError, match="parts: "):
            freeze_all_but(model, *arguments)
    assert [p.requires_grad for p in model.parameters()] == before


def test_a_new_language_brings_its_subwords_and_takes_the_special_ones_that_are_there():
    model, donor = make(special_table=True, **TWO), make("", special_table=True, seed=1)
    special = model.encoder.special.weight.detach().clone()
    plug_in(model, "c", donor)
    assert model.sizes["c"] == 30 and torch.equal(model.encoder.token_table("c")[:5], special)
    assert torch.equal(model.encoder.token_table("c")[5:], donor.encoder.token_table("und")[5:])
    with pytest.raises(InputError, match="donor: .*got one without; see split_special"):
        plug_in(model, "d", make("", seed=1))
    with pytest.raises(InputError, match="donor: .*got one with;"):
        plug_in(make(**TWO), "d", donor)


def test_what_cannot_be_is_refused():
    with pytest.raises(InputError, match="model: .*got one with it"):
        split_special(make(special_table=True))
    with pytest.raises(InputError, match="sizes: .*'b': 5"):
        make(special_table=True, languages=("a", "b"), sizes={"a": 30, "b": 5})
