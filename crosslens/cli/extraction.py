"""The verb ``extract``: texts of several kinds, read, checked and encoded."""

import argparse
import os
import re
from pathlib import Path
from typing import Any

from crosslens.cli.arguments import add_common, by_language, encoders_by_language, whole_number
from crosslens.corpus import Corpus, open_text, read_dataset, read_tsv
from crosslens.errors import refuse
from crosslens.progress import be_quiet, say
from crosslens.readers.words import read_conllu, read_words, segment

__all__ = ["add_arguments", "extract"]

_UNITS = ("sentence", "pair", "word", "token", "type", "embedding")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``crosslens extract`` takes."""
    add = parser.add_argument
    add_common(parser, "encoder", required=True)
    kinds = (
        "UTF-8 text, a sentence per line; or .conllu; or .jsonl with text and words; or hf:PATH, "
        "a data set"
    )
    add_common(parser, "text", required=True, help=kinds)
    add_common(parser, "out", required=True, help="folder; each text becomes DIR/LANGUAGE")
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
        help="which pieces stand for it (default: %(default)s)",
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


def extract(arguments: argparse.Namespace) -> None:
    """Write the activations of each text, once all texts are known to be fit."""
    layers = _layers(arguments.layers)
    paths = by_language(arguments.text, "--text")
    names = encoders_by_language(arguments.encoder, paths)
    texts = {language: _read(path, language, arguments) for language, path in paths.items()}
    from crosslens.activations_writer import ActivationsWriter
    from crosslens.files import make_folder
    from crosslens.models.extraction.extract import check_text, store_settings
    from crosslens.models.extraction.extract import extract as run
    from crosslens.models.extraction.units import Reading
    from crosslens.models.machine.distributed import join_world
    from crosslens.models.saved.loading import load_encoder

    # under torchrun the first process speaks
    be_quiet(arguments.quiet or os.environ.get("RANK", "0") != "0")
    reading = Reading(arguments.unit, arguments.pool, arguments.special_tokens, arguments.long)
    outputs, out = arguments.outputs.split(","), Path(arguments.out)
    numbers: dict[str, Any] = {
        "dtype": arguments.dtype,
        "lowercase": arguments.lowercase,
        "min_count": arguments.min_count,
    }
    with join_world("cuda" if arguments.device.startswith("cuda") else "cpu") as world:
        device = str(world.device) if world.size > 1 else arguments.device
        settings: dict[str, Any] = {
            "random_seed": arguments.random_seed,
            "device": device,
            "precision": arguments.precision,
        }
        settings |= {"revision": arguments.revision, "language": arguments.language}
        with world.together():
            trusted = arguments.trust_remote_code
            loaded = {
                name: load_encoder(name, trust_remote_code=trusted, **settings)
                for name in dict.fromkeys(names.values())
            }
            encoders = {
                language: loaded[names.get(language, names.get("*", ""))] for language in texts
            }
            # what cannot be done is refused before anything is written
            for language, (corpus, second) in texts.items():
                planned = store_settings(
                    encoders[language], corpus, reading, layers, outputs, second=second, **numbers
                )
                ActivationsWriter.check(out / language, **planned, restart=arguments.restart)
                if world.first and len(texts) > 1:
                    check_text(encoders[language], corpus, reading, second)
        with world.together():
            if world.first:
                make_folder(out, "--out")
                _keep_asked(out, arguments.asked)
        for language, (corpus, second) in texts.items():
            store = run(
                encoders[language],
                corpus,
                out / language,
                unit=arguments.unit,
                pool=arguments.pool,
                layers=layers,
                outputs=outputs,
                special_tokens=arguments.special_tokens,
                long_input=arguments.long,
                second=second,
                restart=arguments.restart,
                **numbers,
            )
            if world.first:
                print(_told(store, encoders[language].max_length))


def _keep_asked(out: Path, asked: dict[str, Any]) -> None:
    """Keep what was typed beside the stores; with texts that were taken apart in the same way
    earlier. Nobody else's file is touched."""
    from crosslens.files import read_json, write_json

    path, new = out / "config.json", {"kind": "extract", "settings": {}, "asked": asked}
    if path.exists():
        there = read_json(path, Any)
        if not isinstance(there, dict) or there.get("kind") != "extract" or there == new:
            return
        before = there.get("asked")
        if (
            isinstance(before, dict)
            and {**before, "text": None} == {**asked, "text": None}
            and isinstance(before.get("text"), list)
        ):
            new["asked"] = {**asked, "text": list(dict.fromkeys([*before["text"], *asked["text"]]))}
    write_json(path, new)


def _read(path: str, language: str, arguments: argparse.Namespace) -> tuple[Corpus, Corpus | None]:
    """A text, with its words where the file or a segmenter gives them, and the second sentences of
    pairs."""
    if path.startswith("hf:"):
        if arguments.unit == "pair":
            refuse(
                "--unit",
                "another unit than pair for a data set, which has one text",
                "pair",
                "write the pairs to a file",
            )
        corpus = _without_blank(read_dataset(path, language))
        return (
            corpus if arguments.words == "whitespace" else segment(corpus, arguments.words)
        ), None
    plain = path.removesuffix(".gz")
    if arguments.unit == "pair":
        first, second = (
            read_tsv(path, language, text_column=column, id_column=None, columns=2)
            for column in (0, 1)
        )
        return first, second
    if plain.endswith((".conllu", ".jsonl")):
        if arguments.words != "whitespace":
            refuse(
                "--words",
                f"no segmenter, since {Path(path).name} lists its words",
                repr(arguments.words),
                "leave it out",
            )
        return (read_conllu if plain.endswith(".conllu") else read_words)(path, language), None
    corpus = open_text(path, language)
    return (corpus if arguments.words == "whitespace" else segment(corpus, arguments.words)), None


def _without_blank(corpus: Corpus) -> Corpus:
    """The sentences of a data set, whose blank lines nobody can take out of it; ids still say which
    line each was."""
    kept = [i for i, sentence in enumerate(corpus.sentences) if sentence.strip()]
    if len(kept) < len(corpus):
        say(f"{corpus.name}: {len(corpus) - len(kept):,} blank lines left out")
    return Corpus(
        corpus.language,
        [corpus.sentences[i] for i in kept],
        [corpus.ids[i] for i in kept],
        corpus.name,
    )


def _layers(text: str) -> list[int] | None:
    """The layers of ``0,4-8``; None for all of them."""
    if text == "all":
        return None
    found: list[int] = []
    for part in text.split(","):
        bounds = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part.strip())
        if bounds is None or int(bounds[2] or bounds[1]) < int(bounds[1]):
            refuse(
                "--layers",
                'all, or numbers and ranges such as "0,4-8"',
                repr(text),
                "name the layers so",
            )
        found.extend(range(int(bounds[1]), int(bounds[2] or bounds[1]) + 1))
    return found


def _told(store: Any, longest: int) -> str:
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
        f", {facts['truncated']} sentences cut at {longest} tokens"
        if facts.get("truncated")
        else ""
    )
    told += f", {facts['rare']:,} rarer types left out" if facts.get("rare") else ""
    told += (
        f", {facts['of_several_pieces']:,} types of several pieces left out"
        if facts.get("of_several_pieces")
        else ""
    )
    return told + (
        f", {facts['without_pieces']:,} words without a piece"
        if facts.get("without_pieces")
        else ""
    )
