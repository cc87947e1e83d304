"""A vector for each subword of a language's vocabulary, learnt by skip-gram on the language's text
alone (as for the CLWE systems of Artetxe et al. 2020)."""

import dataclasses
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from crosslens.alignment.maps.fitted import check_axes, read_tensors, write_tensors
from crosslens.checks import check_seed
from crosslens.errors import InputError, StoreError, cut, refuse
from crosslens.files import fingerprint, make_folder
from crosslens.models.limits import check_numbers
from crosslens.models.text.token_files import TokenFile
from crosslens.models.text.tokenisation import SPECIAL_TOKENS
from crosslens.models.text.vocabularies import (
    Vocabularies,
    check_separate,
    load_vocabularies,
    save_vocabularies,
)
from crosslens.progress import say
from crosslens.readers.fasttext import train_skipgram

__all__ = [
    "SkipGram",
    "SubwordVectors",
    "Texts",
    "learn_subword_vectors",
    "skipgram_of_ids",
    "subword_counts",
]

Texts = Sequence[tuple[TokenFile, Int[np.ndarray, " r"]]]
"""Token files, each with the numbers of the sentences that are read."""

_FILE = "vectors.safetensors"
_CHUNK = 10_000  # sentences counted at a time
_MAX_LENGTH = 512  # of the tokeniser's folder, for transformers


@dataclasses.dataclass(frozen=True, kw_only=True)
class SkipGram:
    """How vectors are learnt: fastText's skip-gram with negative sampling, in one thread. The other
    settings are fastText's own (subsampling of frequent tokens at 1e-4, softmax by negatives), but
    every subword has a vector, and none has n-grams.

    Attributes
    ----------
    dimensions: of the vectors.
    window: most subwords to each side that are predicted.
    negatives: subwords sampled at random for each predicted one.
    epochs: how often the text is read.
    learning_rate: at the start; it falls linearly to 0.
    """

    dimensions: int = 300
    window: int = 5
    negatives: int = 5
    epochs: int = 5
    learning_rate: float = 0.05

    def __post_init__(self) -> None:
        check_numbers(self, "skipgram.")


@dataclasses.dataclass(frozen=True, eq=False)
class SubwordVectors:
    """The vocabulary of one language, with a vector for each subword.

    Attributes
    ----------
    vocabulary: of the one language, with ids of its own (mode "separate").
    vectors: shape (n, d), a row for each id. Zero in the rows of the special tokens, which a model
        has a table of its own for, and of subwords that do not occur in the text.
    counts: shape (n,), how often each id occurs in the text that they were learnt from.
    """

    vocabulary: Vocabularies
    vectors: Float[np.ndarray, "n d"]
    counts: Int[np.ndarray, " n"]

    _AXES: ClassVar = {"vectors": "nd", "counts": "n"}

    @property
    def language(self) -> str:
        """The language."""
        return self.vocabulary.languages[0]

    @property
    def by_frequency(self) -> Int[np.ndarray, " m"]:
        """Shape (m,), the ids that have a vector, the most frequent first, then by rising id."""
        order = np.argsort(-self.counts, kind="stable")
        return order[np.asarray(self.vectors.any(axis=1))[order]]

    def save(self, folder: str | Path) -> None:
        """Write a tokeniser's folder and ``vectors.safetensors``, which comes last: where it stands,
        everything does.

        Raises
        ------
        OutputError: the place cannot be written to.
        """
        folder = make_folder(folder, "folder")
        (folder / _FILE).unlink(missing_ok=True)
        save_vocabularies(self.vocabulary, folder / "tokenizer", _MAX_LENGTH)
        arrays = {"vectors": self.vectors.astype(np.float32), "counts": self.counts}
        write_tensors(folder / _FILE, arrays, self._facts(self.vocabulary))

    @classmethod
    def load(cls, folder: str | Path) -> "SubwordVectors":
        """Read what :meth:`save` wrote.

        Raises
        ------
        InputError: the folder holds no such thing.
        StoreError: a file is damaged, or the vectors are another vocabulary's.
        """
        folder, remedy = Path(folder), "restore the folder"
        if not cls.finished(folder):
            expected = f"a folder of subword vectors, with {_FILE}"
            refuse(str(folder), expected, "none there", "check the path")
        vocabulary = load_vocabularies(folder / "tokenizer")
        arrays, facts = read_tensors(folder / _FILE, f"{cls.__name__}.save", remedy)
        try:
            check_separate(vocabulary)
            (language,) = vocabulary.languages
            check_axes(arrays, cls._AXES, {"n": vocabulary.sizes[language]})
            if facts != cls._facts(vocabulary) or arrays.keys() != cls._AXES.keys():
                raise ValueError("vectors of another vocabulary")
        except (KeyError, ValueError, InputError) as error:
            expected, got = f"a file written by {cls.__name__}.save", cut(str(error), 200)
            refuse(str(folder / _FILE), expected, got, remedy, StoreError)
        return cls(vocabulary, arrays["vectors"], arrays["counts"])

    @staticmethod
    def finished(folder: str | Path) -> bool:
        """Whether :meth:`save` has written everything there."""
        return (Path(folder) / _FILE).is_file()

    @classmethod
    def _facts(cls, vocabulary: Vocabularies) -> dict[str, str]:
        tokenizer = vocabulary.tokenizers[vocabulary.languages[0]]
        return {"class": cls.__name__, "vocabulary": fingerprint(tokenizer.to_str())}


