"""What a training's model was fine-tuned on, and what came of it in its languages."""

from pathlib import Path

from crosslens.report.folders.transfer import load_transfer
from crosslens.report.parts.layout import section
from crosslens.report.parts.wording import join, language, paragraph, text
from crosslens.report.sections.transfer_task import transfer_table
from crosslens.score import QUANTITIES

__all__ = ["fine_tuned_section"]


def fine_tuned_section(folder: Path, title: str) -> str:
    """A table for each task of the run of transfer in a training's folder; "" where there is none.

    Raises
    ------
    StoreError: one of its files is damaged.
    """
    place = folder / "transfer"
    if not (place / "scores.jsonl").is_file():
        return ""
    run = load_transfer(place)
    asked = run.section("settings")
    train, test = (_languages(asked.get(name)) for name in ("train", "test"))
    told = f"Fine-tuned on {train}, and tested in {test}. All of it: crosslens report {place}"
    parts = [
        paragraph(text(f"{run.title(task)}: {QUANTITIES[quantity].label}."))
        + transfer_table(run, task)
        for task, (quantity, _) in run.main.items()
    ]
    return section("fine-tuned", title, paragraph(text(told)), *parts)


def _languages(codes: object) -> str:
    return join([language(str(code)) for code in codes]) if isinstance(codes, list) else "?"
