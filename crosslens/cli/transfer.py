"""The verb ``transfer``: encoders fine-tuned on one language and tested on others."""

import argparse
from collections.abc import Iterator
from typing import Any

import crosslens as cl
from crosslens.cli.arguments import add_common, by_language
from crosslens.cli.output import Part, is_first_process, show
from crosslens.errors import refuse

__all__ = ["transfer", "transfer_arguments"]

_LISTS = ("tasks", "train", "test")
_HANDED_ON = (
    *(
        "preset",
        "epochs",
        "batch_size",
        "group_by_length",
        "peak_rate",
        "head_rate",
        "max_length",
        "pool",
        "warmup",
        "noise",
        "seeds",
    ),
    *("in_language", "random_control", "checkpoints", "average", "limit", "keep", "device"),
    *("trust_remote_code", "seed", "parser", "gold_pos", "crf", "features", "precision", "segment"),
    "unseen",
)


def transfer_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``crosslens transfer`` takes."""
    add = parser.add_argument
    add_common(parser, "encoder", help="model folder or hub name; several are compared")
    add("--tasks", metavar="LIST", help="tasks, separated by commas; crosslens list names all")
    add("--train", metavar="LIST", help="languages, or treebanks, that are trained on together")
    add("--test", metavar="LIST", help="languages, or treebanks, that are tested on, or all")
    add("--data", metavar="DIR", help="folder with the data sets, or hf: for the Hugging Face hub")
    add_common(parser, "out")
    _training(parser.add_argument_group("how it is trained").add_argument)
    _layers(parser.add_argument_group("what is trained, and what reads it").add_argument)
    _data(parser.add_argument_group("which data").add_argument)
    _measures(parser.add_argument_group("what is measured, and what is kept").add_argument)
    add_common(parser, "device", "trust-remote-code", "seed", default=None)
    add_common(parser, "json")


def _training(add: Any) -> None:
    add(
        "--preset",
        metavar="NAME",
        help="settings by name: default, wu_dredze, wu_dredze_code, conneau, artetxe, deshpande or "
        "xtreme; of a grid the setting that is best on dev is taken (default: default)",
    )
    add("--epochs", type=int, metavar="N", help="in the place of the preset's")
    add("--batch-size", type=int, metavar="N", help="in the place of the preset's")
    add(
        "--group-by-length",
        action="store_true",
        default=None,
        help="make batches of inputs of like length: less padding, batches less random",
    )
    add("--peak-rate", type=float, metavar="F", help="learning rate, in the place of the preset's")
    add(
        "--head-rate",
        type=float,
        metavar="F",
        help="learning rate of the head (default: the preset's)",
    )
    add("--max-length", type=int, metavar="N", help="longest input in subwords")
    add("--warmup", type=float, metavar="F", help="share of the updates with a rising rate")
    add(
        "--noise",
        type=float,
        metavar="F",
        help="add normal noise of this deviation to the embeddings in training (0.075 in MonoTrans; "
        "default: none)",
    )
    add(
        "--precision",
        choices=("float32", "bfloat16"),
        help="of matrix products, in training and in answers (default: float32)",
    )


def _layers(add: Any) -> None:
    add(
        "--freeze",
        metavar="LIST",
        help="-1 trains everything, 0 all but the embeddings, n all but these and the first n "
        "layers; several, such as --freeze=-1,0,3, are measured one after the other (default: -1)",
    )
    add(
        "--pool",
        choices=("first", "pooled", "mean", "max"),
        help="what the head of a task on texts reads (default: first; with --features max)",
    )
    add(
        "--features",
        choices=("mix+bilstm", "transformer"),
        help="freeze the encoder, and learn a mean of its layers and an LSTM beside the head, or "
        "four new layers on its last one",
    )
    add(
        "--parser",
        choices=("wu_dredze", "allennlp", "supar"),
        help="of tasks on trees, the parser's sizes (default: wu_dredze)",
    )
    add(
        "--gold-pos",
        action="store_true",
        default=None,
        help="give a parser the parts of speech of the treebank",
    )
    add(
        "--crf",
        action="store_true",
        default=None,
        help="of tags, choose those of a sentence together (conditional random field)",
    )


def _data(add: Any) -> None:
    add("--limit", type=int, metavar="N", help="most items of each split")
    add(
        "--segment",
        choices=("rjieba", "pythainlp", "sudachipy"),
        help="of names, take this segmenter's words in its language (Chinese, Thai, Japanese)",
    )
    add(
        "--derived",
        action="extend",
        nargs="+",
        metavar="CODE=HOW",
        help="languages that are made of another one's subwords, such as eng-x=eng:inversion: for "
        "encoders whose folder does not say it",
    )
    add(
        "--unseen",
        choices=("unknown", "random"),
        help="what an encoder without a transliterated language reads in the place of its subwords: "
        "the unknown token, or new random rows (default: unknown)",
    )


def _measures(add: Any) -> None:
    add("--seeds", type=int, metavar="N", help="how many seeds (default: 3)")
    add(
        "--in-language",
        action="store_true",
        default=None,
        help="fine-tune on each test language, too, where it can be trained on",
    )
    add(
        "--random-control",
        action=argparse.BooleanOptionalAction,
        help="fine-tune a randomly re-initialised copy, too, with one seed (default: yes)",
    )
    add(
        "--checkpoints",
        action=argparse.BooleanOptionalAction,
        help="test also the last epoch, an average of the last ones, and the one that is best on "
        "the target's dev, which is an oracle (default: yes)",
    )
    add("--average", type=int, metavar="N", help="epochs that are averaged (default: 3)")
    add(
        "--keep",
        action="store_true",
        default=None,
        help="keep the first seed's encoders, as folders that transformers loads",
    )


def transfer(arguments: argparse.Namespace) -> None:
    """Fine-tune, test, and print the tables."""
    for name in ("encoder", *_LISTS, "data", "out"):
        if not getattr(arguments, name):
            expected, remedy = f"a value for --{name}", "see crosslens transfer --help"
            refuse(f"--{name}", expected, "none", remedy)
    given = {name: getattr(arguments, name) for name in _HANDED_ON}
    lists = {name: _list(getattr(arguments, name)) for name in _LISTS}
    if arguments.freeze is not None:
        given["freeze"] = [_layer(one) for one in _list(arguments.freeze)]
    if arguments.derived is not None:
        form = "LANGUAGE=ORIGINAL:BY, such as eng-x=eng:inversion"
        given["derived"] = by_language(arguments.derived, "--derived", form)
    run = cl.transfer(
        arguments.encoder,
        lists["tasks"],
        lists["train"],
        lists["test"],
        arguments.data,
        arguments.out,
        **{name: value for name, value in given.items() if value is not None},
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
