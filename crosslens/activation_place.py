"""The place where an activation dataset is being written: whose it is, and what an earlier run has
left there.

A half-written activation dataset is somebody's work. It is resumed where the settings are the same;
nothing of it is deleted unless that is asked for, and a folder that is called like it and holds
something else is never touched.
"""

import contextlib
import glob
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, TypedDict

import pyarrow as pa
from pyarrow import parquet

from crosslens.activation_plan import Block
from crosslens.activations import OUTPUTS
from crosslens.errors import OutputError, StoreError, refuse
from crosslens.files import lock_file, read_json, same_settings

__all__ = [
    "aside_of",
    "check_place",
    "has_plan",
    "read_blocks",
    "refuse_damaged",
    "remove_left_locks",
    "tidy",
]

# Names in the folder of a half-written dataset (those that begin with a dot are the system's, or on
# their way to one of these), and those among them that hold work.
_OURS = re.compile(
    r"\..*|(plan|blocks|manifest)\.json|index\.parquet|checksums\.bin|(earlier|journal-\d+)\.jsonl"
    rf"|({'|'.join(OUTPUTS.values())})_\d{{2,}}\.safetensors"
    r"|sums-[0-9a-f]+-\d+\.(safetensors|partial)"
)
_WORK = re.compile(r"journal-|earlier|sums-")
_ANEW = (
    "repeat those of the run that was stopped, choose another folder, or begin anew with "
    "--restart (restart=True), which deletes it"
)
_REMEDY = "begin anew with --restart (restart=True), which deletes it"


class _Planned(TypedDict):
    settings: dict[str, Any]
    arrays: list[str]
    d: int
    dtype: str


class _Block(TypedDict):
    number: int
    start: int
    stop: int
    facts: dict[str, Any]


class _Blocks(TypedDict):
    blocks: list[_Block]
    index_sha256: str


def aside_of(folder: Path) -> Path:
    """Where an activation dataset is while it is written.

    Raises
    ------
    OutputError: the path ends in no name (".", ".."): the finished folder is moved into its place,
        which the current folder cannot be.
    """
    if folder.name in ("", ".."):
        remedy = "name a new folder within it"
        refuse("out", "the path of a new folder", repr(str(folder)), remedy, OutputError)
    return folder.with_name(f"{folder.name}.partial")


def check_place(
    folder: Path, settings: Mapping[str, Any], shape: Mapping[str, Any], restart: bool
) -> None:
    """Refuse a place that is taken: by files, by an activation dataset with other settings, by
    somebody's folder that is called like ours."""
    aside = aside_of(folder)
    names = os.listdir(folder) if folder.is_dir() else []
    if (
        "manifest.json" not in names
        and any(name.endswith(".safetensors") for name in names)
        and all(map(_OURS.fullmatch, names))
    ):
        expected = "a folder of activations"
        remedy = "restore it, or delete the folder and extract again"
        refuse(str(folder), expected, "one without manifest.json", remedy, StoreError)
    if folder.is_symlink():  # nothing can be moved into its place
        remedy = "name the folder that it leads to, or choose another one"
        refuse(str(folder), "a new or empty folder", "a link", remedy, OutputError)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        remedy = "choose another folder"
        refuse(str(folder), "a new or empty folder", "one with files in it", remedy, OutputError)
    if aside.is_symlink() or aside.exists() and not aside.is_dir():
        expected = "half-written activations or nothing"
        remedy = "move it away, or choose another folder"
        refuse(str(aside), expected, "something else", remedy, OutputError)
    foreign = (
        [path.name for path in aside.iterdir() if path.is_dir() or not _OURS.fullmatch(path.name)]
        if aside.exists()
        else []
    )
    if foreign:
        got = f"a folder with {min(foreign)[:80]!r} in it"
        remedy = "move it away, or choose another folder"
        refuse(str(aside), "half-written activations or nothing", got, remedy, OutputError)
    if not restart and (aside / "blocks.json").exists():
        there = read_json(aside / "plan.json", _Planned, _REMEDY)
        same_settings(str(aside), there.pop("settings"), settings, _ANEW)
        same_settings(str(aside), there, shape, _ANEW)
        blocks, _ = read_blocks(aside)
        if _rows(aside / "index.parquet") != (blocks[-1].stop if blocks else 0):
            refuse_damaged(aside, "index.parquet")
    elif (
        not restart
        and aside.exists()
        and (worked := [path.name for path in aside.iterdir() if _WORK.match(path.name)])
    ):
        refuse_damaged(aside, f"blocks.json, but {worked[0]}")


def read_blocks(aside: Path) -> tuple[list[Block], str]:
    """The blocks of a half-written activation dataset, and the checksum of its index.

    Raises
    ------
    StoreError: the file is damaged.
    """
    found = read_json(aside / "blocks.json", _Blocks, _REMEDY)
    blocks = [
        Block(**{name: block[name] for name in _Block.__annotations__}) for block in found["blocks"]
    ]
    starts = [0, *(block.stop for block in blocks)]
    if any(
        (block.number, block.start) != (i, starts[i]) or block.stop < block.start
        for i, block in enumerate(blocks)
    ):
        refuse_damaged(aside, "blocks.json")
    return blocks, found["index_sha256"]


def _rows(index: Path) -> int:
    """Rows of the index by its last bytes, which a file that was cut does not have; -1 where there
    is no index."""
    try:
        # as bytes: a name need not be UTF-8
        return int(parquet.read_metadata(pa.OSFile(os.fsencode(index))).num_rows)
    except (OSError, pa.ArrowException):
        return -1


def refuse_damaged(aside: Path, name: str) -> NoReturn:
    """Refuse a half-written activation dataset of which a file is not whole.

    Raises
    ------
    StoreError: always.
    """
    got = f"damaged ones (no whole {name})"
    refuse(str(aside), "half-written activations", got, _REMEDY, StoreError)


def has_plan(folder: Path, settings: Mapping[str, Any], shape: Mapping[str, Any]) -> bool:
    """Whether an activation dataset of these settings is planned there."""
    plan, blocks = aside_of(folder) / "plan.json", aside_of(folder) / "blocks.json"
    return (
        plan.exists()
        and blocks.exists()
        and read_json(plan) == json.loads(json.dumps({"settings": settings, **shape}))
    )


def tidy(folder: Path) -> None:
    """Remove what only an unfinished activation dataset needs, and what a killed process has left:
    files that safetensors had not renamed yet, and locks that nobody holds."""
    for path in [
        folder / "plan.json",
        folder / "blocks.json",
        folder / "earlier.jsonl",
        *folder.glob("journal-*.jsonl"),
        *folder.glob(".tmp??????"),
    ]:
        path.unlink(missing_ok=True)


def remove_left_locks(folder: Path) -> None:
    """Remove the locks beside a finished activation dataset, but for those that a running process
    holds."""
    name = glob.escape(f".{folder.name}.lock")
    for path in [*folder.parent.glob(name), *folder.parent.glob(f"{name}-*")]:
        with contextlib.suppress(OutputError, OSError), lock_file(path, str(folder)):
            pass  # lock_file removes what it could lock
