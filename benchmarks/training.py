"""How fast is training? Our loop beside a bare step and transformers' Trainer, on the same rows, in
one run.

    python benchmarks/training.py [--quick] [--threads N] [--device auto|cpu|cuda] [--shapes C D]

Contestants, each in a process of its own that starts afresh for every shape:

    crosslens    the loop of crosslens.models.training.loop: batches, masking, clipping, AdamW,
                 learning rate, log lines
    bfloat16     the same with precision = "bfloat16" (on a CPU, the smaller shape alone; on a GPU
                 all work in bfloat16)
    bare step    forward, backward, clipping and AdamW on prepared tensors with our model: the floor
    Trainer      transformers' Trainer on BertForMaskedLM of the same shape (extra ``bench``)

They take turns, a few steps each, in several rounds; ratios are medians over rounds, so that
whatever else the machine does falls on all of them alike; "CPU s" is what the processor has worked,
waiting left out. Peak memory is what a process holds at most above what it held before its model
was made. The last line is one JSON object with the worst ratios of all shapes.
"""

import argparse
import dataclasses
import importlib.util
import json
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

# Nothing heavy is imported up here: every contestant's process imports this file, and its memory is
# measured.

_FOREVER = 1_000_000  # steps: more than any contestant is given
_SENTENCE = 25  # tokens of a sentence of the synthetic text
_NAMES = {
    "crosslens": "crosslens",
    "bfloat16": "crosslens, bfloat16",
    "bare": "bare step",
    "trainer": "transformers Trainer",
}


@dataclasses.dataclass(frozen=True)
class Shape:
    """An encoder, and the batches it is trained on."""

    name: str
    hidden: int
    layers: int
    heads: int
    ffn: int
    vocab: int
    length: int
    rows: int

    @property
    def tokens(self) -> int:
        """Tokens of a batch."""
        return self.rows * self.length

    def __str__(self) -> str:
        inside = (
            f"d = {self.hidden}, {self.layers} layers, {self.heads} heads, ffn {self.ffn}, "
            f"{self.vocab // 1000} k pieces"
        )
        return f"{self.name}: {inside}; {self.rows} rows of {self.length} tokens"


# C: Conneau et al. 2020 (768 wide, 8 layers, 96 rows of 256 a GPU); D: Deshpande et al. 2022 (512
# wide, 8 layers, 128 rows of 512).
_CPU = (
    Shape("C scaled", 512, 8, 8, 2048, 40_000, 256, 8),
    Shape("D scaled", 256, 4, 4, 1024, 16_000, 256, 16),
)
_QUICK = (
    Shape("C small", 256, 8, 8, 1024, 20_000, 128, 2),
    Shape("D small", 128, 4, 4, 512, 8_000, 128, 4),
)
_GPU = (
    Shape("C", 768, 8, 12, 3072, 80_000, 256, 96),
    Shape("D", 512, 8, 8, 2048, 40_000, 512, 128),
)


class _Enough(Exception):
    """The contestant has done all its steps."""


class _Pace:
    """Called at the start of every step: lets so many pass as were asked for, then tells how long
    they took and waits for more."""

    def __init__(self, line: Connection, device: str) -> None:
        self.line, self.device, self.left, self.started = line, device, 0, (0.0, 0.0)
        self.before = _peak("cpu")

    def __call__(self) -> None:
        if not self.left:
            if self.device == "cuda":
                import torch

                torch.cuda.synchronize()
            memory = _peak(self.device) - (self.before if self.device == "cpu" else 0)
            passed, worked = (now - then for now, then in zip(_clocks(), self.started, strict=True))
            self.line.send({"seconds": passed, "worked": worked, "memory": memory})
            self.left = self.line.recv()
            if not self.left:
                raise _Enough
            self.started = _clocks()
        self.left -= 1


def _clocks() -> tuple[float, float]:
    """Seconds on the wall, and seconds that the processor has worked for this process (all threads
    together)."""
    return time.perf_counter(), time.process_time()


def _peak(device: str) -> int:
    """The most bytes that this process has held: its own memory, or a GPU's."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def _recipe(shape: Shape, device: str, log_every: int, precision: str) -> Any:
    """Our recipe for a shape: BERT with all its parts, so that parameters are as many as the
    Trainer's."""
    from crosslens.models.network.encoder import EncoderConfig
    from crosslens.models.training.settings import Optimisation, Source, TrainRecipe

    encoder = EncoderConfig(
        vocab_size=shape.vocab,
        hidden_size=shape.hidden,
        layers=shape.layers,
        heads=shape.heads,
        ffn_size=shape.ffn,
        max_positions=shape.length,
        segments=2,
    )
    return TrainRecipe(
        name=shape.name.replace(" ", "-"),
        sources=(Source(name="synthetic", texts={"und": "in memory"}),),
        units="stream",
        tlm_share=0.0,
        batch_tokens=shape.tokens,
        max_length=shape.length,
        steps=_FOREVER,
        log_every=log_every,
        validate_every=_FOREVER,
        save_every=_FOREVER,
        precision=precision,
        compile=device == "cuda",
        encoder=encoder,
        optimisation=Optimisation(peak_rate=1e-4, warmup=10_000),
    )


