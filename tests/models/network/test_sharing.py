"""Sharing plans: their texts, the named systems, and what a model built by one owns."""

import pytest
import torch

from crosslens.errors import InputError
from crosslens.models.network.encoder import EncoderConfig, Group, MaskedLM
from crosslens.models.network.sharing import PARTS, SYSTEMS, SharingPlan, resolve_system
from crosslens.models.network.surgery import parameters_by_owner

EMBEDDINGS = {"token", "position", "segment", "softmax", "bias"}


@pytest.mark.parametrize(
    ("text", "separate", "told"),
    [
        ("", set(), "sep=none"),
        ("sep=none", set(), "sep=none"),
        ("sep=emb", EMBEDDINGS, "sep=emb"),
        ("sep=1-3", {"1", "2", "3"}, "sep=1-3"),
        ("sep=emb,1-6", EMBEDDINGS | set("123456"), "sep=emb,1-6"),
        ("sep=token", {"token", "softmax", "bias"}, "sep=token,softmax,bias"),
        ("sep= norm , 2,4-5,8", {"norm", "2", "4", "5", "8"}, "sep=norm,2,4-5,8"),
        ("sep=position,adapters", {"position", "adapters"}, "sep=position,adapters"),
        ("sep=all", {*PARTS, *"12345678"}, "sep=all"),
        ("sep-emb-1-3", EMBEDDINGS | set("123"), "sep=emb,1-3"),
    ],
)
def test_a_plan_is_read_and_written(text, separate, told):
    plan = SharingPlan.parse(text, 8)
    assert plan.separate == separate and str(plan) == told
    assert SharingPlan.parse(str(plan), 8) == plan


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sep=9", "sharing: expected layers from 1 to 8"),
        ("sep=0-3", "expected layers from 1 to 8, got 0-3"),
        ("sep=5-3", "expected layers from 1 to 8, got 5-3"),
        (
            "sep=embeddings",
            (
                "expected emb, all, none, token, position, segment, norm, adapters, transform, "
                "softmax, bias, a layer or a range"
            ),
        ),
        (
            "emb",
            'sharing: expected "sep=" and parts, or one of default, no-anchors, .*',
        ),
        ("sep=softmax", "expected a softmax that goes with the token embeddings"),
    ],
)
def test_plans_that_cannot_be_are_refused(text, told):
    with pytest.raises(InputError, match=told):
        SharingPlan.parse(text, 8)


def test_an_untied_softmax_may_be_owned_alone():
    assert SharingPlan.parse("sep=softmax", 8, tied=False).separate == {"softmax"}
    assert SharingPlan.parse("sep=token", 8, tied=False).separate == {"token"}


def test_the_systems_of_the_paper():
    """Conneau et al. 2020, Table 1, as papers.md lists them: shared layers of 8, vocabulary,
    softmax."""
    assert list(SYSTEMS) == [
        "default",
        "no-anchors",
        "default-anchors",
        "sep-emb",
        "sep-1-3",
        "sep-1-6",
        "sep-emb-1-3",
        "sep-emb-1-6",
        "monolingual",
    ]
    shared_layers = {
        name: 8 - sum(part.isdigit() for part in SharingPlan.parse(name, 8).separate)
        for name in SYSTEMS
    }
    assert list(shared_layers.values()) == [8, 8, 8, 8, 5, 2, 5, 2, 0]
    for name, system in SYSTEMS.items():
        own_embeddings = SharingPlan.parse(name, 8).owned("token")
        assert (
            own_embeddings
            == (system.vocabulary == "separate")
            == (system.scope == "language")
            == ("emb" in name or "mono" in name)
        )
    assert resolve_system("sep=1", "union", "language") == ("sep=1", "union", "language")


def shape(**changes):
    return EncoderConfig(
        **{
            "vocab_size": 30,
            "hidden_size": 8,
            "layers": 3,
            "heads": 2,
            "ffn_size": 12,
            "max_positions": 16,
            **changes,
        }
    )


