"""The verb ``derive``: texts and labelled data as a derived language has them."""

import argparse
import dataclasses
import json
from typing import Any

import crosslens as cl
from crosslens.cli.arguments import add_common, by_language, whole_number
from crosslens.cli.output import format_table, percent
from crosslens.errors import refuse

__all__ = ["derive", "derive_arguments"]

_KINDS = {
    "text": "UTF-8 text, a sentence per line; or .conllu; or .jsonl with text and words",
    "labels": "lines of label TAB text",
    "pairs": "pairs of sentences with labels, as XNLI has them",
    "treebank": "CoNLL-U: words with their heads, which follow",
    "iob2": "words with BIO tags, which follow",
    "questions": "questions as SQuAD 1.1 has them; the places of answers follow",
}


def derive_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``crosslens derive`` takes."""
    add = parser.add_argument
    for kind, says in _KINDS.items():
        add(f"--{kind}", action="extend", nargs="+", metavar="LANGUAGE=FILE", help=says)
    add(
        "--by",
        required=True,
        metavar="HOW",
        help="a transformation, with :SETTING where it has one; a+b applies b, then a (crosslens "
        "list transformations)",
    )
    told = "folder; each file has its original's name with the derived language's code in it"
    add_common(parser, "out", required=True, help=told)
    add_common(parser, "seed", help="of the derived language (default: %(default)s)")
    add(
        "--unit",
        choices=("sentence", "line"),
        default="sentence",
        help="what is derived in its place, of plain text (default: %(default)s)",
    )
    add(
        "--words",
        default="punctuation",
        metavar="HOW",
        help="words of plain text: punctuation (default: white space, marks around a word being "
        "words), whitespace, rjieba (Chinese), pythainlp (Thai) or sudachipy (Japanese)",
    )
    add(
        "--tags",
        choices=("consistent", "raw"),
        default="consistent",
        help="of --iob2: B- and I- written anew, or left with their words (default: %(default)s)",
    )
    add(
        "--epoch",
        type=whole_number,
        default=0,
        metavar="N",
        help="which pass over the text, for permutation:epoch (default: %(default)s)",
    )
    add_common(parser, "json", help="print a line of JSON for each file instead of a table")


def derive(arguments: argparse.Namespace) -> None:
    """Derive every file, and print a row for each."""
    given = {kind: getattr(arguments, kind) for kind in _KINDS}
    if not any(given.values()):
        expected = ", ".join(f"--{kind}" for kind in _KINDS)
        refuse("arguments", f"a file to derive ({expected})", "none", "add --text LANGUAGE=FILE")
    files: dict[str, Any] = {
        kind: by_language(some, f"--{kind}") for kind, some in given.items() if some
    }
    options = {
        name: getattr(arguments, name) for name in ("seed", "unit", "words", "tags", "epoch")
    }
    made = cl.derive_files(arguments.by, arguments.out, **files, **options)
    if arguments.json:
        for one in made:
            told = {**dataclasses.asdict(one), "path": str(one.path), "back": str(one.back)}
            print(json.dumps(told, ensure_ascii=False))
        return
    rows = [("file", "language", "sentences", "words", "word types shared (%)")]
    for one in made:
        counts = f"{one.sentences:,}", f"{one.words:,}"
        rows.append((str(one.path), one.language, *counts, percent(one.shared)))
    print(format_table(rows))
    print("Beside each file lies its map back (.back.jsonl).")
