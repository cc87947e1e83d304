"""The verb ``probe``: a battery of probes on encoders, or language identification on activation
datasets."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import crosslens as cl
from crosslens.cli.arguments import add_common, names_in
from crosslens.cli.output import Part, show
from crosslens.errors import refuse
from crosslens.score_formats import format_ends, format_percent

__all__ = ["probe", "probe_arguments"]

# of crosslens.probes.tasks, which is not imported for a help text
BATTERIES = ("semantic", "syntactic", "language", "all")
_OF_BATTERIES = (
    "battery",
    "data",
    "out",
    "tasks",
    "train",
    "test",
    "labels",
    "numbers",
    "treebank",
    "mdl",
    "probe",
    "pll",
    "random_control",
    "limit",
    "seeds",
    "device",
    "language",
    "trust_remote_code",
)
_HANDED_ON = (
    *("battery", "data", "train", "treebank", "mdl", "probe", "pll", "random_control", "limit"),
    *("seed", "seeds", "device", "language", "trust_remote_code"),
)


def probe_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``crosslens probe`` takes."""
    add = parser.add_argument
    add(
        "stores",
        nargs="*",
        metavar="ACTIVATIONS",
        help="folders of activations, one per language: language identification on them",
    )
    add_common(parser, "encoder", help="model folder or hub name; several are compared")
    add(
        "--battery",
        choices=BATTERIES,
        help="which tasks; without it those of --tasks and --labels alone",
    )
    add(
        "--data",
        metavar="DIR",
        help="folder with the data sets, under the names that they are published with; hf: for the "
        "Hugging Face hub, hf:DIR for copies of its data sets",
    )
    add_common(parser, "out")
    add(
        "--tasks", metavar="LIST", help="these tasks, separated by commas; crosslens list names all"
    )
    add(
        "--train",
        metavar="LIST",
        help=(
            "language that probes are trained on: a code such as eng or en, or a treebank such as "
            "en_ewt; of several, such as eng,fra, the items are trained on together"
        ),
    )
    add(
        "--test",
        metavar="LIST",
        help="further languages that the same probes are tested on, such as fra,rus,hin",
    )
    _own_data(parser.add_argument_group("data of your own, and how much of any").add_argument)
    _method(parser.add_argument_group("how it is measured").add_argument)
    add_common(parser, "device", "language", "trust-remote-code", default=None)
    add_common(
        parser,
        "train-fraction",
        default=None,
        help="for activations: share of the sentences to fit on (default: 0.5)",
    )
    add_common(parser, "seed")
    add_common(parser, "json")


def _own_data(add: Any) -> None:
    add(
        "--labels",
        action="append",
        metavar="NAME=FILE",
        help="a task of your own: LABEL TAB TEXT, divided at random, or NAME=TRAIN,DEV,TEST; "
        "SentEval's tr/va/te TAB LABEL TAB TEXT; a "
        "treebank: upos=FILE.conllu; minimal pairs: number=generated.tab or FILE.jsonl",
    )
    add(
        "--numbers",
        action="append",
        metavar="NAME=FILE",
        help="the same with numbers as labels, NUMBER TAB TEXT: ridge regression tells them, "
        "Spearman's correlation and R^2 are its scores "
        "(numbers given to --labels are names of classes)",
    )
    add(
        "--treebank",
        metavar="PREFIX",
        help="what the treebank's files in ud/ begin with (default: en_ewt)",
    )
    add(
        "--limit",
        type=int,
        metavar="N",
        help="most items of each split of a task (sentences of a treebank, pairs of a category)",
    )