def _text(shape: Shape) -> tuple[Any, Any]:
    """Rows for 64 batches, and the vocabulary they are of: subwords as frequent as Zipf says, the
    same for all contestants."""
    import numpy as np
    from tokenizers import Tokenizer, models

    from crosslens.models.text.token_files import TokenFile
    from crosslens.models.text.tokenisation import SPECIAL_TOKENS
    from crosslens.models.text.vocabularies import Vocabularies
    from crosslens.models.training.data import TrainingData
    from crosslens.models.training.streams import ContinuousStream, Text

    special = len(SPECIAL_TOKENS)
    sentences = 64 * shape.tokens // (_SENTENCE + 1)  # each is followed by a [SEP]
    weights = 1 / np.arange(1, shape.vocab - special + 1)
    ids = special + np.random.default_rng(0).choice(
        len(weights), sentences * _SENTENCE, p=weights / weights.sum()
    )
    file = TokenFile(ids.astype(np.uint32), np.arange(sentences + 1) * _SENTENCE)
    stream = ContinuousStream(
        "synthetic und", [Text("und", 0, file, np.arange(sentences))], shape.length, shape.rows
    )
    names = [*SPECIAL_TOKENS, *(f"▁{i}" for i in range(shape.vocab - special))]
    tokenizer = Tokenizer(
        models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="[UNK]")
    )
    data = TrainingData(
        [stream], np.ones(1), {}, {}, {"und": np.bincount(ids, minlength=shape.vocab)}
    )
    return data, Vocabularies(
        "joint", {"und": tokenizer}, {"und": np.arange(shape.vocab)}, {"und": shape.vocab}
    )


def _batches(recipe: Any, shape: Shape) -> Any:
    """The batches of our loop."""
    from crosslens.models.training.masked_batches import MaskedBatches

    return MaskedBatches(recipe, *_text(shape))


def _run_crosslens(shape: Shape, device: str, steps: int, line: Connection, precision: str) -> None:
    """The loop of ``crosslens train``, from the first step on; the pace is set where it asks for a
    loss."""
    from crosslens.models.machine.distributed import join_world
    from crosslens.models.training.loop import run_loop
    from crosslens.models.training.masked_lm import MaskedLanguageModelling, build_model

    recipe = _recipe(shape, device, steps, precision)
    batches = _batches(recipe, shape)
    pace = _Pace(line, device)

    class Paced(MaskedLanguageModelling):
        """The objective, with a look at the clock: a batch is one part."""

        def loss(self, *arguments: Any) -> Any:
            pace()
            return super().loss(*arguments)

    with tempfile.TemporaryDirectory() as name, join_world(device) as world:
        model = build_model(recipe, batches.vocabularies).to(world.device)
        run_loop(Paced(model, batches), recipe, Path(name), {}, world)


def _run_bare(shape: Shape, device: str, steps: int, line: Connection, precision: str) -> None:
    """Nothing but the work that no training can do without, on batches that lie ready."""
    import torch

    from crosslens.models.training.masked_lm import build_model
    from crosslens.models.training.optimisers import build_optimiser

    recipe = _recipe(shape, device, steps, precision)
    made = _batches(recipe, shape)
    pace = _Pace(line, device)
    model = build_model(recipe, made.vocabularies).to(device).train()
    optimiser = build_optimiser(model, recipe.optimisation)
    batches = [made[step] for step in range(8)]
    ready = [
        {
            name: x.to(device) if isinstance(x, torch.Tensor) else x
            for name, x in batch.parts[0].items()
        }
        for batch in batches
    ]
    for step in range(_FOREVER):
        pace()
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bfloat16"):
            loss = model(**ready[step % len(ready)]) / batches[step % len(ready)].predicted
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.optimisation.clip)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)


