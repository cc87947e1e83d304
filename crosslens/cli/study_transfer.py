"""The verb ``study-transfer``: zero-shot transfer of all models of a controlled study."""

import argparse

import crosslens as cl
from crosslens.cli.arguments import add_common
from crosslens.cli.output import show

__all__ = ["study_transfer", "study_transfer_arguments"]

_HANDED_ON = (
    *("preset", "epochs", "batch_size", "peak_rate", "head_rate", "pool", "warmup", "unseen"),
    *("monolingual", "random_control", "seeds", "seed", "limit", "precision", "device"),
)


def study_transfer_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``crosslens study-transfer`` takes."""
    add = parser.add_argument
    add("--study", metavar="DIR", required=True, help="folder of a controlled study")
    add("--tasks", metavar="LIST", required=True, help="tasks, separated by commas")
    add("--data", metavar="DIR", required=True, help="folder with the data sets, or hf:")
    add_common(parser, "out", required=True)
    add(
        "--monolingual",
        action="store_true",
        default=None,
        help="also train encoders of the original alone, and test them on the copies (MZ)",
    )
    add(
        "--unseen",
        choices=("unknown", "random"),
        help="what these read in the place of a transliterated copy's subwords: the unknown token, "
        "or new random rows (default: unknown)",
    )
    add("--preset", metavar="NAME", help="settings by name, as of crosslens transfer")
    for name in ("epochs", "batch-size"):
        add(f"--{name}", type=int, metavar="N", help="in the place of the preset's")
    for name in ("peak-rate", "head-rate", "warmup"):
        add(f"--{name}", type=float, metavar="F", help="in the place of the preset's")
    add(
        "--pool",
        choices=("first", "pooled", "mean", "max"),
        help="what the head of a task on texts reads (default: first)",
    )
    add(
        "--random-control",
        action=argparse.BooleanOptionalAction,
        help="fine-tune a randomly re-initialised copy of each condition's first model (default: yes)",
    )
    add("--seeds", type=int, metavar="N", help="fine-tunings of each model (default: 1)")
    add("--limit", type=int, metavar="N", help="most items of each split")
    add("--precision", choices=("float32", "bfloat16"), help="of matrix products")
    add_common(parser, "device", "seed", default=None)
    add_common(parser, "json")


def study_transfer(arguments: argparse.Namespace) -> None:
    """Fine-tune and test every model, and print a row for each condition."""
    from crosslens.report.folders.study_transfer import summary

    given = {name: getattr(arguments, name) for name in _HANDED_ON}
    run = cl.study_transfer(
        arguments.study,
        [name.strip() for name in arguments.tasks.split(",") if name.strip()],
        arguments.data,
        arguments.out,
        **{name: value for name, value in given.items() if value is not None},
    )
    show(arguments, run.scores, summary(run.folder))