def _method(add: Any) -> None:
    add(
        "--probe",
        choices=("linear", "l1", "mlp", "mix"),
        help="what is trained to say labels: a linear classifier with an L2 or an L1 penalty, or "
        "one with a hidden layer; mix: linear, and "
        "one more on a learnt mix of all layers (default: linear)",
    )
    add(
        "--mdl",
        action="store_true",
        default=None,
        help="measure description lengths, too (online coding)",
    )
    add(
        "--pll",
        choices=("original", "word-l2r"),
        help=(
            "how masked models score sentences of minimal pairs; word-l2r masks the rest of the "
            "word, too (default: original)"
        ),
    )
    add(
        "--random-control",
        action=argparse.BooleanOptionalAction,
        help="measure a randomly re-initialised copy of each encoder beside it (default: yes)",
    )
    add(
        "--seeds",
        type=int,
        metavar="N",
        help="measure N seeds, --seed and those behind it: as many random encoders, control tasks "
        "and first weights of probes that have "
        "them, with the mean and Student's interval over seeds (default: one random encoder, "
        "three control tasks)",
    )


def probe(arguments: argparse.Namespace) -> None:
    """Run a battery, or print language identification on two or more stores."""
    given = [name for name in _OF_BATTERIES if getattr(arguments, name) is not None]
    if arguments.encoder:
        if arguments.stores or arguments.train_fraction is not None:
            got = f"also {arguments.stores[0]}" if arguments.stores else "also --train-fraction"
            remedy = "give one of the two kinds; see crosslens probe --help"
            refuse("arguments", "encoders with a battery, or activations", got, remedy)
        _battery(arguments)
    elif given:
        option = f"--{given[0].replace('_', '-')}"
        refuse("--encoder", f"an encoder for {option}", "none", "add --encoder FOLDER_OR_HUB_NAME")
    else:
        _languages(arguments)


def _battery(arguments: argparse.Namespace) -> None:
    """Run a battery, and print its tables."""
    if arguments.out is None:
        refuse("--out", "a folder for the run", "none", "add --out DIR")
    given = {name: getattr(arguments, name) for name in _HANDED_ON}
    run = cl.probe(
        arguments.encoder,
        arguments.out,
        only=names_in(arguments.tasks),
        test=names_in(arguments.test),
        labels=_labels("--labels", arguments.labels or []),
        numbers=_labels("--numbers", arguments.numbers or []),
        **{name: value for name, value in given.items() if value is not None},
    )
    show(arguments, run.scores, _tables(run))


def _tables(run: Any) -> Iterator[Part]:
    from crosslens.run.probing.summary import tables

    for title, rows, text in tables(run.folder, run.scores):
        yield from [f"{title}:"] if title else []
        yield rows
        yield from [text] if text else []
        yield ""


def _labels(option: str, values: Sequence[str]) -> dict[str, list[str]]:
    """NAME=FILE arguments, or NAME=TRAIN,DEV,TEST. A file whose name has a comma is one file."""
    found: dict[str, list[str]] = {}
    for value in values:
        name, equals, files = value.partition("=")
        if not equals or not name or not files:
            remedy = "put the task's name and = in front"
            refuse(option, "NAME=FILE, or NAME=TRAIN,DEV,TEST", repr(value), remedy)
        if name in found:
            refuse(option, "each task once", f"{name} twice", "give each task its own name")
        found[name] = [files] if Path(files).is_file() else files.split(",")
    return found


def _languages(arguments: argparse.Namespace) -> None:
    """Print language identification on two or more stores."""
    from crosslens.score import not_measured

    if len(arguments.stores) < 2:
        expected, got = "activations of two or more languages", str(len(arguments.stores))
        refuse(
            "ACTIVATIONS", expected, got, "name another language's, or give --encoder and --battery"
        )
    fraction = 0.5 if arguments.train_fraction is None else arguments.train_fraction
    scores = cl.identify_languages(*arguments.stores, train_fraction=fraction, seed=arguments.seed)
    rows: list[tuple[str, ...]] = [
        ("layer", "accuracy", "95 % interval", "majority", "shuffled labels", "n")
    ]
    cells = {(s.layer, s.condition): s for s in scores if s.quantity == "accuracy"}
    for layer in dict.fromkeys(s.layer for s in scores):
        three = [cells[layer, condition] for condition in (None, "majority", "shuffled_labels")]
        mine, *beside = (format_percent(s.value) for s in three)
        rows.append((str(layer), mine, format_ends(three[0]), *beside, str(three[0].n)))
    text = "Language identification, accuracy in per cent on held-out sentences."
    show(arguments, scores, [rows, text, *not_measured(scores)])
