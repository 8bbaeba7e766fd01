"""Time the GPU engine's kernels for few rows beside torch's, and say where the time goes.

    python benchmarks/few_rows.py --seconds 35

An untrained model (d 512, ffn 512, 6 + 6 layers, 32k vocabulary, fp16) of fixed steps, as benchmarks/gpu_check.py has
it: 25 source tokens, K = 10 takes 6 steps, K = 1 and beam 4 take 28. The ways:

    torch       torch's kernels
    few rows    engines/cuda/few_rows.py
    few, early  the same kernels, begun early, which two to four sentences take
    late        engines/cuda/overlapping.py, which one sentence takes
    not ahead   the same, where no step is taken while the host asks whether all has ended

Torch's and the oldest are also timed first and alone, lest a fault of the others take their times away. For each:
milliseconds from ids to ids, those of its graphs on the GPU alone, how many tokens are torch's, and whether it writes
the same again and again. Of the kernels of one sentence, `adds` is by how much one moves the end of all work, `gap` the
part of it in which nothing ran. `load` repeats what is done when the first sentence comes: the kernels are compiled and
checked, with an empty cache and with a full one. What takes too long is left out.
"""

import argparse
import copy
import faulthandler
import json
import os
import statistics
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
from gpu_check import GREEDY_STEPS, SIZES, SOURCE_LENGTH, STEPS, endless_model, random_sources, say

from recoversat.config import ModelConfig
from recoversat.engines.cuda import check, early, few_rows, kernels, overlapping, vocabulary
from recoversat.engines.cuda.early import compile_together
from recoversat.engines.cuda.engine import GraphEngine
from recoversat.engines.cuda.few_rows import FewRows
from recoversat.engines.cuda.kernels import FusedOps
from recoversat.engines.cuda.layers import Layers
from recoversat.engines.cuda.model import GraphModel
from recoversat.engines.cuda.overlapping import Overlapping
from recoversat.engines.cuda.segments import SegmentSession
from recoversat.engines.cuda.session import Session
from recoversat.engines.cuda.weights import Weights
from recoversat.engines.engine import Options

K, SENTENCES, AGAIN, PROFILED = 10, 8, 5, 14
COMPILED_STEPS = (0, 1, 2, 5, 7)  # K = 10, K = 1 and beam 4 take no kernels that these do not
DEFAULT = "late"


class Way(NamedTuple):
    """A way to compute few rows: its kernels (None: torch's), and whether steps are taken while the host asks."""

    make: Callable[[Weights], Layers] | None
    ahead: bool = True

    def engine(self, base: GraphEngine) -> GraphEngine:
        """Return an engine that goes this way, with the weights of another."""
        engine, weights = copy.copy(base), base._model.weights
        layers = self.make(weights) if self.make else None
        if layers and not self.ahead:
            layers.goes_ahead = False
        engine._model = GraphModel(weights, base._model.ops, lambda *sizes: layers)
        engine._sessions = {}
        return engine


def ways() -> dict[str, Way]:
    """Return all ways by name, the ones least likely to fail first."""
    few, late = (partial(kind, ops=FusedOps()) for kind in (FewRows, Overlapping))
    return {
        "torch": Way(None),
        "few rows": Way(few),
        "few, early": Way(partial(few, early=True)),
        DEFAULT: Way(late),
        "not ahead": Way(late, ahead=False),
    }


def compile_all(base: GraphEngine, every: dict[str, Way]) -> None:
    """Compile what all ways take, many kernels at a time."""

    def work() -> None:
        for way in every.values():
            for batch in (1, 2) if way.make else ():
                assert way.make
                trial = check._Trial(way.make(base._model.weights), base._model.weights, K, 32, batch)
                trial.encode()
                for step in COMPILED_STEPS:
                    trial.hidden(step)
                trial.write(0)

    with torch.inference_mode():
        compile_together(work)


class Prepared(NamedTuple):
    """An engine of a way, and what it wrote."""

    engine: GraphEngine
    tokens: list[list[list[int]]]
    log_probs: list[list[list[float]]]
    steady: bool  # whether it writes the same again


def options(batch: int, steps: int) -> Options:
    return Options(limits=np.full(batch, steps))


def prepare(base: GraphEngine, every: dict[str, Way]) -> dict[str, Prepared]:
    """Let every way write some sentences; one that fails is left out."""
    sources, found = random_sources(SENTENCES, _vocab(base), SOURCE_LENGTH, SOURCE_LENGTH), {}
    for name, way in every.items():
        try:
            engine = way.engine(base)
            times = [
                [engine.decode([source], np.array([K]), options(1, STEPS))[0] for source in sources]
                for _ in range(AGAIN)
            ]
            written, log_probs = [one.segments for one in times[0]], [one.log_probs for one in times[0]]
            same = all([one.segments, one.log_probs] == [a, b] for again in times
                       for one, a, b in zip(again, written, log_probs, strict=True))  # fmt: skip
            found[name] = Prepared(engine, written, log_probs, same)
        except Exception:
            say(f"  {name} FAILED: {traceback.format_exc(limit=-3)}")
    return found


