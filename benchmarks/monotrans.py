"""What does a step of MonoTrans' step 2 cost, beside a full training step on the same batch?

    python benchmarks/monotrans.py [--quick] [--threads 1] [--rounds 5]

Contestants, of BERT-base's shape (12 layers of 768, 32,000 subwords, 512 positions, next-sentence head,
dropout .1), which take turns, a step each; the first round is not counted:

    full         every parameter is trained (step 1)
    positions    the body stands still; token embeddings, bias and positions of a new language are
                 trained
    adapters     the same with adapters of 64 units in every layer

A step is forward, backward, clipping and LAMB on a prepared batch: two rows of 512 tokens, 15 % of which
are predicted. Freed memory is kept, as in training. Ratios are medians over rounds, of the processor's
seconds, which other work on the machine changes less than those of the wall. The last line is one JSON object.
"""

import argparse
import json
import statistics
import time
from typing import Any

import torch

from crosslens.models.machine.memory import freed_memory_kept
from crosslens.models.network.encoder import EncoderConfig, Group, MaskedLM
from crosslens.models.network.sharing import SharingPlan
from crosslens.models.network.surgery import add_adapters, freeze_all_but, plug_in
from crosslens.models.training.costs import Load, step_flops
from crosslens.models.training.optimisers import build_optimiser
from crosslens.models.training.settings import Optimisation

PIECES, RATE = 32_000, 0.15


def models(length: int) -> dict[str, tuple[str, MaskedLM]]:
    """Contestant -> the language that it trains, and its model."""
    shape = EncoderConfig(
        vocab_size=PIECES,
        hidden_size=768,
        layers=12,
        heads=12,
        ffn_size=3072,
        max_positions=length,
        segments=2,
        next_sentence=True,
        cls_position=False,
        special_table=True,
    )
    plan = SharingPlan.parse("sep=token,position", shape.layers)
    made: dict[str, tuple[str, MaskedLM]] = {}
    for name in ("full", "positions", "adapters"):
        model = MaskedLM(shape, languages=("eng",), plan=plan)
        if name != "full":
            plug_in(model, "fra", MaskedLM(shape, 1, languages=("fra",), plan=plan))
            if name == "adapters":
                add_adapters(model, languages=["fra"])
            freeze_all_but(model, "fra")
        made[name] = ("eng" if name == "full" else "fra", model.train())
    return made


def batch(rows: int, length: int) -> dict[str, Any]:
    """One batch, the same for all but for its language."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, PIECES, (rows, length), generator=generator)
    ids[:, 0] = 2
    each = round(RATE * length)
    masked = torch.cat([r * length + 1 + torch.arange(each) * 6 for r in range(rows)])
    return {
        "ids": ids,
        "positions": torch.arange(length).expand(rows, length),
        "lengths": None,
        "masked": masked,
        "labels": ids.flatten()[masked],
        "segments": (torch.arange(length) >= length // 2).long().expand(rows, length),
        "following": torch.arange(rows) % 2,
    }


def step(model: MaskedLM, optimiser: Any, given: dict[str, Any], language: str) -> None:
    """One update."""
    rows, n = len(given["ids"]), len(given["labels"])
    loss, following = model(**given, groups=(Group(language, rows, n),))
    (loss / n + following / rows).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two rows of 64 tokens, two rounds")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    length, rounds = (64, 2) if given.quick else (512, given.rounds)
    data, contestants = batch(2, length), models(length)
    settings = Optimisation(optimiser="lamb")
    optimisers = {
        name: build_optimiser(model, settings) for name, (_, model) in contestants.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    with freed_memory_kept(torch.device("cpu")):  # as in training
        for turn in range(rounds + 1):
            for name, (language, model) in contestants.items():
                began = time.process_time()
                step(model, optimisers[name], data, language)
                if turn:
                    seconds[name].append(time.process_time() - began)
    load = Load.of_token(length, RATE)
    work = {n: step_flops(model, {language: load}) for n, (language, model) in contestants.items()}
    print(f"{'':10} CPU s a step  ratio to full  of operations")
    found = {}
    for name, mine in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(mine, seconds["full"], strict=True))
        found[name] = round(ratio, 3)
        counted = work[name] / work["full"]
        print(f"{name:10} {statistics.median(mine):12.2f}  {ratio:13.2f}  {counted:13.2f}")
    del found["full"]
    print(json.dumps({f"step_2_cost_{name}": ratio for name, ratio in found.items()}))


if __name__ == "__main__":
    main()
