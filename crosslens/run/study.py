"""The main job: parallel text and encoders to retrieval, similarity and language identification,
layer by layer.

    texts, encoders -> activations of every layer -> scores, each beside its controls

:mod:`crosslens.report` draws the finished folder.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from crosslens.activations import Activations
from crosslens.asked import asked_of
from crosslens.checks import check_fraction, check_seed
from crosslens.corpus import Corpus, check_parallel
from crosslens.errors import InputError, refuse
from crosslens.files import need_space, read_json, sha256_file
from crosslens.progress import Progress, say
from crosslens.readers.plain import read_text
from crosslens.run.collapse import is_collapsed, refuse_unmeasured
from crosslens.run.comparison import compare_with_controls
from crosslens.run.encoder_names import display_name
from crosslens.run.engine import Run, versions
from crosslens.run.measures import (
    Split,
    language_id_scores,
    make_split,
    retrieval_scores,
    similarity_scores,
    told_apart,
)
from crosslens.run.repeats import groups_of, normal_texts, repeated, text_names
from crosslens.run.retrieval_presets import (
    check_order,
    longest_input,
    preset_layer,
    published_way,
    sorted_alone,
)
from crosslens.score import Score, few_pairs, not_measured, read_scores
from crosslens.score_formats import format_value
from crosslens.selection import chosen_layer

__all__ = ["Study", "random_seed", "run_study", "summary"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study:
    """The settings of a study.

    Attributes
    ----------
    encoders: {"*": encoder} for one multilingual encoder, or language to encoder, one per text. An
        encoder is a folder or a hub name.
    texts: language to a line-aligned text file; two languages or more.
    train_fraction: share of the sentences that mappings and probes are fitted on; the rest is held
        out.
    seed: seed of the split, of the random control encoder and of the shuffled labels.
    trust_remote_code: run the Python code that an encoder's folder brings for its model or its
        tokeniser.
    device: where the encoders run, "cpu", "cuda", "cuda:1" or "mps".
    preset: "deshpande" or "xtreme": sentences are read as these read them, and their layer is told
        (:mod:`crosslens.run.retrieval_presets`); None leaves special tokens out.

    >>> Study(encoders={"*": "model"}, texts={"eng": "en.txt", "fra": "fr.txt"}).seed
    0
    """

    encoders: Mapping[str, str]
    texts: Mapping[str, str]
    train_fraction: float = 0.5
    seed: int = 0
    trust_remote_code: bool = False
    device: str = "cpu"
    preset: str | None = None

    def __post_init__(self) -> None:
        if self.preset is not None:
            preset_layer(self.preset, 12)
        check_fraction(self.train_fraction, "train_fraction")
        object.__setattr__(self, "seed", check_seed(self.seed, most=(1 << 32) - 1))  # numpy's, too
        if len(self.texts) < 2:
            expected = "texts in two or more languages"
            refuse("texts", expected, f"{len(self.texts)}", "add --text LANGUAGE=FILE")
        if not self.encoders:
            refuse("encoders", "an encoder", "none", "add --encoder FOLDER_OR_HUB_NAME")
        if set(self.encoders) != {"*"} and set(self.encoders) != set(self.texts):
            got = (
                f"encoders for {', '.join(sorted(self.encoders))} and texts for "
                f"{', '.join(sorted(self.texts))}"
            )
            expected = "one encoder for all, or exactly one for each text's language"
            refuse("encoders", expected, got, "name an encoder for each text")

    @property
    def shared(self) -> bool:
        """Whether one encoder reads all languages."""
        return len(set(self.encoders.values())) == 1

    def encoder_of(self, language: str) -> str:
        """The encoder that reads a language."""
        return self.encoders.get("*") or self.encoders[language]


def run_study(study: Study, out: str | Path) -> Path:
    """Run a study, or resume one that was stopped; returns the folder with ``scores.jsonl``.

    Everything that can be refused is refused before anything is computed or written.

    Parameters
    ----------
    out: the run's folder: config.json, activations/, scores.jsonl.

    Raises
    ------
    InputError: the texts or encoders do not fit, or no layer can be measured.
    OutputError: the folder holds something else, or cannot be written to.
    """
    corpora = {language: read_text(path, language) for language, path in study.texts.items()}
    n = check_parallel(corpora)
    if study.preset is not None:
        check_order(corpora)
    elif alone := sorted_alone(corpora):
        say(
            f"the sentences of {', '.join(alone)} are sorted, others are not: if lines are no "
            f"translations of each other (XTREME's Tatoeba), little is found"
        )
    groups = groups_of([text_names(normal_texts(corpus.sentences)) for corpus in corpora.values()])
    split = make_split(n, study.train_fraction, study.seed, groups)
    # torch, once the texts are fit
    from crosslens.models.saved.locate import encoder_fingerprint, resolve_encoder

    prints = {
        name: encoder_fingerprint(resolve_encoder(name, trust_remote_code=study.trust_remote_code))
        for name in dict.fromkeys(study.encoders.values())
    }
    asked = asked_of(vars(study), ["encoders", "texts"])
    run = Run(out, "study", _settings(study, corpora, prints), asked)
    if not run.finished:
        _check_encoders(study, corpora, prints, run)
    with run.open():
        if not run.finished:
            stores = _extract_all(study, corpora, prints, run)
            run.note(**_facts(study, corpora, split, stores))
            run.finish(_measure(study, stores, split, run))
    return run.path


def _check_encoders(
    study: Study, corpora: Mapping[str, Corpus], prints: Mapping[str, str], run: Run
) -> None:
    """Refuse, before anything is written, encoders that cannot be loaded or compared, and texts
    that they cannot read."""
    from crosslens.models.extraction.extract import check_text
    from crosslens.models.saved.loading import load_encoder

    shapes: dict[str, tuple[int, int]] = {}
    for name in prints:
        encoder = load_encoder(name, trust_remote_code=study.trust_remote_code, device=study.device)
        mine = [language for language in corpora if study.encoder_of(language) == name]
        shapes |= dict.fromkeys(mine, (encoder.layers, encoder.d))
        if study.preset is not None:
            preset_layer(study.preset, encoder.layers - 1)
        for language in mine:
            check_text(encoder, corpora[language])
        if not run.path.exists():
            numbers = len(corpora) * len(corpora[mine[0]]) * encoder.layers * encoder.d
            # float32, of the encoder and of its control
            need_space(run.path, 2 * 4 * numbers, str(run.path))
    if len(set(shapes.values())) > 1:
        got = "; ".join(f"{who}: {layers} layers, width {d}" for who, (layers, d) in shapes.items())
        expected = "the same number of layers and the same width for every language"
        refuse("encoders", expected, got, "study encoders of one shape")


def _settings(
    study: Study, corpora: Mapping[str, Corpus], prints: Mapping[str, str]
) -> dict[str, Any]:
    """What the scores depend on: a folder with a run of other settings is refused."""
    return {
        "encoders": {who: display_name(name) for who, name in study.encoders.items()},
        "encoder_fingerprints": {who: prints[name] for who, name in study.encoders.items()},
        "languages": list(study.texts),
        "texts": {language: corpus.fingerprint[:16] for language, corpus in corpora.items()},
        "train_fraction": study.train_fraction,
        "seed": study.seed,
        **({"preset": study.preset} if study.preset is not None else {}),
    }


def random_seed(seed: int, fingerprint: str, *, several: bool) -> int:
    """The seed of an encoder's randomly re-initialised copy: of several encoders each has one of
    its own, since two of one shape must not become the same random network.

    >>> random_seed(3, "0f", several=False), random_seed(3, "0f", several=True)
    (3, 1797822513)
    """
    if not several:
        return seed
    return int(sha256(f"{seed} {fingerprint}".encode()).hexdigest()[:8], 16)


def _extract_all(
    study: Study, corpora: Mapping[str, Corpus], prints: Mapping[str, str], run: Run
) -> dict[str, dict[str, Activations]]:
    """Stores of every language, of the encoder and of its random control: condition -> language ->
    store."""
    from crosslens.models.extraction.extract import extract
    from crosslens.models.finetuning.kind import no_longer
    from crosslens.models.saved.loading import load_encoder

    stores: dict[str, dict[str, Activations]] = {"encoder": {}, "random_encoder": {}}
    for condition, mine in stores.items():
        for name, fingerprint in prints.items():
            seed = random_seed(study.seed, fingerprint, several=len(prints) > 1)
            random = None if condition == "encoder" else seed
            encoder = load_encoder(
                name,
                random_seed=random,
                trust_remote_code=study.trust_remote_code,
                device=study.device,
            )
            if study.preset is not None:
                encoder = no_longer(encoder, longest_input(study.preset))
            for language, corpus in corpora.items():
                if study.encoder_of(language) == name:
                    mine[language] = extract(
                        encoder,
                        corpus,
                        run.path / "activations" / condition / language,
                        special_tokens=study.preset is not None,
                        long_input="truncate",
                    )
        if condition == "encoder":
            _check_collapse(study, mine)
    return {
        condition: {language: mine[language] for language in corpora}
        for condition, mine in stores.items()
    }


def _check_collapse(study: Study, stores: Mapping[str, Activations]) -> None:
    """Refuse encoders of which no layer can be measured, before as much time goes into their
    control."""
    for layer in next(iter(stores.values())).layer_numbers:
        arrays = [store.layer(layer) for store in stores.values()]
        if sum(not is_collapsed([array]) for array in arrays) > 1 or (
            study.shared and not is_collapsed(arrays)
        ):
            return
    names = " and ".join(dict.fromkeys(map(display_name, study.encoders.values())))
    got = "the same vector for every sentence, at every layer"
    remedy = "train longer, or study another encoder"
    refuse("encoders", "vectors that differ between sentences", f"{got} of {names}", remedy)


def _facts(
    study: Study,
    corpora: Mapping[str, Corpus],
    split: Split,
    stores: Mapping[str, Mapping[str, Activations]],
) -> dict[str, Any]:
    cut = {
        language: {"truncated": store.manifest.get("truncated", 0)}
        for language, store in stores["encoder"].items()
    }
    notes = []
    if not study.shared:
        notes.append(
            "Language identification was not measured: each language has its own encoder, so "
            "the space alone would tell the language."
        )
    elif told_apart(list(stores["encoder"].values())):
        notes.append(
            "Language identification was not measured: the encoder was told the language of "
            "each text, so it is in every vector."
        )
    first = next(iter(stores["encoder"].values()))
    if split.groups is not None:
        told = (
            f"{repeated(split.groups):,} of {first.n:,} sentences have the text of another one, "
            f"in one language or more"
        )
        notes.append(
            f"{told}; equal ones are on one side of every division. As targets they tie, and "
            f"all but the first count as wrong."
        )
    if study.preset is not None:
        layer, longest = preset_layer(study.preset, first.layers - 1), longest_input(study.preset)
        notes.append(
            f"Sentences are read as {study.preset} reads them: means over all subwords, special "
            f"tokens included, of at most {longest} each; its layer is {layer}."
        )
    texts = {
        language: {
            "file": c.name,
            "sentences": len(c),
            "sha256": sha256_file(study.texts[language]),
        }
        for language, c in corpora.items()
    }
    sizes: dict[str, Any] = {
        "texts": texts,
        "n": first.n,
        "n_train": len(split.train),
        "n_held_out": len(split.held_out),
        "d": first.d,
        "layers": first.layers,
    }
    return {"data": sizes, "extraction": cut, "notes": notes, "versions": versions()}


def _measure(
    study: Study, stores: Mapping[str, Mapping[str, Activations]], split: Split, run: Run
) -> list[Score]:
    jobs: dict[str, Callable[[], list[Score]]] = {}
    for (a, b), condition in itertools.product(itertools.combinations(study.texts, 2), stores):
        names = dict.fromkeys(display_name(study.encoder_of(language)) for language in (a, b))
        pair = stores[condition][a], stores[condition][b]
        common = {"encoder": " / ".join(names), "seed": study.seed}
        control = None if condition == "encoder" else condition
        # eng-fra and eng are another pair than eng and fra-eng
        both = f"{a}~{b}" if "-" in a + b else f"{a}-{b}"
        jobs[f"retrieval.{both}.{condition}"] = functools.partial(
            retrieval_scores, *pair, split, common, control, hits=True, on_train=control is None
        )
        jobs[f"similarity.{both}.{condition}"] = functools.partial(
            similarity_scores, *pair, common, control=control, seed=study.seed
        )
    if study.shared and not told_apart(list(stores["encoder"].values())):
        common = {"encoder": display_name(next(iter(study.encoders.values()))), "seed": study.seed}
        for condition, mine in stores.items():
            control = None if condition == "encoder" else condition
            jobs[f"language_id.{condition}"] = functools.partial(
                language_id_scores, list(mine.values()), split, common, control
            )
    scores = []
    with Progress(len(jobs), "measuring", "parts") as progress:
        for name, job in jobs.items():
            try:
                scores += run.part(name, job)
            except InputError as error:
                raise InputError(f"{name}: {error}") from error  # which languages, of which encoder
            progress.add(1, name)
    refuse_unmeasured(
        [score for score in scores if score.condition in (None, "unaligned", "procrustes")],
        "encoders",
    )
    return compare_with_controls(scores)


def summary(out: str | Path) -> tuple[list[tuple[str, ...]], str]:
    """A short table of a finished study, and a sentence on how to read it.

    One layer is told of: the one with the best mean retrieval after Procrustes over all pairs and
    directions, by cross-validation within the training sentences: a layer that is chosen on the
    very sentences that it is judged by looks better than it is. (Runs of before this was measured
    have it chosen on the held-out sentences, and it is said.) Columns hold P@1 in per cent, "there
    / back" for the two directions, on the held-out sentences.
    """
    scores = list(read_scores(Path(out) / "scores.jsonl"))
    retrieval = [s for s in scores if s.task == "sentence_retrieval"]
    held_out = [s for s in retrieval if (s.details or {})["part"] == "held_out"]
    chosen = chosen_layer(
        _curves(held_out), _curves(s for s in retrieval if (s.details or {})["part"] == "train")
    )
    if chosen is None and not held_out:
        expected = "a study with retrieval after Procrustes"
        refuse("out", expected, f"{out} without it", "run the study again")
    lost = not_measured(scores)
    if chosen is None:
        return [], "\n".join(
            [
                (
                    "Sentence retrieval could be measured at no layer; scores.jsonl and the "
                    "report have the rest."
                ),
                *lost,
            ]
        )
    best = chosen.layer
    value = {(s.source, s.target, s.condition): s.value for s in held_out if s.layer == best}
    cka = {
        (s.source, s.target): s.value
        for s in scores
        if s.quantity == "debiased_linear_cka"
        and s.layer == s.other_layer == best
        and not s.condition
    }
    conditions = {
        "unaligned": "unaligned",
        "procrustes": "Procrustes",
        "random_encoder": "random",
        "random_encoder_procrustes": "random+Procr.",
    }
    rows: list[tuple[str, ...]] = [("P@1 %", *conditions.values(), "CKA")]
    for a, b in cka:
        cells = (
            f"{format_value(100 * value[a, b, c], 1)} / {format_value(100 * value[b, a, c], 1)}"
            for c in conditions
        )
        rows.append((f"{a} → / ← {b}", *cells, format_value(cka[a, b], 2)))
    n = held_out[0].n
    how = (
        "the best mean on these very sentences"
        if chosen.on_train is None
        else "chosen on the training sentences by cross-validation"
    )
    where = f"Layer {best} of 0-{max(s.layer or 0 for s in held_out)} ({how}, after Procrustes)"
    text = f"{where}, {n} held-out sentences, chance {100 / n:.1f} %; CKA is debiased linear."
    config = read_json(Path(out) / "config.json", dict, "run the study again")
    few = few_pairs(held_out, config.get("data", {}).get("d"))
    text += few and f"\n{few}"
    found = {
        s.condition: s
        for s in scores
        if s.task == "language_id" and s.quantity == "accuracy" and s.layer == best
    }
    if found:
        shares = ", ".join(
            f"{name or 'this encoder'} {format_value(100 * s.value, 1)} %"
            for name, s in found.items()
        )
        text += (
            f"\nLanguage identification, same layer, {found[None].n} held-out sentences: {shares}."
        )
    if preset := config.get("settings", {}).get("preset"):
        text += f"\n{published_way(preset, config['data']['layers'] - 1, scores)}"
    return rows, "\n".join([text, *lost])


def _curves(scores: Iterable[Score]) -> list[dict[int, Score]]:
    """Retrieval after Procrustes by layer, a curve for each direction."""
    curves: dict[tuple[str | None, str | None], dict[int, Score]] = {}
    for s in scores:
        if s.condition == "procrustes" and s.layer is not None:
            curves.setdefault((s.source, s.target), {})[s.layer] = s
    return list(curves.values())
