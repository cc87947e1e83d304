"""How fast is fine-tuning? Ours beside transformers' Trainer and a bare step, on the same texts, in
one run.

    python benchmarks/transfer.py [--quick] [--threads N]

Contestants, each given the same encoder, texts, batch size, optimiser and rate; they take turns,
an epoch each, in several rounds, and ratios are medians over rounds:

    crosslens    crosslens.models.finetuning.finetune.fine_tune, with its log and last checkpoint,
                 on random batches
    by length    the same, with batches of like length
    bare step    forward, backward, clipping and AdamW on our batches, made beforehand, on the same
                 model, with freed memory kept as ours keeps it: the floor
    padded       transformers' Trainer on inputs padded to 128, as its documented example has them
    grouped      the same Trainer with batches of like length, padded to their longest

Ours and the Trainer each write weights and the optimiser's state at the end, as both do by default;
the bare step writes nothing. The padded Trainer, with random batches, is set beside ours on random
batches; the grouped one beside ours by length. Tokenising is left out of all. Beside them: an epoch
of ours and of the grouped Trainer with a vocabulary of 250,000 subwords, as multilingual encoders
have; the first and a further seed on the features of a frozen encoder, which is to be encoded once;
trees decoded a second, on one core. The last line is one JSON object. Extra ``bench``.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

LENGTH, BATCH, CLASSES, RATE = 128, 32, 3, 3e-5


def make_encoder(folder: Path, quick: bool, vocabulary: int = 0) -> Any:
    """A BERT with random weights and the tokeniser that the package carries; its table may have more
    rows than that has subwords."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    import crosslens as cl
    from crosslens.recipes.quickstart import DATA

    tokenizer = AutoTokenizer.from_pretrained(DATA / "tiny-encoder")
    width, layers = (64, 2) if quick else (256, 4)
    config = BertConfig(
        vocab_size=max(vocabulary, len(tokenizer)),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=4 * width,
        max_position_embeddings=LENGTH,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(0)
    BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return cl.load_encoder(folder)


def make_examples(n: int) -> Any:
    """Sentences of the package's English text, one to three of them on end: lengths differ as those
    of real texts do."""
    from crosslens.corpus import Corpus
    from crosslens.models.finetuning.examples import TextExamples
    from crosslens.recipes.quickstart import DATA

    lines = (DATA / "corpus" / "eng.txt").read_text(encoding="utf-8").splitlines()
    chosen = np.random.default_rng(0)
    texts = [" ".join(chosen.choice(lines, chosen.integers(1, 4))) for _ in range(n)]
    corpus = Corpus("eng", texts, [str(i) for i in range(n)], "benchmark")
    return TextExamples(corpus, np.arange(n) % CLASSES)


def ours(encoder: Any, examples: Any, grouped: bool = False) -> float:
    """Seconds of an epoch of ours, all but what tokenising takes."""
    from crosslens.models.finetuning.classify import Classify
    from crosslens.models.finetuning.finetune import fine_tune
    from crosslens.models.finetuning.settings import FineTuning

    settings = FineTuning(
        epochs=1, batch_size=BATCH, peak_rate=RATE, max_length=LENGTH, group_by_length=grouped
    )
    spent = [0.0]

    class Timed(Classify):
        """Notes what tokenising takes."""

        def rows(self, encoder: Any, examples: Any) -> Any:
            started = time.perf_counter()
            found = super().rows(encoder, examples)
            spent[0] += time.perf_counter() - started
            return found

    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        timed = Timed(CLASSES, max_length=LENGTH, pool="pooled")
        fine_tune(encoder, timed, [examples], settings, folder, {"dev": lambda _: 0.0})
        return time.perf_counter() - started - spent[0]


def bare(encoder: Any, examples: Any) -> float:
    """Seconds of the same updates without anything around them."""
    from crosslens.models.finetuning.batches import EpochBatches
    from crosslens.models.finetuning.classify import Classify
    from crosslens.models.finetuning.model import FineTunedModel
    from crosslens.models.finetuning.settings import FineTuning
    from crosslens.models.machine.memory import freed_memory_kept

    kind = Classify(CLASSES, max_length=LENGTH, pool="pooled")
    model = FineTunedModel(encoder, kind, FineTuning())
    rows = kind.rows(encoder, examples)
    model.train_rows_of(rows)
    batches = EpochBatches(kind, rows, BATCH, 0, encoder.pad_id)
    made = [batches[step] for step in range(batches.per_epoch)]
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)
    model.train()
    with freed_memory_kept(encoder.device):
        started = time.perf_counter()
        for step in made:
            for part in step.parts:
                (model(**part) / step.predicted).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        return time.perf_counter() - started


