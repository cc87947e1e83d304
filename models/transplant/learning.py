"""New embeddings, learnt by masked language modelling under a body that stands still: step 2 of
Artetxe et al. 2020, § 2.2, for any encoder of transformers.

    text --tokeniser--> rows of ids --masks--> body --head--> the masked subwords --loss--> new embeddings

What is trained: the embeddings of all subwords but special tokens, and their output bias. An encoder
without a head for masked words gets one for the time of the training. It reads the new embeddings as
its output, so it is no way around them; it is trained first, while they stay as they are, and then
along with them.
"""

import contextlib
import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from crosslens.corpus import Corpus
from crosslens.errors import refuse
from crosslens.files import lock_folder
from crosslens.models.machine.distributed import World, join_world
from crosslens.models.training.batches import plan_epoch
from crosslens.models.training.loop import run_loop
from crosslens.models.training.masking import Masker, Masking, Pieces
from crosslens.models.training.objective import Step, moved
from crosslens.models.training.settings import LoopSettings, Optimisation

__all__ = [
    "BATCH_TOKENS",
    "HEAD_STEPS",
    "Learnt",
    "check_learnable",
    "held_out",
    "learn_embeddings",
]

BATCH_TOKENS = 4096
"""Tokens of an update's batch, padding included."""
HEAD_STEPS = 48
"""Updates of a new head before the embeddings move: as many however long these are trained, so that the
perplexity before does not depend on that. Half as many leave it no better than a unigram model."""
_HEAD_PEAK = 3e-3  # its highest learning rate
_PART_TOKENS = {"cpu": 1024}  # what a processor's caches hold
_LENGTH = 128  # tokens of a row at most
# The highest learning rate, of the embeddings' standard deviation, since tables differ in scale and a
# step of Adam does not: 1e-3 where it is the .02 that BERT begins with.
_PEAK = 0.05
_HELD_OUT, _MOST = 0.05, 500  # share of the sentences, and how many at most
_FEWEST = 40
_MOST_NATS = 700.0  # whose exponential is a number still
# How often held-out sentences are judged on the way: judging costs half of training on as many tokens,
# and a quarter of the training where that is more than the least.
_JUDGED = (3, 10)


@dataclasses.dataclass(frozen=True)
class Learnt:
    """What a training of embeddings came to.

    Attributes
    ----------
    perplexities: tokens that the embeddings were trained on -> perplexity of masked subwords of
        held-out sentences; at 0 that of what they began with.
    unigram: that of a model that knows how often each subword occurs, and nothing else.
    masked: subwords that both are measured on.
    new_head: whether the encoder had no head for masked words, so that one was made.
    head_tokens: what that was trained on before, with the embeddings as they were.
    repeats: where it was done several times, of which this is the best, the seed of each ->
        perplexity at its end; NaN where the loss was no number any more. Chosen on these very
        sentences, the best one's is somewhat too good.
    kept: the seed of the best one; None where there was one training.
    not_converged: how many of the repeats did not converge.
    """

    perplexities: Mapping[int, float]
    unigram: float
    masked: int
    new_head: bool = False
    head_tokens: int = 0
    repeats: Mapping[int, float] = dataclasses.field(default_factory=dict)
    kept: int | None = None
    not_converged: int = 0

    @property
    def converged(self) -> bool:
        """Whether it ended below its own start and below a unigram model.

        >>> Learnt({0: 900.0, 4096: 500.0}, unigram=450.0, masked=100).converged
        False
        """
        first = next(iter(self.perplexities.values()))
        return self.last < min(first, self.unigram)

    @property
    def last(self) -> float:
        """Perplexity at its end."""
        *_, last = self.perplexities.values()
        return last

    def told(self) -> dict[str, Any]:
        """All of it, as ``transplant.json`` has it: null for what is no number."""
        curves = {"perplexities": self.perplexities, "repeats": self.repeats}
        finite = {
            name: {n: one if math.isfinite(one) else None for n, one in curve.items()}
            for name, curve in curves.items()
        }
        return {**dataclasses.asdict(self), **finite, "converged": self.converged}

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> "Learnt":
        """What :meth:`told` has given, back.

        >>> one = Learnt({0: math.inf, 4096: 500.0}, 450.0, 100, repeats={0: 500.0, 1: math.nan}, kept=0)
        >>> Learnt.read(json.loads(json.dumps(one.told()))).told() == one.told()
        True
        """
        curves = {
            name: {int(n): math.nan if one is None else one for n, one in told[name].items()}
            for name in ("perplexities", "repeats")
            if name in told
        }
        fields = {name: value for name, value in told.items() if name != "converged"}
        return cls(**{**fields, **curves})


