"""The verb ``study-transfer``: zero-shot transfer of all models of a controlled study."""

import argparse

import crosslens as cl
from crosslens.cli.arguments import add_common
from crosslens.cli.fine_tuning import DEVICE, add_fine_tuning, given
from crosslens.cli.output import show

__all__ = ["study_transfer", "study_transfer_arguments"]

_TRAINING = (
    *("preset", "epochs", "batch-size", "peak-rate", "head-rate", "warmup", "limit"),
    *("precision", "unseen", "random-control"),
)
_HANDED_ON = (*_TRAINING, "pool", "seeds", "seed", "device", "monolingual", "syntax")


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
        "--syntax",
        metavar="LANGUAGE",
        help="language whose data are in the order of the condition with syntax (eng-orderfra)",
    )
    add_fine_tuning(parser, *_TRAINING)
    add_fine_tuning(parser, "pool", help="what the head of a task on texts reads (default: first)")
    add_fine_tuning(parser, "seeds", help="fine-tunings of each model (default: 1)")
    add_common(parser, "device", default=None, help=DEVICE)
    add_common(parser, "seed", default=None)
    add_common(parser, "json")


def study_transfer(arguments: argparse.Namespace) -> None:
    """Fine-tune and test every model, and print a row for each condition."""
    from crosslens.report.folders.study_transfer import summary

    options = given(arguments, _HANDED_ON)
    run = cl.study_transfer(
        arguments.study,
        [name.strip() for name in arguments.tasks.split(",") if name.strip()],
        arguments.data,
        arguments.out,
        **options,
    )
    show(arguments, run.scores, summary(run.folder))