def same_tokens(one: Prepared, other: Prepared) -> str:
    """Say how many tokens are the same, and how far the log-probabilities of first tokens are apart."""
    lines = [[line for lines in two.tokens for line in lines] for two in (one, other)]
    pairs = [pair for two in zip(*lines, strict=True) for pair in zip_longest(*two)]
    first = [np.array([[line[0] for line in lines] for lines in two.log_probs]) for two in (one, other)]
    same = sum(a == b for a, b in pairs)
    return f"{same}/{len(pairs)} tokens, first log-probabilities within {np.abs(first[0] - first[1]).max():.4f}"


def say_tokens(ready: dict[str, Prepared]) -> None:
    """Print which ways write the same."""
    for name, one in ready.items():
        others = {other: ready[other] for other in ("torch", DEFAULT) if other in ready and other != name}
        said = "; ".join(f"as {other}: {same_tokens(one, it)}" for other, it in others.items())
        say(f"  {name:18} {'steady' if one.steady else 'NOT THE SAME AGAIN'}; {said}")


def in_turn(timed: dict[str, Callable[[], object]], rounds: int, until: float) -> dict[str, list[float]]:
    """Time calls that wait for the GPU themselves, in turn; in milliseconds."""
    for call in timed.values():
        call()
    taken: dict[str, list[float]] = {name: [] for name in timed}
    for number in range(rounds):
        for name, call in timed.items():
            for _ in range(5):
                began = time.perf_counter()
                call()
                taken[name].append(1e3 * (time.perf_counter() - began))
        if number > 2 and time.monotonic() > until:
            break
    return taken


def say_times(taken: dict[str, list[float]], ready: dict[str, Prepared] | None = None) -> None:
    """Print medians, and what the graphs of K = 10 take on the GPU alone."""
    for name, own in taken.items():
        graphs = on_the_gpu(ready[name].engine) if ready else ""
        say(f"  {name:24} {statistics.median(own):7.3f} ms (best {min(own):.3f}) {graphs}")


@torch.inference_mode()
def on_the_gpu(engine: GraphEngine) -> str:
    """Time each graph of one sentence without the host."""
    session: Session = next(iter(engine._sessions.values()))
    found = []
    for (encode, count, *_), replay in session._captured.items():
        times = []
        for _ in range(20):
            session._arena.upload()
            torch.cuda.synchronize()
            began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            began.record()
            replay()
            ended.record()
            torch.cuda.synchronize()
            times.append(began.elapsed_time(ended))
        found.append(f"{'encoder + ' if encode else ''}{count} steps {statistics.median(times):.3f}")
    return "GPU alone: " + ", ".join(found)


