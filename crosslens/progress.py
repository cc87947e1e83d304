"""What long work shows while it runs: a bar on a terminal, plain lines elsewhere, nothing when
quiet.

tqdm draws the bar. Where the output is no terminal, a line with count, rate and
remaining time is written every few seconds instead, so that a log file stays readable.
Both appear only when the work has taken two seconds.
"""

import sys
import threading
import time
from types import TracebackType

__all__ = ["Progress", "be_quiet", "duration", "is_quiet", "say"]

_quiet = False
_SHOW_AFTER, _LINE_EVERY = 2.0, 10.0  # seconds


def be_quiet(quiet: bool = True) -> None:
    """Show no progress and no remarks from here on (results and errors are still printed)."""
    global _quiet
    _quiet = quiet


def is_quiet() -> bool:
    """Whether progress is not shown."""
    return _quiet


def say(message: str) -> None:
    """Print a remark for the person who waits, unless quiet."""
    if not _quiet:
        print(message, file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """A time as one reads it: in seconds up to ten minutes, then in minutes, hours or days.

    >>> [duration(one) for one in (0.2, 599, 600, 7200, 172_800)]
    ['0 s', '599 s', '10 min', '2 h', '2 days']
    """
    for unit, size in (("days", 86_400), ("h", 3600)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds / 60:.0f} min" if seconds >= 600 else f"{seconds:.0f} s"


class Progress:
    """Counts finished work, of one thread or of several.

    Parameters
    ----------
    total: how many units there are.
    label: what is being done.
    unit: what is counted (plural).
    done: units finished earlier, by the run that this one continues.

    >>> with Progress(3, "counting", "sheep") as progress:
    ...     for _ in range(3):
    ...         progress.add(1)
    """

    def __init__(self, total: int, label: str, unit: str, done: int = 0) -> None:
        self.total, self.label, self.unit, self.done = total, label, unit, done
        self._first, self._started = done, time.monotonic()
        self._next_line = self._started + _SHOW_AFTER
        self._bar, self._lock = None, threading.Lock()
        if not _quiet and sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(
                total=total,
                desc=label,
                unit=f" {unit}",
                initial=done,
                delay=_SHOW_AFTER,
                unit_scale=True,
                leave=False,
            )

    def add(self, count: int, note: str = "") -> None:
        """Count ``count`` more units as finished; ``note`` is shown beside the rate."""
        with self._lock:
            self.done += count
            if self._bar is not None:
                if note:
                    self._bar.set_postfix_str(note, refresh=False)
                self._bar.update(count)
            elif not _quiet and time.monotonic() >= self._next_line:
                self._line(note)

    def _line(self, note: str) -> None:
        now = time.monotonic()
        rate = (self.done - self._first) / (now - self._started)
        left = f"{duration((self.total - self.done) / rate)} left" if rate > 0 else "rate unknown"
        tail = f", {note}" if note else ""
        say(
            f"{self.label}: {self.done:,} of {self.total:,} {self.unit}, "
            f"{rate:,.{0 if rate >= 10 else 2}f} {self.unit}/s, {left}{tail}"
        )
        self._next_line = now + _LINE_EVERY

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()
