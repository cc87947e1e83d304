"""Draws the start page's pictures from a run of the quickstart: ``python docs/site/picture.py
runs/quickstart``."""

import sys
from pathlib import Path

from crosslens.report.parts.drawing import Style, curve_panel, line_of, plain_style
from crosslens.report.parts.wording import tag
from crosslens.score import Score, read_scores

CONDITIONS = {
    "procrustes": (
        "after a rotation fitted on other sentences",
        Style("#d55e00", marker="s", band=True),
    ),
    "unaligned": ("as they are", Style("#0072b2", marker="o", band=True)),
    "random_encoder": ("random weights", Style("#9aa0a6")),
}
TARGETS = {"fra": "English to French", "cmn": "English to Mandarin Chinese"}
# where each line's name stands
_KEY = {"procrustes": (58, 46), "unaligned": (58, 64), "random_encoder": (190, 64)}
_FONTS = "system-ui, -apple-system, 'Segoe UI', Arial, 'Noto Sans', sans-serif"


def curve(scores: list[Score], condition: str, target: str) -> dict[int, Score]:
    """Layer -> retrieval of held-out sentences."""
    wanted = ("sentence_retrieval", "precision_at_1", condition, "eng", target)
    found = [s for s in scores if (s.task, s.quantity, s.condition, s.source, s.target) == wanted]
    return {
        s.layer: s
        for s in found
        if s.layer is not None and (s.details or {}).get("part") == "held_out"
    }


def picture(scores: list[Score], target: str) -> str:
    """The picture of one direction as a file of its own, black on white, with a key above the
    panel."""
    curves = {condition: curve(scores, condition, target) for condition in CONDITIONS}
    lines = [line_of(curves[condition], style) for condition, (_, style) in CONDITIONS.items()]
    best = [
        f"{CONDITIONS[c][0]} {max(s.value for s in found.values()):.2f}"
        for c, found in curves.items()
    ]
    label = f"{TARGETS[target]}: translations found first, best layer: {', '.join(best)}."
    with plain_style():
        panel = curve_panel(target, label, lines, (0.0, 0.6), "translations found first (P@1)")
    height = round(float(panel.partition('height="')[2].partition('"')[0]))
    parts = [tag("rect", width="360", height=str(height + 76), fill="white")]
    parts.append(
        tag(
            "text",
            TARGETS[target],
            x="30",
            y="24",
            font_size="14",
            font_weight="600",
            fill="#3a3f45",
        )
    )
    for condition, (x, y) in _KEY.items():
        words, style = CONDITIONS[condition]
        parts.append(
            tag(
                "path",
                d=f"M{x - 28} {y - 4}h22",
                stroke=style.colour,
                stroke_width="2.4",
                fill="none",
            )
        )
        parts.append(tag("text", words, x=str(x), y=str(y), font_size="12", fill="#3a3f45"))
    names = {
        "xmlns": "http://www.w3.org/2000/svg",
        "xmlns:xlink": "http://www.w3.org/1999/xlink",
        "font-family": _FONTS,
    }
    body = "".join(parts) + tag("g", panel, transform="translate(0 76)")
    return (
        tag(
            "svg",
            body,
            viewBox=f"0 0 360 {height + 76}",
            width="360",
            height=str(height + 76),
            **names,
        )
        + "\n"
    )


if __name__ == "__main__":
    measured = list(read_scores(Path(sys.argv[1]) / "scores.jsonl"))
    for code in TARGETS:
        (Path(__file__).parents[1] / f"retrieval-{code}.svg").write_text(
            picture(measured, code), encoding="utf-8"
        )
