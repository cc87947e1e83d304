"""An encoder with the vocabulary of another language, written as an ordinary transformers folder.

    text of the language --train--> tokeniser --subwords shared, translated, similar--> new rows
    encoder: embeddings and output bias --new rows--> the same body below a new vocabulary

The body, and whatever else is no token embedding, keeps its bits. The new embeddings may be trained
under it (:mod:`crosslens.models.transplant.learning`).
"""

import contextlib
import dataclasses
import functools
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from crosslens.checks import check_positive_int, check_seed
from crosslens.corpus import Corpus
from crosslens.errors import OutputError, TrainingError, check_choice, refuse
from crosslens.files import fingerprint, lock_folder, make_folder, read_json, write_json
from crosslens.models.machine.distributed import World, join_world
from crosslens.models.saved.loading import find_tokenizer, opened
from crosslens.models.saved.locate import encoder_fingerprint, resolve_encoder
from crosslens.models.saved.model_files import is_native
from crosslens.models.transplant.learning import (
    BATCH_TOKENS,
    Learnt,
    check_learnable,
    held_out,
    learn_embeddings,
)
from crosslens.models.transplant.new_vocabulary import (
    MADE,
    WholeEncoder,
    embedding_table,
    learn_tokenizer,
    load_whole_encoder,
    new_rows,
    put_rows,
    write_encoder,
)
from crosslens.progress import say
from crosslens.selection import choose

__all__ = ["INITIALISERS", "MONOTRANS", "Transplant", "transplant_vocabulary"]

INITIALISERS = ("random", "overlap", "retokenised", "translation", "similarity", "factorised")
"""How new embeddings begin, by name."""
MONOTRANS = "monotrans"
"""Random embeddings, and a training: Artetxe et al. 2020, step 2."""
_TOKENS = 4_000_000  # of that training, where nothing is said
# heads with which embeddings are trained: others below the same body would not fit it
_TASKS = ("SequenceClassification", "TokenClassification", "QuestionAnswering", "MultipleChoice")


@dataclasses.dataclass(frozen=True)
class Transplant:
    """What a transplant made.

    Attributes
    ----------
    folder: of the encoder.
    initialiser: its name.
    subwords: of the new vocabulary.
    made: how many rows were sampled, copied and combined of several old ones.
    learnt: how the embeddings fared while they were trained; None where they were not.
    """

    folder: Path
    initialiser: str
    subwords: int
    made: Mapping[str, int]
    learnt: Learnt | None = None


