"""Run by test_kills.py: commands that are stopped at moments drawn at random, given again, and
compared with one that nothing happened to.

    python killed_runs.py FOLDER JOB HOW MOMENTS SEED

JOB names one of the commands below; HOW is ``kill`` (SIGKILL), ``interrupt`` (SIGINT) or ``full``
(a disk, or a file, that takes no more). The parent runs the command once, so that all is imported,
and each further run is a fork of it. For each moment a line is printed; the last is a line of JSON.
"""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch
from battery_data import make_data
from monotrans_toy import SMALL
from tests_run_helpers import first_lines, other_encoder
from toy_texts import two_languages, write_lines

from crosslens.cli import main as cli
from crosslens.models.extraction import extract, type_averages
from crosslens.recipes.monotrans import monotrans
from crosslens.run.trainings.monotrans import run_monotrans

STOPPED = {"kill": signal.SIGKILL, "interrupt": signal.SIGINT}
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
_LOG = 1024  # bytes that the log has room for however small a file may be
AFTER = 131  # stopped by SIGINT before the command was in charge, or after it was done


def jobs(folder: Path) -> dict[str, list[str]]:
    """name -> command without its --out."""
    encoder = str(folder / "encoder")
    texts = {language: f"{language}={folder / language}.txt" for language in ("eng", "fra")}
    study = [
        "study",
        "--encoder",
        encoder,
        *(part for text in texts.values() for part in ("--text", text)),
    ]
    probe = [
        "probe",
        "--encoder",
        encoder,
        "--battery",
        "semantic",
        "--tasks",
        "wic,topic",
        "--data",
        str(folder / "data"),
    ]
    units = {
        unit: [
            "extract",
            "--encoder",
            encoder,
            "--text",
            *texts.values(),
            "--unit",
            unit,
            "--dtype",
            "float16",
        ]
        for unit in ("sentence", "word", "type")
    }
    tuned = [
        *("--tasks", "xnli", "--data", str(folder / "data"), "--train", "eng", "--test", "eng,deu"),
        *("--epochs", "2", "--batch-size", "8", "--seeds", "2"),
    ]
    transfer = ["transfer", "--encoder", encoder, *tuned, "--keep"]
    # MonoTrans' step 3, and the test of step 4; an encoder of crosslens' own cannot be kept
    joined = str(folder / "monotrans" / "model")
    third = ["transfer", "--encoder", joined, "--noise", "0.075", *tuned]
    return {**units, "study": study, "probe": probe, "transfer": transfer, "step-3": third}


def make(folder: Path) -> None:
    """Encoder, texts and data sets."""
    if (folder / "data").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    other_encoder(folder / "encoder", layers=2, width=16)
    for language in ("eng", "fra"):
        (folder / f"{language}.txt").write_text(
            "".join(line + "\n" for line in first_lines(language, 60)), encoding="utf-8"
        )
    lines = dict(zip(("eng", "deu"), two_languages(160), strict=True))
    for language, text in lines.items():
        write_lines(folder / f"toy.{language}.txt", text)
    told = {"source": f"eng:{folder}/toy.eng.txt", "target": f"deu:{folder}/toy.deu.txt"}
    place = folder / "monotrans"
    run_monotrans(monotrans({**SMALL, **told}, place), place, device="cpu")
    make_data(folder / "data")
    (folder / "data" / "xnli").mkdir()
    for name, n in (("train-en", 48), ("dev-en", 8), ("test-en", 12), ("test-de", 12)):
        given = [(i, ("neutral", "entailment")[i % 2]) for i in range(n)]
        pairs = (f"{('A', 'The')[i % 2]} dog {i}.\tIt is {i}.\t{label}\n" for i, label in given)
        (folder / "data" / "xnli" / f"{name}.tsv").write_text("".join(pairs))


def shrink() -> None:
    """Small blocks, sums saved after each."""
    extract._block_text = lambda *_: 400
    type_averages._SAVE_EVERY = 0.0


def work(command: list[str], out: Path, log: Path, limit: int | None) -> int:
    """In a child; what it says goes to a file."""
    heard = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(heard, 1)
    os.dup2(heard, 2)
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    return cli.main([*command, "--out", str(out), "--quiet"])