def _run_trainer(shape: Shape, device: str, steps: int, line: Connection, precision: str) -> None:
    """transformers' Trainer on the same rows, with the settings of somebody who knows it: fused
    AdamW, SDPA, no logs, no files."""
    import numpy as np
    import transformers

    data, vocabularies = _text(shape)
    stream = data.streams[0]
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=vocabularies.tokenizers["und"], **names
    )
    ids = stream.collate(np.arange(stream.n)).ids
    # With the special tokens marked in the data, the collator need not look for them.
    rows = [
        {"input_ids": row, "special_tokens_mask": special}
        for row, special in zip(ids, (ids < 5).astype(np.int64), strict=True)
    ]
    pace = _Pace(line, device)

    class Paced(transformers.TrainerCallback):
        """Between two starts of a step lie the step and the making of the next batch."""

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            pace()

    with tempfile.TemporaryDirectory() as folder:
        transformers.Trainer(
            model=transformers.BertForMaskedLM(_bert(shape)),
            args=transformers.TrainingArguments(
                **_arguments(shape, device, precision), output_dir=folder
            ),
            data_collator=transformers.DataCollatorForLanguageModeling(
                tokenizer, mlm_probability=0.15
            ),
            train_dataset=rows,
            callbacks=[Paced()],
        ).train()


def _bert(shape: Shape) -> Any:
    from transformers import BertConfig

    return BertConfig(
        vocab_size=shape.vocab,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.ffn,
        max_position_embeddings=shape.length,
        attn_implementation="sdpa",
    )


def _arguments(shape: Shape, device: str, precision: str) -> dict[str, Any]:
    """Training as our recipe says it, without logs and checkpoints."""
    on_gpu = device == "cuda"
    return {
        "per_device_train_batch_size": shape.rows,
        "max_steps": _FOREVER,
        "optim": "adamw_torch_fused",
        "learning_rate": 1e-4,
        "warmup_steps": 10_000,
        "weight_decay": 0.01,
        "max_grad_norm": 1.0,
        "logging_strategy": "no",
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": not on_gpu,
        "bf16": precision == "bfloat16",
        "torch_compile": on_gpu,
        "dataloader_num_workers": 4 if on_gpu else 0,
        "dataloader_pin_memory": on_gpu,
    }


_RUNNERS: dict[str, Callable[[Shape, str, int, Connection, str], None]] = {
    "crosslens": _run_crosslens,
    "bfloat16": _run_crosslens,
    "bare": _run_bare,
    "trainer": _run_trainer,
}


def _contestant(
    who: str, shape: Shape, device: str, steps: int, threads: int, line: Connection
) -> None:
    """The process of one contestant: everything is imported before its memory is first looked
    at."""
    import torch
    import transformers

    from crosslens.models.training import masked_lm as train
    from crosslens.progress import be_quiet

    del train
    # imported when named
    _ = (
        transformers.BertForMaskedLM,
        getattr(transformers, "Trainer" if who == "trainer" else "BertConfig"),
    )
    be_quiet()
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(threads)
    if device == "cuda":
        torch.set_float32_matmul_precision("high")
    precision = "bfloat16" if device == "cuda" or who == "bfloat16" else "float32"
    try:
        _RUNNERS[who](shape, device, steps, line, precision)
    except _Enough:
        return


