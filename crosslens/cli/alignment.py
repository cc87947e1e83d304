"""The verbs ``align`` and ``compare``: two or more stores of activations, and how alike they are
with and without a rotation."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.cli.arguments import LANGUAGE, add_common
from crosslens.cli.stores import (
    PlannedRun,
    common_fields,
    open_stores,
    parallel_stores,
    print_scores,
)
from crosslens.cli.table import format_table
from crosslens.cli.vectors import align_vectors
from crosslens.errors import refuse
from crosslens.files import sha256_file
from crosslens.progress import be_quiet
from crosslens.score import Score, few_pairs, not_measured, told

__all__ = ["add_arguments", "align", "compare"]

# of crosslens.run.vectors, which is not imported for a help text
METHODS = ("procrustes", "refine", "self-learning")
STARTS = ("dictionary", "identical", "numerals", "unsupervised")
# of crosslens.alignment.neighbours.csls
BY = ("cosine", "csls", "inverted_softmax", "margin_ratio", "margin_distance")


def add_arguments(align: argparse.ArgumentParser, compare: argparse.ArgumentParser) -> None:
    """What ``crosslens align`` and ``crosslens compare`` take."""
    stores = (
        "two stores of activations: of sentences (row i of both is the same one), types or words; "
        "or LANGUAGE=FILE of word vectors"
    )
    align.add_argument("stores", nargs=2, metavar="STORE", help=stores)
    align.add_argument(
        "--dictionary",
        metavar="FILE",
        help="for types and vectors: word pairs, `source target` a line, to learn from",
    )
    align.add_argument(
        "--test",
        metavar="FILE",
        help="for types and vectors: pairs to judge by (default: a part of --dictionary)",
    )
    align.add_argument(
        "--start",
        choices=STARTS[1:],
        help="for vectors: learn without a dictionary, from spelling or nothing",
    )
    align.add_argument(
        "--method",
        choices=METHODS,
        help="for vectors (default: procrustes; self-learning with --start)",
    )
    align.add_argument(
        "--most",
        type=int,
        default=200_000,
        metavar="N",
        help="for vectors: words read (default: %(default)s, as MUSE)",
    )
    align.add_argument(
        "--links",
        metavar="FILE",
        help="for words in context: links (0-0 1-2), a line a sentence (Pharaoh format)",
    )
    align.add_argument(
        "--lowercase", action="store_true", help="for types: read the dictionaries in lower case"
    )
    by = (
        f"how they are looked up: {', '.join(BY)} (default: cosine for sentences, csls for types, "
        f"words and vectors)"
    )
    align.add_argument("--by", choices=BY, metavar="HOW", help=by)
    add_common(align, "train-fraction")
    compare.add_argument(
        "stores",
        nargs="+",
        metavar="STORE",
        help="two or more stores of the same items: of languages, or of encoders",
    )
    compare.add_argument(
        "--also",
        default="",
        metavar="LIST",
        help="other measures of the same layers, such as svcca,rsa",
    )
    for verb in (align, compare):
        add_common(verb, "out", help="write scores.jsonl and a report with figures to this folder")
        add_common(verb, "seed", "json")


def align(arguments: argparse.Namespace) -> None:
    """Print retrieval between two stores before and after Procrustes: of sentences, of word types,
    or of words in context."""
    be_quiet(arguments.quiet)
    if all(LANGUAGE.fullmatch(name) and not Path(name).exists() for name in arguments.stores):
        arguments.by = arguments.by or "csls"
        align_vectors(arguments)
        return
    for name in ("start", "method"):
        if getattr(arguments, name) is not None:
            refuse(
                "arguments",
                f"--{name} with LANGUAGE=FILE of word vectors only",
                f"stores and --{name}",
                "see crosslens align --help",
            )
    unit = open_stores(arguments.stores)[0].unit
    needed = {"type": "dictionary", "embedding": "dictionary", "word": "links"}.get(unit)
    for name in ("dictionary", "test", "links"):
        given = getattr(arguments, name) is not None
        if given != (name == needed) and not (
            name == "test" and (needed == "dictionary" or not given)
        ):
            expected = f"--{needed}" if needed else "neither --dictionary nor --links"
            refuse(
                "arguments",
                f"{expected}, for stores of {unit}s",
                f"{'--' if given else 'no --'}{name}",
                "see crosslens align --help",
            )
    arguments.by = arguments.by or ("cosine" if unit in ("sentence", "pair") else "csls")
    if unit in ("sentence", "pair"):
        _align_sentences(arguments)
    elif needed:
        _align_words(arguments)
    else:
        refuse(
            arguments.stores[0],
            "a store of sentences, types or words",
            f"one of {unit}s",
            "extract with another --unit",
        )


def _align_sentences(arguments: argparse.Namespace) -> None:
    from crosslens.run.collapse import refuse_unmeasured
    from crosslens.run.measures import make_split, retrieval_scores
    from crosslens.run.repeats import repeats_told, store_groups
    from crosslens.run.similarities import correlation_scores

    x, y = parallel_stores(arguments.stores)
    groups, common = store_groups([x, y]), common_fields([x, y], arguments.seed)
    split = make_split(x.n, arguments.train_fraction, arguments.seed, groups)
    run = _plan(
        "align", arguments, [x, y], {"train_fraction": arguments.train_fraction, "by": arguments.by}
    )
    scores = retrieval_scores(x, y, split, common, by=arguments.by)
    refuse_unmeasured(scores, "stores")
    scores += correlation_scores(x, y, scores, common)
    rows: list[tuple[str, ...]] = [
        ("layer", "direction", "all", "held out", "after Procrustes", "95 % interval", "n")
    ]
    cells = {
        (s.layer, s.source, s.condition, s.details["part"]): s
        for s in scores
        if s.details and "part" in s.details
    }
    for layer in x.layer_numbers:
        for a, b in ((x, y), (y, x)):
            wanted = (("unaligned", "all"), ("unaligned", "held_out"), ("procrustes", "held_out"))
            first, held, after = (
                cells[layer, a.language, condition, part] for condition, part in wanted
            )
            values = (_percent(score.value) for score in (first, held, after))
            rows.append(
                (
                    str(layer),
                    f"{a.language} → {b.language}",
                    *values,
                    _interval(after),
                    str(after.n),
                )
            )
    few = few_pairs([len(split.train)], x.d)
    text = [
        (
            f"P@1 in per cent: nearest neighbour by {arguments.by}. All: {x.n} sentences, "
            f"unaligned. {few}"
        ).rstrip()
    ]
    text += repeats_told(groups)
    for score in scores:
        if score.quantity == "pearson":
            text.append(
                f"Pearson correlation of P@1 ({score.condition}) with debiased CKA over "
                f"{_told(score)}"
            )
    print_scores(scores, rows, "\n".join(text + not_measured(scores)), arguments.json)
    _finish(run, scores, x, arguments, repeats_told(groups))


def _align_words(arguments: argparse.Namespace) -> None:
    from crosslens.run.word_alignment import (
        gold_of_dictionaries,
        gold_of_links,
        split_dictionary,
        word_scores,
    )

    x, y = open_stores(arguments.stores)
    if x.language == y.language:
        refuse(
            "stores",
            "a language of its own for each",
            f"{x.language}, {y.language}",
            "extract each text under its own code",
        )
    settings: dict[str, Any] = {"by": arguments.by}
    if arguments.dictionary:
        from crosslens.readers.dictionary import read_dictionary

        train = read_dictionary(arguments.dictionary, lower=arguments.lowercase)
        if arguments.test:
            test = read_dictionary(arguments.test, lower=arguments.lowercase)
        else:
            train, test = split_dictionary(train, arguments.train_fraction, arguments.seed)
            settings["train_fraction"] = arguments.train_fraction
        gold = gold_of_dictionaries(x, y, train, test)
        settings |= {
            "dictionary": _content(arguments.dictionary),
            "test": arguments.test and _content(arguments.test),
        }
    else:
        from crosslens.alignment.words.links import read_pharaoh
        from crosslens.run.measures import make_split
        from crosslens.run.repeats import sentence_groups

        links = read_pharaoh(arguments.links)
        split = make_split(
            links.sentences,
            arguments.train_fraction,
            arguments.seed,
            sentence_groups([x, y], links.sentences),
        )
        gold = gold_of_links(x, y, links.sure, split, possible=links.possible)
        settings |= {"links": _content(arguments.links), "train_fraction": arguments.train_fraction}
    run = _plan("align", arguments, [x, y], settings)
    scores = word_scores(x, y, gold, common_fields([x, y], arguments.seed), by=arguments.by)
    rows, cells = [_WORD_HEAD], {(s.layer, s.source, s.condition, s.quantity): s for s in scores}
    for layer, source in dict.fromkeys((s.layer, s.source) for s in scores):
        before, after = (
            cells[layer, source, condition, "precision_at_1"]
            for condition in ("unaligned", "procrustes")
        )
        # none among fewer than k words
        more = [cells.get((layer, source, "procrustes", f"precision_at_{k}")) for k in (5, 10)]
        target = y.language if source == x.language else x.language
        values = [
            _percent(before.value),
            _percent(after.value),
            _interval(after),
            *("-" if s is None else _percent(s.value) for s in more),
        ]
        rows.append((str(layer), f"{source} → {target}", *values, str(after.n)))
    few = few_pairs([len(gold.train)], x.d)
    learnt = f"{len(gold.train)} pairs were learnt from. {few}".rstrip()
    text = [f"P@k in per cent, by {arguments.by} among {len(gold.y)} words; {learnt}"]
    if gold.links:
        text += [
            "",
            *_error_rates([score for score in scores if score.quantity == "alignment_error_rate"]),
        ]
    if gold.sources:
        details = next(s.details for s in scores if s.details and "coverage" in s.details)
        text.append(
            f"{100 * details['coverage']:.1f} % of {gold.sources} test words are in the "
            f"stores with a translation; the others are left out."
        )
    print_scores(scores, rows, "\n".join(text + not_measured(scores)), arguments.json)
    _finish(run, scores, x, arguments)


def _content(path: str) -> str:
    """A file by name and content, as settings remember it."""
    return f"{Path(path).name} {sha256_file(path)[:16]}"


def _told(score: Score) -> str:
    """A correlation over layers in words."""
    reason = (score.details or {}).get("reason")
    return f"{score.n} layers: " + (
        f"not computed ({reason})." if reason else f"{score.value:.2f}."
    )


_WORD_HEAD: tuple[str, ...] = (
    "layer",
    "direction",
    "P@1",
    "after Procrustes",
    "95 % interval",
    "P@5",
    "P@10",
    "n",
)


def _error_rates(scores: list[Score]) -> list[str]:
    """A table of its own: how wrong the links are that the vectors make."""
    rows: list[tuple[str, ...]] = [
        ("layer", "AER", "95 % interval", "after Procrustes", "95 % interval", "sentences")
    ]
    cells = {(score.layer, score.condition): score for score in scores}
    for layer in dict.fromkeys(score.layer for score in scores):
        before, after = cells[layer, "unaligned"], cells[layer, "procrustes"]
        values = [
            cell for score in (before, after) for cell in (_percent(score.value), _interval(score))
        ]
        rows.append((str(layer), *values, str(after.n)))
    about = (
        "AER: alignment error rate, in per cent, of links between words of a held-out sentence "
        "that are each other's nearest by cosine."
    )
    return [format_table(rows), about]


def compare(arguments: argparse.Namespace) -> None:
    """Print linear CKA between stores of the same items."""
    from crosslens.run.collapse import refuse_unmeasured
    from crosslens.run.similarities import check_measures, compare_stores, measure_layers

    be_quiet(arguments.quiet)
    if len(arguments.stores) < 2:
        refuse("STORE", "two or more stores", "1", "name another store of the same items")
    also = [name for name in arguments.also.split(",") if name]
    check_measures(also)
    stores = parallel_stores(arguments.stores, same_language=True)
    named = dict(zip(_names(stores), stores, strict=True))
    run = _plan("compare", arguments, stores, {"also": arguments.also}, list(named))
    others = measure_layers(named, also, arguments.seed)  # first: they refuse what CKA does not
    scores = compare_stores(named, arguments.seed) + others
    refuse_unmeasured(scores, "stores")
    rows: list[tuple[str, ...]] = [
        (
            "pair",
            "layer",
            "biased",
            "debiased",
            "its 95 % interval",
            "biased, shuffled rows",
            "n",
            *also,
        )
    ]
    for pair in dict.fromkeys((score.source, score.target) for score in scores):
        rows += _similarity_rows(
            [score for score in scores if (score.source, score.target) == pair], pair, also
        )
    n, d = stores[0].n, max(store.d for store in stores)
    warning = (
        f" With n = {n} < 3 d = {3 * d} the biased value is inflated: read the debiased one."
        if n < 3 * d
        else ""
    )
    more = " Other measures: the value, and in brackets that of shuffled rows." if also else ""
    text = [
        (
            f"Linear CKA, same layer on both sides (all pairs of layers with --json or "
            f"--out).{more}{warning}"
        ),
        *not_measured(scores),
    ]
    print_scores(scores, rows, "\n".join(text), arguments.json)
    _finish(run, scores, stores[0], arguments)


def _similarity_rows(
    scores: list[Score], names: tuple[Any, Any], also: list[str]
) -> list[tuple[str, ...]]:
    cells = {(s.layer, s.quantity, s.condition): s for s in scores if s.layer == s.other_layer}
    rows = []
    for layer in dict.fromkeys(s.layer for s in scores if s.layer == s.other_layer):
        wanted = (
            ("linear_cka", None),
            ("debiased_linear_cka", None),
            ("linear_cka", "shuffled_items"),
        )
        biased, debiased, shuffled = (
            cells[layer, quantity, condition] for quantity, condition in wanted
        )
        interval = "-" if debiased.low is None else f"{debiased.low:.3f}-{debiased.high:.3f}"
        values = [told(score.value, 3) for score in (biased, debiased)]
        others = [
            (
                f"{told(cells[layer, name, None].value, 3)} "
                f"({told(cells[layer, name, 'shuffled_items'].value, 3)})"
            )
            for name in also
        ]
        rows.append(
            (
                " – ".join(names),
                str(layer),
                *values,
                interval,
                told(shuffled.value, 3),
                str(biased.n),
                *others,
            )
        )
    return rows


def _names(stores: list[Any]) -> list[str]:
    """What each store is called: by its language; where two share it, by the encoder too; else by
    the folder."""
    for name in (
        lambda store: store.language,
        lambda store: f"{store.language} {store.encoder}",
        lambda store: str(store.folder),
    ):
        names = [name(store) for store in stores]
        if len(set(names)) == len(stores):
            return names
    return refuse(
        "stores",
        "different stores",
        ", ".join(str(store.folder) for store in stores),
        "name each store once",
    )


def _plan(
    verb: str,
    arguments: argparse.Namespace,
    stores: list[Any],
    settings: Mapping[str, Any],
    names: list[str] | None = None,
) -> PlannedRun:
    """The run of these stores, its folder looked at before anything is computed."""
    named = dict(zip(names or [store.language for store in stores], stores, strict=True))
    all_settings = {
        "languages": list(named),
        "encoders": {name: store.encoder for name, store in named.items()},
        "stores": {name: store.fingerprint for name, store in named.items()},
        **settings,
        "seed": arguments.seed,
    }
    return PlannedRun(arguments.out, verb, all_settings, arguments.asked)


def _finish(
    run: PlannedRun,
    scores: list[Score],
    store: Any,
    arguments: argparse.Namespace,
    notes: Sequence[str] = (),
) -> None:
    """Scores and report, where a folder is wanted."""
    report = run.finish(
        scores, data={"n": store.n, "d": store.d, "unit": store.unit}, notes=list(notes)
    )
    if report is not None and not arguments.json:
        print(f"Report: {report}")


def _percent(value: float) -> str:
    return told(100 * value, 1)


def _interval(score: Score) -> str:
    return (
        "-"
        if score.low is None or score.high is None
        else f"{100 * score.low:.1f}-{100 * score.high:.1f}"
    )