def transplant_vocabulary(
    encoder: str | Path,
    text: Corpus,
    out: str | Path,
    *,
    by: str = "similarity",
    size: int = 16_000,
    pairs: Mapping[tuple[str, str], float] | None = None,
    tokens: int | None = None,
    times: int = 1,
    seed: int = 0,
    device: str = "auto",
    trust_remote_code: bool = False,
    asked: Mapping[str, Any] | None = None,
) -> Transplant:
    """Give an encoder a vocabulary that is learnt from a text.

    Under ``torchrun`` the processes share the training; the first alone makes the new embeddings.

    Parameters
    ----------
    encoder: a transformers folder or hub name. With a head for masked words that shares the token
        embeddings the head goes along, and so does its bias.
    text: of the new language. The vocabulary is learnt from it by the encoder's own kind of
        tokeniser (WordPiece, BPE, unigram), which also keeps its normalisation and special tokens.
    out: a new folder.
    by: "random": rows from the distribution of the old ones; "overlap": shared subwords are copied,
        others random; "retokenised": shared subwords are copied, others means of the old subwords
        that stand where they do in the text (Gee et al. 2022); "translation": means over translations (``pairs``), others as by overlap;
        "similarity": shared subwords are copied, others a sparse mean of similar ones (FOCUS);
        "factorised": the same in a factorisation of the table, with a mean of ten (OFA). The last
        two train static vectors of the new subwords on the text. "monotrans": "random", and a
        training of 4 M tokens.
    tokens: train the new embeddings on so many, by masked language modelling under the frozen body.
        The sentences by which that is judged are held out of everything, the vocabulary as well.
        What was done of a training that was stopped is beside ``out``, and resumed by the same call.
    times: train so often, from the seeds ``seed``, ``seed + 1``, … of what is sampled, the order and
        the masks, and keep the one that is best on the held-out sentences (Artetxe et al. 2020 do
        so for three languages). One whose loss is no number any more is counted, the others go on.
    device: for the training, "auto", "cpu" or "cuda".
    size: subwords of the new vocabulary, special tokens among them.
    pairs: (old language's word, new language's word) -> weight, for "translation".
    seed: of what is sampled.
    asked: what was typed (:func:`crosslens.asked.asked_of`); it is kept in ``transplant.json``, and
        not compared.

    Raises
    ------
    InputError: no such initialiser, translations missing or none known, an encoder of another kind,
        one that was fine-tuned on a task along with its embeddings, a text that gives no such vocabulary or training, nothing shared.
    TrainingError: the loss is no number any more, in all of the trainings.
    OutputError: the folder is there already, but for a transplant of the same settings that a kill
        kept from removing what lies beside it.
    """
    tokens = _TOKENS if by == MONOTRANS and tokens is None else tokens
    given = _Given(
        str(encoder),
        text,
        Path(out),
        by,
        size,
        pairs,
        tokens,
        times,
        seed,
        trust_remote_code,
        asked,
    )
    with join_world("cpu" if tokens is None else device) as world:
        with world.together():
            told, folder, done = _checked(given)
        if tokens is None or done:
            with world.together():
                if world.first and done:
                    with lock_folder(given.beside):
                        _remove(given.beside)
                elif world.first:
                    _begin(given, folder, given.out, told, given.seed)
        else:
            _train(given, folder, told, device, world)
        with world.together():
            return _made(given.out, by)


@dataclasses.dataclass(frozen=True)
class _Given:
    """The arguments of a transplant."""

    name: str
    text: Corpus
    out: Path
    by: str
    size: int
    pairs: Mapping[tuple[str, str], float] | None
    tokens: int | None
    times: int
    seed: int
    trusted: bool
    typed: Mapping[str, Any] | None

    @property
    def start(self) -> str:
        """What the embeddings begin with."""
        return "random" if self.by == MONOTRANS else self.by

    @property
    def beside(self) -> Path:
        """Where a training is while it is under way."""
        return self.out.with_name(f"{self.out.name}.training")

    def place(self, seed: int) -> Path:
        """Where the training from a seed is."""
        return self.beside / f"seed-{seed}"

    @functools.cached_property
    def learnt_from(self) -> Sequence[str]:
        """The sentences that vocabulary and embeddings may know."""
        sentences = self.text.sentences
        return sentences if self.tokens is None else held_out(sentences, self.seed)[0]


def _checked(given: _Given) -> tuple[dict[str, Any], Path, bool]:
    """What the transplant depends on, the encoder's folder, and whether all is made but what lies
    beside is still there, as a kill leaves it; what cannot be is refused."""
    check_seed(given.seed, most=2**32 - 1)  # as trainings take it
    by, tokens, pairs, out = given.by, given.tokens, given.pairs, given.out
    check_choice(by, "--by", (*INITIALISERS, MONOTRANS))
    if tokens is not None and check_positive_int(tokens, "--tokens") < BATCH_TOKENS:
        refuse("--tokens", f"{BATCH_TOKENS:,} (a batch) or more", f"{tokens:,}", "give more")
    check_positive_int(given.times, "--times")
    if given.times > 1 and tokens is None:
        refuse("--times", "1 where nothing is trained", str(given.times), "add --tokens")
    check_seed(given.seed + given.times - 1, most=2**32 - 1)  # of the last
    if (by == "translation") != (pairs is not None):
        got = "none" if pairs is None else f"some, with {by}"
        expected = "translations with --by translation alone"
        refuse("--dictionary", expected, got, "add them, or leave out")
    if check_positive_int(given.size, "--vocabulary") < 100:
        refuse("--vocabulary", "100 subwords or more", str(given.size), "give more")
    left = tokens is not None and (out / MADE).is_file() and _is_training(given.beside)
    if out.exists() and not left:
        _refuse_there(out)
    folder = resolve_encoder(given.name, trust_remote_code=given.trusted)
    if is_native(folder):
        remedy = "give one of its views, a folder of transformers"
        refuse("--encoder", "an encoder that transformers loads", f"{given.name}, of ours", remedy)
    _refuse_task_model(given.name, folder)
    told = {
        "encoder": encoder_fingerprint(folder),
        "text": given.text.fingerprint,
        "by": by,
        "seed": given.seed,
        "size": given.size,
    }
    if tokens is not None:
        told |= {
            "tokens": tokens,
            "held_out": len(given.text) - len(given.learnt_from),
            "pairs": fingerprint(sorted(pairs.items())) if pairs else None,
            "times": given.times,
        }
    if left and (_differing(out, told) or _differing(given.beside, told)):
        _refuse_there(out)
    if tokens is not None and not left:
        _check_begun(given.beside, told)
    return told, folder, left


