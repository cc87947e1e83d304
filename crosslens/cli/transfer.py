"""The verb ``transfer``: encoders fine-tuned on one language and tested on others."""

import argparse
import itertools
from collections.abc import Iterator
from typing import Any

import crosslens as cl
from crosslens.cli.arguments import add_common, by_language
from crosslens.cli.fine_tuning import DEVICE, add_fine_tuning, given
from crosslens.cli.output import Part, is_first_process, show
from crosslens.errors import refuse

__all__ = ["transfer", "transfer_arguments"]

_LISTS = ("tasks", "train", "test")
_GROUPS = {
    "how it is trained": (
        *("preset", "epochs", "batch-size", "group-by-length", "peak-rate", "head-rate"),
        *("max-length", "warmup", "noise", "precision"),
    ),
    "what is trained, and what reads it": (
        *("freeze", "pool", "features", "parser", "gold-pos", "crf"),
    ),
    "which data": ("limit", "segment", "words-apart", "derived", "unseen"),
    "what is measured, and what is kept": (
        *("seeds", "in-language", "random-control", "checkpoints", "average", "keep"),
    ),
}
_COMMON = ("trust-remote-code", "seed")
_HANDED_ON = (*itertools.chain(*_GROUPS.values()), "device", *_COMMON)


def transfer_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``crosslens transfer`` takes."""
    add = parser.add_argument
    add_common(parser, "encoder", help="model folder or hub name; several are compared")
    add("--tasks", metavar="LIST", help="tasks, separated by commas; crosslens list names all")
    add("--train", metavar="LIST", help="languages, or treebanks, that are trained on together")
    add("--test", metavar="LIST", help="languages, or treebanks, that are tested on, or all")
    add("--data", metavar="DIR", help="folder with the data sets, or hf: for the Hugging Face hub")
    add_common(parser, "out")
    for title, names in _GROUPS.items():
        add_fine_tuning(parser.add_argument_group(title), *names)
    add_common(parser, "device", default=None, help=DEVICE)
    add_common(parser, *_COMMON, default=None)
    add_common(parser, "json")


def transfer(arguments: argparse.Namespace) -> None:
    """Fine-tune, test, and print the tables."""
    for name in ("encoder", *_LISTS, "data", "out"):
        if not getattr(arguments, name):
            expected, remedy = f"a value for --{name}", "see crosslens transfer --help"
            refuse(f"--{name}", expected, "none", remedy)
    options = given(arguments, _HANDED_ON)
    lists = {name: _list(getattr(arguments, name)) for name in _LISTS}
    if arguments.freeze is not None:
        options["freeze"] = [_layer(one) for one in _list(arguments.freeze)]
    if arguments.derived is not None:
        form = "LANGUAGE=ORIGINAL:BY, such as eng-x=eng:inversion"
        options["derived"] = by_language(arguments.derived, "--derived", form)
    run = cl.transfer(
        arguments.encoder,
        lists["tasks"],
        lists["train"],
        lists["test"],
        arguments.data,
        arguments.out,
        **options,
    )
    if not is_first_process():
        return
    show(arguments, run.scores, _tables(run))


def _tables(run: Any) -> Iterator[Part]:
    from crosslens.run.transfer.summary import tables

    for title, rows, told in tables(run.folder, run.scores):
        if len(rows) > 1:
            yield from [f"{title}:"] if title else []
            yield rows
            yield from [told] if told else []
            yield ""


def _list(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _layer(text: str) -> int:
    if not text.removeprefix("-").isdecimal():
        refuse("--freeze", "whole numbers from -1", repr(text), "write --freeze=-1,0,3, say")
    return int(text)
