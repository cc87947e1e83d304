"""Small valid inputs made hostile, and what a reader did with each: a value or one of our errors,
in time and in little memory."""

import os
import random
import resource
import shutil
import signal
import struct
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reader_seeds import Reader

from crosslens.errors import CrosslensError

MEMORY, SECONDS = 1 << 30, 20  # beside what the process has when it begins; for one case
TOKENS = (
    b"\0",
    b"\r",
    b"\n",
    b"\r\n",
    b"\t",
    b" ",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xe2\x80\xae",
    b"\xe2\x80\xa8",
    b"\xc2\x85",
    b"\x0b",
    b"\x0c",
    b"-1",
    b"0",
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e999",
    b"4000000000",
    b"99999999999999999999",
    b"9" * 400,
    b"9" * 5000,
    b"0-4000000000",
    b"../../evil",
    b"/etc/passwd",
    b"[" * 100_000,
    b'{"a":' * 2000,
    b"null",
    b"true",
    b'""',
    b"[]",
    b"{}",
    b"x" * 100_000,
    b'"\\ud800"',
    b'"\\u0000"',
    b"<b>",
    b"</b>",
    b"|",
    b"=",
    b"#",
    b"'",
    b'"',
    b",",
    b":",
    b"1-999999999",
    b"\xd7\x90\xd7\x91",
    b"\xf0\x9f\x99\x82",
)
VALUES = (
    b"null",
    b"true",
    b"-1",
    b"1.5",
    b"1e999",
    b"9" * 400,
    b"NaN",
    b'"x"',
    b'"../../evil"',
    b"[]",
    b"{}",
    b"[[1]]",
    b'{"a": 1}',
    b'""',
)


def mutate(data: bytes, rng: random.Random) -> bytes:
    """One to three changes of some bytes."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 2, 8, 64, 1000)))
        kind = rng.randrange(9)
        if kind == 0 and data:  # a bit
            at = rng.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        elif kind == 1:
            data = data[:at]
        elif kind == 2:
            data = data[:at] + data[at:end] * rng.choice((2, 3, 50)) + data[end:]
        elif kind == 3:
            data = data[:at] + data[end:]
        elif kind == 4:
            data = data[:at] + rng.choice(TOKENS) + data[at:]
        elif kind == 5:
            data = data[:at] + rng.choice(TOKENS) + data[end:]
        elif kind == 6:  # a number of a header
            data = (
                data[:at]
                + struct.pack("<q", rng.choice((-1, 0, 1, 1 << 31, 1 << 40, (1 << 63) - 1)))[
                    : rng.choice((4, 8))
                ]
                + data[at + 8 :]
            )
        elif kind == 7:  # a cell, a word or a value for another one
            parts = data.split(mark := rng.choice((b"\t", b"\n", b" ", b",")))
            parts[rng.randrange(len(parts))] = rng.choice((*TOKENS, *parts))
            data = mark.join(parts)
        else:
            places = [i for i, byte in enumerate(data[:20_000]) if byte == ord(":")]
            if places:
                at = rng.choice(places) + 1
                stop = min(
                    [i for i in (data.find(mark, at) for mark in (b",", b"}", b"\n")) if i >= 0]
                    or [len(data)]
                )
                data = data[:at] + rng.choice(VALUES) + data[stop:]
    return data


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")


def spoil(folder: Path, rng: random.Random) -> str:
    """Change one file of a folder; now and then there is none, or a folder in its place."""
    path = rng.choice(_files(folder))
    kind = rng.randrange(40)
    if kind < 3:
        path.unlink()
        if kind == 0:
            path.mkdir()
        elif kind == 1:
            path.write_bytes(b"")
        return f"{path.name}: {('a folder', 'empty', 'gone')[kind]}"
    path.write_bytes(mutate(path.read_bytes(), rng))
    return path.name


def _case(reader: Reader, seed: Path, place: Path, number: str) -> str:
    """What was wrong with one case, or nothing."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(seed, place)
    outside = sorted(place.parent.iterdir())
    told = spoil(place, random.Random(number))
    begun = time.monotonic()
    signal.alarm(SECONDS)
    found = ""
    try:
        reader.read(place)
    except CrosslensError as error:
        if len(str(error)) > 5000 or "\n" in str(error):
            found = f"a message of {len(str(error))} characters"
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        ours = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if "/tests/" not in frame.filename and "crosslens" in frame.filename
        ]
        where = ours[-1] if ours else last
        found = (
            f"{type(error).__name__}: {str(error)[:150]} at {where.filename[-40:]}:{where.lineno}"
        )
    finally:
        signal.alarm(0)
    if not found and sorted(place.parent.iterdir()) != outside:
        found = "something was written outside"
    return f"case {number} ({told}, {time.monotonic() - begun:.1f} s): {found}" if found else ""


def _size() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def run_cases(
    name: str, reader: Reader, seed: Path, place: Path, cases: int, begin: str
) -> Iterator[str]:
    """Flags of some cases, each made from ``begin`` and its number; a process of its own runs them,
    a new one after a crash."""
    number = 0
    while number < cases:
        ours, theirs = os.pipe()
        child = os.fork()
        if not child:
            status = 0
            try:
                os.close(ours)
                with open(os.devnull, "w") as quiet:
                    os.dup2(quiet.fileno(), 1)
                    os.dup2(quiet.fileno(), 2)
                resource.setrlimit(resource.RLIMIT_AS, (_size() + MEMORY, resource.RLIM_INFINITY))
                signal.signal(signal.SIGALRM, _late)
                for i in range(number, cases):
                    answer = _case(reader, seed, place, f"{begin} {name} {i}").encode(
                        errors="replace"
                    )
                    os.write(theirs, struct.pack("<i", len(answer)) + answer)
            except BaseException:
                status = 1
            os._exit(status)
        os.close(theirs)
        with open(ours, "rb") as answers:
            while head := answers.read(4):
                if flag := answers.read(struct.unpack("<i", head)[0]).decode():
                    yield f"{name}: {flag}"
                number += 1
        _, status = os.waitpid(child, 0)
        if status and number < cases:
            yield f"{name}: case {begin} {name} {number}: the process ended with {status}"
            number += 1


def _late(*_: Any) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


# readers of the models' own folders, which tests/models fuzzes
MODELS = {
    "import_model",
    "load_best",
    "load_checkpoint",
    "load_model",
    "load_recipe",
    "load_tokenizer",
    "load_unfinished",
    "load_vocabularies",
    "open_tokens",
}
