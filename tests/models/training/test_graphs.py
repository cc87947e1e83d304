"""Updates that are recorded and repeated. There is no GPU here: a stand-in repeats them, which like
a graph reads from where the first batch lay and writes to where the first result lies."""

import contextlib
import dataclasses

import pytest
import torch
from toy_texts import log, prepared, without_times

from crosslens import progress
from crosslens.models.machine.distributed import World, join_world
from crosslens.models.training import graphs, loop, masked_lm
from crosslens.models.training.graphs import Graphs, repeated_updates
from crosslens.models.training.loop import run_loop
from crosslens.models.training.masked_batches import MaskedBatches
from crosslens.models.training.masked_lm import MaskedLanguageModelling, build_model
from crosslens.models.training.objective import FixedShapes, moved
from crosslens.models.training.optimisers import Lamb, build_optimiser, set_rate
from crosslens.models.training.settings import with_overrides

CPU, GPU = torch.device("cpu"), torch.device("cuda")
SEPARATE = {"sharing": "sep=emb,1", "vocabulary.mode": "separate"}


def objective_of(toy, folder, **changes):
    """The toy run's objective with a narrow model and full rows of a stream, dropout off."""
    values = {
        "encoder.hidden_size": 8,
        "encoder.ffn_size": 8,
        "batch_tokens": 128,
        "units": "stream",
        "batch_languages": "mixed",
        "tlm_share": 0.0,
        "encoder.dropout": 0.0,
        **changes,
    }
    recipe, data, vocabularies = prepared(with_overrides(toy, values), folder)
    model = build_model(recipe, vocabularies)
    return MaskedLanguageModelling(model, MaskedBatches(recipe, data, vocabularies))


def gradients(objective, batch):
    """Loss and gradients of a batch."""
    objective.model.zero_grad()
    losses = [objective.loss(objective.model, part, batch) for part in batch.parts]
    sum(losses).backward()
    found = {name: p.grad for name, p in objective.model.named_parameters() if p.grad is not None}
    return sum(losses).item(), {name: gradient.clone() for name, gradient in found.items()}


def groups_of(part, whole):
    """The groups of a part, or its one group without any; each with its rows, where its masked
    tokens are, and their labels."""
    counts = [len(part["masked"])] if whole else [group.masked for group in part["groups"]]
    rows = [len(part["ids"])] if whole else [group.rows for group in part["groups"]]
    return [
        *zip(rows, part["masked"].split(counts), part["labels"].split(counts), strict=True),
    ]


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        SEPARATE,
        {"sharing": "sep=2"},
        {**SEPARATE, "batch_languages": "one"},
        {"units": "nsp", "encoder.segments": 2, "encoder.next_sentence": True},
        {**SEPARATE, "units": "nsp", "encoder.segments": 2, "encoder.next_sentence": True},
        {"encoder.language_embeddings": True},
    ],
    ids=lambda changes: ",".join(f"{value}" for value in changes.values()) or "shared",
)
def test_a_batch_that_is_filled_up_has_the_same_loss_and_gradients(
    toy, tmp_path, changes, accumulate
):
    """In float64, so sums in another order agree to rounding."""
    objective, compared = objective_of(toy, tmp_path, accumulate=accumulate, **changes), 0
    objective.model.double()
    for step in range(60):
        batch = objective.batch(step)
        fixed = objective.in_fixed_shapes(batch)
        if fixed is None:
            assert any(part["lengths"] is not None for part in batch.parts)
            continue
        assert fixed.divisor.item() == fixed.predicted == batch.predicted
        (told, mine), (expected, plain) = gradients(objective, fixed), gradients(objective, batch)
        assert told == pytest.approx(expected, rel=1e-12)
        assert mine.keys() == plain.keys()
        assert all(torch.allclose(mine[name], plain[name], 1e-9, 1e-13) for name in plain)
        compared += 1
        if compared == 2:
            return
    raise AssertionError("hardly a batch had a fixed shape")