def subword_counts(texts: Texts, size: int) -> Int[np.ndarray, " n"]:
    """Shape (size,), how often each id occurs in a text.

    Parameters
    ----------
    texts: token files, each with the numbers of the sentences that are counted. size: number of ids.
    """
    counts = np.zeros(size, np.int64)
    for file, rows in texts:
        for start in range(0, len(rows), _CHUNK):
            lines = [file[row] for row in rows[start : start + _CHUNK].tolist()]
            counts += np.bincount(np.concatenate(lines), minlength=size)
    return counts


def learn_subword_vectors(
    vocabulary: Vocabularies,
    texts: Texts,
    settings: SkipGram,
    folder: str | Path,
    seed: int = 0,
) -> SubwordVectors:
    """Learn a vector for each subword that occurs in a language's text.

    The same text, settings and seed give the same vectors: fastText samples with a seed of its own,
    and the order in which it reads the sentences follows from this one.

    Parameters
    ----------
    vocabulary: of the one language.
    texts: token files, each with the numbers of the sentences that are read.
    folder: where the text and fastText's model are for the while; what is there is deleted.
    seed: of the order of the sentences of each file.

    Raises
    ------
    InputError: fewer than two different subwords, vectors that run off to infinity, or no possible
        seed.
    """
    check_seed(seed)
    (language,) = vocabulary.languages
    folder, size, random = Path(folder), vocabulary.sizes[language], np.random.default_rng(seed)
    counts = subword_counts(texts, size)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    say(
        f"learning skip-gram vectors of {language}: {counts.sum():,} subwords {settings.epochs} times, "
        f"{settings.dimensions} dimensions"
    )
    rows = (
        file[row].tolist() for file, given in texts for row in random.permutation(given).tolist()
    )
    ids, learnt = skipgram_of_ids(rows, settings, folder)
    vectors = np.zeros((size, settings.dimensions), np.float32)
    vectors[ids] = learnt
    vectors[: len(SPECIAL_TOKENS)] = 0
    shutil.rmtree(folder)
    return SubwordVectors(vocabulary, vectors, counts)


def skipgram_of_ids(
    rows: Iterable[Sequence[int]], settings: SkipGram, folder: Path
) -> tuple[Int[np.ndarray, " m"], Float[np.ndarray, "m d"]]:
    """Learn a vector for each id that occurs in rows of ids.

    fastText reads the ids as its words, a row a line, so that no subword is cut or joined by what it
    is spelt like.

    Parameters
    ----------
    rows: of ids, a sentence each.
    folder: gets fastText's text and model, which are left there.

    Returns
    -------
    the ids, the most frequent first, and their vectors.

    Raises
    ------
    InputError: fewer than two different ids, or vectors that run off to infinity.
    """
    with open(folder / "ids.txt", "w", encoding="ascii") as out:
        out.writelines(" ".join(map(str, ids)) + "\n" for ids in rows)
    learnt = train_skipgram(
        folder / "ids.txt",
        folder / "ids.vec",
        settings.dimensions,
        epochs=settings.epochs,
        min_count=1,
        window=settings.window,
        negatives=settings.negatives,
        learning_rate=settings.learning_rate,
        subwords=(0, 0),
    )
    ids = [n for n, word in enumerate(learnt.words) if word.isdecimal()]  # not the end of a line
    return np.array([int(learnt.words[n]) for n in ids]), learnt.vectors[ids]
