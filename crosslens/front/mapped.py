"""A head that is trained on one encoder and reads another one through a map."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from crosslens.front.results import Run

__all__ = ["mapped_transfer"]


def mapped_transfer(
    source_encoder: str | Path,
    target_encoder: str | Path,
    task: str,
    train: str,
    test: str,
    data: str | Path,
    links: str | Path,
    out: str | Path,
    *,
    texts: Mapping[str, str | Path],
    layers: Sequence[int] | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    peak_rate: float | None = None,
    max_length: int | None = None,
    parser: str = "wu_dredze",
    crf: bool = False,
    seeds: int = 3,
    seed: int = 0,
    limit: int | None = None,
    precision: str = "float32",
    device: str = "cpu",
    trust_remote_code: bool = False,
) -> Run:
    """Train four new layers and a head on a frozen layer of one encoder, and test them on the same
    layer of another one, through a map between the two and without it (Conneau et al. 2020, § 5.1.2).

    Parameters
    ----------
    source_encoder: a folder or hub name, of the language of training. target_encoder: of the
        language of the test; the same one again for a bilingual encoder without and with a map.
    task: a name of the catalogue: "ner", "parsing", "upos", …
    train, test: a language, or a treebank, each. data: the folder with the data sets, or "hf:".
    links: a file of links between the words of parallel sentences (0-0 1-2), which the maps are
        learnt from: iterative normalisation of each side, and orthogonal Procrustes.
    texts: language to a file, a sentence a line, words between spaces: those that ``links`` is of,
        first the text of the language of training.
    out: the run's folder; the same call resumes a run that was stopped.
    layers: those that are measured, 0 being the embeddings; all without it.
    epochs, batch_size, peak_rate, max_length: in the place of ours, which the run prints (the paper
        says none). parser, crf, seeds, seed, limit, precision, device, trust_remote_code: as for
        :func:`crosslens.transfer`.

    Returns
    -------
    The run. Of each layer and quantity ``.scores`` has the means over seeds with 95 % intervals: of
    the source encoder in the language of training (condition None); of the target encoder read as if
    it were the source ("unaligned") and through the map ("procrustes"); and what the map is worth.

    Raises
    ------
    InputError: data, texts, links or encoders are not what is needed.
    OutputError: the folder holds something else.
    TrainingError: a loss is not a number.

    >>> import tempfile
    >>> import crosslens as cl
    >>> from crosslens.recipes.quickstart import DATA  # the encoder that the package carries
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "xnli").mkdir()
    >>> def pair(i, word): return f"The {word} sleeps in house {i}.\\t{word}\\t{'entailment' if word == 'dog' else 'neutral'}"
    >>> for name, n in (("train-en", 16), ("dev-en", 4), ("test-en", 8), ("test-de", 8)):
    ...     lines = "\\n".join(pair(i, "dog" if i % 2 else "cat") for i in range(n))
    ...     _ = (folder / "xnli" / f"{name}.tsv").write_text(lines)
    >>> for name, line in (("text", "the dog and the cat\\n"), ("links", "0-0 1-1 2-2 3-3 4-4\\n")):
    ...     _ = (folder / name).write_text(line * 2)
    >>> texts = {"eng": folder / "text", "deu": folder / "text"}
    >>> tiny = DATA / "tiny-encoder"  # for both: a bilingual encoder
    >>> run = cl.mapped_transfer(tiny, tiny, "xnli", "eng", "deu", folder, folder / "links", folder / "run", texts=texts,
    ...                          layers=[4], epochs=1, seeds=1)
    >>> [score.condition for score in run.scores.where(layer=4, part="test")]
    [None, 'unaligned', 'procrustes', 'procrustes_less_unaligned']
    """
    from crosslens.run.transfer.mapped_transfer import MappedTransfer, run_mapped_transfer
    from crosslens.run.transfer.settings import Transfer

    told = Transfer(
        encoders=[str(source_encoder)],
        tasks=[task],
        data=str(data),
        train=[train],
        test=[train, test],
        epochs=epochs,
        batch_size=batch_size,
        peak_rate=peak_rate,
        max_length=max_length,
        parser=parser,
        crf=crf,
        features="transformer",
        seeds=seeds,
        seed=seed,
        limit=limit,
        precision=precision,
        device=device,
        trust_remote_code=trust_remote_code,
    )
    files = {language: str(path) for language, path in texts.items()}
    mapped = MappedTransfer(
        transfer=told, target=str(target_encoder), texts=files, links=str(links), layers=layers
    )
    return Run(run_mapped_transfer(mapped, out))