@pytest.mark.parametrize("changes", [{}, SEPARATE, {"sharing": "sep=2"}], ids=str)
def test_masked_tokens_are_filled_up_with_what_has_no_label(toy, tmp_path, changes):
    """Those of each language that owns something to a multiple of 64, at tokens of its own."""
    objective = objective_of(toy, tmp_path, accumulate=2, batch_tokens=1024, **changes)
    shared = not changes
    for step in range(4):
        batch = objective.batch(step)
        fixed = objective.in_fixed_shapes(batch)
        for part, plain in zip(fixed.parts, batch.parts, strict=True):
            start, length = 0, part["ids"].shape[1]
            assert (part["groups"] is None) == shared and "places" not in part
            for (rows, masked, labels), (_, old_masked, old_labels) in zip(
                groups_of(part, shared), groups_of(plain, shared), strict=True
            ):
                n = len(old_masked)
                assert len(masked) == len(labels) == -(-n // 64) * 64 > n > 0
                assert torch.equal(masked[:n], old_masked) and torch.equal(labels[:n], old_labels)
                assert (labels[n:] == -100).all()
                where = masked // length
                assert ((where >= start) & (where < start + rows)).all()
                start += rows
            assert start == len(part["ids"])


def test_counts_that_are_multiples_already_stay(toy, tmp_path):
    objective = objective_of(toy, tmp_path)
    once = objective.in_fixed_shapes(objective.batch(0))
    parts = [{**part, "groups": objective.batch(0).parts[0]["groups"]} for part in once.parts]
    twice = objective.in_fixed_shapes(dataclasses.replace(once, parts=parts))
    assert torch.equal(once.parts[0]["masked"], twice.parts[0]["masked"])


def test_the_batches_of_a_model_that_shares_everything_have_one_shape(toy, tmp_path):
    objective = objective_of(toy, tmp_path)
    batches = [objective.batch(step) for step in range(8)]
    assert len({graphs._shape(batch) for batch in batches}) == 8
    assert len({graphs._shape(objective.in_fixed_shapes(batch)) for batch in batches}) == 1


def test_large_batches_have_no_fixed_shape(toy, tmp_path, monkeypatch):
    """The limit is on tokens times dimensions."""
    objective = objective_of(toy, tmp_path)
    batch = objective.batch(0)
    numbers = batch.parts[0]["ids"].numel() * objective.model.config.hidden_size
    for most, fixed in ((numbers, True), (numbers - 1, False)):
        monkeypatch.setattr(masked_lm, "_SMALL", most)
        assert (objective.in_fixed_shapes(batch) is not None) == fixed


@pytest.mark.parametrize(
    "changes",
    [
        {"units": "packed"},
        {"encoder.dropout": 0.1},
        {"encoder.noise": 0.1},
        {"recompute": True},
        {"compile": True},
        {"accumulate": 40},
    ],
    ids=["padded", "dropout", "noise", "computed twice", "compiled", "parts with nothing masked"],
)
def test_some_batches_have_no_fixed_shape(toy, tmp_path, changes):
    objective = objective_of(toy, tmp_path, **changes)
    assert all(objective.in_fixed_shapes(objective.batch(step)) is None for step in range(4))


class StandIn:
    """Records nothing and repeats everything, with new results where the first ones are."""

    def __init__(self):
        self.recorded = self.repeated = 0

    def __call__(self, update, still):
        self.recorded += 1
        found = []

        def again():
            self.repeated += 1
            now = update(still)
            if not found:
                found.extend(now)
            for there, here in zip(found, now, strict=True):
                there.copy_(here)
            return tuple(found)

        return again


class Plain:
    """An update that counts how often it is called, and its objective's model and optimiser."""

    def __init__(self, objective):
        self.objective, self.calls = objective, 0
        self.optimiser = build_optimiser(objective.model, objective.recipe.optimisation)

    def __call__(self, batch):
        self.calls += 1
        model = self.objective.model
        losses = [self.objective.loss(model, moved(part, CPU), batch) for part in batch.parts]
        sum(losses).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return sum(losses).detach(), norm


def both_ways(toy, folder, steps, record, **changes):
    """Updates by the batches of some steps with graphs, and the same without; what was called of
    the first, after the weights of both are seen to be the same."""
    with_graphs, without = (
        Plain(objective_of(toy, folder / name, **changes)) for name in ("graphs", "plain")
    )
    update = Graphs(with_graphs, with_graphs.objective, CPU, record)
    for number, step in enumerate(steps):
        found = update(with_graphs.objective.batch(step))
        batch = without.objective.batch(step)
        expected = without(without.objective.in_fixed_shapes(batch) or batch)
        assert [value.item() for value in found] == [value.item() for value in expected], number
    weights = [one.objective.model.state_dict() for one in (with_graphs, without)]
    assert all(torch.equal(weights[0][name], tensor) for name, tensor in weights[1].items())
    return with_graphs, update


@pytest.mark.parametrize("accumulate", [1, 2])
def test_repeated_updates_are_those_of_the_filled_batches(toy, tmp_path, accumulate):
    """All batches have one shape: one is computed plainly, the next recorded, and repeated with
    it and all others."""
    record = StandIn()
    plain, _ = both_ways(toy, tmp_path, range(7), record, accumulate=accumulate)
    assert (record.recorded, record.repeated, plain.calls) == (1, 6, 7)


def test_every_shape_is_recorded_with_its_second_batch(toy, tmp_path):
    record, steps = StandIn(), [*range(3), *range(6)]
    _, update = both_ways(toy, tmp_path, steps, record, batch_tokens=256, **SEPARATE)
    batches = [update.objective.in_fixed_shapes(update.objective.batch(step)) for step in steps]
    shapes = [graphs._shape(batch) for batch in batches]
    again = {shape for shape in shapes if shapes.count(shape) > 1}
    assert set(shapes) > again == update.recorded.keys() and len(again) > 1
    assert record.recorded == len(again)
    assert record.repeated == len(shapes) - len(set(shapes))


def test_batches_without_a_fixed_shape_are_computed_between_the_others(toy, tmp_path):
    record = StandIn()
    changes = {"units": "nsp", "encoder.segments": 2, "encoder.next_sentence": True}
    plain, update = both_ways(toy, tmp_path, range(12), record, **changes)
    fixed = [update.objective.in_fixed_shapes(update.objective.batch(step)) for step in range(12)]
    shapes = [graphs._shape(batch) for batch in fixed if batch is not None]
    assert 12 > len(shapes) > len(set(shapes)) and plain.calls == 12
    assert record.repeated == len(shapes) - len(set(shapes))


def test_there_are_only_so_many_graphs(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(graphs, "_MOST", 2)
    record, steps = StandIn(), [step for step in range(3) for _ in range(3)]
    _, update = both_ways(toy, tmp_path, steps, record, batch_tokens=256, **SEPARATE)
    assert record.recorded == len(update.recorded) == 2 < len(update.seen)


def test_results_stay_when_the_next_batch_is_computed(toy, tmp_path):
    plain = Plain(objective_of(toy, tmp_path))
    update = Graphs(plain, plain.objective, CPU, StandIn())
    found = [update(plain.objective.batch(step)) for step in range(5)]
    losses, norms = ({value.item() for value in values} for values in zip(*found, strict=True))
    assert len(losses) == len(norms) == 5


def test_a_batch_is_not_what_a_later_one_is_written_over(toy, tmp_path):
    plain = Plain(objective_of(toy, tmp_path))
    update = Graphs(plain, plain.objective, CPU, StandIn())
    batches = [plain.objective.batch(step) for step in range(4)]
    before = [batch.parts[0]["ids"].clone() for batch in batches]
    for batch in batches:
        update(batch)
    assert all(
        torch.equal(batch.parts[0]["ids"], ids) for batch, ids in zip(batches, before, strict=True)
    )


def test_what_is_computed_lies_on_the_device_with_its_divisor(toy, tmp_path):
    """Parts and divisor, plainly and recorded; "meta" is a device that every machine has."""
    objective, found = objective_of(toy, tmp_path, accumulate=2), []

    def update(batch):
        tensors = [value for part in batch.parts for value in part.values()]
        found.append({value.device.type for value in tensors if isinstance(value, torch.Tensor)})
        found.append({batch.divisor.device.type})
        return torch.zeros(()), torch.zeros(())

    repeated = Graphs(update, objective, torch.device("meta"), StandIn())
    for step in range(3):
        repeated(objective.batch(step))
    assert found == [{"meta"}] * 6


@pytest.mark.parametrize("message", ["operation not permitted\nCUDA kernel errors", ""])
def test_what_cannot_be_recorded_is_said_once_and_computed(toy, tmp_path, capsys, message):
    calls = []

    def record(update, still):
        calls.append(still)
        raise RuntimeError(message)

    progress.be_quiet(False)
    plain, _ = both_ways(toy, tmp_path, [*range(3), *range(3)], record, **SEPARATE)
    assert len(calls) == 1 and plain.calls == 6
    told = [line for line in capsys.readouterr().err.splitlines() if "CUDA" in line]
    assert told == [
        f"no CUDA graphs, each kernel is started alone: {message.partition(chr(10))[0]}"
    ]


def test_a_training_with_graphs_has_the_weights_of_one_without(toy, tmp_path, monkeypatch):
    """The whole loop, with a rate that rises and falls."""
    record, finished = StandIn(), []

    @contextlib.contextmanager
    def with_graphs(update, objective, optimiser, world):
        yield Graphs(update, objective, world.device, record)

    @contextlib.contextmanager
    def without(update, objective, optimiser, world):
        yield lambda batch: update(objective.in_fixed_shapes(batch))

    for updates in (with_graphs, without):
        changes = {"steps": 8, "accumulate": 2}
        folder = tmp_path / updates.__name__
        objective = objective_of(toy, folder, **changes)
        monkeypatch.setattr(loop, "repeated_updates", updates)
        with join_world("cpu") as world:
            finished.append(run_loop(objective, objective.recipe, folder, {}, world))
    assert (record.recorded, record.repeated) == (1, 7)
    assert all(torch.equal(finished[0][name], tensor) for name, tensor in finished[1].items())
    lines = [without_times(log(tmp_path / name)) for name in ("with_graphs", "without")]
    assert lines[0] == lines[1]


@pytest.mark.parametrize(
    ("device", "size", "lamb", "fixed"),
    [(CPU, 1, False, True), (GPU, 2, False, True), (GPU, 1, True, True), (GPU, 1, False, False)],
    ids=["on a CPU", "several processes", "LAMB", "no fixed shapes"],
)
def test_elsewhere_the_update_stays_what_it_is(device, size, lamb, fixed):
    """And learning rates stay numbers."""

    class Fixed:
        def in_fixed_shapes(self, batch):
            raise NotImplementedError

    def update(batch):
        raise NotImplementedError

    objective = Fixed() if fixed else object()
    assert isinstance(objective, FixedShapes) == fixed
    layer = torch.nn.Linear(2, 2)
    kind = Lamb if lamb else torch.optim.AdamW
    optimiser = kind([{"params": [*layer.parameters()], "rate_factor": 2.0}], lr=0.5)
    with repeated_updates(update, objective, optimiser, World(0, size, device)) as found:
        assert found is update and optimiser.param_groups[0]["lr"] == 0.5
        set_rate(optimiser, 0.25)
    assert type(optimiser.param_groups[0]["lr"]) is float
