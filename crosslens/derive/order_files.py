"""Word orders on disk: what was learnt from a treebank, as JSON, to be used again."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np

from crosslens.derive.order import WordOrder
from crosslens.derive.order_features import Symbols
from crosslens.derive.order_model import OrderModel
from crosslens.derive.order_nodes import PARTS
from crosslens.derive.order_relation_weights import RelationWeights
from crosslens.errors import InputError, OutputError, quote, refuse
from crosslens.files import check_name, check_shape, fingerprint, read_json, write_file

__all__ = ["read_word_order", "save_word_order"]

_AGAIN = "learn it again, and save it"
_MOST = 2**63  # codes are whole numbers of 63 bits


class _Saved(TypedDict):
    """A file: "model" says which kind all of "models" are, by class of heads."""

    word_order: int
    language: str
    model: Literal["log-linear", "relation-weights"]
    models: dict[str, dict[str, Any]]
    fingerprint: str  # of all else


class _LogLinear(TypedDict):
    symbols: list[str]
    codes: list[int]
    weights: list[float]
    nodes: int


class _Relations(TypedDict):
    relations: list[str]
    direction: list[float]
    distance: list[float]
    nodes: int


def save_word_order(order: WordOrder, path: str | Path) -> None:
    """Write what a word order has learnt as JSON (``.json``); how an order is chosen is not part of
    it. The same order on a file that has it changes nothing.

    Raises
    ------
    InputError: another ending, or models of one's own.
    OutputError: a file of that name with another content, or one that cannot be written.

    >>> import tempfile
    >>> from crosslens.derive.order_relation_weights import RelationWeights
    >>> order = WordOrder("fra", {"N": RelationWeights(("amod",), np.array([-1.5]), np.zeros(1), 9)})
    >>> path = Path(tempfile.mkdtemp()) / "fra.json"
    >>> save_word_order(order, path)
    >>> read_word_order(path, parts="N", model="relation-weights").models["N"].direction.tolist()
    [-1.5]
    """
    if not str(path).endswith(".json"):
        refuse(str(path), "a file whose name ends with .json", "another", "add .json")
    models = order.models.values()
    kind = "log-linear" if all(isinstance(one, OrderModel) for one in models) else ""
    kind = kind or ("relation-weights" if all(map(_is_relations, models)) else "")
    if not kind:
        refuse("order", "log-linear models or relation weights", "others", "learn one of these")
    told = {
        "word_order": 1,
        "language": order.language,
        "model": kind,
        "models": {part: _as_plain(model) for part, model in order.models.items()},
    }
    content = json.dumps({**told, "fingerprint": fingerprint(told)}, ensure_ascii=False) + "\n"
    there = Path(path)
    if there.exists() and not (there.is_file() and there.read_bytes() == content.encode()):
        expected = "a new file, or one with the very same order"
        refuse(str(path), expected, "another content", "choose another name", OutputError)
    write_file(there, content)


def _is_relations(model: Any) -> bool:
    return isinstance(model, RelationWeights)


def _as_plain(model: Any) -> dict[str, Any]:
    if isinstance(model, OrderModel):
        names, arrays = list(model.symbols.names), {"codes": model.codes, "weights": model.weights}
        told: dict[str, Any] = {"symbols": names}
    else:
        arrays = {"direction": model.direction, "distance": model.distance}
        told = {"relations": list(model.relations)}
    return told | {name: one.tolist() for name, one in arrays.items()} | {"nodes": model.nodes}


def read_word_order(
    path: str | Path,
    *,
    parts: str = "NV",
    model: Literal["log-linear", "relation-weights"] = "log-linear",
    choice: Literal["sampled", "best"] = "sampled",
) -> WordOrder:
    """A word order from a file of :func:`save_word_order`: as it was learnt, to the last bit.

    Parameters
    ----------
    parts: classes of heads, of those that the file has. model: which the file has. choice: see
        :class:`~crosslens.derive.order.WordOrder`.

    Raises
    ------
    InputError: the file is no such file, is not as it was written, or has other models or classes
        of heads.
    """
    where = str(path)
    told: _Saved = read_json(path, _Saved, _AGAIN, InputError)
    if told["word_order"] != 1:
        got = quote(told["word_order"])
        refuse(f"{where}, key word_order", "1", got, "use a newer version", InputError)
    if told["model"] != model:
        remedy = f"choose {told['model']}, or learn it from a treebank"
        refuse("model", f"{told['model']}, which {where} has", model, remedy)
    if missing := [part for part in parts if part not in told["models"]]:
        there = "".join(part for part in PARTS if part in told["models"]) or "none"
        got = "".join(missing)
        refuse("parts", f"classes of heads that {where} has ({there})", got, "choose among them")
    make = _log_linear if model == "log-linear" else _relations
    models = {part: make(told["models"][part], f"{where}, {part}") for part in parts}
    rest = {name: value for name, value in told.items() if name != "fingerprint"}
    if told["fingerprint"] != fingerprint(rest):
        refuse(where, "the order that was saved", "other numbers or names", _AGAIN, InputError)
    return WordOrder(check_name(told["language"], f"{where}, language"), models, choice)


def _log_linear(told: Mapping[str, Any], where: str) -> OrderModel:
    one: _LogLinear = check_shape(told, where, _LogLinear, _AGAIN, InputError)
    names = _names(one["symbols"], f"{where}, symbols")
    codes = one["codes"]
    rising = all(a < b for a, b in zip(codes, codes[1:], strict=False))
    if not codes or not rising or codes[0] < 0 or codes[-1] >= _MOST:
        refuse(f"{where}, codes", "rising whole numbers", "others", _AGAIN)
    weights = _numbers(one["weights"], len(codes), f"{where}, weights")
    return OrderModel(Symbols(names), np.array(codes, np.int64), weights, one["nodes"])


def _relations(told: Mapping[str, Any], where: str) -> RelationWeights:
    one: _Relations = check_shape(told, where, _Relations, _AGAIN, InputError)
    names = _names(one["relations"], f"{where}, relations")
    direction, distance = (
        _numbers(side, len(names), f"{where}, {name}")
        for name, side in (("direction", one["direction"]), ("distance", one["distance"]))
    )
    return RelationWeights(tuple(names), direction, distance, one["nodes"])


def _names(names: list[str], where: str) -> list[str]:
    if not names or names != sorted(set(names)):
        refuse(where, "names in their order, each once", "others", _AGAIN)
    return names


def _numbers(values: list[float], n: int, where: str) -> np.ndarray:
    found = np.array(values, np.float64)
    if found.shape != (n,) or not np.isfinite(found).all():
        refuse(where, f"{n} numbers", f"{len(values)}, or one that is not finite", _AGAIN)
    return found