def _refuse_task_model(name: str, folder: Path) -> None:
    """Refuse a model below a head for a task, as transformers or ``transfer --keep`` writes it."""
    config = folder / "config.json"
    told = read_json(config, dict[str, Any], "check the folder") if config.is_file() else {}
    made = str((told.get("architectures") or [""])[0])
    if any(f"For{task}" in made for task in _TASKS) or (folder / "head.json").is_file():
        got = f"{name}, below a head for a task, with which its embeddings may have been trained"
        remedy = "transplant the encoder that it was made from, and fine-tune that"
        refuse("--encoder", "an encoder that is not fine-tuned yet", got, remedy)


def _refuse_there(out: Path) -> NoReturn:
    refuse("--out", "a new folder", f"{out}, which is there", "choose another", OutputError)


def _differing(folder: Path, told: Mapping[str, Any]) -> list[str]:
    """The settings that a folder was made with other ones of; none where it does not say."""
    if not (folder / MADE).is_file():
        return []
    made = {"times": 1, **read_json(folder / MADE, dict[str, Any], "delete the folder")}
    return [name for name, value in told.items() if made.get(name) != value]


def _check_begun(beside: Path, told: Mapping[str, Any]) -> None:
    """Refuse to go on where another transplant was begun."""
    others = _differing(beside, told)
    if others or (not (beside / MADE).is_file() and any(beside.glob("[!.]*"))):
        which = f" ({', '.join(others)} differ)" if others else ""
        expected = f"the transplant that was begun{which}"
        refuse(str(beside), expected, "another one", "choose another --out", OutputError)


def _is_training(beside: Path) -> bool:
    """Whether a folder is that of a training, whole or as a kill left it while it was removed, and no
    encoder that somebody calls so."""
    there = {path.name for path in beside.iterdir()} if beside.is_dir() else {"no folder"}
    return there <= {".lock"} or (MADE in there and "config.json" not in there)


