"""From settings and a folder to a finished run: what was asked, what was measured, and how to go on
after a stop."""

from crosslens.run.study import Study, run_study

__all__ = ["Study", "run_study"]
