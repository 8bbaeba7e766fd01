"""Time the GPU engine's kernels for few rows in all their ways, one beside the other, and say where the time goes.

    python benchmarks/few_rows.py --seconds 40

An untrained model (d 512, ffn 512, 6 + 6 layers, 32k vocabulary, fp16) of fixed steps, as benchmarks/gpu_check.py has
it: 25 source tokens, K = 10 takes 6 steps, K = 1 and beam 4 take 28. Ways that begin no kernel early come first and are
timed alone, lest a fault of the others take their times away; then all are timed in turn. For each: milliseconds from
ids to ids, those of its graphs on the GPU alone, and how many tokens are torch's. Then the kernels of one sentence:
`adds` is by how much a kernel moves the end of all work, `gap` the part of it in which nothing ran. `load` repeats what
a model does when it is loaded: the check of its kernels. What takes too long is left out.
"""

import argparse
import copy
import faulthandler
import json
import statistics
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
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
from recoversat.engines.cuda import check
from recoversat.engines.cuda.early import LATE
from recoversat.engines.cuda.engine import GraphEngine
from recoversat.engines.cuda.few_rows import FewRows
from recoversat.engines.cuda.kernels import FusedOps
from recoversat.engines.cuda.layers import Layers, Make
from recoversat.engines.cuda.model import GraphModel
from recoversat.engines.cuda.overlapping import Overlapping
from recoversat.engines.cuda.session import Session
from recoversat.engines.engine import Options

K, SENTENCES, COMPILERS = 10, 8, 12


class Way(NamedTuple):
    """A way to compute few rows: its kernels (None: torch's), and how many steps a graph takes."""

    make: Make | None
    together: int = 4
    early: bool = False  # whether kernels begin before others have ended

    def engine(self, base: GraphEngine) -> GraphEngine:
        """Return an engine that goes this way, with the weights of another."""
        engine, weights = copy.copy(base), base._model.weights
        engine._model = GraphModel(weights, base._model.ops, self.make(weights) if self.make else None)
        engine._model.most_together = self.together
        engine._sessions = {}
        return engine


def ways() -> dict[str, Way]:
    """Return all ways by name, the ones least likely to fail first."""
    ops = FusedOps()
    few, over = partial(FewRows, ops=ops), partial(Overlapping, ops=ops)
    return {
        "torch": Way(None, 1),
        "few rows": Way(few, 1),
        "few rows, 4 steps": Way(few),
        "cut, choice, encoder, 4 steps": Way(partial(over, early=0)),
        "few rows early": Way(partial(few, early=1), 1, True),
        "early": Way(partial(over, early=1, choice=False, encoder=False), 1, True),
        "early, choice": Way(partial(over, early=1, encoder=False), 1, True),
        "early, choice, encoder": Way(partial(over, early=1), 1, True),
        "early, choice, encoder, 4 steps": Way(partial(over, early=1), 4, True),
        "early, choice, encoder, 4 steps, 32": Way(partial(over, early=1, places=32), 4, True),
        "late, choice, encoder, 4 steps": Way(partial(over, early=LATE.value), 4, True),
    }


