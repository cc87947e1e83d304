"""``crosslens``: one verb each, and one line for each error.

Nothing heavy is imported before a verb runs, so help is immediate.
"""

from crosslens.cli.output import is_first_process
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
from collections.abc import Collection, Iterator, Sequence
from types import FrameType
from typing import NoReturn

from crosslens.cli import (
    alignment,
    derived,
    export,
    extraction,
    listing,
    mapped,
    probes,
    study,
    study_transfer,
    training,
    transfer,
    transplant,
)
from crosslens.cli.arguments import add_common, check_spelling, with_config
from crosslens.errors import CrosslensError, cut, panics_as_errors
from crosslens.progress import be_quiet
from crosslens.version import __version__

__all__ = ["build_parser", "main"]

# what it does, what it takes, what its help says, and an example
_VERBS = {
    "quickstart": (
        study.quickstart,
        study.quickstart_arguments,
        "study the encoder and the corpus that the package carries; nothing is downloaded",
        "crosslens quickstart --out runs/quickstart",
    ),
    "study": (
        study.study,
        study.study_arguments,
        "retrieval, similarity and language identification per layer, on your encoders and texts",
        (
            "crosslens study --encoder xlm-roberta-base --text fra=fra.txt --text eng=eng.txt "
            "--out runs/fra-eng"
        ),
    ),
    "train": (
        training.train,
        training.train_arguments,
        "train a masked language model from a recipe",
        "crosslens train recipe.toml steps=2000 --out runs/my-encoder",
    ),
    "derive": (
        derived.derive,
        derived.derive_arguments,
        "write a text, or labelled data, as a derived language has it: inverted, permuted, "
        "transliterated, …",
        "crosslens derive --text eng=eng.txt --by inversion --out derived\n"
        "  crosslens derive --treebank eng=en_ewt-ud-test.conllu --iob2 eng=en_ewt-ud-test.iob2 "
        "--by transliteration+permutation --out derived\n"
        "  crosslens derive --treebank eng=en_ewt-ud-test.conllu --order-of fra=fr_gsd-ud-dev.conllu "
        "--out en~fr",
    ),
    "extract": (
        extraction.extract,
        extraction.extract_arguments,
        "write the activations of every layer to disk",
        (
            "crosslens extract --encoder xlm-roberta-base --text fra=fra.txt --text eng=eng.txt "
            "--out activations"
        ),
    ),
    "align": (
        alignment.align,
        alignment.align_arguments,
        (
            "retrieval of sentences or words between the activations of two texts, before and after "
            "orthogonal Procrustes"
        ),
        "crosslens align activations/fra activations/eng --out runs/fra-eng",
    ),
    "compare": (
        alignment.compare,
        alignment.compare_arguments,
        "linear CKA of every layer between the activations of two or more texts",
        "crosslens compare activations/fra activations/eng",
    ),
    "probe": (
        probes.probe,
        probes.probe_arguments,
        (
            "what the layers know: a battery of probes with controls; or language identification "
            "on activations"
        ),
        "crosslens probe --encoder xlm-roberta-base --battery semantic --data data --out "
        "runs/semantic\n"
        "  crosslens probe --encoder bert-base-cased --labels nonce=generated.tab --pll "
        "word-l2r --out runs/nonce\n"
        "  crosslens probe --encoder bert-base-cased --numbers depth=depth.tsv --out runs/depth",
    ),
    "transfer": (
        transfer.transfer,
        transfer.transfer_arguments,
        "fine-tune on one language, test on others: beside controls, over seeds, with intervals",
        "crosslens transfer --encoder xlm-roberta-base --tasks ner,upos --train eng --test "
        "eng,deu,hin --data data --out runs/transfer",
    ),
    "mapped-transfer": (
        mapped.mapped_transfer,
        mapped.mapped_transfer_arguments,
        "train a head on a layer of one encoder, test it on another one through a map",
        "crosslens mapped-transfer --encoder bert-base-cased --target-encoder "
        "bert-base-german-cased --task ner --train eng --test deu --data data --text eng=eng.txt "
        "deu=deu.txt --links links.txt --out runs/mapped",
    ),
    "study-transfer": (
        study_transfer.study_transfer,
        study_transfer.study_transfer_arguments,
        "fine-tune all models of a controlled study on the original, test them on its copies",
        "crosslens study-transfer --study runs/compositions --tasks upos --data data --out "
        "runs/compositions-upos",
    ),
    "transplant": (
        transplant.transplant,
        transplant.transplant_arguments,
        "give an encoder the vocabulary of another language; its body stays as it is",
        "crosslens transplant --encoder bert-base-cased --text swh=swh.txt --by similarity --out "
        "encoders/swh",
    ),
    "report": (
        export.report,
        export.report_arguments,
        "draw the report of a run again, or one page that compares runs of probes or of transfer",
        "crosslens report runs/probes-a runs/probes-b --out probes.html",
    ),
    "export": (
        export.export,
        export.export_arguments,
        (
            "a finished run for a paper: scores as CSV, LaTeX and Markdown, figures as PDF, SVG "
            "and PNG"
        ),
        "crosslens export runs/fra-eng --out paper/fra-eng",
    ),
    "cite": (
        export.cite,
        export.cite_arguments,
        "BibTeX of what runs used: methods, data, this library",
        "crosslens cite runs/fra-eng runs/semantic",
    ),
    "list": (
        listing.list_all,
        listing.list_arguments,
        "what there is: tasks with their languages and data, recipes, measures",
        "crosslens list tasks --data data",
    ),
    "doctor": (
        listing.doctor,
        listing.doctor_arguments,
        "versions, devices, threads, and what is missing",
        "crosslens doctor",
    ),
}
# verbs whose work is kept when they are stopped
_RESUMED = (
    *("quickstart", "study", "train", "extract", "probe", "transfer", "mapped-transfer"),
    *("study-transfer", "transplant"),
)


