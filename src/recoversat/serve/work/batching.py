"""Requests that arrive together are translated together: one bounded queue, one thread that decodes."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

G = TypeVar("G")  # what jobs must share to be done together
T = TypeVar("T")  # a task
R = TypeVar("R")  # its result


class QueueFullError(Exception):
    """There is no room; `retry_after` seconds from now there should be."""

    def __init__(self, retry_after: int) -> None:
        super().__init__("the queue is full")
        self.retry_after = retry_after


class ClosedError(Exception):
    """The service is shutting down and takes no more work."""


@dataclass(eq=False)
class _Job(Generic[G, T, R]):
    group: G
    task: T
    size: int
    future: "asyncio.Future[R]"
    loop: asyncio.AbstractEventLoop
    since: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class BatchLimits:
    """How large a batch may grow, how long an idle worker waits for company, how many jobs may queue."""

    jobs: int = 32
    size: int = 20_000
    window: float = 0.004
    queue: int = 512


class Batcher(Generic[G, T, R]):
    """Hand groups of alike jobs to `run`, in a thread of its own; the oldest job is always in the next batch."""

    def __init__(
        self,
        run: Callable[[G, list[T]], Sequence[R | Exception]],
        limits: BatchLimits,
        observe: Callable[[int, float, int], None] = lambda jobs, waited, waiting: None,
    ) -> None:
        self._run, self._limits, self._observe = run, limits, observe
        self._waiting: list[_Job[G, T, R]] = []
        self._changed = threading.Condition()
        self._hurried = self._closed = False
        self._running = 0
        self._seconds_a_job = 0.05
        self._thread = threading.Thread(target=self._work, name="decode", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of jobs in the queue."""
        return len(self._waiting)

    def submit(self, group: G, tasks: Sequence[tuple[T, int]]) -> "list[asyncio.Future[R]]":
        """Queue (task, size) pairs, all or none; whoever gives up a future withdraws its job."""
        loop = asyncio.get_running_loop()
        jobs = [_Job[G, T, R](group, task, size, loop.create_future(), loop) for task, size in tasks]
        with self._changed:
            if self._closed:
                raise ClosedError
            if len(self._waiting) + len(jobs) > self._limits.queue:
                self._waiting = [job for job in self._waiting if not job.future.cancelled()]
            if len(self._waiting) + len(jobs) > self._limits.queue:
                raise QueueFullError(self._retry_after())
            self._waiting += jobs
            self._changed.notify()
        return [job.future for job in jobs]

    def hurry(self) -> None:
        """No longer wait for company."""
        with self._changed:
            self._hurried = True
            self._changed.notify()

    def close(self) -> None:
        """Take no new jobs; those queued are still done."""
        with self._changed:
            self._hurried = self._closed = True
            self._changed.notify()

    @property
    def is_working(self) -> bool:
        """Say whether there is still somebody to do the jobs."""
        return self._thread.is_alive()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the thread to finish what was queued before `close`."""
        self._thread.join(timeout)

    def _retry_after(self) -> int:
        seconds = (len(self._waiting) + self._running) * self._seconds_a_job
        return min(max(round(seconds), 1), 30)

    def _work(self) -> None:
        while batch := self._next():
            start = time.monotonic()
            with suppress(Exception):  # figures that cannot be written are no reason to stop translating
                self._observe(len(batch), start - min(job.since for job in batch), len(self._waiting))
            try:
                results = list(self._run(batch[0].group, [job.task for job in batch]))
                assert len(results) == len(batch)
            except Exception as error:
                results = [error] * len(batch)
            took = (time.monotonic() - start) / len(batch)
            self._seconds_a_job = 0.9 * self._seconds_a_job + 0.1 * took
            for job, result in zip(batch, results, strict=True):
                _deliver(job, result)

    def _next(self) -> list[_Job[G, T, R]]:
        """Wait for jobs and take the oldest with those most like it; nothing means closed and empty."""
        with self._changed:
            self._running = 0
            batch: list[_Job[G, T, R]] = []
            while not batch:
                if not self._waiting and not self._closed:
                    self._changed.wait_for(lambda: self._waiting or self._closed)
                    # Nobody was waiting: give others a moment to join. Under load the queue fills by itself.
                    self._changed.wait_for(self._enough, timeout=self._limits.window)
                self._waiting = [job for job in self._waiting if not job.future.cancelled()]
                if not self._waiting and self._closed:
                    return []
                batch = self._take()
            self._running = len(batch)
            return batch

    def _enough(self) -> bool:
        return len(self._waiting) >= self._limits.jobs or self._hurried

    def _take(self) -> list[_Job[G, T, R]]:
        if not self._waiting:
            return []
        oldest = self._waiting[0]
        alike = [job for job in self._waiting if job.group == oldest.group]
        alike.sort(key=lambda job: abs(job.size - oldest.size))  # stable: the oldest stays first
        batch: list[_Job[G, T, R]] = []
        size = 0
        for job in alike[: self._limits.jobs]:
            size += job.size
            if batch and size > self._limits.size:
                break
            batch.append(job)
        taken = set(map(id, batch))
        self._waiting = [job for job in self._waiting if id(job) not in taken]
        return sorted(batch, key=lambda job: job.size)


def _deliver(job: _Job[G, T, R], result: R | Exception) -> None:
    def settle() -> None:
        if job.future.done():  # its owner gave up
            return
        if isinstance(result, Exception):
            job.future.set_exception(result)
        else:
            job.future.set_result(result)

    if not job.loop.is_closed():
        job.loop.call_soon_threadsafe(settle)
