"""The verb ``extract``: texts of several kinds to activations on disk."""

import argparse
from typing import Any

import crosslens as cl
from crosslens.cli.arguments import (
    add_common,
    by_language,
    encoders_by_language,
    layer_numbers,
    names_in,
    whole_number,
)
from crosslens.cli.output import is_first_process

__all__ = ["extract", "extract_arguments"]

_UNITS = ("sentence", "pair", "word", "token", "type", "embedding")
_HANDED_ON = (
    *("unit", "pool", "dtype", "words", "special_tokens", "lowercase", "min_count", "language"),
    *("revision", "random_seed", "device", "precision", "restart", "trust_remote_code"),
)


def extract_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``crosslens extract`` takes."""
    add = parser.add_argument
    add_common(parser, "encoder", required=True)
    kinds = (
        "UTF-8 text, a sentence per line; or .conllu; or .jsonl with text and words; or hf:PATH, "
        "a data set"
    )
    add_common(parser, "text", required=True, help=kinds)
    add_common(parser, "out", required=True, help="folder; each text becomes DIR/LANGUAGE")
    _add_vectors(parser)
    _add_reading(parser)
    add_common(parser, "language")
    add("--revision", metavar="NAME", help="commit, tag or branch of an encoder on the hub")
    add(
        "--random-seed",
        type=whole_number,
        metavar="SEED",
        help="re-initialise the encoder at random from this seed (a control)",
    )
    add_common(parser, "device")
    add(
        "--precision",
        choices=("float32", "bfloat16"),
        default="float32",
        help="numbers that are computed with (default: %(default)s)",
    )
    add(
        "--restart",
        action="store_true",
        help="delete what a run that was stopped has left half written, and begin anew",
    )
    add_common(parser, "trust-remote-code")


def _add_vectors(parser: argparse.ArgumentParser) -> None:
    """What gets a vector, from which states, and how it is written."""
    add = parser.add_argument
    add(
        "--unit",
        choices=_UNITS,
        default="sentence",
        help="what gets a vector (default: %(default)s); pair: lines are sentence TAB sentence",
    )
    add(
        "--pool",
        choices=("mean", "max", "first", "last"),
        default="mean",
        help="which subwords stand for it (default: %(default)s)",
    )
    add(
        "--layers",
        default="all",
        metavar="LIST",
        help="hidden states to keep, such as 0,4-8 (default: all; 0 is the embedding layer's)",
    )
    add(
        "--outputs",
        default="hidden",
        metavar="LIST",
        help=(
            "hidden; attention, mlp: before the residual is added; residual: the last before the "
            "norm"
        ),
    )
    add(
        "--dtype",
        choices=("float32", "float16", "bfloat16"),
        default="float32",
        help="numbers on disk (default: %(default)s)",
    )


def _add_reading(parser: argparse.ArgumentParser) -> None:
    """How a text is read."""
    add = parser.add_argument
    add(
        "--words",
        default="whitespace",
        metavar="HOW",
        help=(
            "words of plain text: whitespace (default), rjieba (Chinese), pythainlp (Thai) or "
            "sudachipy (Japanese)"
        ),
    )
    add(
        "--special-tokens",
        action="store_true",
        help="count [CLS], </s> and their like, too (sentences, pairs, tokens)",
    )
    add(
        "--long",
        choices=("window", "truncate"),
        default="window",
        help="input beyond the encoder's longest (default: %(default)s)",
    )
    add("--lowercase", action="store_true", help='types: count "Bank" and "bank" as one')
    add("--min-count", type=int, default=1, metavar="N", help="types: leave out rarer words")


def extract(arguments: argparse.Namespace) -> None:
    """Write the activations of each text, once all texts are known to be fit."""
    texts = by_language(arguments.text, "--text")
    found = cl.extract_files(
        encoders_by_language(arguments.encoder),
        texts,
        arguments.out,
        layers=layer_numbers(arguments.layers),
        outputs=names_in(arguments.outputs),
        long_input=arguments.long,
        **{name: getattr(arguments, name) for name in _HANDED_ON},
    )
    if is_first_process():
        print(*map(_told, found.values()), sep="\n")


def _told(store: Any) -> str:
    """One line on a finished store."""
    facts = store.manifest
    what = {"type": "types", "embedding": "types"}.get(store.unit, f"{store.unit}s")
    numbers = [
        name.replace("layer_", "layer ")
        .replace("attention_", "attention ")
        .replace("mlp_", "mlp ")
        .replace("residual_", "residual ")
        for name in store.arrays
    ]
    arrays = (
        f"layers 0-{store.layers - 1}"
        if store.arrays == [f"layer_{i:02d}" for i in range(store.layers)]
        else ", ".join(numbers)
    )
    told = f"{store.folder}: {store.n:,} {what}, {arrays}, d = {store.d}, {store.dtype}"
    names = ("language_embedding", "language_modules", "tokeniser_language")
    language = next((facts["settings"][name] for name in names if name in facts["settings"]), "")
    told += f", read as {language}" if language else ""
    told += (
        f", {facts['truncated']} sentences cut to fit the encoder" if facts.get("truncated") else ""
    )
    told += f", {facts['rare']:,} rarer types left out" if facts.get("rare") else ""
    told += (
        f", {facts['of_several_pieces']:,} types of several subwords left out"
        if facts.get("of_several_pieces")
        else ""
    )
    return told + (
        f", {facts['without_pieces']:,} words without a subword"
        if facts.get("without_pieces")
        else ""
    )