@contextmanager
def only_compiling() -> Iterator[None]:
    """Compile kernels, many at a time, where they would be started; what cannot be compiled fails when it is."""
    kind = triton.runtime.jit.JITFunction
    run: Any = kind.run

    def compiled(self: Any, *args: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        return run(self, *args, grid=grid, warmup=True, **named)

    kind.run = compiled
    try:
        with ThreadPoolExecutor(COMPILERS) as pool, triton.AsyncCompileMode(pool, ignore_errors=True):
            yield
    finally:
        kind.run = run


def compile_all(base: GraphEngine, every: dict[str, Way]) -> None:
    """Compile what one sentence takes in every way."""
    with torch.inference_mode(), only_compiling():
        for way in every.values():
            model = way.engine(base)._model
            trial = check._Trial(model.layers(1, K), model.weights, K, batch=1, length=32)
            trial.encode()
            trial.write()


class Prepared(NamedTuple):
    """An engine of a way, and what it wrote."""

    engine: GraphEngine
    tokens: list[list[list[int]]]
    log_probs: list[list[list[float]]]


def options(batch: int, steps: int) -> Options:
    return Options(limits=np.full(batch, steps))


def prepare(base: GraphEngine, every: dict[str, Way]) -> dict[str, Prepared]:
    """Let every way write some sentences; one that fails is left out."""
    sources, found = random_sources(SENTENCES, _vocab(base), SOURCE_LENGTH, SOURCE_LENGTH), {}
    for name, way in every.items():
        try:
            engine = way.engine(base)
            written = [engine.decode([source], np.array([K]), options(1, STEPS))[0] for source in sources]
            found[name] = Prepared(engine, [one.segments for one in written], [one.log_probs for one in written])
        except Exception:
            say(f"  {name} FAILED: {traceback.format_exc(limit=-3)}")
    return found


def same_tokens(one: Prepared, other: Prepared) -> str:
    """Say how many tokens are the same, and how far the log-probabilities of first tokens are apart."""
    lines = [[line for lines in two.tokens for line in lines] for two in (one, other)]
    pairs = [pair for two in zip(*lines, strict=True) for pair in zip_longest(*two)]
    first = [np.array([[line[0] for line in lines] for lines in two.log_probs]) for two in (one, other)]
    same = sum(a == b for a, b in pairs)
    return f"{same}/{len(pairs)} tokens, log-probabilities of the first within {np.abs(first[0] - first[1]).max():.4f}"


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
        say(f"  {name:36} {statistics.median(own):7.3f} ms (best {min(own):.3f}) {graphs}")


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
        grid = event.get("args", {}).get("grid", "")
        adds = max(ended - end, 0)
        rows[f"{event['name'][:40]} {grid}"].append((event["dur"], adds, min(max(began - end, 0), adds)))
        end = max(end, ended)
    say(f"== kernels: {name}; {len(work)} in {end - _start(work[0]):.0f} us, of which in gaps "
        f"{sum(gap for own in rows.values() for *_, gap in own):.0f}")  # fmt: skip
    say(f"  {'':58} calls  each us   adds    gap   adds in all")
    for label, own in sorted(rows.items(), key=lambda item: -sum(adds for _, adds, _ in item[1])):
        each, adds, gap = (statistics.fmean(column) for column in zip(*own, strict=True))
        say(f"  {label:58} {len(own):5d} {each:8.2f} {adds:6.2f} {gap:6.2f} {len(own) * adds:13.0f}")


def _start(event: dict[str, Any]) -> float:
    return float(event["ts"])


def _vocab(engine: GraphEngine) -> int:
    return engine._model.weights.sizes.vocab_true


def compare(ready: dict[str, Prepared], rounds: int, until: float, batch: int = 1) -> dict[str, list[float]]:
    """Time K = 10 in every way that works."""
    one = next(iter(ready.values())).engine
    sources = random_sources(batch, _vocab(one), SOURCE_LENGTH, SOURCE_LENGTH)
    calls = {
        name: partial(each.engine.decode, sources, np.full(batch, K), options(batch, STEPS))
        for name, each in ready.items()
    }
    return in_turn(calls, rounds, until)


def compare_others(ready: dict[str, Prepared], rounds: int, until: float) -> None:
    """Time K = 1 and beam 4 in some ways, and K = 10 of two and four sentences."""
    best = "early, choice, encoder, 4 steps"
    names = ("torch", "few rows", best if best in ready else "cut, choice, encoder, 4 steps")
    some = {name: ready[name] for name in names if name in ready}
    for batch in (2, 4):
        say(f"== K = 10, batch {batch}")
        say_times(compare(some, rounds, until, batch))
    source = random_sources(1, _vocab(next(iter(some.values())).engine), SOURCE_LENGTH, SOURCE_LENGTH)
    long, one = options(1, GREEDY_STEPS), np.array([1])
    say("== K = 1 and beam 4, batch 1")
    say_times(in_turn({f"{name}, K = 1": partial(e.engine.decode, source, one, long) for name, e in some.items()}
                      | {f"{name}, beam 4": partial(e.engine.search, source, 4, long) for name, e in some.items()},
                      rounds, until))  # fmt: skip


def attempt(work: Callable[[], None]) -> None:
    """Do something that others can do without."""
    try:
        work()
    except Exception:
        say(f"  FAILED: {traceback.format_exc(limit=-3)}")


def load(base: GraphEngine, make: Callable[..., Layers]) -> None:
    """Check kernels as a model does that is loaded."""
    began = time.monotonic()
    with torch.inference_mode():
        try:
            check.check_few_rows(make, base._model.weights)
            said = "they are right"
        except Exception:
            said = f"FAILED: {traceback.format_exc(limit=-3)}"
    say(f"== load: kernels that begin early are checked in {time.monotonic() - began:.1f} s, {said}")


def main() -> None:
    """Compile, write, time, profile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=40)
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
    say(f"compiled; {left():.0f} s left")
    ready = prepare(base, {name: way for name, way in every.items() if not way.early})
    say("== K = 10, batch 1: what begins no kernel early")
    say_times(compare(ready, 5, time.monotonic() + 2), ready)
    ready |= prepare(base, {name: way for name, way in every.items() if way.early})
    say(f"== the same tokens; {left():.0f} s left")
    reference, cut = (ready.get(name) for name in ("torch", "cut, choice, encoder, 4 steps"))
    for name, one in ready.items():
        if reference and one is not reference:
            also = f"; as when cut: {same_tokens(one, cut)}" if cut and "choice, encoder" in name else ""
            say(f"  {name:36} as torch's: {same_tokens(one, reference)}{also}")
    say(f"== K = 10, batch 1: all in turn; {left():.0f} s left")
    attempt(lambda: say_times(compare(ready, args.rounds, start + 0.7 * args.seconds), ready))
    for name in ("few rows, 4 steps", "cut, choice, encoder, 4 steps", "early, choice, encoder, 4 steps"):
        if name in ready:
            attempt(partial(profile, ready[name].engine, name))
    if left() > 3:
        attempt(partial(compare_others, ready, 3, start + 0.9 * args.seconds))
    if left() > 1:
        load(base, partial(Overlapping, ops=base._model.ops))
    say(f"{left():.0f} s left")


if __name__ == "__main__":
    main()
