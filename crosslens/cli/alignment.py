"""The verbs ``align`` and ``compare``: two or more activation datasets, or word vectors of two
languages, and how alike they are with and without a rotation."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import crosslens as cl
from crosslens.cli.arguments import LANGUAGE, add_common, by_language, names_in
from crosslens.cli.output import Part, show
from crosslens.errors import refuse
from crosslens.score_formats import format_ends, format_percent, format_value

__all__ = ["align", "align_arguments", "compare", "compare_arguments"]

# of crosslens.run.vectors, which is not imported for a help text
METHODS = ("procrustes", "refine", "self-learning")
STARTS = ("dictionary", "identical", "numerals", "unsupervised")
# of crosslens.alignment.neighbours.csls
BY = ("cosine", "csls", "inverted_softmax", "margin_ratio", "margin_distance")
_OUT = "write scores.jsonl and a report with figures to this folder"
_TO_ALIGN = ("dictionary", "test", "lowercase", "train_fraction", "seed", "out")


def align_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``crosslens align`` takes."""
    add = parser.add_argument
    stores = (
        "activations of two texts: of sentences (row i of both is the same one), types or words; "
        "or LANGUAGE=FILE of word vectors"
    )
    add("stores", nargs=2, metavar="ACTIVATIONS", help=stores)
    add(
        "--dictionary",
        metavar="FILE",
        help="for types and vectors: word pairs, `source target` a line, to learn from",
    )
    add(
        "--test",
        metavar="FILE",
        help="for types and vectors: pairs to judge by (default: a part of --dictionary)",
    )
    add(
        "--start",
        choices=STARTS[1:],
        help="for vectors: learn without a dictionary, from spelling or nothing",
    )
    add(
        "--method",
        choices=METHODS,
        help="for vectors (default: procrustes; self-learning with --start)",
    )
    add(
        "--most",
        type=int,
        metavar="N",
        help="for vectors: words read (default: 200000, as MUSE)",
    )
    add(
        "--links",
        metavar="FILE",
        help="for words in context: links (0-0 1-2), a line a sentence (Pharaoh format)",
    )
    add(
        "--fit",
        nargs=2,
        metavar="ACTIVATIONS",
        help="for sentences: learn the rotation from these two, of another corpus, and judge by all",
    )
    add("--lowercase", action="store_true", help="for types: read the dictionaries in lower case")
    by = (
        f"how they are looked up: {', '.join(BY)} (default: cosine for sentences, csls for types, "
        f"words and vectors)"
    )
    add("--by", choices=BY, metavar="HOW", help=by)
    add_common(parser, "train-fraction")
    add_common(parser, "out", help=_OUT)
    add_common(parser, "seed", "json")


