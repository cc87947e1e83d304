"""A run folder becomes one self-contained HTML page: which page depends on what made the folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crosslens.errors import OutputError, refuse
from crosslens.files import read_json, write_file
from crosslens.report.pages.clwe import clwe_page
from crosslens.report.pages.controlled import controlled_page
from crosslens.report.pages.controlled_runs import controlled_runs_page
from crosslens.report.pages.emergence import emergence_page
from crosslens.report.pages.mapped_transfer import mapped_transfer_page
from crosslens.report.pages.monotrans import monotrans_page
from crosslens.report.pages.monotrans_runs import monotrans_runs_page
from crosslens.report.pages.probes import probe_page, probe_runs_page
from crosslens.report.pages.study import study_page
from crosslens.report.pages.study_transfer import study_transfer_page
from crosslens.report.pages.study_transfers import study_transfers_page
from crosslens.report.pages.training import training_page
from crosslens.report.pages.transfer import transfer_page
from crosslens.report.pages.transfers import transfers_page
from crosslens.report.pages.transplant import TOLD, transplants_page
from crosslens.report.parts.layout import GENERATOR

__all__ = ["render_report", "run_kind", "write_comparison", "write_report"]

_PAGES = {
    "study": study_page,
    "align": study_page,
    "compare": study_page,
    "train": training_page,
    "emergence": emergence_page,
    "controlled": controlled_page,
    "monotrans": monotrans_page,
    "clwe": clwe_page,
    "probe": probe_page,
    "transfer": transfer_page,
    "mapped_transfer": mapped_transfer_page,
    "study_transfer": study_transfer_page,
}
_COMPARISONS = {
    "probe": probe_runs_page,
    "transfer": transfers_page,
    "controlled": controlled_runs_page,
    "monotrans": monotrans_runs_page,
    "study_transfer": study_transfers_page,
}
_MADE_BY = (
    "crosslens study",
    "crosslens align",
    "crosslens compare",
    "crosslens train",
    "crosslens probe",
    "crosslens transfer",
    "crosslens mapped-transfer",
    "crosslens study-transfer",
)  # training makes emergence, controlled studies, MonoTrans and CLWE, too


def run_kind(folder: str | Path) -> str:
    """What made a run folder, as its config.json says: "study", "align", "compare", "train",
    "emergence", "controlled", … ("study": it says nothing).

    Raises
    ------
    StoreError: config.json is damaged.
    """
    path = Path(folder) / "config.json"
    # what is no object is refused by what draws it
    config = read_json(path, Any) if path.is_file() else None
    return str(config.get("kind", "study")) if isinstance(config, dict) else "study"


def render_report(folder: str | Path) -> str:
    """The report of a run of any kind as HTML, the same characters for the same folder.

    The page loads nothing: style, figures and the few lines of script that save a figure as SVG or
    PNG are inside it. A training or emergence run need not be finished.

    Raises
    ------
    InputError: the folder holds none of them.
    StoreError: one of its files is damaged.
    """
    kind = run_kind(folder)
    if kind not in _PAGES:
        made = " or ".join(_MADE_BY)
        refuse(
            "folder",
            f"a run of {made}",
            f"{folder} of kind {kind!r}",
            f"name a folder that {made} has written",
        )
    return _PAGES[kind](folder)


def write_report(folder: str | Path, path: str | Path | None = None) -> Path:
    """Write a run's report to ``report.html`` in its folder, or to ``path``, whole or not at all,
    and return where it is.

    Raises
    ------
    InputError, StoreError: see :func:`render_report`. OutputError: ``path`` is a file that is no
        report, or its folder is not there; or it cannot be written.
    """
    if path is not None:
        _check_page(Path(path))
    path = Path(folder) / "report.html" if path is None else Path(path)
    write_file(path, render_report(folder))
    return path


def write_comparison(folders: Sequence[str | Path], path: str | Path) -> Path:
    """Write one page for any number of runs of probes, of runs of transfer, of controlled studies, of their
    transfer, of MonoTrans, or of encoders with another vocabulary, to ``path``, whole or not at all, and return where it is.

    Raises
    ------
    InputError: one of the folders holds no finished run of the first one's kind (no such encoder),
        or is named twice; or the runs share nothing that could be compared.
    StoreError: one of their files is damaged.
    OutputError: ``path`` is a file that is no report.
    """
    _check_page(Path(path))
    if len({Path(folder).resolve() for folder in folders}) < len(folders):
        refuse("report", "each folder once", "one of them twice", "leave it out")
    if any((Path(folder) / TOLD).is_file() for folder in folders):
        page = transplants_page
    else:
        page = _COMPARISONS.get(run_kind(folders[0]) if folders else "probe", probe_runs_page)
    write_file(path, page(folders))
    return Path(path)


def _check_page(path: Path) -> None:
    """Refuse to write over a file of somebody else's, or into a folder that is not there."""
    if not path.parent.is_dir():
        expected, remedy = "a file in a folder that is there", "make the folder first"
        refuse(str(path), expected, f"no folder {path.parent}", remedy, OutputError)
    if not path.is_file():
        return
    with open(path, "rb") as file:
        ours = GENERATOR.encode() in file.read(2000)
    if not ours:
        refuse(
            str(path),
            "a new file, or a report of crosslens",
            "another file",
            "choose another name, or delete it",
            OutputError,
        )
