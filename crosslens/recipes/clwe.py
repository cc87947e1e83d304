"""CLWE (Artetxe, Ruder & Yogatama 2020, § 3.2): an encoder of one language over cross-lingual word
embeddings, of subwords here, that stand still.

    crosslens train clwe source=eng:eng.txt target=fra:fra.txt

    1    a vocabulary for each language, as MonoTrans has it
    2    skip-gram vectors of each language's subwords (fastText's, without n-grams)
    3    each target's are mapped to the source's by VecMap: self-learning, then an orthogonal map
    4    a BERT is trained on the source language over its vectors, which stand still
    5    one model: the body, and each language's own embeddings

With tasks=upos data=DATA the model is fine-tuned in the source language, under which the embeddings
stand still, too, and tested in every language, by ``crosslens transfer``, whose other settings stand
behind "transfer.".

``dimensions`` is the width of the vectors, 300 and 768 in the paper. Where it is not the model's, a
projection that all languages share takes them to it, and is trained with the body. ``seeds`` says what
self-learning begins with: "identical", subwords that both languages spell alike, or "unsupervised",
the vectors alone. Settings of skip-gram are "skipgram.window", "skipgram.negatives",
"skipgram.epochs" and "skipgram.learning_rate".

The shape is that of MonoTrans, and grows by the same two numbers, ``model`` and ``tokens``.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crosslens.errors import refuse
from crosslens.models.text.subword_vectors import SkipGram
from crosslens.models.training.settings import Source, from_dict, with_overrides
from crosslens.recipes.fine_tuned import of_fine_tuning
from crosslens.recipes.small_bert import language_files, small_bert
from crosslens.run.trainings.clwe import Clwe
from crosslens.run.trainings.subword_mapping import SEEDS

__all__ = ["clwe"]

_OWN = ("source", "target", "model", "tokens", "dimensions", "seeds")
# what the stages decide
_FIXED = ("sources", "sharing", "start", "embeddings", "derived", "anchors", "batch_languages")
_FIXED_TOO = ("special_table", "embedding_size", "adapters", "noise", "tied")


def clwe(settings: Mapping[str, Any], place: str | Path = "run") -> Clwe:
    """The recipes of a run's stages.

    Parameters
    ----------
    settings: ``source`` and ``target``, each "LANGUAGE:FILE", several targets separated by commas;
        ``dimensions`` (of the vectors; 300), ``seeds`` ("identical"), ``model`` (width, a multiple of
        32; 128), ``tokens`` (that the encoder is trained on; 4 M), "skipgram.…", and settings of its
        recipe.
    place: the run's folder, where the training finds its embeddings.

    Raises
    ------
    InputError: no such setting, a size that cannot be, or languages that are not different.

    >>> made = clwe({"source": "eng:eng.txt", "target": "fra:fra.txt", "dimensions": 64})
    >>> made.bert.encoder.embedding_size, made.skipgram.dimensions, made.seeds, made.targets
    (64, 64, 'identical', ['fra'])
    """
    settings = {name: value for name, value in settings.items() if not of_fine_tuning(name)}
    seeds = settings.get("seeds", SEEDS[0])
    if seeds not in SEEDS:
        refuse("seeds", f"one of {', '.join(SEEDS)}", repr(seeds), "choose one of them")
    fixed = (*_FIXED, *(f"encoder.{name}" for name in _FIXED_TOO), "vocabulary.mode")
    for name in settings:
        if name.partition(".")[0] in _FIXED or name in fixed:
            refuse(name, "what the stages leave open", name, "leave it out")
    files = language_files(settings, ("source", "target"), several="target")
    source, *targets = [one for mine in files.values() for one in mine]
    own = {
        name.removeprefix("skipgram."): value
        for name, value in settings.items()
        if name.startswith("skipgram.")
    }
    if "dimensions" in own:
        refuse("skipgram.dimensions", "the setting dimensions", "it", "write dimensions=300, say")
    if "dimensions" in settings:
        own["dimensions"] = settings["dimensions"]
    skipgram = from_dict(SkipGram, own, "skipgram.")
    changes = {
        name: value
        for name, value in settings.items()
        if name not in _OWN and not name.startswith("skipgram.")
    }
    base = with_overrides(small_bert(f"clwe-{source[0]}", [source], settings, own=True), changes)
    split = base.sources[0].split
    texts = {
        language: dataclasses.replace(
            base,
            name=f"clwe-{language}",
            sources=(Source(name="text", texts={language: path}, split=split),),
        )
        for language, path in (source, *targets)
    }
    wide = skipgram.dimensions
    shape = dataclasses.replace(
        base.encoder, embedding_size=0 if wide == base.encoder.hidden_size else wide
    )
    mapped = str(Path(place) / "mapped" / source[0])
    bert = dataclasses.replace(base, encoder=shape, embeddings=mapped)
    return Clwe(bert=bert, texts=texts, skipgram=skipgram, seeds=seeds)