_FROM_FILES = (
    *("study", "train", "extract", "align", "compare", "probe", "transfer", "mapped-transfer"),
    *("study-transfer", "derive", "transplant"),
)


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
    return _build(_VERBS)[0]


def _build(
    whole: Collection[str],
) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser, and that of each verb; only those of ``whole`` have their arguments."""
    parser = _Parser(
        prog="crosslens",
        description="Train, take apart, align, compare and probe multilingual language models.",
    )
    parser.add_argument("--version", action="version", version=f"crosslens {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    made: dict[str, argparse.ArgumentParser] = {}
    for name, (_, add_arguments, text, example) in _VERBS.items():
        made[name] = verbs.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=f"example:\n  {example}",
            formatter_class=_Help,
        )
        if name not in whole:
            continue
        add_arguments(made[name])
        add_common(made[name], "quiet")
        if name in _FROM_FILES:
            told = {"help": "the same as RECIPE"} if name == "train" else {}
            add_common(made[name], "config", **told)
    return parser, made


def _parsed(line: list[str]) -> argparse.Namespace | None:
    """The command; None where none was given, and help was."""
    typed = [word for word in line if word in _VERBS][:1]
    parser, verbs = _build(typed if typed and "_ARGCOMPLETE" not in os.environ else _VERBS)
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
    parsed, rest = parser.parse_known_args(line)
    if parsed.verb == "train":  # argparse takes none behind an option
        behind = [word for word in rest if "=" in word and word[0] != "-"]
        parsed.settings = [*parsed.settings, *behind]
        rest = [word for word in rest if word not in behind]
    if rest:  # the verb's own help names what it takes
        verbs[parsed.verb].error(f"unrecognized arguments: {' '.join(rest)}")
    if getattr(parsed, "out", None) == "":  # a variable of a script that was never set
        verbs[parsed.verb].error("argument --out: a place is needed, not '' (. is this folder)")
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
    # under torchrun the first process speaks
    be_quiet(parsed.quiet or not is_first_process())
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal without Unicode still gets its table
    with _interrupts(parsed) as interrupted:
        try:
            with panics_as_errors():
                _VERBS[parsed.verb][0](parsed)
        # whatever an interrupt has become in the hands of others, it is one
        except BaseException as error:
            return _stopped(parsed) if interrupted else _failed(parsed, error)
    return 0


@contextlib.contextmanager
def _interrupts(parsed: argparse.Namespace) -> Iterator[list[int]]:
    """Make Ctrl-C an exception, which lets what is being written be tidied away; the list has an
    item once that has happened.

    Within an import it ends the process at once: compiled modules print an exception that is raised
    in theirs, and go on. While a pool of threads takes a lock it waits.
    """
    seen: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        if _is_importing(frame):
            os._exit(_stopped(parsed))
        if not _takes_a_lock(frame):
            raise KeyboardInterrupt
        _thread.start_new_thread(again, ())  # threading's own way takes locks, too

    def again() -> None:
        time.sleep(0.01)  # until what swallows it, or takes a lock, is left
        if active:
            # ends what the main thread waits for, as interrupt_main does not
            signal.pthread_kill(waiting, signal.SIGINT)

    def unraisable(told: "sys.UnraisableHookArgs") -> None:
        # raised in a destructor, say, where Python prints it and goes on
        if isinstance(told.exc_value, KeyboardInterrupt):
            threading.Thread(target=again, daemon=True).start()
        else:
            hook(told)

    before, hook, active = signal.getsignal(signal.SIGINT), sys.unraisablehook, True
    waiting = threading.main_thread().ident or 0
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


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported by one of the calls that have led to this one."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _takes_a_lock(frame: FrameType | None) -> bool:
    """Whether one of the calls that have led to this one takes a lock of a pool of threads, for a
    moment: raised there, an exception leaves it taken, and the threads that wait for it never
    end."""
    while frame is not None:
        if frame.f_code.co_qualname in _TAKING:
            return True
        frame = frame.f_back
    return False


_TAKING = ("ThreadPoolExecutor.submit", "Condition.__enter__", "Condition.__exit__")


def _stopped(parsed: argparse.Namespace) -> int:
    again = (
        "the same command with --resume continues"
        if parsed.verb == "train"
        else "the same command resumes it"
    )
    resumed = parsed.verb in _RESUMED and not (parsed.verb == "probe" and parsed.out is None)
    if parsed.verb == "transplant":  # its training is kept, the rest takes a moment
        resumed = parsed.tokens is not None or parsed.by == "monotrans"
    kept = f"; what is finished is kept, {again}" if resumed else ""
    print(f"crosslens: stopped{kept}", file=sys.stderr, flush=True)
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
    if is_first_process():
        print("crosslens: " + " ".join(message.split()), file=sys.stderr)
    return 2
