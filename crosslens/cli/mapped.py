"""The verb ``mapped-transfer``: a head trained on one encoder reads another one through a map."""

import argparse

import crosslens as cl
from crosslens.cli.arguments import add_common, by_language, layer_numbers
from crosslens.cli.fine_tuning import DEVICE, add_fine_tuning, given
from crosslens.cli.output import show

__all__ = ["mapped_transfer", "mapped_transfer_arguments"]

_TRAINING = (
    *("epochs", "batch-size", "max-length", "peak-rate", "parser", "crf", "seeds", "limit"),
    "precision",
)
_COMMON = ("trust-remote-code", "seed")
_HANDED_ON = (*_TRAINING, "device", *_COMMON)


def mapped_transfer_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``crosslens mapped-transfer`` takes."""
    add = parser.add_argument
    told = "model folder or hub name, of the language of training"
    add_common(parser, "encoder", action="store", required=True, help=told)
    add(
        "--target-encoder",
        metavar="ENCODER",
        required=True,
        help="that of the language of the test; the same again for a bilingual encoder",
    )
    add("--task", metavar="NAME", required=True, help="one task; crosslens list names all")
    add("--train", metavar="NAME", required=True, help="language, or treebank, to train on")
    add("--test", metavar="NAME", required=True, help="language, or treebank, to test on")
    add("--data", metavar="DIR", required=True, help="folder with the data sets, or hf:")
    told = "parallel text, a sentence a line, words between spaces; that of training first"
    add_common(parser, "text", required=True, help=told)
    add(
        "--links",
        metavar="FILE",
        required=True,
        help="links of its words (Pharaoh format: 0-0 1-2)",
    )
    add_common(parser, "out", required=True)
    add("--layers", metavar="LIST", help="such as 0,4-8; 0 is the embedding layer (default: all)")
    add_fine_tuning(parser, *_TRAINING)
    add_common(parser, "device", default=None, help=DEVICE)
    add_common(parser, *_COMMON, default=None)
    add_common(parser, "json")


def mapped_transfer(arguments: argparse.Namespace) -> None:
    """Train, test without and with the map, and print a row for each layer."""
    from crosslens.run.transfer.mapped_transfer import summary

    options = given(arguments, _HANDED_ON)
    if arguments.layers is not None:
        options["layers"] = layer_numbers(arguments.layers)
    run = cl.mapped_transfer(
        arguments.encoder,
        arguments.target_encoder,
        arguments.task,
        arguments.train,
        arguments.test,
        arguments.data,
        arguments.links,
        arguments.out,
        texts=by_language(arguments.text, "--text"),
        **options,
    )
    show(arguments, run.scores, [summary(run.scores)])
