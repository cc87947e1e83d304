"""Zero-shot transfer of all models of a controlled study."""

from collections.abc import Sequence
from pathlib import Path

from crosslens.front.calls import names_of
from crosslens.front.results import Run

__all__ = ["study_transfer"]


def study_transfer(
    study: str | Path,
    tasks: str | Sequence[str],
    data: str | Path,
    out: str | Path,
    *,
    monolingual: bool = False,
    syntax: str | None = None,
    preset: str = "default",
    epochs: int | None = None,
    batch_size: int | None = None,
    peak_rate: float | None = None,
    head_rate: float | None = None,
    pool: str | None = None,
    warmup: float | None = None,
    unseen: str = "unknown",
    seeds: int = 1,
    seed: int = 0,
    random_control: bool = True,
    limit: int | None = None,
    precision: str = "float32",
    device: str = "cpu",
) -> Run:
    """Fine-tune every model of a study on the original and test it on the copy (BZ of Deshpande et
    al. 2022, § 3.3), beside the same fine-tuned on the copy (BS), and see how the difference goes
    with the alignment of their embeddings.

    Parameters
    ----------
    study: the folder of a controlled study; of one that is not finished, the seeds of which every
        condition is trained.
    tasks: names of tasks of the catalogue, or one text with commas: "upos,parsing,ner".
    data: the folder with the data sets, or "hf:". out: the run's folder; the same call resumes a
        run that was stopped, and opens one that is finished.
    monolingual: also train an encoder of the original alone for each seed, for as many steps, and
        test it on each copy (MZ); ``unseen`` says what it reads of a transliterated one.
    syntax: of a study with a condition whose copy is a text in another word order (``syntax=`` of
        ``deshpande-compositions``), the language in the data folder whose items are in that order, as
        ``crosslens derive --treebank`` writes them: "eng-orderfra". Words of all treebanks have a
        space between any two then, as in the texts of such a study. By which
        model of word order they were made is not checked. None leaves that condition out.
    seeds: how many fine-tunings of each training. Intervals are over trainings and test
        items.
    preset, epochs, batch_size, peak_rate, head_rate, pool, warmup: as for
        :func:`crosslens.transfer`. Small models want higher rates than the presets', 1e-3 say.
    seed, limit, precision, device: as there.
    random_control: as there, of the first training of each condition.

    Returns
    -------
    The run. Of each condition (``encoder``) ``.scores`` has the means over trainings with intervals
    of 95 %, whose ``condition`` is None, "in_language", "zero_shot_less_in_language" and, where it
    was asked for, "monolingual" and "monolingual_less_in_language"; and Spearman's and Pearson's
    correlation of alignment with the difference over conditions.

    Raises
    ------
    InputError: the folder holds no study; data or settings are not what is needed.
    OutputError: the run's folder holds something else.
    TrainingError: a loss is not a number.

    >>> import crosslens as cl
    >>> try:
    ...     cl.study_transfer("no-such-study", "upos", "data", "run")
    ... except cl.CrosslensError as error:
    ...     print(str(error).partition(" (")[0])
    study: expected the folder of a controlled study
    """
    from crosslens.run.transfer.settings import Transfer
    from crosslens.run.transfer.study_models import study_models
    from crosslens.run.transfer.study_transfer import StudyTransfer, run_study_transfer

    models = study_models(Path(study), syntax)
    original, copy = models.languages
    transfer = Transfer(
        encoders=[str(study)],
        tasks=names_of(tasks),
        data=str(data),
        train=[original],
        test=[original, copy],
        preset=preset,
        epochs=epochs,
        batch_size=batch_size,
        peak_rate=peak_rate,
        head_rate=head_rate,
        pool=pool,
        warmup=warmup,
        words_apart=syntax is not None,
        unseen=unseen,
        seeds=seeds,
        seed=seed,
        in_language=True,
        random_control=random_control,
        checkpoints=False,
        limit=limit,
        precision=precision,
        device=device,
    )
    told = StudyTransfer(study=models, transfer=transfer, monolingual=monolingual, syntax=syntax)
    return Run(run_study_transfer(told, out))