def profile(engine: GraphEngine, name: str) -> None:
    """Print by kernel what one sentence takes."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    source = random_sources(1, _vocab(engine), SOURCE_LENGTH, SOURCE_LENGTH)
    with profiler(activities=[ProfilerActivity.CUDA]) as watched:
        engine.decode(source, np.array([K]), options(1, STEPS))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        watched.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    work = sorted((e for e in events if str(e.get("cat")) in {"kernel", "gpu_memcpy", "gpu_memset"}), key=_start)
    if not work:
        say("  the profiler saw nothing")
        return
    rows: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    end = _start(work[0])
    for event in work:
        began, ended = _start(event), _start(event) + event["dur"]
        adds = max(ended - end, 0)
        label = f"{event['name'][:32]} {event.get('args', {}).get('grid', '')}"
        rows[label].append((event["dur"], adds, min(max(began - end, 0), adds)))
        end = max(end, ended)
    say(f"== kernels: {name}; {len(work)} in {end - _start(work[0]):.0f} us, of which in gaps "
        f"{sum(gap for own in rows.values() for *_, gap in own):.0f}")  # fmt: skip
    say(f"  {'':46} calls  each us   adds    gap   adds in all")
    for label, own in sorted(rows.items(), key=lambda item: -sum(adds for _, adds, _ in item[1]))[:PROFILED]:
        each, adds, gap = (statistics.fmean(column) for column in zip(*own, strict=True))
        say(f"  {label:46} {len(own):5d} {each:8.2f} {adds:6.2f} {gap:6.2f} {len(own) * adds:13.0f}")


def _start(event: dict[str, Any]) -> float:
    return float(event["ts"])


def _vocab(engine: GraphEngine) -> int:
    return engine._model.weights.sizes.vocab_true


def compare(
    ready: dict[str, Prepared], rounds: int, until: float, batch: int = 1, steps: int = STEPS
) -> dict[str, list[float]]:
    """Time K = 10 in every way that works."""
    one = next(iter(ready.values())).engine
    sources = random_sources(batch, _vocab(one), SOURCE_LENGTH, SOURCE_LENGTH)
    calls = {
        name: partial(each.engine.decode, sources, np.full(batch, K), options(batch, steps))
        for name, each in ready.items()
    }
    return in_turn(calls, rounds, until)


def compare_batches(ready: dict[str, Prepared], rounds: int, until: float) -> None:
    """Time K = 10 of two and four sentences."""
    names = ("torch", "few rows", "few, early", DEFAULT)
    for batch in (2, 4):
        say(f"== K = {K}, batch {batch}")
        say_times(compare({name: ready[name] for name in names if name in ready}, rounds, until, batch))


def compare_long(ready: dict[str, Prepared], rounds: int, until: float) -> None:
    """Time K = 1 and beam 4."""
    some = {name: ready[name].engine for name in ("torch", "few rows", DEFAULT) if name in ready}
    source = random_sources(1, _vocab(next(iter(some.values()))), SOURCE_LENGTH, SOURCE_LENGTH)
    long, one = options(1, GREEDY_STEPS), np.array([1])
    say("== K = 1 and beam 4, batch 1")
    say_times(in_turn({f"{name}, K = 1": partial(engine.decode, source, one, long) for name, engine in some.items()}
                      | {f"{name}, beam 4": partial(engine.search, source, 4, long) for name, engine in some.items()},
                      rounds, until))  # fmt: skip


@contextmanager
def ending() -> Iterator[None]:
    """Let all segments end after STEPS steps on the device, of which the host knows nothing before it asks."""
    fill = SegmentSession._fill

    def sooner(session: SegmentSession, sources: Any, n_segments: Any, limits: Any) -> None:
        fill(session, sources, n_segments, np.minimum(limits, STEPS))

    SegmentSession._fill = sooner  # type: ignore[method-assign]
    try:
        yield
    finally:
        SegmentSession._fill = fill  # type: ignore[method-assign]


def compare_ending(ready: dict[str, Prepared], rounds: int, until: float) -> None:
    """Time sentences that end by themselves, one at once after the other: a step taken ahead then is in vain."""
    say(f"== K = {K}, batch 1, ends by itself after {STEPS} of {2 * STEPS} steps")
    with ending():
        some = {name: ready[name] for name in (DEFAULT, "not ahead") if name in ready}
        say_times(compare(some, rounds, until, steps=2 * STEPS))


def attempt(work: Callable[[], None]) -> None:
    """Do something that others can do without."""
    try:
        work()
    except Exception:
        say(f"  FAILED: {traceback.format_exc(limit=-3)}")


@torch.inference_mode()
def load(base: GraphEngine) -> None:
    """Compile and check kernels as when the first sentence comes, with an empty and with a full cache."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        for cache in ("an empty", "a full"):
            for module in (early, few_rows, kernels, overlapping, vocabulary):
                for function in vars(module).values():
                    if isinstance(function, triton.runtime.jit.JITFunction):
                        function.device_caches.clear()
            began = time.monotonic()
            check.check_few_rows(base._model.weights, partial(Overlapping, ops=base._model.ops), 16, 32)
            say(f"== load: with {cache} cache in {time.monotonic() - began:.1f} s; they are right")


def main() -> None:
    """Compile, write, time, profile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=35)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", nargs="*", help="ways to time, by the beginnings of their names")
    parser.add_argument("--size", choices=SIZES, default="d512")
    args = parser.parse_args()
    start = time.monotonic()
    faulthandler.dump_traceback_later(args.seconds + 20, exit=True)

    def left() -> float:
        return args.seconds - (time.monotonic() - start)

    every = {name: way for name, way in ways().items() if not args.only or name.startswith(tuple(args.only))}
    config: ModelConfig = SIZES[args.size]
    base = GraphEngine(endless_model(config), torch.device("cuda"), fused=False)
    base._model.ops = FusedOps()
    say(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}; {left():.0f} s left")
    attempt(partial(compile_all, base, every))
    say(f"compiled; {left():.0f} s left\n== K = {K}, batch 1: alone")
    ready = prepare(base, {name: way for name, way in every.items() if name in {"torch", "few rows"}})
    say_times(compare(ready, 3, time.monotonic() + 1) if ready else {}, ready)
    ready |= prepare(base, {name: way for name, way in every.items() if name not in ready})
    say(f"== the same tokens; {left():.0f} s left")
    say_tokens(ready)
    say(f"== K = {K}, batch 1: all in turn; {left():.0f} s left")
    attempt(lambda: say_times(compare(ready, args.rounds, start + 0.7 * args.seconds), ready))
    until = start + 0.85 * args.seconds
    rest: list[Callable[[], None]] = [  # the most important first
        lambda: profile(ready[DEFAULT].engine, DEFAULT),
        lambda: compare_batches(ready, 3, until),
        lambda: compare_ending(ready, 3, until),
        lambda: load(base),
        lambda: compare_long(ready, 3, until),
    ]
    for work in rest:
        if left() > 3:
            attempt(work)
    say(f"{left():.0f} s left")


if __name__ == "__main__":
    main()
