"""The verbs ``report``, ``export`` and ``cite``: what is taken from finished runs."""

import argparse
from pathlib import Path

import crosslens as cl
from crosslens.errors import refuse

__all__ = ["cite", "cite_arguments", "export", "export_arguments", "report", "report_arguments"]


def report_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``crosslens report`` takes."""
    several = (
        "folder of a run; two or more runs of probe, of transfer, of study-transfer, controlled "
        "studies or MonoTrans are compared, and encoders that crosslens transplant has made"
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help=several)
    told = "the page, FILE.html (default: report.html in the folder of the one run)"
    parser.add_argument("--out", metavar="FILE", help=told)


def export_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``crosslens export`` takes."""
    parser.add_argument(
        "run", metavar="RUN", help="folder of a finished run that has measured something"
    )
    parser.add_argument(
        "--out",
        required=True,
        metavar="DIR",
        help="folder for scores.csv, tables.tex, tables.md and figures/",
    )


def cite_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``crosslens cite`` takes."""
    told = "folders of runs; what several used is named once"
    parser.add_argument("runs", nargs="+", metavar="RUN", help=told)


def report(arguments: argparse.Namespace) -> None:
    """Draw the report of a finished study or probe run again, that of a training, finished or not,
    or one page for several runs of one kind: probes, transfer, controlled studies, MonoTrans."""
    from crosslens.report.pages.page import run_kind, write_comparison, write_report
    from crosslens.report.pages.transplant import TOLD

    runs, out = [Path(run) for run in arguments.runs], arguments.out
    if out is not None and (
        Path(out).suffix.lower() not in (".html", ".htm") or Path(out).is_dir()
    ):
        remedy = "name the page so, as in --out probes.html"
        refuse("--out", "a file name that ends in .html", repr(out), remedy)
    if len(runs) > 1 or (runs[0] / TOLD).is_file():
        if out is None:
            refuse("--out", "a file for this page", "none", "add --out FILE.html")
        print(f"Report: {write_comparison(runs, out)}")
        return
    if run_kind(runs[0]) == "study" and not (runs[0] / "scores.jsonl").exists():
        got, remedy = "one without scores.jsonl", "finish the study first"
        if not runs[0].is_dir():
            got, remedy = "a file" if runs[0].exists() else "no such folder", "check the path"
        refuse(str(runs[0]), "the folder of a finished study", got, remedy)
    print(f"Report: {write_report(runs[0], out)}")


def export(arguments: argparse.Namespace) -> None:
    """Write a run's measurements and figures as files for a paper."""
    files = cl.Run(arguments.run).export(arguments.out)
    figures = len({file.stem for file in files if file.parent.name == "figures"})
    print(", ".join(str(file) for file in files if file.parent.name != "figures"))
    where, many = Path(arguments.out) / "figures", "s" if figures > 1 else ""
    told = f"{figures} figure{many} in {where}, each as PDF, SVG and PNG"
    print(told if figures else "nothing was measured by layer")


def cite(arguments: argparse.Namespace) -> None:
    """Print BibTeX of what runs used."""
    entries = (entry for run in arguments.runs for entry in cl.Run(run).citations())
    print("\n\n".join(dict.fromkeys(entries)))
