"""The verb ``mapped-transfer``: a head trained on one encoder reads another one through a map."""

import argparse

import crosslens as cl
from crosslens.cli.arguments import add_common, by_language
from crosslens.cli.output import show
from crosslens.errors import refuse

__all__ = ["mapped_transfer", "mapped_transfer_arguments"]

_HANDED_ON = (
    *("epochs", "batch_size", "peak_rate", "max_length", "parser", "crf", "seeds", "limit"),
    *("precision", "device", "trust_remote_code", "seed"),
)


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
    add("--layers", metavar="LIST", help="0 being the embeddings (default: all)")
    for name in ("epochs", "batch-size", "max-length"):
        add(f"--{name}", type=int, metavar="N", help="in the place of ours")
    add("--peak-rate", type=float, metavar="F", help="learning rate, in the place of ours")
    add("--parser", choices=("wu_dredze", "allennlp", "supar"), help="of trees, its sizes")
    add("--crf", action="store_true", default=None, help="of tags, a conditional random field")
    add("--seeds", type=int, metavar="N", help="how many seeds (default: 3)")
    add("--limit", type=int, metavar="N", help="most items of each split")
    add("--precision", choices=("float32", "bfloat16"), help="of matrix products")
    add_common(parser, "device", "trust-remote-code", "seed", default=None)
    add_common(parser, "json")


def mapped_transfer(arguments: argparse.Namespace) -> None:
    """Train, test without and with the map, and print a row for each layer."""
    from crosslens.run.transfer.mapped_transfer import summary

    given = {name: getattr(arguments, name) for name in _HANDED_ON}
    if arguments.layers is not None:
        given["layers"] = [_layer(one.strip()) for one in arguments.layers.split(",")]
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
        **{name: value for name, value in given.items() if value is not None},
    )
    show(arguments, run.scores, [summary(run.scores)])


def _layer(text: str) -> int:
    if not text.isdecimal():
        refuse("--layers", "whole numbers from 0", repr(text), "write --layers 0,6,12, say")
    return int(text)
