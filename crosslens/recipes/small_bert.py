"""What MonoTrans and the systems that it is compared with have in common: texts that are named
LANGUAGE:FILE, and the settings of a small BERT."""

from collections.abc import Mapping, Sequence
from typing import Any

from crosslens.asked import absolute
from crosslens.checks import check_positive_int
from crosslens.errors import refuse
from crosslens.files import check_name
from crosslens.models.network.shape import EncoderConfig
from crosslens.models.text.tokenisation import Vocabulary
from crosslens.models.training.masking import Masking
from crosslens.models.training.settings import Optimisation, Source, TrainRecipe

__all__ = ["absolute_texts", "checked_size", "language_files", "small_bert"]

_BATCH = 4096
_TOKENS = 4_000_000
_LENGTH = 128
_UNITS = "nsp"


def language_files(
    settings: Mapping[str, Any], names: Sequence[str], several: str = ""
) -> dict[str, list[tuple[str, str]]]:
    """Language and file of each text that the settings name: "LANGUAGE:FILE", and of ``several``
    more than one, separated by commas.

    Raises
    ------
    InputError: one is missing or of another form, or a language is there twice.

    >>> language_files({"source": "eng:a.txt", "target": "fra:b,deu:c"}, ["source", "target"], "target")
    {'source': [('eng', 'a.txt')], 'target': [('fra', 'b'), ('deu', 'c')]}
    """
    found: dict[str, list[tuple[str, str]]] = {name: [] for name in names}
    known = set[str]()
    for name in names:
        told = settings.get(name)
        if not isinstance(told, str) or not told:
            refuse(name, "LANGUAGE:FILE", repr(told) if told else "none", f"add {name}=eng:eng.txt")
        for one in told.split(",") if name == several else [told]:
            language, colon, path = one.strip().partition(":")
            if not colon or not language or not path:
                refuse(name, "LANGUAGE:FILE", repr(one), "write eng:eng.txt, say")
            check_name(language, name)
            if language in known:
                remedy = "call one of them otherwise, eng-x say"
                refuse(name, "languages that differ", f"{language} twice", remedy)
            known.add(language)
            found[name].append((language, path))
    return found


def absolute_texts(files: Sequence[tuple[str, str]]) -> str:
    """Texts as a setting names them, with absolute files.

    >>> absolute_texts([("eng", "/data/eng.txt"), ("fra", "/data/fra.txt")])
    'eng:/data/eng.txt,fra:/data/fra.txt'
    """
    return ",".join(f"{language}:{absolute(path)}" for language, path in files)


def _in_batch(batch: int, settings: Mapping[str, Any]) -> int:
    """Tokens of a full batch: rows of one length that do not fill it leave the rest of it empty."""
    length = settings.get("max_length", _LENGTH)
    whole = isinstance(length, int) and 0 < length <= batch
    if settings.get("units", _UNITS) == "sentences" or not whole:  # checked with the recipe
        return batch
    return length * (batch // length)


def checked_size(
    settings: Mapping[str, Any], width: int, batch: int, tokens: int, remedy: str
) -> tuple[int, int, int]:
    """The width of an encoder (``model``), the tokens of its batches (``batch_tokens``) and of its
    training (``tokens``), as the settings have them.

    Parameters
    ----------
    width, batch, tokens: where the settings do not say. remedy: what to do about ``tokens`` that
        cannot be.

    Raises
    ------
    InputError: a width or a number of tokens that cannot be, or ``steps`` beside ``tokens``.
    """
    model, told = settings.get("model", width), settings.get("tokens")
    if settings.get("steps") is not None and told is not None:
        refuse("steps", "none beside tokens", repr(settings["steps"]), "leave one of the two out")
    if isinstance(model, bool) or not isinstance(model, int) or model < 32 or model % 32:
        remedy = f"{width} is the default"
        refuse("model", "a width that is a multiple of 32", repr(model), remedy)
    batch = check_positive_int(settings.get("batch_tokens", batch), "batch_tokens")
    if told is None:
        return model, batch, tokens
    is_number = isinstance(told, int | float) and not isinstance(told, bool)
    if not is_number or not batch <= told < 1e15:
        refuse("tokens", f"a number from {batch} up", repr(told), remedy)
    return model, batch, int(told)


def small_bert(
    name: str, files: Sequence[tuple[str, str]], settings: Mapping[str, Any], *, own: bool
) -> TrainRecipe:
    """A BERT of 4 layers that minutes on two cores train: two numbers scale it.

    Parameters
    ----------
    name: of the recipe. files: language and file of each text; each is read as it is, and none as
        a translation of another.
    settings: ``model`` (width, a multiple of 32; 128) and ``tokens`` (of each language; 4 M);
        ``batch_tokens`` and ``seed``, where they are given.
    own: whether each language owns its vocabulary and its token embeddings; the special tokens have
        a table of their own then, which all share.

    Raises
    ------
    InputError: a width or a number of tokens that cannot be.

    >>> recipe = small_bert("both", [("eng", "a"), ("fra", "b")], {"tokens": 2e6}, own=False)
    >>> recipe.languages, recipe.steps, recipe.vocabulary.mode, recipe.encoder.hidden_size
    (('eng', 'fra'), 976, 'joint', 128)
    """
    model, batch, tokens = checked_size(settings, 128, _BATCH, _TOKENS, "4e6 is the default")
    # whichever system a text is trained in, and however often, the same sentences are held out
    split = f"seed {settings.get('seed', 0)}"
    names = [f"text-{language}" for language, _ in files] if len(files) > 1 else ["text"]
    sources = tuple(
        Source(name=source, texts={language: path}, split=split)
        for source, (language, path) in zip(names, files, strict=True)
    )
    steps = len(files) * (tokens // _in_batch(batch, settings))
    return TrainRecipe(
        name=name,
        sources=sources,
        steps=steps,
        units=_UNITS,
        sharing="sep=token" if own else "",
        batch_tokens=batch,
        tlm_share=0.0,
        max_length=_LENGTH,
        log_every=50,
        validate_every=max(1, min(500, steps // 10)),  # ten points make a curve
        save_every=250,
        vocabulary=Vocabulary(size=4000, mode="separate" if own else "joint"),
        encoder=EncoderConfig(
            vocab_size=4000,
            hidden_size=model,
            layers=4,
            heads=model // 32,
            ffn_size=4 * model,
            max_positions=128,
            dropout=0.0,
            segments=2,
            next_sentence=True,
            special_table=own,
        ),
        masking=Masking(scope="language"),
        # wide models take smaller steps
        optimisation=Optimisation(peak_rate=2e-3 * 128 / model),
    )
