"""An encoder with the vocabulary of another language."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.asked import asked_of
from crosslens.checks import check_seed
from crosslens.corpus import Corpus, as_corpus, check_parallel
from crosslens.errors import refuse
from crosslens.progress import say
from crosslens.readers.plain import open_text

__all__ = ["transplant"]


def transplant(
    encoder: str | Path,
    text: Any,
    out: str | Path,
    *,
    by: str = "similarity",
    size: int = 16_000,
    dictionary: str | Path | None = None,
    links: str | Path | None = None,
    parallel: Mapping[str, str | Path] | None = None,
    language: str | None = None,
    tokens: int | None = None,
    times: int = 1,
    seed: int = 0,
    device: str = "auto",
    trust_remote_code: bool = False,
) -> Any:
    """Give an encoder a vocabulary that is learnt from a text of another language; the body stays as
    it is.

    Parameters
    ----------
    encoder: a folder or hub name of anything transformers loads with a fast tokeniser.
    text: a file, a sentence a line; a corpus; or a list of sentences, with their ``language``.
    out: a new folder: an ordinary one of transformers, with its own tokeniser, and
        ``transplant.json``, which says how the rows were made and what was asked.
    by: how the new embeddings begin. "random": sampled from the distribution of the old ones.
        "overlap": shared subwords are copied, others sampled. "retokenised": shared subwords are
        copied, others are means of the old subwords that stand where they do in the text (Gee et al.
        2022). "translation": means of the subwords of words that translate each other. "similarity": shared subwords are copied, others are
        means of similar ones (FOCUS: Dobler & de Melo 2023). "factorised": the same in few
        directions (OFA: Liu et al. 2024). "monotrans": "random", and trained on 4 M tokens (Artetxe et
        al. 2020, step 2).
    size: subwords of the new vocabulary.
    dictionary: for "translation", a file of word pairs, the encoder's language first, a third column
        being their weight (WECHSEL's idea: Minixhofer et al. 2022).
    links, parallel: for "translation", instead: links of words (Pharaoh format) of two texts whose
        words stand between spaces, language to file, the encoder's language first
        (Trans-tokenisation: Remy et al. 2024). With ``tokens``, lines of the second text that are
        sentences held out of the training are left out, however they are spaced and capitalised.
    tokens: train the new embeddings on so many of the text's, by masked language modelling under the
        frozen body, whatever they begin with. A training that was stopped is resumed by the same
        call; it lies in ``OUT.training`` until it is done.
    times: train so often, each time from another seed, and keep the one that is best on held-out
        sentences.
    device: for the training. seed: of what is sampled. trust_remote_code: run the code that comes with the encoder.

    Returns
    -------
    Where it is, how many rows were sampled, copied and combined, and ``learnt``: perplexity of
    held-out sentences while they were trained, whether that converged, and whether a head for masked
    words had to be made; of several trainings, where each ended and how many did not converge.

    Raises
    ------
    InputError: no such initialiser, what it needs is missing or fits nothing, an encoder of another
        kind.
    OutputError: the folder is there already.
    TrainingError: the loss is no number any more, in all of the trainings.

    >>> import tempfile
    >>> import crosslens as cl
    >>> from crosslens.recipes.quickstart import DATA  # the encoder and the texts that the package carries
    >>> french = DATA / "corpus" / "fra.txt"
    >>> made = cl.transplant(DATA / "tiny-encoder", french, Path(tempfile.mkdtemp()) / "fra", by="overlap", size=400,
    ...                      language="fra")
    >>> made.subwords, sorted(made.made)
    (400, ['combined', 'copied', 'sampled'])
    >>> cl.load_encoder(made.folder)
    Encoder(fra, layers 0–4 × 128, up to 128 tokens)
    """
    from crosslens.models.transplant.learning import held_out
    from crosslens.models.transplant.transplant import transplant_vocabulary

    seed = check_seed(seed, most=2**32 - 1)  # as trainings take it
    corpus = (
        open_text(text, language or "und")
        if isinstance(text, str | Path)
        else as_corpus(text, language)
    )
    shown = {
        "encoder": str(encoder),
        "text": [f"{corpus.language}={text}"] if isinstance(text, str | Path) else [],
        **{
            "by": by,
            "vocabulary": size,
            "tokens": tokens,
            "times": times,
            "seed": seed,
            "device": device,
        },
        "dictionary": dictionary and str(dictionary),
        "links": links and str(links),
        "parallel": [f"{code}={path}" for code, path in (parallel or {}).items()],
    }
    apart = links is not None and tokens is not None
    kept = held_out(corpus.sentences, seed)[1] if apart else []
    return transplant_vocabulary(
        encoder,
        corpus,
        out,
        by=by,
        size=size,
        pairs=_pairs(dictionary, links, parallel, corpus, kept),
        tokens=tokens,
        times=times,
        seed=seed,
        device=device,
        trust_remote_code=trust_remote_code,
        asked=asked_of(shown, ["encoder", "text", "dictionary", "links", "parallel"]),
    )


def _pairs(
    dictionary: str | Path | None,
    links: str | Path | None,
    parallel: Mapping[str, str | Path] | None,
    text: Corpus,
    kept: Sequence[str],
) -> dict[tuple[str, str], float] | None:
    """Pairs of words with their weights, from a dictionary or from links but those of sentences that
    are ``kept`` from a training; None without both."""
    from crosslens.models.training.anchors import weighted_dictionary

    if (links is None) != (parallel is None) or (links is not None and dictionary is not None):
        expected = "a dictionary, or links with the parallel text that they are of"
        refuse("--links", expected, "something else", "give one of the two")
    if dictionary is not None:
        found = weighted_dictionary(dictionary)
        _check_direction("--dictionary", found.pairs, text)
        weights = found.scores or [1.0] * len(found)
        return dict(zip(map(tuple, found.pairs), weights, strict=True))  # type: ignore[arg-type]
    if links is None or parallel is None:
        return None
    counted = _linked(links, parallel, text, kept)
    _check_direction("--links", [*counted], text)
    return {pair: float(n) for pair, n in counted.items()}


def _linked(
    links: str | Path, parallel: Mapping[str, str | Path], text: Corpus, kept: Sequence[str]
) -> Counter[tuple[str, str]]:
    """How often words of two texts are linked, but for lines that are ``kept`` from a training."""
    from crosslens.alignment.words.links import read_pharaoh

    texts: dict[str, Corpus] = {name: open_text(path, name) for name, path in parallel.items()}
    if len(texts) != 2:
        refuse(
            "--parallel",
            "two texts, that of the encoder's language first",
            str(len(texts)),
            "give two",
        )
    if text.language not in ("und", [*texts][1]):
        expected = f"two texts, the second in {text.language}, as --text"
        remedy = "exchange them, or call the language the same in both"
        refuse("--parallel", expected, " and ".join(texts), remedy)
    read = read_pharaoh(links)
    if check_parallel(texts) != read.sentences:
        got = f"{read.sentences} lines of links"
        refuse("--links", "a line for each pair of sentences", got, "give those of this text")
    old, new = ([line.split() for line in one.sentences] for one in texts.values())
    for s, i, j in read.sure.tolist():
        if i >= len(old[s]) or j >= len(new[s]):
            expected = f"words 0-0 to {len(old[s]) - 1}-{len(new[s]) - 1}"
            remedy = "give the links of this text, in this direction"
            refuse(f"{links}:{s + 1}", expected, f"{i}-{j}", remedy)
    apart = set(map(_letters, kept))
    left_out = {s for s, words in enumerate(new) if _letters("".join(words)) in apart}
    if left_out:
        say(
            f"{len(left_out):,} of {len(new):,} lines of --parallel are left out: these sentences are "
            "held out of the training"
        )
    return Counter((old[s][i], new[s][j]) for s, i, j in read.sure.tolist() if s not in left_out)


def _letters(line: str) -> str:
    """A line without its spaces and capitals, which tokenisers of parallel texts change."""
    return "".join(line.split()).casefold()


def _check_direction(name: str, pairs: Sequence[tuple[str, str]], text: Corpus) -> None:
    """Refuse pairs whose first words are those of the new language's text: what stands in it more
    often than their second ones, words of both sides apart. Nothing is said of a language that is
    written without spaces, whose words nobody sees."""
    from crosslens.models.training.anchors import counted_words
    from crosslens.readers.words import is_unspaced

    if not pairs:
        refuse(name, "pairs of words", "none", "give some that are linked")
    sides = [set(side) for side in zip(*pairs, strict=True)]
    if is_unspaced(sides[1]):
        return
    own = [sides[0] - sides[1], sides[1] - sides[0]]
    seen = counted_words(text.sentences, own[0] | own[1])
    first, second = (sum(seen[word] for word in side) for side in own)
    if first > 2 * second:
        expected = f"the encoder's language first, then that of the text ({text.language})"
        got = f"first words that stand in it {first:,} times, second ones {second:,} times"
        refuse(name, expected, got, "exchange the two sides")
