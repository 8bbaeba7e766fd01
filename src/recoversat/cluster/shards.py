"""A shard, one attempt at it, and the list of those that are to be done: what every way of running shares."""

import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from recoversat.errors import UserError
from recoversat.files.storage import NO_SPACE, write_json, write_text
from recoversat.show.progress import Bar

MAX_TRIES = 3
SET_ASIDE = "set-aside"  # folder with a file for each shard that was set aside
_EVERY_SECONDS = 5.0  # figures are written


@dataclass(frozen=True)
class Shard:
    """A part of the work; whoever finds its result, a file that is there whole or not at all, skips it."""

    key: str
    name: str  # for people: which part of which file
    sentences: int
    result: Path
    content: Any = None  # what a worker needs to find the part

    @property
    def is_done(self) -> bool:
        return self.result.exists()


Worker = Callable[[Shard], None]  # has a model in memory; writes the result of a shard, whole or not at all
Load = Callable[[], Worker]  # travels to the process that works, and makes a worker there


class RunStoppedError(UserError):
    """No shard can be done as things are: the model has changed, the disk is full."""


class Verdict(Enum):
    DONE = "done"
    FAILED = "failed"  # may be tried again
    REFUSED = "refused"  # would fail again: the input is damaged
    STOPPED = "stopped"  # nothing can be done before somebody has repaired something


@dataclass(frozen=True)
class Outcome:
    verdict: Verdict
    reason: str = ""
    seconds: float = 0.0


def attempt(worker: Worker, shard: Shard) -> Outcome:
    """Let a worker do a shard and judge what comes of it."""
    began = time.monotonic()
    try:
        worker(shard)
    except RunStoppedError as error:
        return Outcome(Verdict.STOPPED, str(error))
    except UserError as error:
        return Outcome(Verdict.REFUSED, str(error))
    except Exception as error:
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            where = f" ({error.filename})" if error.filename else ""
            return Outcome(Verdict.STOPPED, f"the disk is full{where}: make room")
        return Outcome(Verdict.FAILED, traceback.format_exc(limit=-3).strip())
    return Outcome(Verdict.DONE, seconds=time.monotonic() - began)


class WorkList:
    """The shards of a run that are still to be done, and how far all workers have come.

    The folder `state` gets figures that Prometheus can collect, and a file for each shard that fails again and again.
    """

    def __init__(self, shards: Sequence[Shard], bar: Bar, state: Path, metrics: str = "metrics.prom") -> None:
        self._bar, self._aside, self._metrics = bar, state / SET_ASIDE, state / metrics
        self.waiting = deque(shard for shard in shards if not shard.is_done)
        self.durations: deque[float] = deque(maxlen=100)  # of the latest shards
        self.stopped = ""  # why no more is handed out
        self.workers = 1
        self.replaced = 0  # workers that died or were too slow
        self._tries: Counter[str] = Counter()
        self._retries = 0
        self._failed: list[tuple[Shard, str]] = []
        self._sentences, self._left = (sum(shard.sentences for shard in some) for some in (shards, self.waiting))
        self._fresh = 0  # sentences done since the run was started
        self._began, self._written = time.monotonic(), 0.0

    def next(self) -> Shard | None:
        """Hand out a shard; None where there is none, or no more shall be begun."""
        while self.waiting and not self.stopped:
            shard = self.waiting.popleft()
            if not shard.is_done:  # somebody else may have been here
                return shard
        return None

    def settle(self, shard: Shard, outcome: Outcome) -> None:
        """Note how an attempt ended; what failed waits behind all others for its next one."""
        record = self._aside / f"{shard.key}.json"
        if outcome.verdict is Verdict.DONE:
            self.durations.append(outcome.seconds)
            record.unlink(missing_ok=True)
            self._fresh += shard.sentences
            hours = (self._left - self._fresh) / self._rate * self.workers / 3600
            note = f"{self._rate:,.1f} sentences/s, workers: {self.workers}, worker-hours left: {hours:.2f}"
            self._bar.advance(shard.sentences, note)
        elif outcome.verdict is Verdict.STOPPED:
            self.stop(outcome.reason)
        else:
            self._tries[shard.key] += 1
            if outcome.verdict is Verdict.FAILED and self._tries[shard.key] < MAX_TRIES:
                self._retries += 1
                self.waiting.append(shard)
            else:
                self._failed.append((shard, outcome.reason))
                said = {"shard": shard.name, "tries": self._tries[shard.key], "reason": outcome.reason}
                write_json(record, said)
        self.tick()

    def stop(self, reason: str) -> None:
        """Hand out no more; the first reason counts."""
        self.stopped = self.stopped or reason

    def raise_failures(self) -> None:
        """Name what was set aside, and why."""
        if self._failed:
            lines = [f"{shard.name}: {reason}" for shard, reason in self._failed]
            raise UserError(
                f"{len(lines)} shards were set aside; all others are done. Repair what is named here and start the "
                "same command again: only these are tried again.\n  " + "\n  ".join(lines)
            )

    @property
    def _rate(self) -> float:
        return self._fresh / max(time.monotonic() - self._began, 1e-9)

    def tick(self, *, now: bool = False) -> None:
        """Write the figures, every few seconds."""
        if not now and time.monotonic() - self._written <= _EVERY_SECONDS:
            return
        self._written = time.monotonic()
        figures = {
            "sentences": self._sentences,
            "sentences_done": self._sentences - self._left + self._fresh,
            "sentences_per_second": round(self._rate, 2),
            "workers": self.workers,
            "workers_replaced_total": self.replaced,
            "shards_waiting": len(self.waiting),
            "shards_retried_total": self._retries,
            "shards_set_aside": len(self._failed),
        }
        write_text(self._metrics, "".join(f"recoversat_run_{name} {value}\n" for name, value in figures.items()))


def work_here(todo: WorkList, load: Load) -> None:
    worker = load()
    while shard := todo.next():
        todo.settle(shard, attempt(worker, shard))
