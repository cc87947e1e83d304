"""The verb ``derive``: texts and labelled data as a derived language has them."""

import argparse
import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import crosslens as cl
from crosslens.asked import asked_of, keep_asked
from crosslens.cli.arguments import add_common, by_language, whole_number
from crosslens.cli.output import format_table
from crosslens.errors import refuse
from crosslens.files import check_writable, read_json
from crosslens.score_formats import format_percent

if TYPE_CHECKING:
    from crosslens.derive.order import OrderCoverage
    from crosslens.derive.transformation import Transformation

__all__ = ["derive", "derive_arguments"]

_KINDS = {
    "text": "UTF-8 text, a sentence per line; or .conllu; or .jsonl with text and words",
    "labels": "lines of label TAB text",
    "pairs": "pairs of sentences with labels, as XNLI has them",
    "treebank": "CoNLL-U: words with their heads, which follow",
    "iob2": "words with BIO tags, which follow",
    "questions": "questions as SQuAD 1.1 has them; the places of answers follow",
}
_OF_ORDERS = {"order_parts": "NV", "order_model": "log-linear", "order_choice": "sampled"}
_NOT_KEPT = ("verb", "out", "save_order", "json", "quiet", "config")  # of one call alone


def derive_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``crosslens derive`` takes."""
    add = parser.add_argument
    for kind, says in _KINDS.items():
        add(f"--{kind}", action="extend", nargs="+", metavar="LANGUAGE=FILE", help=says)
    add(
        "--by",
        metavar="HOW",
        help="a transformation, with :SETTING where it has one; a+b applies b, then a (crosslens "
        "list transformations)",
    )
    _order_arguments(parser)
    add(
        "--parser",
        metavar="PARSER",
        help="parse --text first, a tree for each line, which lies in --out (.conllu): "
        "spacy:PIPELINE, stanza:LANGUAGE[:FOLDER], or the folder of crosslens transfer --tasks "
        "upos,parsing --keep",
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
    add_common(parser, "device", help="of a parser that transfer kept (default: %(default)s)")
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


def _order_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--order-of",
        metavar="LANGUAGE=FILE",
        help="a treebank (CoNLL-U) of the language whose word order the sentences get, before --by, "
        "or an order that was saved (.json); what is derived is to be CoNLL-U, too",
    )
    add(
        "--save-order",
        metavar="FILE",
        help="write what --order-of learns from a treebank to a file (.json), to be named there "
        "the next time",
    )
    add(
        "--order-parts",
        choices=("NV", "N", "V"),
        default=_OF_ORDERS["order_parts"],
        help="whose words are put in order: nouns', verbs' or both (default: %(default)s)",
    )
    add(
        "--order-model",
        choices=("log-linear", "relation-weights"),
        default=_OF_ORDERS["order_model"],
        help="of Wang & Eisner 2016, or of Hahn et al. 2020 (default: %(default)s)",
    )
    add(
        "--order-choice",
        choices=("sampled", "best"),
        default=_OF_ORDERS["order_choice"],
        help="an order drawn by its probability, or the most probable one (default: %(default)s)",
    )


def _check_files(
    files: Mapping[str, Mapping[str, str]],
    by: "Transformation | None",
    *,
    parsed: bool,
    ordered: bool,
) -> None:
    """Refuse a file that is not there, has no trees where words are put in order, or cannot be
    derived so, before an order is learnt, a text parsed or another file derived."""
    from crosslens.front.derived import check_derives
    from crosslens.front.word_orders import check_treebank

    for kind, some in files.items():
        for language, path in some.items():
            if not Path(path).exists():
                refuse(path, "a file", "no such file", "correct the path")
            if by is not None:
                check_derives(by, kind, path)
            if ordered and kind not in ("text", "treebank"):
                expected = "trees, whose words are put in order"
                refuse(path, expected, f"a file of --{kind}", "give --treebank, or --text")
            trees = path.removesuffix(".gz").endswith(".conllu")
            if kind == "text" and ordered and not (parsed or trees):
                remedy = "add --parser, or give a treebank (.conllu)"
                refuse(path, "trees, whose words are put in order", "plain text", remedy)
            if ordered and (trees or kind == "treebank"):
                check_treebank(path, language)


def _how(arguments: argparse.Namespace, by: "Transformation | None") -> tuple[Any, Any]:
    """The transformation, that of --by among it, and the word order in it, None where there is none."""
    if arguments.order_of is None:
        if arguments.save_order is not None:
            got = "--save-order without it"
            refuse("arguments", "--order-of, whose order is saved", got, "name a treebank")
        for name, default in _OF_ORDERS.items():
            if getattr(arguments, name) != default:
                got = f"--{name.replace('_', '-')} without it"
                refuse("arguments", "--order-of, which it is about", got, "name a treebank")
        if by is None:
            refuse("arguments", "--by or --order-of", "neither", "add --by inversion")
        return by, None
    from crosslens.derive.composition import Composition

    [(language, path)] = by_language([arguments.order_of], "--order-of").items()
    order = cl.word_order(
        path,
        language,
        parts=arguments.order_parts,
        model=arguments.order_model,
        choice=arguments.order_choice,
    )
    if arguments.save_order is not None:
        cl.save_word_order(order, arguments.save_order)
    if by is None:
        return order, order
    return Composition((*(by.parts if isinstance(by, Composition) else [by]), order)), order


def _told_coverage(found: "OrderCoverage", path: str) -> str:
    other = found.heads - found.reordered - found.too_large
    return (
        f"{path}: {found.reordered:,} of {found.heads:,} heads "
        f"({format_percent(found.reordered / max(found.heads, 1))} %) and their words were put in order; "
        f"{found.too_large:,} have too many dependents, {other:,} are of other classes; "
        f"{found.crossing:,} of {found.sentences:,} sentences had edges that cross."
    )


def _keep(arguments: argparse.Namespace) -> None:
    """Keep what was asked in the folder, to be asked again (``--config``)."""
    typed = {name: value for name, value in vars(arguments).items() if name not in _NOT_KEPT}
    keep_asked(arguments.out, "derive", asked_of(typed, [*_KINDS, "order_of", "parser"]), _KINDS)


def derive(arguments: argparse.Namespace) -> None:
    """Derive every file, and print a row for each."""
    given = {kind: getattr(arguments, kind) for kind in _KINDS}
    if not any(given.values()):
        expected = ", ".join(f"--{kind}" for kind in _KINDS)
        refuse("arguments", f"a file to derive ({expected})", "none", "add --text LANGUAGE=FILE")
    for option, kinds, default in (
        ("tags", ("iob2",), "consistent"),
        ("unit", ("text", "labels", "pairs", "questions"), "sentence"),
    ):
        if getattr(arguments, option) != default and not any(given[kind] for kind in kinds):
            expected = f"{' or '.join(f'--{kind}' for kind in kinds)}, which it is about"
            refuse("arguments", expected, f"--{option} without it", "leave it out")
    if arguments.epoch and "permutation:epoch" not in [
        part.strip() for part in (arguments.by or "").split("+")
    ]:
        expected = "--by permutation:epoch, which it is about"
        refuse("arguments", expected, "--epoch without it", "leave it out")
    files: dict[str, Any] = {
        kind: by_language(some, f"--{kind}") for kind, some in given.items() if some
    }
    options = {
        name: getattr(arguments, name) for name in ("seed", "unit", "words", "tags", "epoch")
    }
    if arguments.parser is not None and "text" not in files:
        refuse("--parser", "a plain text to parse", "none", "add --text LANGUAGE=FILE")
    if (kept := Path(arguments.out) / "config.json").exists():
        read_json(kept, Any)  # a damaged one is refused before anything is learnt or written
    from crosslens.derive.registry import transformation

    check_writable(arguments.out)
    if arguments.save_order is not None and not Path(arguments.save_order).parent.is_dir():
        got = f"{arguments.save_order} (no such folder)"
        refuse("--save-order", "a file in a folder that is there", got, "make the folder")
    by = None if arguments.by is None else transformation(arguments.by)  # refused before it learns
    parsed, ordered = arguments.parser is not None, arguments.order_of is not None
    _check_files(files, by, parsed=parsed, ordered=ordered)
    parse = None
    if parsed:
        from crosslens.front.parsed import ready_to_parse

        # a parser that is not there is told before an order is learnt
        told = {"words": arguments.words, "device": arguments.device}
        parse = ready_to_parse(files["text"], arguments.parser, arguments.out, **told)
    how, order = _how(arguments, by)
    if parse is not None:
        files["text"] = parse()
    made = cl.derive_files(how, arguments.out, **files, **options)
    _keep(arguments)
    trees = (
        []
        if order is None
        else [*files.get("treebank", {}).items(), *files.get("text", {}).items()]
    )
    coverage = [(path, cl.word_order_coverage(path, language, order)) for language, path in trees]
    if arguments.json:
        for one in made:
            told = {**dataclasses.asdict(one), "path": str(one.path), "back": str(one.back)}
            print(json.dumps(told, ensure_ascii=False))
        for path, found in coverage:
            told = {"order": order.name, "of": str(path), **dataclasses.asdict(found)}
            print(json.dumps(told, ensure_ascii=False))
        return
    rows = [("file", "language", "sentences", "words", "word types shared (%)")]
    for one in made:
        counts = f"{one.sentences:,}", f"{one.words:,}"
        rows.append((str(one.path), one.language, *counts, format_percent(one.shared)))
    print(format_table(rows))
    print("Beside each file lies its map back (.back.jsonl).")
    for path, found in coverage:
        print(_told_coverage(found, path))