def count(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("n", [1, 2, 5])
def test_sharing_everything_gives_the_monolingual_parameter_count(n):
    languages = [f"l{i}" for i in range(n)]
    alone = count(MaskedLM(shape()))
    assert count(MaskedLM(shape(), languages=languages)) == alone
    assert (
        count(MaskedLM(shape(), languages=languages, plan=SharingPlan.parse("sep=all", 3)))
        == n * alone
    )


@pytest.mark.parametrize("text", ["sep=emb", "sep=1-2", "sep=norm,transform,3", "sep=position"])
def test_what_is_owned_is_there_once_for_each_language_and_the_rest_once(text):
    plan = SharingPlan.parse(text, 3)
    model, alone = MaskedLM(shape(), languages=("a", "b", "c"), plan=plan), MaskedLM(shape())
    sizes: dict = {}
    for owner, _, parameter in parameters_by_owner(model):
        assert (owner.language != "") == plan.owned(owner.part), owner
        sizes.setdefault(owner.part, {}).setdefault(owner.language, 0)
        sizes[owner.part][owner.language] += parameter.numel()
    single: dict = {}
    for owner, _, parameter in parameters_by_owner(alone):
        single[owner.part] = single.get(owner.part, 0) + parameter.numel()
    for part, owners in sizes.items():
        assert set(owners) == ({"a", "b", "c"} if plan.owned(part) else {""})
        assert set(owners.values()) == {single[part]}, part


def batch(languages, rows=2, length=7, size=30, seed=0):
    ids = torch.randint(
        5, size, (rows * len(languages), length), generator=torch.Generator().manual_seed(seed)
    )
    masked = torch.tensor([row * length + column for row in range(len(ids)) for column in (1, 4)])
    groups = tuple(Group(language, rows, 2 * rows) for language in languages)
    return {
        "ids": ids,
        "positions": torch.arange(length).expand(len(ids), length),
        "lengths": None,
        "masked": masked,
        "labels": ids.flatten()[masked],
        "groups": groups,
    }


@pytest.mark.parametrize(
    "text", ["", "sep=emb", "sep=1", "sep=emb,2-3", "sep=transform,bias", "sep=all"]
)
def test_a_mixed_batch_is_its_languages_batches(text):
    """Loss and gradients of a batch with rows of two languages are the sums of those of two
    batches; float64."""
    model = MaskedLM(
        shape(dropout=0.0), languages=("a", "b"), plan=SharingPlan.parse(text, 3)
    ).double()
    both = batch(("a", "b"))
    model(**both).backward()
    mixed = {
        name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()
    }
    model.zero_grad()
    total = 0.0
    for half, group in enumerate(both["groups"]):
        rows = slice(2 * half, 2 * half + 2)
        part = {
            "ids": both["ids"][rows],
            "positions": both["positions"][rows],
            "lengths": None,
            "masked": both["masked"][:4],
            "labels": both["labels"][4 * half : 4 * half + 4],
            "groups": (group,),
        }
        loss = model(**part)
        loss.backward()
        total += loss.item()
    assert model(**both).item() == pytest.approx(total, rel=1e-12)
    for name, parameter in model.named_parameters():
        assert torch.allclose(mixed[name], parameter.grad, atol=1e-10), name


def test_separate_models_in_one_are_the_models_alone():
    """With nothing shared, each language's loss is that of a monolingual model with these
    weights."""
    model = MaskedLM(shape(dropout=0.0), languages=("a", "b"), plan=SharingPlan.parse("sep=all", 3))
    for language in ("a", "b"):
        alone = MaskedLM(shape(dropout=0.0))
        state = model.state_dict()
        alone.load_state_dict(
            {
                name: state[name.replace(".shared", f".own_{language}")]
                for name in alone.state_dict()
            }
        )
        one = batch((language,))
        reference = alone(**{**one, "groups": None})
        assert torch.equal(model(**one), reference)


@pytest.mark.parametrize("text", ["sep=emb", "sep=1-2", "sep=all"])
def test_a_batch_of_one_language_leaves_the_other_untouched(text):
    """Golden check 20: parameters and optimiser state of the absent language, with momentum and
    weight decay at work."""
    from crosslens.models.training.optimisers import build_optimiser
    from crosslens.models.training.settings import Optimisation

    for kind in ("adamw", "adam", "lamb"):
        model = MaskedLM(shape(), languages=("a", "b"), plan=SharingPlan.parse(text, 3))
        optimiser = build_optimiser(model, Optimisation(optimiser=kind, weight_decay=0.1))

        def step(language, model=model, optimiser=optimiser):
            model(**batch((language,))).backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)

        step("a")
        step("b")
        own = {name: p for name, p in model.named_parameters() if ".own_b." in name}
        before = {name: p.detach().clone() for name, p in own.items()}
        memory = {
            name: {k: v.clone() for k, v in optimiser.state[p].items()}
            for name, p in own.items()
            if p in optimiser.state
        }
        assert own and memory
        others = {
            name: p.detach().clone() for name, p in model.named_parameters() if ".own_a." in name
        }
        step("a")
        assert all(torch.equal(before[name], p) for name, p in own.items())
        assert all(
            torch.equal(memory[name][k], v)
            for name in memory
            for k, v in optimiser.state[own[name]].items()
        )
        moved = [
            name
            for name, p in model.named_parameters()
            if name in others and not torch.equal(others[name], p)
        ]
        assert moved


