"""``crosslens``: one verb each, and one line for each error.

Nothing heavy is imported before a verb runs, so help is immediate.
"""

from crosslens.cli.process import end_at_once, run

if __name__ == "__main__":
    run()  # before anything is imported that takes time

import _thread
import argparse
import contextlib
import errno
import os
import re
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import NoReturn

from crosslens import __version__
from crosslens.cli import alignment, export, extraction, listing, probes
from crosslens.cli.arguments import add_common
from crosslens.cli.config import asked_by, with_config
from crosslens.cli.spelling import check_spelling
from crosslens.errors import CrosslensError, cut, panics_as_errors

__all__ = ["build_parser", "main"]

_VERBS = {
    "quickstart": (
        "study the encoder and the corpus that the package carries; nothing is downloaded",
        "crosslens quickstart --out runs/quickstart",
    ),
    "study": (
        "retrieval, similarity and language identification per layer, on your encoders and texts",
        (
            "crosslens study --encoder xlm-roberta-base --text fra=fra.txt --text eng=eng.txt "
            "--out runs/fra-eng"
        ),
    ),
    "train": (
        "train a masked language model from a recipe",
        "crosslens train recipe.toml steps=2000 --out runs/my-encoder",
    ),
    "extract": (
        "write the activations of every layer to disk",
        (
            "crosslens extract --encoder xlm-roberta-base --text fra=fra.txt --text eng=eng.txt "
            "--out activations"
        ),
    ),
    "align": (
        (
            "retrieval of sentences or words between two stores of activations, before and after "
            "orthogonal Procrustes"
        ),
        "crosslens align activations/fra activations/eng --out runs/fra-eng",
    ),
    "compare": (
        "linear CKA of every layer of two or more stores of activations",
        "crosslens compare activations/fra activations/eng",
    ),
    "probe": (
        (
            "what the layers know: a battery of probes with controls; or language identification "
            "on stores of activations"
        ),
        "crosslens probe --encoder xlm-roberta-base --battery semantic --data data --out "
        "runs/semantic\n"
        "  crosslens probe --encoder bert-base-cased --labels nonce=generated.tab --pll "
        "word-l2r --out runs/nonce\n"
        "  crosslens probe --encoder bert-base-cased --numbers depth=depth.tsv --out runs/depth",
    ),
    "report": (
        "draw the report of a run again, or one page that compares runs of probes",
        "crosslens report runs/probes-a runs/probes-b --out probes.html",
    ),
    "export": (
        (
            "a finished run for a paper: scores as CSV, LaTeX and Markdown, figures as PDF, SVG "
            "and PNG"
        ),
        "crosslens export runs/fra-eng --out paper/fra-eng",
    ),
    "cite": (
        "BibTeX of what runs used: methods, data, this library",
        "crosslens cite runs/fra-eng runs/semantic",
    ),
    "list": (
        "what there is: tasks with their languages and data, recipes, measures",
        "crosslens list tasks --data data",
    ),
    "doctor": (
        "versions, devices, threads, and what is missing",
        "crosslens doctor",
    ),
}
# verbs whose work is kept when they are stopped
_RESUMED = ("quickstart", "study", "train", "extract", "probe")


_WITHOUT_PROGRESS = ("report", "export", "cite", "list", "doctor")
_FROM_FILES = ("study", "train", "extract", "align", "compare", "probe")


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments in one line, in the grammar of every other refusal."""

    def error(self, message: str) -> NoReturn:
        sys.exit(
            _fail(
                f"arguments: expected those of `{self.prog} --help`, got a mistake "
                f"({message}); see the example there"
            )
        )


class _Help(argparse.HelpFormatter):
    """Keeps the lines of examples; those that are too long go on, as a shell reads them."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if not text.startswith("example:"):
            return super()._fill_text(text, width, indent)
        wrap = textwrap.TextWrapper(
            width - 4, subsequent_indent="      ", break_long_words=False, break_on_hyphens=False
        )
        # an option stays with its value
        lines = (wrap.wrap(re.sub(r"(--[\w-]+) ", "\\1\0", line)) for line in text.splitlines())
        return "\n".join(" \\\n".join(line) for line in lines).replace("\0", " ")


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    return _build()[0]