def compare_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``crosslens compare`` takes."""
    parser.add_argument(
        "stores",
        nargs="+",
        metavar="ACTIVATIONS",
        help="activations of the same items, two folders or more: of languages, or of encoders",
    )
    parser.add_argument(
        "--also",
        default="",
        metavar="LIST",
        help="other measures of the same layers, such as svcca,rsa",
    )
    add_common(parser, "out", help=_OUT)
    add_common(parser, "seed", "json")


def align(arguments: argparse.Namespace) -> None:
    """Print retrieval between two activation datasets before and after Procrustes, of sentences, of
    word types or of words in context; or of static vectors once they are in one space."""
    vectors = all(LANGUAGE.fullmatch(s) and not Path(s).exists() for s in arguments.stores)
    expected = "with LANGUAGE=FILE of word vectors only"
    for name in ("links", "fit") if vectors else ("start", "method", "most"):
        if getattr(arguments, name) is not None:
            of = "words" if name == "links" else "sentences"
            told = f"--{name} {f'with activations of {of} only' if vectors else expected}"
            got = f"{'files of vectors' if vectors else 'activations'} and --{name}"
            refuse("arguments", told, got, "see crosslens align --help")
    shared = {name: getattr(arguments, name) for name in _TO_ALIGN}
    if vectors:
        begun = {name: getattr(arguments, name) for name in ("start", "method")}
        if arguments.most is not None:
            begun["most"] = arguments.most
        by = arguments.by or "csls"
        files = by_language(arguments.stores, "ACTIVATIONS")
        scores = cl.align_vectors(files, by=by, **begun, **shared)
        show(arguments, scores, _vectors(scores, arguments.start or "dictionary"))
        return
    shared |= {name: getattr(arguments, name) for name in ("links", "fit", "by")}
    scores = cl.align(*arguments.stores, **shared)
    tables = _sentences if scores[0].task == "sentence_retrieval" else _words
    show(arguments, scores, tables(scores))


def compare(arguments: argparse.Namespace) -> None:
    """Print linear CKA between activation datasets of the same items."""
    also = names_in(arguments.also)
    scores = cl.compare(*arguments.stores, also=also, seed=arguments.seed, out=arguments.out)
    show(arguments, scores, _similarities(scores, also))


def _sentences(scores: Sequence[Any]) -> Iterator[Part]:
    from crosslens.score import few_pairs, not_measured

    rows: list[tuple[str, ...]] = [
        ("layer", "direction", "all", "held out", "after Procrustes", "95 % interval", "n")
    ]
    found = [s for s in scores if _detail(s, "part")]
    cells = {(s.layer, s.source, s.condition, _detail(s, "part")): s for s in found}
    for layer, source, target in dict.fromkeys((s.layer, s.source, s.target) for s in found):
        wanted = (("unaligned", "all"), ("unaligned", "held_out"), ("procrustes", "held_out"))
        three = [cells[layer, source, condition, part] for condition, part in wanted]
        values = [format_percent(score.value) for score in three]
        after = [format_ends(three[-1]), str(three[-1].n)]
        rows.append((str(layer), f"{source} → {target}", *values, *after))
    yield rows
    by, few = _detail(found[0], "by") or "cosine", few_pairs(scores)
    about = f"P@1 in per cent: nearest neighbour by {by}. All: {found[0].n} sentences, unaligned."
    yield f"{about} {few}".rstrip()
    for score in (score for score in scores if score.quantity == "pearson"):
        reason = _detail(score, "reason")
        value = f"not computed ({reason})" if reason else format_value(score.value, 2)
        yield (
            f"Pearson correlation of P@1 ({score.condition}) with debiased CKA over {score.n} "
            f"layers: {value}."
        )
    yield from not_measured(scores)


def _words(scores: Sequence[Any]) -> Iterator[Part]:
    from crosslens.score import few_pairs, not_measured

    conditions, more = ("unaligned", "procrustes"), ("precision_at_5", "precision_at_10")
    names = ("layer", "direction", "P@1", "after Procrustes", "95 % interval", "P@5", "P@10", "n")
    rows: list[tuple[str, ...]] = [names]
    found = [s for s in scores if s.quantity.startswith("precision_at_")]
    cells = {(s.layer, s.source, s.condition, s.quantity): s for s in found}
    for layer, source, target in dict.fromkeys((s.layer, s.source, s.target) for s in found):
        before, after = (cells[layer, source, one, "precision_at_1"] for one in conditions)
        # none among fewer than k words
        further = [cells.get((layer, source, "procrustes", quantity)) for quantity in more]
        values = ["-" if s is None else format_percent(s.value) for s in further]
        first = [format_percent(before.value), format_percent(after.value), format_ends(after)]
        rows.append((str(layer), f"{source} → {target}", *first, *values, str(after.n)))
    yield rows
    known = {name: value for s in reversed(found) for name, value in (s.details or {}).items()}
    yield (
        f"P@k in per cent, by {known['by']} among {known['candidates']} words; "
        f"{known['fitted_on']} pairs were learnt from. {few_pairs(scores)}"
    ).rstrip()
    yield from _error_rates([s for s in scores if s.quantity == "alignment_error_rate"])
    if "coverage" in known:
        yield (
            f"{100 * known['coverage']:.1f} % of {known['sources']} test words have vectors, and a "
            f"translation that has; the others are left out."
        )
    yield from not_measured(scores)


def _error_rates(scores: Sequence[Any]) -> Iterator[Part]:
    """A table of its own: how wrong the links are that the vectors make."""
    if not scores:
        return
    yield ""
    rows: list[tuple[str, ...]] = [
        ("layer", "AER", "95 % interval", "after Procrustes", "95 % interval", "sentences")
    ]
    cells = {(s.layer, s.condition): s for s in scores}
    for layer in dict.fromkeys(score.layer for score in scores):
        both = [cells[layer, "unaligned"], cells[layer, "procrustes"]]
        values = [cell for s in both for cell in (format_percent(s.value), format_ends(s))]
        rows.append((str(layer), *values, str(both[1].n)))
    yield rows
    yield (
        "AER: alignment error rate, in per cent, of links between words of a held-out sentence "
        "that are each other's nearest by cosine."
    )


def _vectors(scores: Sequence[Any], start: str) -> Iterator[Part]:
    from crosslens.score import few_pairs

    rows: list[tuple[str, ...]] = [
        ("quantity", "per cent", "95 % interval", "n", "of all, per cent")
    ]
    mean, *precisions = scores
    for s in precisions:
        name, of_all = s.quantity.replace("precision_at_", "P@"), _detail(s, "value_of_all")
        rows.append(
            (name, format_percent(s.value), format_ends(s), str(s.n), format_percent(of_all))
        )
    yield rows
    known, method = mean.details or {}, str(mean.condition).replace("_", "-")
    pairs = known["fitted_on"]
    yield (
        f"{mean.source} → {mean.target} by {known['by']}, {method} from {pairs} "
        f"pair{'s' if pairs > 1 else ''} ({start}); mean reciprocal rank {mean.value:.3f}; "
        f"coverage {100 * known['coverage']:.1f} % of {known['sources']} test words. "
        f"{few_pairs(scores)}"
    ).rstrip()


def _similarities(scores: Sequence[Any], also: Sequence[str]) -> Iterator[Part]:
    from crosslens.score import not_measured

    head = (
        "pair",
        "layer",
        "biased",
        "debiased",
        "its 95 % interval",
        "biased, shuffled rows",
        "n",
    )
    rows: list[tuple[str, ...]] = [(*head, *also)]
    same = [s for s in scores if s.layer == s.other_layer]
    cells = {(s.source, s.target, s.layer, s.quantity, s.condition): s for s in same}
    for at in dict.fromkeys((s.source, s.target, s.layer) for s in same):
        biased, debiased, shuffled = (
            cells[*at, quantity, condition]
            for quantity, condition in (
                ("linear_cka", None),
                ("debiased_linear_cka", None),
                ("linear_cka", "shuffled_items"),
            )
        )
        ends = format_ends(debiased, 3, 1)
        values = [
            format_value(biased.value, 3),
            format_value(debiased.value, 3),
            ends,
            format_value(shuffled.value, 3),
        ]
        others = [
            f"{format_value(cells[*at, name, None].value, 3)} "
            f"({format_value(cells[*at, name, 'shuffled_items'].value, 3)})"
            for name in also
        ]
        rows.append((f"{at[0]} – {at[1]}", str(at[2]), *values, str(biased.n), *others))
    yield rows
    more = " Other measures: the value, and in brackets that of shuffled rows." if also else ""
    yield f"Linear CKA, same layer on both sides (all pairs of layers with --json or --out).{more}"
    yield from not_measured(scores)


def _detail(score: Any, name: str) -> Any:
    return (score.details or {}).get(name)
