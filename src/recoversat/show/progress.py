"""Progress on standard error: a live bar in a terminal, a line now and then elsewhere."""

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta


class LineBar:
    """Prints a line when enough time has passed: for logs and pipes."""

    def __init__(self, title: str, total: int | None, done: int, every_seconds: float = 20.0) -> None:
        self._title, self._total, self._done, self._every = title, total, done, every_seconds
        self._first = done
        self._began = self._printed = time.monotonic()
        self._note = ""

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Count `amount` more units as done and show `note` beside them."""
        self._done += amount
        self._note = note or self._note
        now = time.monotonic()
        if now - self._printed >= self._every:
            self._printed = now
            print(self._line(now, self._note), file=sys.stderr, flush=True)

    def say(self, line: str) -> None:
        if self._every < math.inf:
            print(f"{self._title}: {line}", file=sys.stderr, flush=True)

    def _line(self, now: float, note: str) -> str:
        done = f"{self._done:,}" + (f"/{self._total:,}" if self._total else "")
        rate = (self._done - self._first) / max(now - self._began, 1e-9)
        left = ""
        if self._total and rate > 0:
            left = f", {timedelta(seconds=round((self._total - self._done) / rate))} left"
        return f"{self._title}: {done}, {rate_text(rate)}{left}{'  ' + note if note else ''}"


def rate_text(per_second: float) -> str:
    """Say how fast something goes.

    >>> rate_text(1234.5), rate_text(0.05)
    ('1,234/s', '0.05/s')
    """
    return f"{per_second:,.0f}/s" if per_second >= 10 else f"{per_second:.2g}/s"


class _RichBar:
    def __init__(self, title: str, total: int | None, done: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
        columns += [TextColumn("{task.fields[rate]}"), TimeRemainingColumn(), TextColumn("{task.fields[note]}")]
        self.display = Progress(*columns, console=Console(stderr=True))
        self._task = self.display.add_task(title, total=total, completed=done, note="", rate="")

    def advance(self, amount: int = 1, note: str = "") -> None:
        if note:
            self.display.update(self._task, note=note)
        self.display.advance(self._task, amount)
        if speed := self.display.tasks[self._task].speed:
            self.display.update(self._task, rate=rate_text(speed))

    def say(self, line: str) -> None:
        self.display.console.print(line, markup=False, highlight=False)


Bar = LineBar | _RichBar


@contextmanager
def progress(title: str, total: int | None = None, done: int = 0, quiet: bool = False) -> Iterator[Bar]:
    """Show how far a piece of work has come; `done` units were there before it (a resumed run)."""
    if quiet:
        yield LineBar(title, total, done, every_seconds=math.inf)
    elif sys.stderr.isatty():
        bar = _RichBar(title, total, done)
        with bar.display:
            yield bar
    else:
        yield LineBar(title, total, done)
