"""Requests that arrive together are translated together: one bounded queue for all workers, in turns by client."""

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

G = TypeVar("G")  # what jobs must share to be done together
T = TypeVar("T")  # a task
R = TypeVar("R")  # its result

_LOOK_EVERY = 0.5  # seconds an idle thread waits before it looks whether its worker is still alive
_MOST_CLIENTS = 16_384  # whose last turns are remembered
_TRIES = 3  # workers that may die of a job
_SHORT = 150  # what a request may cost at most to be done in between, while a longer one is being done
_ERRAND = 75  # what all that is done in between at one time may cost, beside whose turn it is


class QueueFullError(Exception):
    """There is no room; `retry_after` seconds from now there should be."""

    def __init__(self, retry_after: int) -> None:
        super().__init__("the queue is full")
        self.retry_after = retry_after


class ClosedError(Exception):
    """The service is shutting down and takes no more work."""


class WorkerLostError(Exception):
    """A worker died or hung before it had answered."""


class Worker(ABC, Generic[G, T, R]):
    """Somebody who does one batch at a time, called from one thread."""

    @property
    @abstractmethod
    def is_well(self) -> bool:
        """Say whether it is there and gets on with its work."""

    @abstractmethod
    def prepare(self, closed: threading.Event) -> None:
        """Come back to life if need be; return when ready, or once `closed`."""

    @abstractmethod
    def run(self, batch: "Batch[G, T, R]", errand: Callable[[], "Batch[G, T, R] | None"]) -> None:
        """Finish a batch, or raise WorkerLostError; in between it may ask for a short `errand`, and finish that."""

    @abstractmethod
    def close(self) -> None:
        """Leave."""


@dataclass(eq=False)
class _Job(Generic[G, T, R]):
    client: str
    group: G
    task: T
    cost: int
    future: "asyncio.Future[R]"
    loop: asyncio.AbstractEventLoop
    start: float  # when the turn of its request begins, and ends, where every client has an equal share
    turn: float
    losses: int = 0  # workers that died while they did it; from then on it is done alone
    since: float = field(default_factory=time.monotonic)

    @property
    def is_short(self) -> bool:
        return self.turn - self.start <= _SHORT


class Batch(Generic[G, T, R]):
    """Jobs that are done together."""

    def __init__(self, jobs: "list[_Job[G, T, R]]") -> None:
        self.jobs = sorted(jobs, key=lambda job: job.cost)
        self.group, self.tasks = jobs[0].group, [job.task for job in self.jobs]
        self.cost, self.turn = sum(job.cost for job in jobs), max(job.turn for job in jobs)
        self.is_finished = False

    @property
    def is_wanted(self) -> bool:
        """Say whether anybody still waits for it."""
        return not all(job.future.cancelled() for job in self.jobs)

    @property
    def is_long(self) -> bool:
        """Say whether it belongs to something that takes its time: what is short may go in between."""
        return self.turn - min(job.start for job in self.jobs) > _SHORT

    def finish(self, results: Sequence[R | Exception]) -> None:
        """Tell those who wait."""
        self.is_finished = True
        if len(results) != len(self.jobs):
            results = [AssertionError("not one result for each task")] * len(self.jobs)
        for job, result in zip(self.jobs, results, strict=True):
            _deliver(job, result)


@dataclass(frozen=True)
class BatchLimits:
    """How large a batch may grow, how long an idle worker waits for company, how many jobs may queue."""

    jobs: int = 32
    cost: int = 20_000
    window: float = 0.004
    queue: int = 512


