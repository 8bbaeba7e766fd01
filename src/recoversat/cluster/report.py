"""How far a run is: a line for people, and figures that Prometheus can collect."""

import time
from pathlib import Path

from recoversat.cluster.shards import Outcome, Shard, Verdict, WorkList
from recoversat.files.storage import write_text
from recoversat.show.progress import Bar

_EVERY_SECONDS = 5.0


class RunReport:
    """Counts for the whole run, of all workers."""

    def __init__(self, metrics: Path, bar: Bar, todo: WorkList, *, sentences: int, done: int) -> None:
        self._metrics, self._bar, self._todo = metrics, bar, todo
        self._sentences, self._before, self._fresh = sentences, done, 0
        self._began, self._written = time.monotonic(), 0.0
        self.workers = 1
        self.replaced = 0  # workers that died or were too slow

    def settled(self, shard: Shard, outcome: Outcome) -> None:
        """Count a shard."""
        if outcome.verdict is Verdict.DONE:
            self._fresh += shard.sentences
            left = self._sentences - self._before - self._fresh
            hours = left / self.rate * self.workers / 3600
            note = f"{self.rate:,.1f} sentences/s, workers: {self.workers}, worker-hours left: {hours:.2f}"
            self._bar.advance(shard.sentences, note)
        self.tick()

    @property
    def rate(self) -> float:
        """Return sentences a second since the run was started."""
        return self._fresh / max(time.monotonic() - self._began, 1e-9)

    def tick(self, *, now: bool = False) -> None:
        """Write the figures, every few seconds."""
        if now or time.monotonic() - self._written > _EVERY_SECONDS:
            self._written = time.monotonic()
            write_text(self._metrics, "".join(f"recoversat_run_{name} {value}\n" for name, value in self._figures()))

    def _figures(self) -> list[tuple[str, float]]:
        return [
            ("sentences", self._sentences),
            ("sentences_done", self._before + self._fresh),
            ("sentences_per_second", round(self.rate, 2)),
            ("workers", self.workers),
            ("workers_replaced_total", self.replaced),
            ("shards_waiting", len(self._todo.waiting)),
            ("shards_retried_total", self._todo.retries),
            ("shards_set_aside", len(self._todo.failed)),
        ]
