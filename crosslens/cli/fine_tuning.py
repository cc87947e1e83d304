"""The options of fine-tuning, which mean the same in ``transfer``, ``study-transfer`` and
``mapped-transfer``; what is not given is the verb's own default."""

import argparse
from collections.abc import Iterable
from typing import Any

__all__ = ["DEVICE", "add_fine_tuning", "given"]

DEVICE = "where encoders are trained and tested: cpu, cuda or cuda:1 (default: cpu)"
"""Help of ``--device``: not all that encoders can run on can train them."""

_NUMBER = {"type": int, "metavar": "N", "help": "in the place of the preset's"}
_RATE = {"type": float, "metavar": "F"}


def _deviation(text: str) -> float:
    """The standard deviation of ``--noise``.

    >>> _deviation("0.075"), _deviation("standard-normal")
    (0.075, 1.0)
    """
    from crosslens.run.transfer.settings import STANDARD_NORMAL

    try:
        return 1.0 if text == STANDARD_NORMAL else float(text)
    except ValueError:
        expected = f"a number or {STANDARD_NORMAL} is needed, not {text!r}"
        raise argparse.ArgumentTypeError(expected) from None


_FLAG = {"action": "store_true", "default": None}
_SWITCH = {"action": argparse.BooleanOptionalAction}
_OPTIONS: dict[str, dict[str, Any]] = {
    "preset": {
        "metavar": "NAME",
        "help": "settings by name: default, wu_dredze, wu_dredze_code, conneau, artetxe, deshpande "
        "or xtreme; of a grid the setting that is best on dev is taken (default: default)",
    },
    "epochs": _NUMBER,
    "batch-size": _NUMBER,
    "group-by-length": {
        **_FLAG,
        "help": "make batches of inputs of like length: less padding, batches less random",
    },
    "peak-rate": {**_RATE, "help": "learning rate, in the place of the preset's"},
    "head-rate": {**_RATE, "help": "learning rate of the head (default: the preset's)"},
    "max-length": {**_NUMBER, "help": "longest input in subwords"},
    "warmup": {**_RATE, "help": "share of the updates with a rising rate"},
    "noise": {
        "type": _deviation,
        "metavar": "F",
        "help": "add normal noise of this deviation to the embeddings in training; MonoTrans has 0.075 "
        "(its appendix) or standard-normal (its text; default: none)",
    },
    "precision": {
        "choices": ("float32", "bfloat16"),
        "help": "of matrix products, in training and in answers (default: float32)",
    },
    "freeze": {
        "metavar": "LIST",
        "help": "-1 trains everything, 0 all but the embeddings, n all but these and the first n "
        "layers; several, such as --freeze=-1,0,3, are measured one after the other (default: -1)",
    },
    "pool": {
        "choices": ("first", "pooled", "mean", "max"),
        "help": "what the head of a task on texts reads (default: first; max with --features "
        "mix+bilstm)",
    },
    "features": {
        "choices": ("mix+bilstm", "transformer"),
        "help": "freeze the encoder, and learn a mean of its layers and an LSTM beside the head, or "
        "four new layers on its last one",
    },
    "parser": {
        "choices": ("wu_dredze", "allennlp", "supar"),
        "help": "of tasks on trees, the parser's sizes (default: wu_dredze)",
    },
    "gold-pos": {**_FLAG, "help": "give a parser the parts of speech of the treebank"},
    "crf": {
        **_FLAG,
        "help": "of tags, choose those of a sentence together (conditional random field)",
    },
    "limit": {"type": int, "metavar": "N", "help": "most items of each split"},
    "segment": {
        "choices": ("rjieba", "pythainlp", "sudachipy"),
        "help": "of names, take this segmenter's words in its language (Chinese, Thai, Japanese)",
    },
    "words-apart": {
        **_FLAG,
        "help": "of treebanks, put a space between any two words: those of one token (French du = "
        "de + le) are read each by itself, as the presets of Wu & Dredze do",
    },
    "derived": {
        "action": "extend",
        "nargs": "+",
        "metavar": "CODE=HOW",
        "help": "languages that are made of another one's subwords, such as eng-x=eng:inversion: "
        "for encoders whose folder does not say it",
    },
    "unseen": {
        "choices": ("unknown", "random"),
        "help": "what an encoder without a transliterated language reads in the place of its "
        "subwords: the unknown token, or new random rows (default: unknown)",
    },
    "seeds": {"type": int, "metavar": "N", "help": "how many seeds (default: 3)"},
    "in-language": {
        **_FLAG,
        "help": "fine-tune on each test language, too, where it can be trained on",
    },
    "random-control": {
        **_SWITCH,
        "help": "fine-tune a randomly re-initialised copy, too, with one seed (default: yes)",
    },
    "checkpoints": {
        **_SWITCH,
        "help": "test also the last epoch, an average of the last ones, and the one that is best on "
        "the target's dev, which is an oracle (default: yes)",
    },
    "average": {**_NUMBER, "help": "epochs that are averaged (default: 3)"},
    "keep": {
        **_FLAG,
        "help": "keep the first seed's encoders, as folders that transformers loads",
    },
}


def add_fine_tuning(parser: Any, *names: str, **changes: Any) -> None:
    """Add these options to a parser, or a group of it; ``changes`` are what is particular there."""
    for name in names:
        parser.add_argument(f"--{name}", **{**_OPTIONS[name], **changes})


def given(arguments: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """The options of these names that were given, as the Python call has them."""
    found = {name.replace("-", "_"): None for name in names}
    found = {name: getattr(arguments, name) for name in found}
    return {name: value for name, value in found.items() if value is not None}
