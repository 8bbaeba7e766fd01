"""From timings to rows, each system's best, and ratios."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np

from recoversat.config import Kind
from recoversat.measuring.speed.measure import Measured, Timing
from recoversat.measuring.speed.pool import Worker

FORMAT = "recoversat-bench-1"
PARALLEL = (
    "recoversat",
    *(kind for kind in get_args(Kind) if kind != "segments"),
)  # families that write several tokens a step
OURS = (*PARALLEL, "at")  # all others are peers
_POINTS = 6  # of a curve over sentence length


@dataclass(frozen=True)
class Row:
    """One system at one number of threads and one batch size."""

    system: str
    threads: int
    batch: int
    calls: int  # batches that were timed, over all rounds
    p50_ms: float  # of a batch
    p90_ms: float
    p99_ms: float
    sentences_per_s: float
    tokens_per_s: float
    peak_bytes: int
    device_bytes: int | None = None
    best_ms: float = 0.0  # median of what batches took in their fastest round: what is left on a busy machine


@dataclass(frozen=True)
class SystemFacts:
    """What is known of a system apart from its timings; `error` says why there are none."""

    name: str
    path: str
    threads: int
    family: str = ""
    engine: str = ""
    precision: str = ""
    device: str = ""
    segments: int | str | None = None
    beam: int = 1
    bytes: int = 0
    start_s: float = 0.0  # from nothing to the first translation, Python's own start included
    load_s: float = 0.0
    error: str | None = None


@dataclass(frozen=True)
class Ratio:
    """How many times faster a system is than another, both at their best number of threads."""

    system: str
    over: str
    batch: int
    times: float  # by medians
    times_at_best: float  # by the fastest round of each batch: what else ran on the machine disturbs it least
    threads: int
    over_threads: int


@dataclass(frozen=True)
class GrowthPoint:
    """What sentences of one length take at batch 1."""

    system: str
    threads: int
    length: float
    ms: float


@dataclass(frozen=True)
class BenchResult:
    systems: list[SystemFacts]
    rows: list[Row]
    ratios: list[Ratio]
    growth: list[GrowthPoint]
    machine: dict[str, Any]
    settings: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    bleu: dict[str, float] = field(default_factory=dict)
    same_text: dict[str, list[int]] = field(default_factory=dict)  # as our greedy AT: [same, of]

    def as_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}


def facts_of(worker: Worker) -> SystemFacts:
    names = ("family", "engine", "precision", "device", "segments", "bytes")
    known = {name: worker.facts[name] for name in names if worker.facts.get(name) is not None}
    known |= {"start_s": worker.start_s, "load_s": worker.load_s, "error": worker.error}
    return SystemFacts(
        worker.system.name, _public(worker.system.path), worker.threads, beam=worker.system.beam, **known
    )


def _public(path: str) -> str:
    """Leave out where on this machine a folder lies, unless that is how it was named.

    >>> _public("runs/k5"), _public("/tmp/made-up/ours")
    ('runs/k5', 'ours')
    """
    return Path(path).name if Path(path).is_absolute() else path


def rows_of(measured: Measured) -> list[Row]:
    return [_row(timing) for timing in measured.timings if timing.rounds and not timing.task.only_growth]


def _row(timing: Timing) -> Row:
    times = np.array(timing.rounds)  # (rounds, calls)
    p50, p90, p99 = np.percentile(times, (50, 90, 99)).tolist()
    seconds = float(np.median(times.sum(axis=1))) / 1000  # of a round
    return Row(
        timing.worker.system.name, timing.worker.threads, timing.task.batch, times.size, p50, p90, p99,
        timing.task.sentences / seconds, timing.tokens / seconds, timing.peak_bytes, timing.device_bytes,
        float(np.median(times.min(axis=0))),
    )  # fmt: skip


def best_rows(rows: Iterable[Row]) -> dict[tuple[str, int], Row]:
    """Return the row of each system and batch size with the lowest median."""
    best: dict[tuple[str, int], Row] = {}
    for row in sorted(rows, key=lambda row: row.p50_ms):
        best.setdefault((row.system, row.batch), row)
    return best


def ratios_of(rows: Sequence[Row], systems: Sequence[SystemFacts]) -> list[Ratio]:
    """Compare every system that is not autoregressive with every one that is, each at its best."""
    families = {facts.name: facts.family for facts in systems if facts.family}
    best = best_rows(rows)
    parallel = [name for name, family in families.items() if family in PARALLEL]
    one_by_one = [name for name in families if name not in parallel]
    ratios = []
    for system, over, batch in product(parallel, one_by_one, sorted({row.batch for row in rows})):
        mine, theirs = best.get((system, batch)), best.get((over, batch))
        if mine and theirs:
            times, at_best = theirs.p50_ms / mine.p50_ms, theirs.best_ms / mine.best_ms
            ratios.append(Ratio(system, over, batch, times, at_best, mine.threads, theirs.threads))
    return ratios


def growth_of(measured: Measured, lengths: dict[str, list[int]]) -> list[GrowthPoint]:
    """Say how time grows with length at batch 1; `lengths` are the sub-words of each system's sources, in order."""
    points: list[GrowthPoint] = []
    for timing in measured.timings:
        if timing.task.batch != 1 or not timing.rounds:
            continue
        name, threads = timing.worker.system.name, timing.worker.threads
        medians = np.median(np.array(timing.rounds), axis=0)  # of each sentence
        if timing.task.length is not None:
            points.append(GrowthPoint(name, threads, float(timing.task.length), float(np.median(medians))))
        elif name in lengths:
            order = np.argsort(lengths[name], kind="stable")
            for part in np.array_split(order, min(_POINTS, len(order))):
                length = float(np.mean(np.array(lengths[name])[part]))
                points.append(GrowthPoint(name, threads, length, float(np.median(medians[part]))))
    return points