def _remove(beside: Path) -> None:
    """Remove what a training made beside; what says whose it is goes after that, and the lock last, so
    that a kill can be made good."""
    for path in [*beside.glob("seed-*"), *beside.glob("vectors-*.npy")]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    for name in (MADE, ".lock"):
        (beside / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # a file of somebody else's is there
        beside.rmdir()


@contextlib.contextmanager
def _claimed(beside: Path, told: Mapping[str, Any]) -> Iterator[None]:
    """The folder of a training that is under way, this process's alone; where nothing was begun it
    does not stay."""
    make_folder(beside, "--out")
    with lock_folder(beside):
        _check_begun(beside, told)
        write_json(beside / MADE, told)
        try:
            yield
        except BaseException:
            if not any(beside.glob("seed-*")):
                _remove(beside)
            raise


def _begin(given: _Given, folder: Path, out: Path, told: Mapping[str, Any], seed: int) -> None:
    """Learn the vocabulary, and write the encoder with what its embeddings begin with. Trainings from
    other seeds than the first have its vocabulary, since no two that are learnt need be the same."""
    name, text, remedy = given.name, given.learnt_from, "check the folder"
    with opened(name, folder, "a model that transformers loads and runs", remedy) as view:
        source = find_tokenizer(name, view, given.trusted)
        whole = load_whole_encoder(name, view, given.trusted)
    table = embedding_table(name, whole.model)
    if seed == given.seed:
        say(f"learning {given.size:,} subwords from {len(text):,} sentences")
        target = learn_tokenizer(source, text, given.size)
    else:
        first = given.place(given.seed) / "start"
        target = find_tokenizer(str(first), first, given.trusted)
    if given.tokens is not None:  # while nothing is written yet
        check_learnable(target, given.text.sentences, given.seed)
    # a training that was killed may learn another vocabulary when it is resumed
    which = fingerprint(sorted(target.get_vocab().items()))
    vectors = given.beside / f"vectors-{which}.npy" if given.times > 1 else None
    rows = new_rows(given.start, table, text, source, target, given.pairs, seed, vectors)
    put_rows(whole.model, rows.rows, source, target)
    made = {"subwords": len(target), "rows": rows.counts}
    typed = {"asked": given.typed} if given.typed else {}
    write_encoder(whole, target, {"kind": "transplant", **told, **made, **typed}, out)


def _train(given: _Given, folder: Path, told: Mapping[str, Any], device: str, world: World) -> None:
    """Write the encoder with trained embeddings, the best of the repeats; what was made beside is
    removed once it stands."""
    seeds = range(given.seed, given.seed + given.times)
    learnt, best = dict[int, Learnt](), None
    with contextlib.ExitStack() as held:
        with world.together():
            if world.first:
                held.enter_context(_claimed(given.beside, told))
        for seed in seeds:
            try:
                *made, learnt[seed] = _trained(given, folder, told, seed, device, world)
            except TrainingError as error:
                if seed == seeds[-1] and not learnt:
                    raise
                say(f"the training from seed {seed} is given up, the others go on: {error}")
                continue
            chosen = choose(learnt, lambda one: -learnt[one].last)
            if best is None or (chosen is not None and chosen.item == seed):
                best = *made, seed
        assert best is not None
        whole, target, begun, kept = best
        fared = learnt[kept]
        if given.times > 1:
            ends = {seed: learnt[seed].last if seed in learnt else math.nan for seed in seeds}
            short = sum(seed not in learnt or not learnt[seed].converged for seed in seeds)
            fared = dataclasses.replace(fared, repeats=ends, kept=kept, not_converged=short)
        with world.together():
            if world.first:
                write_encoder(whole, target, {**begun, "learnt": fared.told()}, given.out)
                _remove(given.beside)


def _trained(
    given: _Given, folder: Path, told: Mapping[str, Any], seed: int, device: str, world: World
) -> tuple[WholeEncoder, Any, dict[str, Any], Learnt]:
    """The training from a seed: the encoder, its tokeniser, what is said of how its embeddings began,
    and how it fared."""
    assert given.tokens is not None
    place = given.place(seed)
    start = place / "start"
    with world.together():
        if world.first and not start.exists():
            _begin(given, folder, start, told, seed)
    with world.together():
        begun = read_json(start / MADE, dict[str, Any], "delete the folder")
        whole = load_whole_encoder(str(start), start, given.trusted)
        target = find_tokenizer(str(start), start, given.trusted)
    learnt = learn_embeddings(
        whole.model, target, given.text, place, begun,
        tokens=given.tokens, seed=seed, held_out_seed=given.seed, device=device,
    )  # fmt: skip
    return whole, target, begun, learnt


def _made(out: Path, by: str) -> Transplant:
    """What a finished folder says of itself."""
    told = read_json(out / MADE, dict[str, Any], "delete the folder")
    learnt = Learnt.read(told["learnt"]) if "learnt" in told else None
    return Transplant(out, by, told["subwords"], told["rows"], learnt)
