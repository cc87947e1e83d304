"""Run folders become one self-contained HTML page. Never imports torch."""

from crosslens.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
