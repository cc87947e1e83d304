"""The verb ``transplant``: an encoder with the vocabulary of another language."""

import argparse
import json
import math
from typing import TYPE_CHECKING

import crosslens as cl
from crosslens.cli.arguments import add_common, by_language
from crosslens.cli.output import format_table, is_first_process
from crosslens.errors import refuse
from crosslens.score_formats import format_value

if TYPE_CHECKING:
    from crosslens.models.transplant.learning import Learnt

__all__ = ["transplant", "transplant_arguments"]


def transplant_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``crosslens transplant`` takes."""
    add = parser.add_argument
    add_common(parser, "encoder", action="store", required=True, help="model folder or hub name")
    add_common(parser, "text", required=True, help="text of the new language, a sentence a line")
    add(
        "--by",
        metavar="NAME",
        default="similarity",
        help="how new embeddings begin: random, overlap, retokenised, translation, similarity (FOCUS) "
        "or factorised (OFA); monotrans: random, and trained (default: %(default)s)",
    )
    add(
        "--tokens",
        type=float,
        metavar="N",
        help="train the new embeddings on N tokens of the text, under the frozen body (with --by "
        "monotrans: 4e6); an encoder without a head for masked words gets one first",
    )
    add(
        "--times",
        type=int,
        default=1,
        metavar="N",
        help="train them N times from other seeds, and keep the best (default: %(default)s)",
    )
    add(
        "--vocabulary",
        type=int,
        default=16_000,
        metavar="N",
        help="subwords of the new vocabulary (default: %(default)s)",
    )
    add(
        "--dictionary",
        metavar="FILE",
        help="of --by translation, pairs of words, that of the encoder's language first",
    )
    add("--links", metavar="FILE", help="instead: links of words (Pharaoh format: 0-0 1-2)")
    add(
        "--parallel",
        metavar="LANGUAGE=FILE",
        nargs=2,
        help="the two texts that the links are of, that of the encoder's language first",
    )
    add_common(parser, "out", required=True, help="a new folder")
    add_common(parser, "seed", default=0)
    add_common(
        parser, "device", choices=("auto", "cpu", "cuda"), default="auto", metavar=None,
        help="of the training",
    )  # fmt: skip
    add_common(parser, "trust-remote-code")
    add("--json", action="store_true", help="print a line of JSON")


def transplant(arguments: argparse.Namespace) -> None:
    """Write the encoder, and say how its rows were made."""
    texts = by_language(arguments.text, "--text")
    if len(texts) != 1:
        refuse("--text", "one text, of the new language", str(len(texts)), "give one")
    ((language, path),) = texts.items()
    made = cl.transplant(
        arguments.encoder,
        path,
        arguments.out,
        by=arguments.by,
        size=arguments.vocabulary,
        dictionary=arguments.dictionary,
        links=arguments.links,
        parallel=by_language(arguments.parallel, "--parallel") if arguments.parallel else None,
        language=language,
        tokens=None if arguments.tokens is None else _whole(arguments.tokens),
        times=arguments.times,
        seed=arguments.seed,
        device=arguments.device,
        trust_remote_code=arguments.trust_remote_code,
    )
    if not is_first_process():
        return
    if arguments.json:
        told = {"folder": str(made.folder), "by": made.initialiser, "subwords": made.subwords}
        learnt = {} if made.learnt is None else {"learnt": made.learnt.told()}
        print(json.dumps({**told, **made.made, **learnt}))
        return
    rows = ", ".join(f"{count:,} {name}" for name, count in made.made.items() if count)
    print(f"{made.folder}: {made.subwords:,} subwords, their embeddings {rows}")
    if made.learnt is not None:
        curve = made.learnt.perplexities
        rows_of = [("tokens trained on", "perplexity")]
        rows_of += [(f"{tokens:,}", format_value(value, 1)) for tokens, value in curve.items()]
        print(format_table(rows_of))
        print(
            f"Perplexity of {made.learnt.masked:,} masked subwords of held-out sentences; of a model "
            f"that knows their frequency alone: {made.learnt.unigram:,.1f}."
        )
        if made.learnt.new_head:
            print(
                "The encoder has no head for masked words: a new one was trained first, on "
                f"{made.learnt.head_tokens:,} tokens with body and embeddings as they were, and then "
                "along with the embeddings; it is left out of the result."
            )
        if made.learnt.repeats:
            _say_repeats(made.learnt)
        elif not made.learnt.converged:
            print(
                "This training did not converge: it is no better than a unigram model, or than what "
                "it began with."
            )


def _say_repeats(learnt: "Learnt") -> None:
    ends = ", ".join(
        f"seed {seed}: {'given up' if math.isnan(one) else format_value(one, 1)}"
        for seed, one in learnt.repeats.items()
    )
    print(
        f"The best of {len(learnt.repeats)} trainings, from seed {learnt.kept} ({ends}). It is chosen "
        "on these very sentences, which makes its perplexity somewhat too good."
    )
    if learnt.not_converged:
        print(
            f"{learnt.not_converged} of {len(learnt.repeats)} did not converge: no better than a "
            "unigram model, or than what they began with, or their loss was no number any more."
        )


def _whole(tokens: float) -> int:
    if not 0 < tokens < 1e15:
        refuse("--tokens", "a number above 0", str(tokens), "4e6, say")
    return int(tokens)
