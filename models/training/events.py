"""What a training run writes down as it goes: log.jsonl always, TensorBoard events where they are
asked for."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypedDict

from crosslens.errors import StoreError, refuse
from crosslens.files import parse_json, write_whole

__all__ = ["Events", "cut_log", "need_tensorboard"]


class _Line(TypedDict):
    """A line of the log."""

    step: int


class Events:
    """The log of a run.

    Parameters
    ----------
    folder: the run's folder; it gets ``log.jsonl`` and, with ``tensorboard``, ``tensorboard/``.
    done: updates that were made before; later lines are dropped, for the resumed run writes them
        again.
    tensorboard: also write TensorBoard events.
    silent: write nothing (all processes but the first).

    Raises
    ------
    InputError: TensorBoard is asked for and not installed.
    """

    def __init__(
        self, folder: Path, done: int, *, tensorboard: bool = False, silent: bool = False
    ) -> None:
        self.path, self.silent, self.writer = folder / "log.jsonl", silent, None
        if silent:
            return
        cut_log(self.path, done)
        if tensorboard:
            writer = need_tensorboard()
            if not done:
                shutil.rmtree(folder / "tensorboard", ignore_errors=True)
            self.writer = writer(str(folder / "tensorboard"), purge_step=done + 1 if done else None)

    def write(self, line: Mapping[str, Any]) -> None:
        """Append one line with its ``step``; it is on disk when this returns."""
        if self.silent:
            return
        with open(self.path, "a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")
            log.flush()
            os.fsync(log.fileno())
        if self.writer is not None:
            for name, value in _numbers("", line):
                self.writer.add_scalar(name, value, line["step"])

    def close(self) -> None:
        """Flush what TensorBoard holds back."""
        if self.writer is not None:
            self.writer.close()


def need_tensorboard() -> Any:
    """The class that writes TensorBoard's events.

    Raises
    ------
    InputError: TensorBoard is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        command = "install it with: pip install -c constraints.txt '.[tensorboard]'"
        refuse("tensorboard", "the package tensorboard", "none installed", command)
    return SummaryWriter


def _numbers(prefix: str, line: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Every number of a line, with a path as its name."""
    for name, value in line.items():
        if isinstance(value, Mapping):
            yield from _numbers(f"{prefix}{name}/", value)
        elif isinstance(value, list):
            yield from _numbers(
                f"{prefix}{name}/", {f"layer_{i}": item for i, item in enumerate(value)}
            )
        elif isinstance(value, int | float) and name != "step":
            yield f"{prefix}{name}", float(value)


def cut_log(path: Path, step: int) -> None:
    """Drop lines after ``step``, and a half-written last one."""
    if path.is_dir():
        refuse(str(path), "a log", "a folder", "move it away", StoreError)
    if path.exists():
        lines = [
            line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")
        ]
        told = (
            parse_json(line, f"{path}:{number}", _Line, "delete the line")
            for number, line in enumerate(lines, 1)
        )
        write_whole(
            path,
            b"".join(line for line, row in zip(lines, told, strict=True) if row["step"] <= step),
        )
