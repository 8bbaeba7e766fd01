"""A shard, one attempt at it, and the list of those that are to be done: what every way of running shares."""

import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from recoversat.errors import UserError
from recoversat.files.storage import NO_SPACE, write_json

MAX_TRIES = 3
SET_ASIDE = "set-aside"  # folder with a file for each shard that was set aside


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
        """Say whether somebody has written the result."""
        return self.result.exists()


class Worker(Protocol):
    """Has a model in memory and works off one shard after the other."""

    def finish(self, shard: Shard) -> None:
        """Write the result of a shard, whole or not at all."""


Load = Callable[[], Worker]  # travels to the process that works, and makes a worker there


class RunStoppedError(UserError):
    """No shard can be done as things are: the model has changed, the disk is full."""


class Verdict(Enum):
    """How an attempt ended."""

    DONE = "done"
    FAILED = "failed"  # may be tried again
    REFUSED = "refused"  # would fail again: the input is damaged
    STOPPED = "stopped"  # nothing can be done before somebody has repaired something


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended, why, and how long it took."""

    verdict: Verdict
    reason: str = ""
    seconds: float = 0.0


def attempt(worker: Worker, shard: Shard) -> Outcome:
    """Let a worker do a shard and judge what comes of it."""
    began = time.monotonic()
    try:
        worker.finish(shard)
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


@dataclass
class WorkList:
    """The shards of a run that are still to be done; counts attempts and sets aside what fails again and again."""

    aside: Path  # where a file says why a shard was set aside
    waiting: deque[Shard] = field(default_factory=deque)
    tries: Counter[str] = field(default_factory=Counter)
    durations: deque[float] = field(default_factory=lambda: deque(maxlen=100))  # of the latest shards
    failed: list[tuple[Shard, str]] = field(default_factory=list)
    stopped: str = ""  # why no more is handed out
    retries: int = 0

    @classmethod
    def of(cls, shards: Iterable[Shard], aside: Path) -> "WorkList":
        """List what nobody has done yet."""
        return cls(aside, deque(shard for shard in shards if not shard.is_done))

    def next(self) -> Shard | None:
        """Hand out a shard; None where there is none, or no more shall be begun."""
        while self.waiting and not self.stopped:
            shard = self.waiting.popleft()
            if not shard.is_done:  # somebody else may have been here
                return shard
        return None

    def settle(self, shard: Shard, outcome: Outcome) -> None:
        """Note how an attempt ended; what failed waits behind all others for its next one."""
        if outcome.verdict is Verdict.DONE:
            self.durations.append(outcome.seconds)
            (self.aside / f"{shard.key}.json").unlink(missing_ok=True)
            return
        if outcome.verdict is Verdict.STOPPED:
            self.stop(outcome.reason)
            return
        self.tries[shard.key] += 1
        if outcome.verdict is Verdict.FAILED and self.tries[shard.key] < MAX_TRIES:
            self.retries += 1
            self.waiting.append(shard)
            return
        self.failed.append((shard, outcome.reason))
        record = {"shard": shard.name, "tries": self.tries[shard.key], "reason": outcome.reason}
        write_json(self.aside / f"{shard.key}.json", record)

    def stop(self, reason: str) -> None:
        """Hand out no more; the first reason counts."""
        self.stopped = self.stopped or reason

    def raise_failures(self) -> None:
        """Name what was set aside, and why."""
        if self.failed:
            lines = [f"{shard.name}: {reason}" for shard, reason in self.failed]
            raise UserError(
                f"{len(lines)} shards were set aside; all others are done. Repair what is named here and start the "
                "same command again: only these are tried again.\n  " + "\n  ".join(lines)
            )


def work_here(todo: WorkList, load: Load, settled: Callable[[Shard, Outcome], None]) -> None:
    """Work shards off one after the other in this process."""
    worker = load()
    while shard := todo.next():
        outcome = attempt(worker, shard)
        todo.settle(shard, outcome)
        settled(shard, outcome)