def held_out(sentences: Sequence[str], seed: int) -> tuple[list[str], list[str]]:
    """The sentences that are trained on, and those that are not: a twentieth of the different ones,
    500 at most, of which none is among the first, however often it stands in the text.

    >>> trained, kept = held_out([f"Line {n}." for n in range(40)] + ["Line 7."] * 9, seed=0)
    >>> len(kept), len(set(trained)), set(trained) & set(kept)
    (2, 38, set())
    """
    different = list(dict.fromkeys(sentences))
    order = np.random.default_rng([seed, 0x7A01]).permutation(len(different))
    most = min(_MOST, round(_HELD_OUT * len(different)))
    kept = [different[n] for n in order[:most]]
    apart = set(kept)
    return [one for one in sentences if one not in apart], kept


def check_learnable(tokenizer: Any, sentences: Sequence[str], seed: int) -> None:
    """Refuse what :func:`learn_embeddings` cannot learn from.

    Parameters
    ----------
    tokenizer: of the new vocabulary. sentences: the whole text. seed: of what is held out.

    Raises
    ------
    InputError: no mask token or padding, too few sentences, or held-out ones of special tokens alone.
    """
    if tokenizer.mask_token_id is None or tokenizer.pad_token_id is None:
        refuse("--encoder", "a tokeniser with a mask and padding", "none", "choose another")
    n = len(set(sentences))
    if n < _FEWEST:
        expected = f"{_FEWEST} different sentences or more to learn from"
        refuse("--text", expected, str(n), "give more")
    kept = held_out(sentences, seed)[1]
    if next(_rows(tokenizer, kept, _special(tokenizer), _LENGTH), None) is None:
        expected = "held-out sentences with subwords of the vocabulary"
        refuse("--text", expected, f"{len(kept)} without any", "give more, or another seed")


class _MaskedWords(nn.Module):
    """The parameters that are trained; the encoder itself is no part of its state."""

    table: Tensor
    ids: Tensor
    fixed_bias: Tensor

    def __init__(self, model: Any, ids: np.ndarray, seed: int) -> None:
        super().__init__()
        self.encoder = [model.requires_grad_(False)]  # in a list: no module of this one
        table, output = model.get_input_embeddings(), model.get_output_embeddings()
        weight = table.weight.detach()
        self.register_buffer("table", weight.clone(), persistent=False)
        self.register_buffer("ids", torch.from_numpy(ids), persistent=False)
        self.rows = nn.Parameter(weight[ids].clone())
        bias = None if output is None else output.bias
        start = torch.zeros(len(weight)) if bias is None else bias.detach().clone()
        self.register_buffer("fixed_bias", start, persistent=False)
        self.bias = nn.Parameter(start[ids].clone()) if output is None or bias is not None else None
        hidden = getattr(model.config, "hidden_size", weight.shape[1])
        self.head = None if output is not None else _new_head(hidden, weight.shape[1], seed)
        self.body = [model if output is None else model.base_model]
        named = [*model.named_parameters(remove_duplicate=False)]
        self.named = {
            "weight": [name for name, one in named if one is table.weight],
            "bias": [name for name, one in named if bias is not None and one is bias],
        }

    def weight(self) -> Tensor:
        """(v, d) the embeddings as they are now."""
        return self.table.index_copy(0, self.ids, self.rows)

    def forward(self, ids: Tensor, mask: Tensor, at: Tensor, answers: Tensor) -> Tensor:
        """The summed loss of the masked places.

        Parameters
        ----------
        ids, mask: (rows, width) token ids, and which of them are none of the padding.
        at: (places, 2) row and column of what is predicted. answers: (places,) its ids.
        """
        return F.cross_entropy(self.logits(ids, mask, at), answers, reduction="sum")

    def logits(self, ids: Tensor, mask: Tensor, at: Tensor) -> Tensor:
        """(places, v) what is said of these places."""
        model, weight = self.encoder[0].train(self.training), self.weight()
        swapped = dict.fromkeys(self.named["weight"], weight)
        if self.head is not None:
            states = functional_call(model, swapped, (ids, mask))[0]
            bias = self.fixed_bias.index_copy(0, self.ids, self.bias)  # type: ignore[arg-type]
            return F.linear(self.head(states[at[:, 0], at[:, 1]]), weight, bias)
        if self.bias is not None:
            bias = self.fixed_bias.index_copy(0, self.ids, self.bias)
            swapped |= dict.fromkeys(self.named["bias"], bias)
        # what the head says of all places is many times the work
        head = _single_head(model)
        found = functional_call(_Chosen(model, head), _inside(swapped), (ids, mask, at))
        return found[0] if isinstance(found, tuple) else found


