"""Text of one language from a data set of Hugging Face, on the hub or in a local folder."""

import itertools
import urllib.parse
from collections.abc import Mapping
from typing import Any

from crosslens.corpus import Corpus
from crosslens.errors import CrosslensError, refuse

__all__ = ["read_dataset"]

_DATASET = "hf:PATH?config=NAME&split=NAME&field=NAME&limit=NUMBER (all but PATH may be left out)"


def read_dataset(address: str, language: str) -> Corpus:
    """Read the text of a Hugging Face data set, once, as a stream; needs the extra ``datasets``.

    Each line of a record's field is a sentence. A blank line stays where it is, as an empty
    sentence: sentences before and after it do not follow each other. Ids are the numbers of the
    lines, from 0.

    Parameters
    ----------
    address: ``hf:PATH?config=NAME&split=NAME&field=NAME&limit=NUMBER``. PATH is the data set's name
        on the hub or a local folder. Without them, there is no config, split is "train", field is
        "text", and limit, the number of records, is all. A field in a field is named with a dot,
        such as ``field=translation.fr``.

    Raises
    ------
    InputError: the library is not installed, the address cannot be read, there is no such data set,
        split or field, or no text in it.
    """
    path, config, split, field, limit = _address(address)
    try:
        import datasets
    except ImportError:
        remedy = "type: pip install 'crosslens[datasets]'"
        refuse(address, "the library that reads data sets", "none installed", remedy)
    lines: list[str] = []
    try:
        records = datasets.load_dataset(path, config, split=split, streaming=True)
        for number, record in enumerate(itertools.islice(records, limit)):
            text = _field(record, field, f"{address} (record {number})")
            lines.extend(line.removesuffix("\r") for line in text.removesuffix("\n").split("\n"))
    except CrosslensError:
        raise
    # the library has a dozen kinds for a wrong path, config or split, and more for the network
    except Exception as error:
        got = f"{type(error).__name__}: {' '.join(str(error).split())}"
        refuse(
            address, "a data set that can be read", got, "check path, config, split and connection"
        )
    if not any(line.strip() for line in lines):
        refuse(address, "at least one sentence", "no text", "check split and field")
    return Corpus(language, lines, [str(i) for i in range(len(lines))], f"{path} {split}")


def _address(address: str) -> tuple[str, str | None, str, str, int | None]:
    """Path, config, split, field and limit of an address."""
    path, _, query = address.removeprefix("hf:").partition("?")
    told = urllib.parse.parse_qsl(query, keep_blank_values=True)
    values = dict(told)
    limit = values.get("limit")
    known = {"config", "split", "field", "limit"}
    whole = limit is None or (
        limit.isascii() and limit.isdecimal() and len(limit) < 16 and int(limit) > 0
    )
    filled = all(values.values()) and len(values) == len(told) == len(
        query.split("&") if query else []
    )
    if not path or not set(values) <= known or not whole or not filled:
        refuse("hf:", _DATASET, repr(address), "correct the address")
    return (
        path,
        values.get("config"),
        values.get("split", "train"),
        values.get("field", "text"),
        None if limit is None else int(limit),
    )


def _field(record: Any, field: str, where: str) -> str:
    value = record
    for name in field.split("."):
        if not isinstance(value, Mapping) or name not in value:
            there = ", ".join(map(str, value)) if isinstance(value, Mapping) else "none"
            refuse(where, f"a field {field!r}", f"the fields {there}", "name one of them")
        value = value[name]
    if not isinstance(value, str):
        refuse(where, f"text in the field {field!r}", type(value).__name__, "name a field of text")
    return value
