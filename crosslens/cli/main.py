"""``crosslens``: one verb each, and one line for each error.

Nothing heavy is imported before a verb runs, so help is immediate.
"""

from crosslens.cli.process import end_at_once, run

if __name__ == "__main__":
    run()  # before anything is imported that takes time

import argparse
import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import NoReturn

from crosslens import __version__
from crosslens.cli import alignment, extraction, probes
from crosslens.cli.arguments import add_common
from crosslens.errors import CrosslensError, cut, panics_as_errors

__all__ = ["build_parser", "main"]

_VERBS = {
    "quickstart": (
        "study the encoder and the corpus that the package carries; nothing is downloaded",
        "crosslens quickstart --out runs/quickstart",
    ),
    "study": (
        "retrieval, similarity and language identification per layer, on your encoders and texts",
        "crosslens study --encoder xlm-roberta-base --text fra=fra.txt --text eng=eng.txt --out runs/fra-eng",
    ),
    "train": (
        "train a masked language model from a recipe",
        "crosslens train recipe.toml steps=2000 --out runs/my-encoder",
    ),
    "extract": (
        "write the activations of every layer to disk",
        "crosslens extract --encoder xlm-roberta-base --text fra=fra.txt --text eng=eng.txt --out activations",
    ),
    "align": (
        "retrieval of sentences or words between two stores of activations, before and after orthogonal Procrustes",
        "crosslens align activations/fra activations/eng --out runs/fra-eng",
    ),
    "compare": (
        "linear CKA of every layer of two or more stores of activations",
        "crosslens compare activations/fra activations/eng",
    ),
    "probe": (
        "what the layers know: a battery of probes with controls; or language identification on stores of activations",
        "crosslens probe --encoder xlm-roberta-base --battery semantic --data data --out runs/semantic\n"
        "  crosslens probe --encoder bert-base-cased --labels nonce=generated.tab --pll word-l2r --out runs/nonce\n"
        "  crosslens probe --encoder bert-base-cased --numbers depth=depth.tsv --out runs/depth",
    ),
    "report": (
        "draw the report of a run again, or one page that compares runs of probes",
        "crosslens report runs/probes-a runs/probes-b --out probes.html",
    ),
    "doctor": (
        "versions, devices, threads, and what is missing",
        "crosslens doctor",
    ),
}
_RESUMED = ("quickstart", "study", "train", "extract", "probe")  # verbs whose work is kept when they are stopped


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments in one line, in the grammar of every other refusal."""

    def error(self, message: str) -> NoReturn:
        sys.exit(_fail(f"arguments: expected those of `{self.prog} --help`, got a mistake ({message}); see the example there"))


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = _Parser(prog="crosslens", description="Train, take apart, align, compare and probe multilingual language models.")
    parser.add_argument("--version", action="version", version=f"crosslens {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    made = {}
    for name, (text, example) in _VERBS.items():
        made[name] = verbs.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    _study_arguments(made["quickstart"], made["study"])
    _train_arguments(made["train"])
    extraction.add_arguments(made["extract"])
    alignment.add_arguments(made["align"], made["compare"])
    probes.add_arguments(made["probe"])
    made["report"].add_argument("runs", nargs="+", metavar="RUN", help="folder of a run; two or more runs of crosslens probe are compared")
    made["report"].add_argument("--out", metavar="FILE", help="the page, FILE.html (default: report.html in the folder of the one run)")
    for name, verb in made.items():
        if name not in ("doctor", "report"):
            add_common(verb, "quiet")
    return parser


def _study_arguments(quickstart: argparse.ArgumentParser, study: argparse.ArgumentParser) -> None:
    quickstart.add_argument("--out", default="runs/quickstart", metavar="DIR", help="folder of the run (default: %(default)s)")
    add_common(study, "encoder", "text", "out", required=True)
    add_common(study, "train-fraction", "device", "trust-remote-code")
    for verb in (quickstart, study):
        add_common(verb, "seed", "json")


def _train_arguments(train: argparse.ArgumentParser) -> None:
    train.add_argument("recipe", help="a TOML file, or the name of a recipe: tiny-encoder, emergence")
    train.add_argument("settings", nargs="*", metavar="key=value", help="settings to change, such as steps=2000 or masking.rate=0.3")
    train.add_argument("--out", metavar="DIR", help="folder of the run (default: runs/NAME)")
    train.add_argument("--resume", action="store_true", help="go on with a run that was stopped")
    train.add_argument("--dry-run", action="store_true", help="print the resolved recipe, who owns what, and the cost; do nothing")
    train.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: a GPU where there is one")
    train.add_argument("--parallel", choices=("ddp", "fsdp"), default="ddp", help="how the processes of torchrun share a model")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 1 a fault of the program, 2 refused, 130 interrupted."""
    parsed = build_parser().parse_args(arguments)
    from crosslens.cli import verbs

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal without Unicode still gets its table
    with _interrupts() as interrupted:
        try:
            with panics_as_errors():
                getattr(verbs, parsed.verb)(parsed)
        except BaseException as error:  # whatever an interrupt has become in the hands of others, it is one
            return _stopped(parsed) if interrupted else _failed(parsed, error)
    return 0


@contextlib.contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Make Ctrl-C an exception, which lets what is being written be tidied away; the list has an item once that has happened."""
    seen: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        seen.append(number)
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    ours = before in (end_at_once, signal.default_int_handler) and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield seen
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)


def _stopped(parsed: argparse.Namespace) -> int:
    again = "the same command with --resume goes on" if parsed.verb == "train" else "the same command goes on"
    resumed = parsed.verb in _RESUMED and not (parsed.verb == "probe" and parsed.out is None)
    kept = f"; what is finished is kept, {again}" if resumed else ""
    print(f"crosslens: stopped{kept}", file=sys.stderr)
    return 130


def _failed(parsed: argparse.Namespace, error: BaseException) -> int:
    """Say what went wrong in one line; returns the exit status."""
    if isinstance(error, CrosslensError):
        return _fail(str(error))
    if isinstance(error, KeyboardInterrupt):
        return _stopped(parsed)
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(error, OSError):
        where = error.filename or getattr(parsed, "out", None) or "output"
        remedy = (
            "free some space and run the same command again; what is finished is kept"
            if error.errno == errno.ENOSPC
            else "check the path and its rights"
        )
        return _fail(f"{where}: expected a file that can be read or written, got an error ({error.strerror or error}); {remedy}")
    if isinstance(error, MemoryError):
        return _fail("memory: expected enough for the work, got none left; give less text at a time, or a smaller encoder")
    if not isinstance(error, Exception) or os.environ.get("CROSSLENS_TRACEBACK"):
        raise error
    told = cut(str(error), 1000)  # a fault of ours: said in one line, with the way to its traceback
    _fail(f"internal error: {type(error).__name__}: {told}; set CROSSLENS_TRACEBACK=1 to see where, and report it")
    return 1


def _fail(message: str) -> int:
    if os.environ.get("RANK", "0") == "0":  # under torchrun all processes fail alike, and the first one says it
        print("crosslens: " + " ".join(message.split()), file=sys.stderr)
    return 2