class _Chosen(nn.Module):
    """A model whose head reads some places alone."""

    def __init__(self, model: Any, head: nn.Module | None) -> None:
        super().__init__()
        self.model, self.head = model, [head]  # its parameters are those of the model

    def forward(self, ids: Tensor, mask: Tensor, at: Tensor) -> Any:
        (head,) = self.head
        if head is None:
            return self.model(ids, mask).logits[at[:, 0], at[:, 1]]
        return head(self.model.base_model(ids, mask)[0][at[:, 0], at[:, 1]])


def _inside(swapped: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"model.{name}": tensor for name, tensor in swapped.items()}


def _single_head(model: Any) -> nn.Module | None:
    """The module that makes logits of states, where it is one."""
    others = [one for one in model.children() if one is not model.base_model]
    known = type(model).__name__.startswith(("Bert", "Roberta", "XLMRoberta", "Camembert"))
    return others[0] if known and len(others) == 1 else None


def _new_head(hidden: int, d: int, seed: int) -> nn.Module:
    """BERT's, beginning as BERT's does; from a body of another width to that of the embeddings."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        dense = nn.Linear(hidden, d)
        nn.init.normal_(dense.weight, std=0.02)
        nn.init.zeros_(dense.bias)
        return nn.Sequential(dense, nn.GELU(), nn.LayerNorm(d))


class _Rows:
    """The text as rows of ids, those that are trained on in batches that are a function of the
    update's number."""

    def __init__(
        self,
        tokenizer: Any,
        text: Corpus,
        length: int,
        seed: int,
        device: str,
        share: tuple[int, int] = (0, 1),
        held_out_seed: int | None = None,
    ) -> None:
        self.share = share  # this process's number, and how many there are
        held_out_seed = seed if held_out_seed is None else held_out_seed
        self.seed, self.held_out_seed = seed, held_out_seed
        check_learnable(tokenizer, text.sentences, held_out_seed)
        self.pad, mask = tokenizer.pad_token_id, tokenizer.mask_token_id
        self.special = special = _special(tokenizer)
        self.learnt = np.flatnonzero(~special)
        trained, kept = held_out(text.sentences, held_out_seed)
        self.rows = list(_rows(tokenizer, trained, special, length))
        self.held_out = list(_rows(tokenizer, kept, special, length))
        self.lengths = np.array([len(row) for row in self.rows])
        self.counts = np.bincount(np.concatenate(self.rows), minlength=len(special))
        pieces = Pieces(special=special, counts=self.counts, starts=~special)
        self.masker = Masker(Masking(), [pieces], mask)  # 15 %, 80/10/10: Devlin et al. 2019
        self.most = _PART_TOKENS.get(device, BATCH_TOKENS)
        self.plans: list[list[np.ndarray]] = []

    def batch(self, step: int) -> Step:
        """The masked batch of an update, of which each process has its share of the rows."""
        epoch = 0
        while True:
            if epoch == len(self.plans):
                seed = [self.seed, 0x7A02, epoch]
                self.plans.append(plan_epoch(self.lengths, BATCH_TOKENS, seed))
            if step < len(self.plans[epoch]):
                break
            step, epoch = step - len(self.plans[epoch]), epoch + 1
        rng = np.random.default_rng([self.seed, 0x7A03, epoch, step])
        return self._masked([self.rows[n] for n in self.plans[epoch][step]], rng, *self.share)

    def judged(self) -> Step:
        """The held-out rows, masked in the same way each time."""
        rows = sorted(self.held_out, key=len)
        return self._masked(rows, np.random.default_rng([self.held_out_seed, 0x7A04]))

    def _masked(
        self, rows: list[np.ndarray], rng: np.random.Generator, rank: int = 0, size: int = 1
    ) -> Step:
        """Rows masked, every ``size``-th of them from number ``rank`` on as tensors."""
        lengths = np.array([len(row) for row in rows])
        width = int(lengths.max())
        real = np.arange(width) < lengths[:, None]
        ids = np.full(real.shape, self.pad)
        ids[real] = np.concatenate(rows)
        ids, masked, answers = self.masker(ids, np.zeros_like(ids), rng)
        row, column = np.divmod(masked, width)
        # a process without rows does the first one, of which nothing is predicted
        kept = np.arange(rank, len(rows), size) if rank < len(rows) else np.array([0])
        parts = []
        each = max(1, self.most // width)
        for start in range(0, len(kept), each):
            some = kept[start : start + each]
            wide = slice(lengths[some].max())
            mine = np.isin(row, some) & (row % size == rank)
            arrays = {
                "ids": ids[some, wide],
                "mask": real[some, wide].astype(np.int64),
                "at": np.stack([np.searchsorted(some, row[mine]), column[mine]], axis=1),
                "answers": answers[mine],
            }
            parts.append({name: torch.from_numpy(array) for name, array in arrays.items()})
        return Step(parts, predicted=len(masked), tokens=int(lengths.sum()))

    def unigram(self) -> float:
        """Perplexity of the held-out answers by the subwords' frequencies, each one more than it is."""
        counts = np.where(self.special, 0.0, self.counts + 1)
        shares = counts / counts.sum()
        answers = np.concatenate([part["answers"].numpy() for part in self.judged().parts])
        return math.exp(-float(np.log(shares[answers]).mean()))


def _special(tokenizer: Any) -> np.ndarray:
    """(v,) which ids are those of special tokens."""
    special = np.zeros(len(tokenizer), bool)
    special[list(tokenizer.all_special_ids)] = True
    return special


def _rows(
    tokenizer: Any, sentences: Sequence[str], special: np.ndarray, length: int
) -> Iterator[np.ndarray]:
    """The ids of each sentence that has subwords of its own."""
    for start in range(0, len(sentences), 1000):
        some = list(sentences[start : start + 1000])
        for ids in tokenizer(some, truncation=True, max_length=length)["input_ids"]:
            row = np.array(ids)
            if (~special[row]).any():
                yield row


class _Objective:
    """The mean loss of masked subwords, as the loop minimises it."""

    rate_factors: Mapping[str, float] = {}

    def __init__(self, model: _MaskedWords, rows: _Rows) -> None:
        self.model, self.rows = model, rows

    def batch(self, step: int) -> Step:
        return self.rows.batch(step)

    def loss(self, runner: nn.Module, inputs: Mapping[str, Any], batch: Step) -> Tensor:
        loss: Tensor = runner(**inputs) / batch.predicted
        return loss

    def flops(self, batch: Step) -> float:
        """Forward and, where embeddings are trained, backward without gradients of the body's
        weights."""
        inside = sum(p.numel() for p in self.model.body[0].parameters()) - self.model.table.numel()
        return (4.0 if self.model.rows.requires_grad else 2.0) * inside * batch.tokens

    @torch.no_grad()
    def validate(self, device: torch.device) -> dict[str, Any]:
        """Perplexity of held-out sentences."""
        self.model.eval()
        judged = self.rows.judged()
        loss = sum(float(self.model(**moved(part, device))) for part in judged.parts)
        self.model.train()
        mean = loss / judged.predicted
        return {"perplexity": math.exp(mean) if mean < _MOST_NATS else math.inf}

    def measure(self, found: Mapping[str, Any]) -> float:
        return float(found["perplexity"])


def learn_embeddings(
    model: Any,
    tokenizer: Any,
    text: Corpus,
    folder: Path,
    depends: Mapping[str, Any],
    *,
    tokens: int,
    seed: int = 0,
    held_out_seed: int | None = None,
    device: str = "auto",
) -> Learnt:
    """Train the token embeddings of a transformers model in place, and nothing else of it.

    Under ``torchrun`` the processes share each batch, and all of them return the same.

    Parameters
    ----------
    model: with a head for masked words that is tied to the embeddings, or without any.
    tokenizer: of the new vocabulary; its special tokens' embeddings stay as they are.
    text: of the language; a twentieth of its sentences, 500 at most, is held out (:func:`held_out`).
    folder: gets the log and the checkpoints; a training that was stopped is resumed to the same bits.
    depends: what the model depends on; a checkpoint of another one is refused.
    tokens: how many to train on, padding included; a new head is trained on others before
        (:data:`HEAD_STEPS` batches), with the embeddings as they are.
    seed: of the order, the masks and a new head. held_out_seed: of what is held out, and its masks;
        the same as ``seed`` where it is not given. device: "auto", "cpu" or "cuda".

    Raises
    ------
    InputError: too little text, or fewer tokens than a batch has.
    StoreError: a checkpoint is damaged, or of another training.
    TrainingError: the loss is not a number any more.
    """
    if tokens < BATCH_TOKENS:
        refuse("--tokens", f"{BATCH_TOKENS:,} (a batch) or more", f"{tokens:,}", "give more")
    with join_world(device) as world, contextlib.ExitStack() as held:
        most = getattr(model.config, "max_position_embeddings", _LENGTH + 2) - 2
        with world.together():
            share = world.rank, world.size
            length, kind = min(_LENGTH, most), world.device.type
            rows = _Rows(tokenizer, text, length, seed, kind, share, held_out_seed)
            if world.first:
                held.enter_context(lock_folder(folder))
        learner = _MaskedWords(model.to(world.device), rows.learnt, seed).to(world.device)
        spread = float(learner.rows.detach().std())
        steps, objective = tokens // BATCH_TOKENS, _Objective(learner, rows)
        often = max(_JUDGED[0], min(_JUDGED[1], tokens // (2 * rows.judged().tokens)))
        settings = LoopSettings(
            name="embeddings",
            steps=steps,
            seed=seed,
            log_every=max(1, min(50, steps // 10)),
            validate_every=math.ceil(steps / often),
            save_every=max(1, min(50, steps // 4)),
            optimisation=Optimisation(peak_rate=_PEAK * spread, warmup=steps // 10),
        )
        depends, head_tokens = dict(depends), 0
        if learner.head is not None:
            depends |= {"head_steps": HEAD_STEPS}
            head_tokens = _learn_head(objective, folder / "head", depends, seed, world)
        first = objective.validate(world.device)["perplexity"]
        weights = run_loop(objective, settings, folder, depends, world)
        with world.together():  # its last line was written before the last checkpoint
            curve = {0: first, **_curve(folder / "log.jsonl")}
        learner.load_state_dict(weights)
        _fill(model, learner)
        made = learner.head is not None
        return Learnt(curve, rows.unigram(), rows.judged().predicted, made, head_tokens)


def _learn_head(
    objective: _Objective, folder: Path, depends: dict[str, Any], seed: int, world: World
) -> int:
    """Train a new head with body and embeddings as they are; returns how many tokens it has read.

    Its bias begins at the subwords' frequencies: from 0 all of these updates would be spent on them.
    Special tokens, whose bias stays 0, are as rare as what does not occur.
    """
    learner, rows = objective.model, objective.rows
    assert learner.bias is not None
    learner.bias.data.copy_(torch.from_numpy(np.log(rows.counts[rows.learnt] + 1)))
    learner.rows.requires_grad_(False)
    settings = LoopSettings(
        name="head",
        steps=HEAD_STEPS,
        seed=seed,
        log_every=HEAD_STEPS // 4,
        validate_every=HEAD_STEPS,
        save_every=HEAD_STEPS // 4,
        optimisation=Optimisation(peak_rate=_HEAD_PEAK, warmup=HEAD_STEPS // 10),
    )
    with world.together():
        if world.first:
            folder.mkdir(exist_ok=True)
    run_loop(objective, settings, folder, depends, world)
    learner.rows.requires_grad_(True)
    with world.together():
        (tokens,) = _curve(folder / "log.jsonl")
    return tokens


def _curve(log: Path) -> dict[int, float]:
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return {line["tokens"]: line["perplexity"] for line in lines if "perplexity" in line}


@torch.no_grad()
def _fill(model: Any, learner: _MaskedWords) -> None:
    """Write what was learnt into the model."""
    table, output = model.get_input_embeddings(), model.get_output_embeddings()
    table.weight.copy_(learner.weight())
    if output is not None and output.bias is not None and learner.bias is not None:
        output.bias.copy_(learner.fixed_bias.index_copy(0, learner.ids, learner.bias))
    model.to("cpu").requires_grad_(True).eval()