def test_a_language_that_the_model_does_not_have_is_refused():
    model = MaskedLM(shape(), languages=("a", "b"), plan=SharingPlan.parse("sep=emb", 3))
    with pytest.raises(InputError, match="language: .*got 'c'"):
        model(**batch(("c",)))


def test_vocabularies_of_different_sizes_need_embeddings_of_their_own():
    with pytest.raises(InputError, match="sizes: expected"):
        MaskedLM(shape(), languages=("a", "b"), sizes={"a": 30, "b": 20})
    model = MaskedLM(
        shape(),
        languages=("a", "b"),
        plan=SharingPlan.parse("sep=emb", 3),
        sizes={"a": 30, "b": 20},
    )
    assert model.scores(torch.zeros(1, 8), "a").shape == (1, 30) and model.scores(
        torch.zeros(1, 8), "b"
    ).shape == (1, 20)


@pytest.mark.parametrize("languages", [(), ("a", "a"), ("a.b",)])
def test_codes_that_cannot_name_languages_are_refused(languages):
    with pytest.raises(InputError, match="languages: expected different codes"):
        MaskedLM(shape(), languages=languages)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("text", ["", "sep=3", "sep=all"])
def test_the_last_layer_at_the_masked_places_alone_is_the_whole_one(text, attention):
    """Loss and every gradient in float64, with padding, rows of different numbers of masked tokens,
    and a row with none."""
    model = MaskedLM(
        shape(dropout=0.0, attention=attention),
        languages=("a", "b"),
        plan=SharingPlan.parse(text, 3),
    ).double()
    both = batch(("a", "b"))
    masked = torch.tensor([1, 4, 5, 7, 22])  # rows 0, 0, 0, 1 and 3 of four rows of seven tokens
    given = {
        **both,
        "lengths": torch.tensor([7, 5, 6, 7]),
        "masked": masked,
        "labels": both["ids"].flatten()[masked],
    }
    given["groups"] = (Group("a", 2, 4), Group("b", 2, 1))
    places = torch.tensor([[1, 4, 5], [0, -1, -1], [-1, -1, -1], [1, -1, -1]])
    results = []
    for more in ({}, {"places": places}):
        model.zero_grad()
        loss = model(**given, **more)
        loss.backward()
        results.append((loss, [p.grad.clone() for p in model.parameters()]))
    assert torch.allclose(results[0][0], results[1][0], rtol=1e-12)
    assert all(
        torch.allclose(a, b, atol=1e-12) for a, b in zip(results[0][1], results[1][1], strict=True)
    )
