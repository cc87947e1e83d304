"""``crosslens align eng=en.vec fra=fr.vec``: static word vectors of two languages, mapped into one
space."""

import argparse
import contextlib
from pathlib import Path
from typing import Any

from crosslens.cli.arguments import by_language
from crosslens.cli.stores import PlannedRun, print_scores
from crosslens.errors import refuse
from crosslens.progress import say
from crosslens.score import few_pairs

__all__ = ["align_vectors"]


def align_vectors(arguments: argparse.Namespace) -> None:
    """Map, judge, print, and write maps, mapped vectors and an induced dictionary where a folder is
    given."""
    from crosslens.readers.dictionary import pairs_in, read_dictionary, write_dictionary
    from crosslens.readers.static_vectors import StaticVectors, write_vec
    from crosslens.run.vectors import first_pairs, map_vectors, own_dictionary, vector_scores
    from crosslens.run.word_alignment import split_dictionary

    files = by_language(arguments.stores, "STORE")
    (source, target), start = files, arguments.start or "dictionary"
    method = arguments.method or ("procrustes" if start == "dictionary" else "self-learning")
    if arguments.links is not None:
        refuse(
            "arguments",
            "--dictionary or --start, for files of vectors",
            "--links",
            "see crosslens align --help",
        )
    if method != "self-learning" and start != "dictionary":
        refuse(
            "--method",
            f"self-learning, which corrects what --start {start} gets wrong",
            method,
            "leave --method out, or give --dictionary",
        )
    if (arguments.dictionary is None) == (start == "dictionary"):
        got = "no --dictionary" if start == "dictionary" else f"--dictionary and --start {start}"
        refuse(
            "arguments",
            "--dictionary FILE, or --start identical, numerals or unsupervised",
            got,
            "give one of the two",
        )
    train = (
        read_dictionary(arguments.dictionary, lower=arguments.lowercase)
        if arguments.dictionary
        else None
    )
    test = read_dictionary(arguments.test, lower=arguments.lowercase) if arguments.test else None
    if train is not None and test is None:
        train, test = split_dictionary(train, arguments.train_fraction, arguments.seed)
    if test is None:
        refuse("--test", "a dictionary to judge by", "none", "give --test FILE")
    if train is not None and (both := {word for word, _ in train} & {word for word, _ in test}):
        got = f"{len(both)} source words in both, {min(both)!r} among them"
        refuse(
            "--test",
            "source words that --dictionary does not have",
            got,
            "take them out of one of the two",
        )
    settings = {
        "method": method,
        "start": start,
        "by": arguments.by,
        "most": arguments.most,
        "seed": arguments.seed,
    }
    run = PlannedRun(
        arguments.out, "align", _read_from(arguments, files) | settings, arguments.asked
    )
    x, y = (_read(path, arguments.most) for path in files.values())
    judged, pairs = pairs_in(test, x.words, y.words), first_pairs(x, y, start, train)
    say(f"{len(x)} and {len(y)} words, {len(pairs)} pairs to begin with")
    with (
        run.long_work("self-learning.safetensors")
        if method == "self-learning"
        else contextlib.nullcontext() as state
    ):
        mapped = map_vectors(x, y, pairs, method, arguments.seed, state)
    common = {
        "source": source,
        "target": target,
        "encoder": " / ".join(Path(path).name for path in files.values()),
        "seed": arguments.seed,
    }
    scores = vector_scores(
        mapped.x, mapped.y, judged, common, method=method, by=arguments.by, learnt=len(pairs)
    )
    rows: list[tuple[str, ...]] = [
        ("quantity", "per cent", "95 % interval", "n", "of all, per cent")
    ]
    for score in (score for score in scores if score.quantity != "mrr"):
        interval = f"{100 * (score.low or 0):.1f}-{100 * (score.high or 0):.1f}"
        of_all = f"{100 * (score.details or {})['value_of_all']:.1f}"
        rows.append(
            (
                score.quantity.replace("precision_at_", "P@"),
                f"{100 * score.value:.1f}",
                interval,
                str(score.n),
                of_all,
            )
        )
    begun = f"{len(pairs)} pair{'s' if len(pairs) > 1 else ''} ({start})"
    text = (
        f"{source} → {target} by {arguments.by}, {method} from {begun}; mean reciprocal rank "
        f"{scores[0].value:.3f}; "
    )
    text += f"coverage {100 * judged.coverage:.1f} % of {judged.sources} test words."
    text += (
        f" {few_pairs([len(pairs)], x.vectors.shape[1])}".rstrip()
        if method != "self-learning"
        else ""
    )
    dictionary = own_dictionary(x, y, mapped, arguments.by) if arguments.out else None
    print_scores(scores, rows, text, arguments.json)

    def write(folder: Path) -> None:
        names = {
            "normalisation_x": f"normalisation.{source}",
            "normalisation_y": f"normalisation.{target}",
            "map": "map",
        }
        for which, learnt in mapped.maps.items():
            learnt.save(folder / f"{names[which]}.safetensors")
        for vectors, matrix, language in zip((x, y), (mapped.x, mapped.y), files, strict=True):
            write_vec(folder / f"{language}.vec", StaticVectors(vectors.words, matrix))
        if dictionary is not None:
            write_dictionary(folder / "dictionary.tsv", dictionary)

    report = run.finish(scores, write, data={"pairs": len(pairs), "words": [len(x), len(y)]})
    if report is not None and not arguments.json:
        print(f"Report: {report}")


def _read(path: str, most: int | None) -> Any:
    """A file's words and vectors, each of which has a direction."""
    import numpy as np

    from crosslens.readers.fasttext import read_fasttext_bin
    from crosslens.readers.static_vectors import read_vec

    found = read_fasttext_bin(path, most=most) if path.endswith(".bin") else read_vec(path, most)
    zero = [
        word
        for word, some in zip(found.words, np.any(found.vectors, axis=1), strict=True)
        if not some
    ]
    if zero:
        refuse(
            path,
            "vectors with a direction",
            f"{len(zero)} of zeros, the first of {zero[0]!r}",
            "remove these words: they have no cosine",
        )
    return found


def _read_from(arguments: argparse.Namespace, files: dict[str, str]) -> dict[str, Any]:
    """What is read, by name and content; nothing where no folder asks for it, since a checksum of
    gigabytes takes a while."""
    if arguments.out is None:
        return {}
    from crosslens.files import sha256_file

    prints = {language: sha256_file(path)[:16] for language, path in files.items()}
    dictionaries = {
        name: sha256_file(path)[:16]
        for name in ("dictionary", "test")
        if (path := getattr(arguments, name)) is not None
    }
    names = {language: Path(path).name for language, path in files.items()}
    return {"languages": list(files), "encoders": names, "vectors": prints, **dictionaries}
