"""Texts of several languages, read from files of several kinds, to a folder of activations."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crosslens.activations import Activations
from crosslens.asked import asked_of, keep_asked
from crosslens.corpus import Corpus
from crosslens.errors import refuse
from crosslens.files import make_folder
from crosslens.progress import say
from crosslens.readers.data_set import read_dataset
from crosslens.readers.plain import open_text, read_tsv
from crosslens.readers.words import read_conllu, read_words, segment

__all__ = ["extract_files"]


def extract_files(
    encoder: str | Path | Mapping[str, str | Path],
    texts: Mapping[str, str | Path],
    out: str | Path,
    *,
    unit: str = "sentence",
    pool: str = "mean",
    layers: Sequence[int] | None = None,
    outputs: Sequence[str] = ("hidden",),
    dtype: str = "float32",
    words: str = "whitespace",
    special_tokens: bool = False,
    long_input: str = "window",
    lowercase: bool = False,
    min_count: int = 1,
    language: str | None = None,
    revision: str | None = None,
    random_seed: int | None = None,
    device: str = "cpu",
    precision: str = "float32",
    restart: bool = False,
    trust_remote_code: bool = False,
) -> dict[str, Activations]:
    """Write the activations of texts in several languages, once all of them are known to be fit.

    Parameters
    ----------
    encoder: a folder or hub name; for monolingual encoders a dictionary, language to encoder.
    texts: language to a file: UTF-8 text, a sentence per line; .conllu; .jsonl with text and words;
        or hf:PATH, a data set. For pairs, lines are sentence TAB sentence.
    out: the folder; each text's activations lie in ``out/LANGUAGE``. The same call resumes what
        was stopped.
    words: of plain text: "whitespace", or by "rjieba" (Chinese), "pythainlp" (Thai) or "sudachipy"
        (Japanese).
    language, revision, random_seed, device, precision, trust_remote_code: as for
        :func:`crosslens.load_encoder`. unit and all others: as for :func:`crosslens.extract`.

    Returns
    -------
    Language to its activations. Under torchrun the processes share the work.

    Raises
    ------
    InputError, OutputError, StoreError: as for :func:`crosslens.extract`, before anything is
        written.

    >>> import tempfile
    >>> import crosslens as cl
    >>> from crosslens.recipes.quickstart import DATA  # the encoder and the sentences that the package carries
    >>> texts = {language: DATA / "corpus" / f"{language}.txt" for language in ("eng", "fra")}
    >>> cl.extract_files(DATA / "tiny-encoder", texts, tempfile.mkdtemp() + "/activations", layers=[4])["fra"]
    Activations(fra, 600 sentences × 128, layer 4, float32)
    """
    each = encoder if isinstance(encoder, Mapping) else {"*": encoder}
    if set(each) not in ({"*"}, set(texts)):
        got = f"encoders for {', '.join(sorted(each))} and texts for {', '.join(sorted(texts))}"
        expected = "one encoder for all, or exactly one for each text's language"
        refuse("encoder", expected, got, "name an encoder for each text")
    read = {code: _read(str(path), code, unit, words) for code, path in texts.items()}
    # torch, once the texts are fit
    from crosslens.activations_writer import ActivationsWriter
    from crosslens.models.extraction.extract import check_text, extract, store_settings
    from crosslens.models.extraction.units import Reading
    from crosslens.models.machine.distributed import join_world
    from crosslens.models.saved.loading import load_encoder

    out, reading = Path(out), Reading(unit, pool, special_tokens, long_input)
    names = {code: str(each.get(code) or each["*"]) for code in texts}
    numbers: dict[str, Any] = {"dtype": dtype, "lowercase": lowercase, "min_count": min_count}
    loading: dict[str, Any] = {
        "language": language,
        "revision": revision,
        "random_seed": random_seed,
        "precision": precision,
    }
    with join_world("cuda" if device.startswith("cuda") else "cpu") as world:
        loading["device"] = str(world.device) if world.size > 1 else device
        with world.together():
            loaded = {
                name: load_encoder(name, trust_remote_code=trust_remote_code, **loading)
                for name in dict.fromkeys(names.values())
            }
            # what cannot be done is refused before anything is written
            for code, (corpus, second) in read.items():
                one = loaded[names[code]]
                planned = store_settings(
                    one, corpus, reading, layers, outputs, second=second, **numbers
                )
                ActivationsWriter.check(out / code, **planned, restart=restart)
                if world.first and len(read) > 1:
                    check_text(one, corpus, reading, second)
        with world.together():
            if world.first:
                shown = {
                    **{**numbers, **loading, "device": device},
                    **{"unit": unit, "pool": pool, "words": words, "long": long_input},
                    "outputs": ",".join(outputs),
                    "layers": None if layers is None else ",".join(map(str, layers)),
                    "special_tokens": special_tokens or None,
                    "lowercase": lowercase or None,
                }
                _keep(out, each, texts, shown)
        return {
            code: extract(
                loaded[names[code]],
                corpus,
                out / code,
                unit=unit,
                pool=pool,
                layers=layers,
                outputs=outputs,
                special_tokens=special_tokens,
                long_input=long_input,
                second=second,
                restart=restart,
                **numbers,
            )
            for code, (corpus, second) in read.items()
        }


def _keep(
    out: Path,
    encoders: Mapping[str, str | Path],
    texts: Mapping[str, str | Path],
    shown: Mapping[str, Any],
) -> None:
    """Make the folder and write into it what was asked, so that it can be asked again."""
    make_folder(out, "--out")
    named = [str(one) if code == "*" else f"{code}={one}" for code, one in encoders.items()]
    read = [f"{code}={path}" for code, path in texts.items()]
    asked = asked_of({**shown, "encoder": named, "text": read}, ["encoder", "text"])
    keep_asked(out, "extract", asked, ["text"])


def _read(path: str, language: str, unit: str, words: str) -> tuple[Corpus, Corpus | None]:
    """A text, with its words where the file or a segmenter gives them, and the second sentences of
    pairs."""
    if words != "whitespace" and unit not in ("word", "type", "embedding"):
        expected = f"no segmenter for unit {unit!r}, which has no words"
        refuse("words", expected, repr(words), 'leave it out, or choose unit "word"')
    if path.startswith("hf:"):
        if unit == "pair":
            expected = "another unit than pair for a data set, which has one text"
            refuse("unit", expected, "pair", "write the pairs to a file")
        corpus = _without_blank(read_dataset(path, language))
        return (corpus if words == "whitespace" else segment(corpus, words)), None
    plain = path.removesuffix(".gz")
    if unit == "pair":
        first, second = (
            read_tsv(path, language, text_column=column, id_column=None, columns=2)
            for column in (0, 1)
        )
        return first, second
    if plain.endswith((".conllu", ".jsonl")):
        if words != "whitespace":
            expected = f"no segmenter, since {Path(path).name} lists its words"
            refuse("words", expected, repr(words), "leave it out")
        return (read_conllu if plain.endswith(".conllu") else read_words)(path, language), None
    corpus = open_text(path, language)
    return (corpus if words == "whitespace" else segment(corpus, words)), None


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