def frozen(encoder: Any, examples: Any) -> tuple[float, float]:
    """Seconds of an epoch on the features of a frozen encoder: of a first seed, and of a second one
    with the same states."""
    from crosslens.models.finetuning.classify import Classify
    from crosslens.models.finetuning.finetune import fine_tune
    from crosslens.models.finetuning.frozen import FrozenStates
    from crosslens.models.finetuning.settings import FineTuning

    kind, found = Classify(CLASSES, max_length=LENGTH, pool="max"), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        states = FrozenStates(encoder, Path(folder) / "states")
        for seed in (0, 1):
            settings = FineTuning(
                epochs=1,
                batch_size=BATCH,
                peak_rate=1e-3,
                pool="max",
                features="mix+bilstm",
                seed=seed,
            )
            started = time.perf_counter()
            out = Path(folder) / str(seed)
            fine_tune(encoder, kind, [examples], settings, out, {"dev": lambda _: 0.0}, states)
            found.append(time.perf_counter() - started)
    return found[0], found[1]


def trainer(folder: Path, examples: Any, grouped: bool) -> float:
    """Seconds of an epoch of transformers' Trainer."""
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
    )

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=CLASSES)
    told = {} if grouped else {"padding": "max_length"}
    inputs = tokenizer(list(examples.corpus.sentences), truncation=True, max_length=LENGTH, **told)
    rows = [
        {**{name: inputs[name][i] for name in inputs}, "labels": int(label)}
        for i, label in enumerate(examples.labels)
    ]
    with tempfile.TemporaryDirectory() as out:
        arguments = TrainingArguments(
            output_dir=out,
            num_train_epochs=1,
            per_device_train_batch_size=BATCH,
            learning_rate=RATE,
            weight_decay=0.01,
            save_strategy="epoch",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
            dataloader_pin_memory=False,
            **({"train_sampling_strategy": "group_by_length"} if grouped else {}),
        )
        runner = Trainer(
            model=model,
            args=arguments,
            train_dataset=rows,
            data_collator=DataCollatorWithPadding(tokenizer),
        )
        started = time.perf_counter()
        runner.train()
        return time.perf_counter() - started


def decoded(n: int) -> float:
    """Trees decoded a second, of sentences of 5 to 45 words."""
    from crosslens.models.finetuning.spanning_trees import best_tree

    chosen = np.random.default_rng(0)
    scores = [chosen.normal(size=(k, k + 1)) for k in chosen.integers(5, 46, n)]
    started = time.perf_counter()
    for one in scores:
        best_tree(one)
    return n / (time.perf_counter() - started)


def main() -> None:
    """Measure, and print the table and the line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small, to see that it runs")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    from crosslens import progress

    progress.be_quiet()
    n, rounds = (128, 1) if arguments.quick else (960, 5)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        encoder, examples = make_encoder(folder, arguments.quick), make_examples(n)
        contestants: dict[str, Callable[[], float]] = {
            "crosslens": lambda: ours(encoder, examples),
            "by length": lambda: ours(encoder, examples, grouped=True),
            "bare step": lambda: bare(encoder, examples),
            "padded": lambda: trainer(folder, examples, grouped=False),
            "grouped": lambda: trainer(folder, examples, grouped=True),
        }
        seconds: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(rounds):
            for name, run in contestants.items():
                seconds[name].append(run())
        first, further = frozen(encoder, examples)
        large = make_encoder(folder / "large", arguments.quick, 250_000)
        with_many = ours(large, examples, True), trainer(folder / "large", examples, grouped=True)
    for name, found in seconds.items():
        told = f"{min(found):.2f} to {max(found):.2f} s"
        print(f"{name:10} {n / statistics.median(found):8.1f} texts a second   {told}")

    print(f"250,000 subwords: ours {with_many[0]:.2f} s, grouped {with_many[1]:.2f} s")
    print(f"frozen encoder, mix and LSTM: first seed {first:.2f} s, a further one {further:.2f} s")

    def ratio(one: str, other: str) -> float:
        pairs = zip(seconds[one], seconds[other], strict=True)
        return round(statistics.median(a / b for a, b in pairs), 3)

    print(
        json.dumps(
            {
                "speedup_vs_trainer_padded": ratio("padded", "crosslens"),
                "speedup_vs_trainer_grouped": ratio("grouped", "by length"),
                "overhead_vs_bare_step": ratio("crosslens", "bare step"),
                "speedup_with_250000_subwords": round(with_many[1] / with_many[0], 2),
                "further_frozen_seed_vs_first": round(further / first, 3),
                "decode_sentences_per_second": round(decoded(200 if arguments.quick else 2_000)),
            }
        )
    )


if __name__ == "__main__":
    main()