def run(
    command: list[str],
    out: Path,
    log: Path,
    *,
    after: float | None = None,
    how: str = "kill",
    limit: int | None = None,
) -> int:
    """The exit status of the command, or of a signal ``after`` so many seconds (-9)."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # until somebody is there to hear it
    child = os.fork()
    if child == 0:
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            status = work(command, out, log, limit)
            sys.stdout.flush()
        except BaseException:
            status = AFTER
        os._exit(status)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    if after is not None:
        time.sleep(after)
        os.kill(child, STOPPED[how])
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def files(folder: Path) -> dict[str, bytes]:
    """All files but the locks of folders, and logs, which tell how long steps took."""
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.name not in (".lock", "log.jsonl")
    }


def differing(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def stop(
    command: list[str],
    out: Path,
    log: Path,
    how: str,
    chance: random.Random,
    seconds: float,
    whole: dict[str, bytes],
) -> str:
    """One disturbance, and sometimes a second one of what goes on; what is wrong with how it ended,
    or "" for nothing."""
    for _ in range(chance.choice((1, 1, 2))):
        if how == "full":
            status = run(
                command, out, log, limit=chance.randrange(_LOG, max(map(len, whole.values())))
            )
        else:
            status = run(command, out, log, after=chance.uniform(0, seconds), how=how)
        said = log.read_text(errors="replace") if log.exists() else ""
        if (
            status not in {"kill": (-9, 0), "interrupt": (130, AFTER, 0), "full": (2, 0)}[how]
            or "internal error" in said
            or "Traceback" in said
        ):
            return f"status {status}: {said[-300:]}"
        if status == 0:
            break
    return ""


def full_disk(
    command: list[str], out: Path, log: Path, chance: random.Random, whole: dict[str, bytes]
) -> str | None:
    """The same with a small file system of its own, where one may be mounted; None where not."""
    out.mkdir()
    size = sum(map(len, whole.values()))
    small = [
        "mount",
        "-t",
        "tmpfs",
        "-o",
        f"size={chance.randrange(4096, 2 * size)}",
        "tmpfs",
        str(out),
    ]
    if (
        os.geteuid()
        or shutil.which("mount") is None
        or subprocess.run(small, capture_output=True, check=False).returncode
    ):
        return None
    try:
        status = run(command, out / "run", log)
        said = log.read_text(errors="replace")
        if status not in (0, 2) or "internal error" in said or "Traceback" in said:
            return f"status {status}: {said[-300:]}"
        subprocess.run(
            ["mount", "-o", f"remount,size={20 * size + (64 << 20)}", str(out)], check=True
        )
        again = run(command, out / "run", log)
        wrong = differing(files(out / "run"), whole)
        return (
            f"status {again}, differing: {wrong} {log.read_text(errors='replace')[-300:]}"
            if again or wrong
            else ""
        )
    finally:
        subprocess.run(["umount", str(out)], check=True)


def main() -> int:
    folder, job, how, moments, seed = (
        Path(sys.argv[1]),
        sys.argv[2],
        sys.argv[3],
        int(sys.argv[4]),
        int(sys.argv[5]),
    )
    make(folder)
    command, scratch = jobs(folder)[job], folder / f"{job}-{how}"
    scratch.mkdir()
    log, chance = scratch / "log", random.Random(f"{seed} {job} {how}")
    torch.set_num_threads(1)  # a fork of several would hang
    shrink()
    if status := cli.main([*command, "--out", str(scratch / "first" / "run"), "--quiet"]):
        return status
    started = time.monotonic()
    if status := run(command, scratch / "undisturbed" / "run", log):
        print(log.read_text())
        return status
    seconds, whole = time.monotonic() - started, files(scratch / "undisturbed" / "run")
    if names := differing(files(scratch / "first" / "run"), whole):
        print("two undisturbed runs differ:", names)
        return 1
    shutil.rmtree(scratch / "undisturbed")
    shutil.rmtree(scratch / "first")
    faults, begun, out = [], 0, scratch / "run"
    for moment in range(moments):
        wrong = (
            full_disk(command, out, log, chance, whole) if how == "full" and moment % 2 else None
        )
        if wrong is None:
            shutil.rmtree(out, ignore_errors=True)
            wrong = stop(command, out, log, how, chance, seconds, whole)
            there = files(out) if out.exists() else {}
            begun += there != {} and there != whole
            # a machine may have more or less to do than when the undisturbed run was timed
            seconds *= 0.9 if there == whole else 1.0 if there else 1.1
            if not wrong and (status := run(command, out, log)):
                wrong = f"given again: status {status}: {log.read_text(errors='replace')[-300:]}"
            elif not wrong and (names := differing(files(out), whole)):
                wrong = f"differing: {names}"
        print(job, how, moment, wrong or "as if nothing had happened", flush=True)
        faults += [f"{moment}: {wrong}"] if wrong else []
        if not wrong:
            shutil.rmtree(out, ignore_errors=True)
        else:
            shutil.move(out, scratch / f"wrong-{moment}")
    print(
        json.dumps(
            {
                "job": job,
                "how": how,
                "moments": moments,
                "stopped_in_the_middle": begun,
                "faults": faults,
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
