"""The verbs ``study`` and ``quickstart``: retrieval, similarity and language identification at every
layer."""

import argparse
from typing import Any

import crosslens as cl
from crosslens.cli.arguments import add_common, by_language, encoders_by_language
from crosslens.cli.output import show

__all__ = ["quickstart", "quickstart_arguments", "study", "study_arguments"]


def quickstart_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``crosslens quickstart`` takes."""
    told = "folder of the run (default: %(default)s)"
    add_common(parser, "out", default="runs/quickstart", help=told)
    add_common(parser, "seed", "json")


def study_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``crosslens study`` takes."""
    add_common(parser, "encoder", "text", "out", required=True)
    parser.add_argument(
        "--preset",
        choices=("deshpande", "xtreme"),
        help="read sentences as these do, special tokens included, and tell retrieval at their layer",
    )
    add_common(parser, "train-fraction", "device", "trust-remote-code", "seed", "json")


def quickstart(arguments: argparse.Namespace) -> None:
    """Run the study that the package carries, and print its table."""
    from crosslens.recipes.quickstart import quickstart as recipe

    what = recipe(arguments.seed)
    _show(cl.study(what.encoders, what.texts, arguments.out, seed=what.seed), arguments)


def study(arguments: argparse.Namespace) -> None:
    """Run a study of the user's encoders and texts, and print its table."""
    texts = by_language(arguments.text, "--text")
    run = cl.study(
        encoders_by_language(arguments.encoder),
        texts,
        arguments.out,
        train_fraction=arguments.train_fraction,
        seed=arguments.seed,
        device=arguments.device,
        trust_remote_code=arguments.trust_remote_code,
        preset=arguments.preset,
    )
    _show(run, arguments)


def _show(run: Any, arguments: argparse.Namespace) -> None:
    from crosslens.run.study import summary

    show(arguments, run.scores, summary(run.folder))
