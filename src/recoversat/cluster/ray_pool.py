"""Work off shards with Ray: actors with a loaded model each; those that die or hang are replaced."""

import logging
import math
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

from recoversat.cluster.crew import Crew
from recoversat.cluster.shards import Load, Outcome, Shard, Verdict, Worker, WorkList, attempt
from recoversat.errors import UserError

try:
    import ray
    from ray.exceptions import RayError, RayTaskError
except ImportError:
    raise UserError("several workers need Ray: pip install 'recoversat[cluster]'") from None

_log = logging.getLogger(__name__)
_TICK_SECONDS = 1.0
_SLOW, _PATIENCE_SECONDS = 10, 60.0  # a worker is hanging when a shard takes ten times the median, and a minute
_STORE_BYTES = 80 << 20  # for objects; none of ours is large


class _Actor:
    _worker: Worker

    def load(self, load: Load) -> str:
        """Load the model; returns what is wrong with it."""
        try:
            self._worker = load()
        except UserError as error:
            return str(error)
        return ""

    def finish(self, shard: Shard) -> Outcome:
        return attempt(self._worker, shard)


@dataclass(frozen=True)
class _Task:
    """What an actor is at: a shard, or (None) loading its model."""

    actor: Any
    shard: Shard | None
    began: float


@contextmanager
def connected(crew: Crew) -> Iterator[None]:
    """Connect to the cluster, or start one on this machine that ends with the block."""
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    how: dict[str, Any] = {"address": crew.address or "local", "log_to_driver": False, "logging_level": logging.ERROR}
    if crew.address:
        _check_reachable(crew.address)
    else:
        how |= {"num_cpus": max(1, math.ceil(crew.workers * crew.cpus)), "object_store_memory": _STORE_BYTES}
        how |= {"include_dashboard": False}
    try:
        ray.init(**how)
    except ConnectionError as error:
        raise UserError(f"{crew.address}: no Ray cluster, or one with another token than ours ({error})") from None
    try:
        yield
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Refuse an address where nobody listens, which Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdecimal():
        try:
            socket.create_connection((host.removeprefix("ray://"), int(port)), timeout=10).close()
        except OSError as error:
            raise UserError(f"no Ray cluster at {address} ({error}); `ray start --head` begins one") from None


class RayPool:
    """Actors that come and go: no more than asked for or needed, as many as the cluster has room for."""

    def __init__(self, crew: Crew, todo: WorkList, load: Load) -> None:
        self._crew, self._todo, self._load = crew, todo, load
        self._tasks: dict[Any, _Task] = {}  # by the reference that Ray gives for their results
        self._stillborn = 0  # workers that died one after the other before they had a model
        self._actor_class: Any = ray.remote(num_cpus=crew.cpus, num_gpus=crew.gpus, max_restarts=0)(_Actor)

    def work(self) -> None:
        """Hand out shards until none is left, or no more shall be begun and those begun are finished."""
        try:
            while wanted := self._at_work + (0 if self._todo.stopped else len(self._todo.waiting)):
                self._hire(wanted)
                ray.wait(list(self._tasks), num_returns=1, timeout=_TICK_SECONDS)
                ready, _ = ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=0)  # all there are by now
                for reference in ready:
                    self._hear(reference)
                self._replace_hanging()
                self._todo.workers = self._at_work
                self._todo.tick()
        finally:
            for task in self._tasks.values():
                ray.kill(task.actor)

    @property
    def _at_work(self) -> int:
        return sum(task.shard is not None for task in self._tasks.values())

    def _hire(self, wanted: int) -> None:
        """Ask for workers; those the cluster has no room for yet begin when it has."""
        while len(self._tasks) < min(self._crew.workers, wanted):
            actor = self._actor_class.remote()
            self._tasks[actor.load.remote(self._load)] = _Task(actor, None, time.monotonic())

    def _hear(self, reference: Any) -> None:
        """Hear what a worker says, or that it died; give it the next shard."""
        task = self._tasks.pop(reference)
        try:
            answer = ray.get(reference)
        except RayTaskError as error:
            answer = Outcome(Verdict.FAILED, str(error)) if task.shard else str(error)
        except RayError as error:
            self._lose(task, str(error).strip().splitlines()[-1])
            return
        if task.shard:
            self._settle(task.shard, answer)
        elif answer:
            self._todo.stop(answer)
        self._stillborn = 0
        if shard := self._todo.next():
            self._tasks[task.actor.finish.remote(shard)] = _Task(task.actor, shard, time.monotonic())
        else:
            ray.kill(task.actor)

    def _lose(self, task: _Task, reason: str) -> None:
        """Note that a worker is gone; `_hire` finds another one."""
        ray.kill(task.actor)
        self._todo.replaced += 1
        _log.warning("a worker is lost and replaced (%s): %s", task.shard.name if task.shard else "loading", reason)
        if task.shard:
            self._settle(task.shard, Outcome(Verdict.FAILED, f"its worker died: {reason}"))
            return
        self._stillborn += 1
        if self._stillborn >= 3 * self._crew.workers:
            self._todo.stop(f"workers die before they have loaded the model; the last one: {reason}")

    def _settle(self, shard: Shard, outcome: Outcome) -> None:
        if shard.is_done:  # it died after its last word
            outcome = Outcome(Verdict.DONE, seconds=outcome.seconds)
        self._todo.settle(shard, outcome)

    def _replace_hanging(self) -> None:
        if not self._todo.durations:
            return
        limit = max(_PATIENCE_SECONDS, _SLOW * median(self._todo.durations))
        for reference, task in list(self._tasks.items()):
            if task.shard and time.monotonic() - task.began > limit:
                del self._tasks[reference]
                self._lose(task, f"no answer for {limit:.0f} seconds")
