"""Time systems in turn: one process each, one of them awake at a time, several rounds."""

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

import psutil

from recoversat.measuring.speed.machine import busy_seconds
from recoversat.measuring.speed.pool import Worker, WorkerError
from recoversat.pipeline.stopping import stop_signals
from recoversat.show.progress import progress

T = TypeVar("T")

_SETTLE = 0.25  # seconds: threads of OpenMP go on spinning for 0.2 after their work
_GROWTH_ROUNDS = 2  # long sentences take long, and a curve need not be as sharp as a table


@dataclass(frozen=True)
class Task:
    """Batches of one size, the same for every system."""

    batch: int
    batches: list[list[str]]
    length: int | None = None  # tokens of every translation, of untrained models
    only_growth: bool = False  # shows how time grows with length, and is no row of the table

    def takes_part(self, number: int) -> bool:
        """Say whether it is timed in this round, counted from 0."""
        return not self.only_growth or number < _GROWTH_ROUNDS

    @property
    def sentences(self) -> int:
        return sum(map(len, self.batches))


@dataclass
class Timing:
    """What a worker took for a task: milliseconds of each batch, by round."""

    worker: Worker
    task: Task
    rounds: list[list[float]] = field(default_factory=list)
    tokens: int = 0
    peak_bytes: int = 0
    device_bytes: int | None = None
    idle_cpu_s: float = 0.0  # most that the process worked while it should have slept


@dataclass(frozen=True)
class Measured:
    """All timings, and whether the machine was quiet."""

    timings: list[Timing]
    rounds: int
    interrupted: bool
    others: float  # share of the machine that other processes had


def make_tasks(texts: Sequence[str], batches: Sequence[int], length: int | None = None) -> list[Task]:
    """Cut the sentences into batches of like length; too few are repeated until a batch is full."""
    tasks = []
    for batch in sorted(set(batches)):
        whole = max(len(texts) // batch, 1) * batch
        chosen = [texts[i % len(texts)] for i in range(whole)]
        ordered = sorted(chosen, key=len) if batch > 1 else chosen
        tasks.append(Task(batch, [ordered[i : i + batch] for i in range(0, whole, batch)], length))
    return tasks


def measure(workers: Sequence[Worker], tasks: Sequence[Task], rounds: int) -> Measured:
    """Run every task on every worker, round after round; a worker that fails is left out from then on."""
    by_task = [[Timing(worker, task) for worker in workers] for task in tasks]
    timings = [timing for group in by_task for timing in group]
    busy, began, complete, interrupted = busy_seconds(), time.perf_counter(), 0, False
    own = sum(worker.cpu_s for worker in workers)
    total = sum(t.worker.alive and t.task.takes_part(number) for t in timings for number in range(rounds))
    try:
        with stop_signals(signal.default_int_handler), progress("bench", total) as bar:
            for number in range(rounds):
                first = number % len(workers)  # who begins: nobody is always the first or the last
                for timing in (one for group in by_task for one in group[first:] + group[:first]):
                    if timing.worker.alive and timing.task.takes_part(number):
                        note = f"round {number + 1}, {timing.worker.system.name}, batch {timing.task.batch}"
                        _time(timing)
                        bar.advance(1, note)
                complete = number + 1
    except KeyboardInterrupt:
        if not complete:
            raise
        interrupted = True
        for timing in timings:
            del timing.rounds[complete:]
    own = sum(worker.cpu_s for worker in workers) - own
    others = max(0.0, busy_seconds() - busy - own) / ((time.perf_counter() - began) * (psutil.cpu_count() or 1))
    return Measured(timings, complete, interrupted, others)


def ask_each(workers: Sequence[Worker], request: Callable[[Worker], T]) -> dict[str, T]:
    """Ask one living worker of each system; one that fails gives no answer."""
    answers: dict[str, T] = {}
    for worker in workers:
        if worker.alive and worker.system.name not in answers:
            with suppress(WorkerError):
                answers[worker.system.name] = request(worker)
    return answers


def _time(timing: Timing) -> None:
    task = timing.task
    try:
        answer = timing.worker.ask("time", batches=task.batches, length=task.length)
    except WorkerError:
        return
    if not timing.rounds:  # later, larger batches have been there
        timing.peak_bytes, timing.device_bytes = answer["peak_bytes"], answer["device_bytes"]
    timing.rounds.append(answer["ms"])
    timing.tokens = answer["tokens"]
    timing.idle_cpu_s = max(timing.idle_cpu_s, answer["idle_cpu_s"])
    if timing.worker.threads > 1:
        time.sleep(_SETTLE)