class Batcher(Generic[G, T, R]):
    """Hand groups of alike jobs to workers, each in a thread of its own.

    Clients take turns by cost (fair queueing): the turn of a request comes when it and its client's requests before it
    would be done if every client had an equal share. Whose turn it is, is always in the next batch; who keeps it
    company would soon have had its turn too, lest a short request waits for the jobs of a long one beside it.
    """

    def __init__(
        self,
        workers: Sequence[Worker[G, T, R]],
        limits: BatchLimits,
        observe: Callable[[int, float, int], None] = lambda jobs, waited, waiting: None,
    ) -> None:
        self._workers, self._limits, self._observe = workers, limits, observe
        self._waiting: list[_Job[G, T, R]] = []
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._hurried = False
        self._now, self._last_turn = 0.0, OrderedDict[str, float]()  # in cost, not seconds
        self._running = 0
        self._seconds_a_job = 0.05
        self._threads = [threading.Thread(target=self._work, args=[worker], daemon=True) for worker in workers]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def is_working(self) -> bool:
        """Say whether there is somebody to do the jobs."""
        threads = zip(self._threads, self._workers, strict=True)
        return any(thread.is_alive() and worker.is_well for thread, worker in threads)

    def submit(self, client: str, jobs: Sequence[tuple[G, T, int]]) -> "list[asyncio.Future[R]]":
        """Queue the (group, task, cost) of a request, all or none; whoever gives up a future withdraws its job."""
        loop = asyncio.get_running_loop()
        with self._changed:
            if self._closed.is_set():
                raise ClosedError
            self._make_room(client, len(jobs))
            start = max(self._now, self._last_turn.pop(client, 0.0))
            turn = self._last_turn[client] = start + sum(cost for _, _, cost in jobs)
            if len(self._last_turn) > _MOST_CLIENTS:
                self._last_turn.popitem(last=False)
            queued = [_Job[G, T, R](client, *job, loop.create_future(), loop, start, turn) for job in jobs]
            self._waiting += queued
            self._changed.notify()
        return [job.future for job in queued]

    def hurry(self) -> None:
        """No longer wait for company."""
        with self._changed:
            self._hurried = True
            self._changed.notify_all()

    def close(self, timeout: float | None = None) -> None:
        """Take no new jobs; those queued are still done, then the workers leave."""
        with self._changed:
            self._hurried = True
            self._closed.set()
            self._changed.notify_all()
        end = None if timeout is None else time.monotonic() + timeout
        for thread in self._threads:
            thread.join(None if end is None else max(0.0, end - time.monotonic()))
        for worker in self._workers:
            worker.close()

    def _make_room(self, client: str, n_jobs: int) -> None:
        """Refuse jobs that do not fit, unless another client has more of the queue: then its last ones have to go."""
        over = len(self._waiting) + n_jobs - self._limits.queue
        if over > 0:
            self._waiting = [job for job in self._waiting if not job.future.cancelled()]
            over = len(self._waiting) + n_jobs - self._limits.queue
        if over <= 0:
            return
        held = Counter(job.client for job in self._waiting)
        greedy, most = max(held.items(), key=lambda item: item[1], default=(client, 0))
        if most - over < held[client] + n_jobs or greedy == client:
            raise QueueFullError(self._retry_after())
        last = sorted((job for job in self._waiting if job.client == greedy), key=lambda job: job.turn)[-over:]
        for job in last:
            self._waiting.remove(job)
            _deliver(job, QueueFullError(self._retry_after()))

    def _retry_after(self) -> int:
        seconds = (len(self._waiting) + self._running) * self._seconds_a_job / len(self._workers)
        return min(max(round(seconds), 1), 30)

    def _work(self, worker: Worker[G, T, R]) -> None:
        while True:
            worker.prepare(self._closed)
            batch = self._next()
            if batch:
                self._do(worker, batch)
            elif self._closed.is_set():
                return

    def _do(self, worker: Worker[G, T, R], batch: Batch[G, T, R]) -> None:
        start = time.monotonic()
        with suppress(Exception):  # figures that cannot be written are no reason to stop translating
            self._observe(len(batch.jobs), start - min(job.since for job in batch.jobs), len(self._waiting))
        given = [batch]

        def errand() -> Batch[G, T, R] | None:
            if sum(each.cost for each in given[1:]) >= batch.cost:
                return None  # it has waited as long as it would have taken
            if found := self._errand_before(batch):
                given.append(found)
            return found

        try:
            worker.run(batch, errand)
        except WorkerLostError as error:
            self._try_again([job for each in given if not each.is_finished for job in each.jobs], error)
            return
        except Exception as error:
            for each in given:
                if not each.is_finished:
                    each.finish([error] * len(each.jobs))
        finally:
            self._running -= len(batch.jobs)
        took = (time.monotonic() - start) / sum(len(each.jobs) for each in given)
        self._seconds_a_job = 0.9 * self._seconds_a_job + 0.1 * took

    def _errand_before(self, batch: Batch[G, T, R]) -> Batch[G, T, R] | None:
        """Take short requests of clients that have not had more than their share, while a long one is being done."""
        with self._changed:
            waiting = [job for job in self._waiting if not (job.losses or job.future.cancelled())]
            short = [job for job in waiting if job.is_short and (job.start <= self._now or job.start < batch.turn)]
            return self._take(short, _ERRAND) if short else None

    def _try_again(self, jobs: list[_Job[G, T, R]], error: WorkerLostError) -> None:
        """Give the jobs of a lost worker to another one, each alone: one of them may have been the reason."""
        with self._changed:
            for job in jobs:
                job.losses += 1
                if job.losses < _TRIES:
                    self._waiting.append(job)  # its turn has come long ago
                else:
                    _deliver(job, error)
            self._changed.notify_all()

    def _next(self) -> Batch[G, T, R] | None:
        """Wait a while for jobs and take some."""
        with self._changed:
            if not self._waiting and not self._closed.is_set():
                self._changed.wait_for(lambda: self._waiting or self._closed.is_set(), timeout=_LOOK_EVERY)
                if self._waiting:
                    # Nobody was waiting: give others a moment to join. Under load the queue fills by itself.
                    self._changed.wait_for(self._enough, timeout=self._limits.window)
            self._waiting = [job for job in self._waiting if not job.future.cancelled()]
            if not self._waiting:
                self._last_turn.clear()
                return None
            batch = self._take(self._waiting, self._limits.cost)
            self._running += len(batch.jobs)
            return batch

    def _enough(self) -> bool:
        return len(self._waiting) >= self._limits.jobs or self._hurried

    def _take(self, choice: list[_Job[G, T, R]], most: int) -> Batch[G, T, R]:
        """Take whose turn it is, and of those whose turn is near the ones most like it, at most that cost together."""
        first = min(choice, key=lambda job: job.turn)
        self._now = max(self._now, first.start)
        near = [job for job in choice if job.turn <= first.turn + _SHORT or job.client == first.client]
        alike = [job for job in near if job.group == first.group and job.is_short == first.is_short]
        alike = [job for job in alike if job is not first and not (job.losses or first.losses)]
        alike.sort(key=lambda job: abs(job.cost - first.cost))
        batch, cost = [first], first.cost
        for job in alike[: self._limits.jobs - 1]:
            cost += job.cost
            if cost > most:
                break
            batch.append(job)
        taken = set(map(id, batch))
        self._waiting = [job for job in self._waiting if id(job) not in taken]
        return Batch(batch)


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