class _Worker:
    """A contestant's process, from outside."""

    def __init__(self, who: str, shape: Shape, device: str, steps: int, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.line, other = context.Pipe()
        self.process = context.Process(  # no daemon: the Trainer's loader has processes of its own
            target=_contestant, args=(who, shape, device, steps, threads, other)
        )
        self.process.start()
        other.close()
        self.memory = 0
        self.seconds: list[float] = []
        self.worked: list[float] = []

    def ready(self) -> None:
        """Wait until it stands before its next step."""
        try:
            self.told = self.line.recv()
        except EOFError:
            raise SystemExit("a contestant has died; its message is above") from None

    def step(self, steps: int) -> None:
        """Let it do some steps."""
        self.line.send(steps)
        self.ready()
        self.memory = max(self.memory, self.told["memory"])
        self.seconds.append(self.told["seconds"] / steps)
        self.worked.append(self.told["worked"] / steps)

    def stop(self) -> None:
        """Let it go; the next step is not made."""
        self.line.send(0)
        self.process.join()

    def kill(self) -> None:
        """End it wherever it is, if it has not ended; those of a loader end when their parent has."""
        self.process.kill()
        self.process.join()


def _measure(
    shape: Shape, contestants: list[str], device: str, rounds: int, steps: int, threads: int
) -> dict[str, _Worker]:
    """All contestants on one shape, in turns."""
    workers = dict[str, _Worker]()
    try:
        for who in contestants:
            workers[who] = _Worker(who, shape, device, steps, threads)
        _take_turns(workers, shape, device, rounds, steps)
    finally:  # one that failed leaves the others waiting
        for worker in workers.values():
            worker.kill()
    return workers


def _take_turns(
    workers: dict[str, _Worker], shape: Shape, device: str, rounds: int, steps: int
) -> None:
    """Warm up, and then a few steps each, round by round."""
    print(f"\r{shape.name}: all warm up{' ' * 30}", end="", file=sys.stderr)
    for worker in workers.values():  # side by side, since on a GPU they compile for minutes
        worker.ready()
        worker.line.send(10 if device == "cuda" else 1)
    for worker in workers.values():
        worker.ready()
    for number in range(rounds):
        print(f"\r{shape.name}: round {number + 1} of {rounds}{' ' * 30}", end="", file=sys.stderr)
        for who, worker in workers.items():
            # a processor without bfloat16 takes many times as long
            if who != "bfloat16" or number < 2:
                worker.step(1 if who == "bfloat16" else steps)
        # a run that is stopped has told what it knew: shapes as published compile for minutes
        told = (f"{_NAMES[who]} {w.seconds[-1]:.4f}" for who, w in workers.items())
        print(f"\r{shape.name}, round {number + 1}: {', '.join(told)} s/step", file=sys.stderr)
    print(f"\r{' ' * 60}\r", end="", file=sys.stderr)
    for worker in workers.values():
        worker.stop()


def _ratio(above: _Worker, below: _Worker) -> float:
    """How many times as long one takes as the other: the median over the rounds that both took part
    in."""
    return statistics.median(a / b for a, b in zip(above.seconds, below.seconds, strict=False))


def _report(shape: Shape, workers: dict[str, _Worker], device: str) -> None:
    """The table of one shape."""
    print(f"\n{shape}")
    print(
        f"{'':22}{'tokens/s':>10}{'s/step':>9}{'spread':>9}{'time':>9}{'CPU s':>9}{'peak MiB':>10}{'utilisation':>13}"
    )
    for who, worker in workers.items():
        middle = statistics.median(worker.seconds)
        spread = f"± {(max(worker.seconds) - min(worker.seconds)) / 2 / middle:.0%}"
        used = _utilisation(shape, shape.tokens / middle, who) if device == "cuda" else "–"
        row = f"{_NAMES[who]:22}{shape.tokens / middle:>10,.0f}{middle:>9.3f}{spread:>9}{_ratio(worker, workers['crosslens']):>7.2f} ×"
        print(
            f"{row}{statistics.median(worker.worked):>9.3f}{worker.memory / 2**20:>10,.0f}{used:>13}"
        )


def _utilisation(shape: Shape, rate: float, who: str) -> str:
    """The share of the GPU's best rate that goes into the operations that the model needs: the head
    of the Trainer works on all tokens."""
    from crosslens.models.training.costs import flops_per_token, peak_flops

    peak = peak_flops("cuda")
    flops = flops_per_token(
        _recipe(shape, "cuda", 1, "bfloat16").encoder,
        shape.length,
        1.0 if who == "trainer" else 0.15,
    )
    return f"{rate * flops / peak:.1%}" if peak else "–"


def _device(wanted: str) -> str:
    """Where to run, without loading torch into this process for a CPU that is asked for."""
    if wanted != "auto":
        return wanted
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def main() -> None:
    """Measure, print the tables and the line of ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--quick",
        action="store_true",
        help="smaller models and fewer rounds: a rough answer in under a minute",
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=os.cpu_count(),
        help="threads of each contestant (default: one a core)",
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--shapes", nargs="+", choices=("C", "D"), default=["C", "D"])
    parser.add_argument(
        "--rounds", type=int, default=0, help="turns of each contestant (default: 6; quick: 2)"
    )
    told = parser.parse_args()
    if importlib.util.find_spec("accelerate") is None:
        raise SystemExit(
            "transformers' Trainer needs accelerate; install it with: pip install -c "
            "constraints.txt '.[bench]'"
        )
    device = _device(told.device)
    os.environ["OMP_NUM_THREADS"] = str(told.threads)  # for the contestants' processes
    shapes = _GPU if device == "cuda" else _QUICK if told.quick else _CPU
    rounds, steps = told.rounds or (2 if told.quick else 6), 20 if device == "cuda" else 2
    print(
        f"{device}, {told.threads} threads; {rounds} rounds of {steps} steps; time: of a "
        f"step, as multiple of crosslens'"
    )
    speedup, overhead = [], []
    for shape in shapes:
        if shape.name[0] in told.shapes:
            contestants = ["crosslens", "bare", "trainer"] + (
                ["bfloat16"] if device == "cpu" and shape.name[0] == "D" else []
            )
            workers = _measure(shape, contestants, device, rounds, steps, told.threads)
            _report(shape, workers, device)
            speedup.append(_ratio(workers["trainer"], workers["crosslens"]))
            overhead.append(_ratio(workers["crosslens"], workers["bare"]))
    print(
        json.dumps(
            {
                "speedup_vs_trainer": round(min(speedup), 3),
                "overhead_vs_bare_step": round(max(overhead), 3),
            }
        )
    )


if __name__ == "__main__":
    main()