def _build() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser, and that of each verb."""
    parser = _Parser(
        prog="crosslens",
        description="Train, take apart, align, compare and probe multilingual language models.",
    )
    parser.add_argument("--version", action="version", version=f"crosslens {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    made: dict[str, argparse.ArgumentParser] = {}
    for name, (text, example) in _VERBS.items():
        made[name] = verbs.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=f"example:\n  {example}",
            formatter_class=_Help,
        )
    _study_arguments(made["quickstart"], made["study"])
    _train_arguments(made["train"])
    extraction.add_arguments(made["extract"])
    alignment.add_arguments(made["align"], made["compare"])
    probes.add_arguments(made["probe"])
    export.add_arguments(made["export"], made["cite"])
    listing.add_arguments(made["list"])
    made["report"].add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="folder of a run; two or more runs of crosslens probe are compared",
    )
    made["report"].add_argument(
        "--out",
        metavar="FILE",
        help="the page, FILE.html (default: report.html in the folder of the one run)",
    )
    for name, verb in made.items():
        if name not in _WITHOUT_PROGRESS:
            add_common(verb, "quiet")
    for name in _FROM_FILES:
        add_common(
            made[name], "config", **({"help": "the same as RECIPE"} if name == "train" else {})
        )
    return parser, made


def _study_arguments(quickstart: argparse.ArgumentParser, study: argparse.ArgumentParser) -> None:
    quickstart.add_argument(
        "--out",
        default="runs/quickstart",
        metavar="DIR",
        help="folder of the run (default: %(default)s)",
    )
    add_common(study, "encoder", "text", "out", required=True)
    add_common(study, "train-fraction", "device", "trust-remote-code")
    for verb in (quickstart, study):
        add_common(verb, "seed", "json")


def _train_arguments(train: argparse.ArgumentParser) -> None:
    recipes = (
        "a TOML file, the config.json of a run, or the name of a recipe: tiny-encoder, emergence"
    )
    train.add_argument("recipe", nargs="?", help=recipes)
    train.add_argument(
        "settings",
        nargs="*",
        metavar="key=value",
        help="settings to change, such as steps=2000 or masking.rate=0.3",
    )
    train.add_argument("--out", metavar="DIR", help="folder of the run (default: runs/NAME)")
    train.add_argument("--resume", action="store_true", help="go on with a run that was stopped")
    train.add_argument(
        "--dry-run",
        action="store_true",
        help="print the resolved recipe, who owns what, and the cost; do nothing",
    )
    add_common(
        train,
        "device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        metavar=None,
        help="auto: a GPU where there is one",
    )
    train.add_argument(
        "--parallel",
        choices=("ddp", "fsdp"),
        default="ddp",
        help="how the processes of torchrun share a model",
    )
    add_common(train, "json")


def _parsed(line: list[str]) -> argparse.Namespace | None:
    """The command; None where none was given, and help was."""
    parser, verbs = _build()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what could come next
        import argcomplete

        argcomplete.autocomplete(parser)
    if not line:
        parser.print_help(sys.stderr)
        return None
    check_spelling(parser, verbs, line)
    if (
        line[0] in _FROM_FILES
        and line[0] != "train"
        and any(word.startswith("--c") for word in line)
    ):
        line = [line[0], *with_config(verbs[line[0]], line[0], line[1:])]
    parsed = parser.parse_args(line)
    parsed.asked = asked_by(verbs[parsed.verb], parsed) if parsed.verb in _FROM_FILES else {}
    return parsed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 1 a fault of the program, 2 refused, 130
    interrupted."""
    try:
        parsed = _parsed(list(sys.argv[1:] if arguments is None else arguments))
    except (CrosslensError, OSError) as error:
        return _failed(argparse.Namespace(), error)
    if parsed is None:
        return 2
    from crosslens.cli import verbs

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal without Unicode still gets its table
    with _interrupts() as interrupted:
        try:
            with panics_as_errors():
                getattr(verbs, parsed.verb)(parsed)
        # whatever an interrupt has become in the hands of others, it is one
        except BaseException as error:
            return _stopped(parsed) if interrupted else _failed(parsed, error)
    return 0


@contextlib.contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Make Ctrl-C an exception, which lets what is being written be tidied away; the list has an
    item once that has happened."""
    seen: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        seen.append(number)
        raise KeyboardInterrupt

    def again() -> None:
        time.sleep(0.01)  # until what has swallowed it is left
        if active:
            _thread.interrupt_main()

    def unraisable(told: "sys.UnraisableHookArgs") -> None:
        # raised in a destructor, say, where Python prints it and goes on
        if isinstance(told.exc_value, KeyboardInterrupt):
            threading.Thread(target=again, daemon=True).start()
        else:
            hook(told)

    before, hook, active = signal.getsignal(signal.SIGINT), sys.unraisablehook, True
    ours = (
        before in (end_at_once, signal.default_int_handler)
        and threading.current_thread() is threading.main_thread()
    )
    if ours:
        signal.signal(signal.SIGINT, interrupt)
        sys.unraisablehook = unraisable
    try:
        yield seen
    finally:
        active = False
        if ours:
            sys.unraisablehook = hook
            signal.signal(signal.SIGINT, before)


def _stopped(parsed: argparse.Namespace) -> int:
    again = (
        "the same command with --resume goes on"
        if parsed.verb == "train"
        else "the same command goes on"
    )
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
        return _fail(
            f"{where}: expected a file that can be read or written, got an error "
            f"({error.strerror or error}); {remedy}"
        )
    if isinstance(error, MemoryError):
        return _fail(
            "memory: expected enough for the work, got none left; give less text at a time, "
            "or a smaller encoder"
        )
    if not isinstance(error, Exception) or os.environ.get("CROSSLENS_TRACEBACK"):
        raise error
    told = cut(str(error), 1000)  # a fault of ours: said in one line, with the way to its traceback
    _fail(
        f"internal error: {type(error).__name__}: {told}; set CROSSLENS_TRACEBACK=1 to see "
        f"where, and report it"
    )
    return 1


def _fail(message: str) -> int:
    # under torchrun all processes fail alike, and the first one says it
    if os.environ.get("RANK", "0") == "0":
        print("crosslens: " + " ".join(message.split()), file=sys.stderr)
    return 2
