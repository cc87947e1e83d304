"""Run folders become one self-contained HTML page. Never imports torch."""

from crosslens.report.pages.page import render_report, run_kind, write_report
from crosslens.report.pages.training import training_figure

__all__ = ["render_report", "run_kind", "training_figure", "write_report"]
