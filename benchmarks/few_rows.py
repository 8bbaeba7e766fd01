"""Time the GPU engine's kernels for few rows, with torch's beside them, and look for the best way to cut their work.

    python benchmarks/few_rows.py --seconds 120

An untrained model (d 512, ffn 512, 6 + 6 layers, 32k vocabulary, fp16) of fixed steps, as benchmarks/gpu_check.py has
it: K = 10 takes 6, K = 1 and beam 4 take 28. Medians of interleaved rounds, from ids to ids. The second part times each
kernel alone, 36 times in one graph, for several tiles.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from gpu_check import GREEDY_STEPS, SIZES, SOURCE_LENGTH, STEPS, endless_model, random_sources, say

from recoversat.engines.cuda import model as graph_model
from recoversat.engines.cuda.capture import Capturer
from recoversat.engines.cuda.engine import GraphEngine
from recoversat.engines.cuda.few_rows import FewRows, Tiles
from recoversat.engines.cuda.layers import linear
from recoversat.engines.cuda.state import Memory, Rows
from recoversat.engines.engine import Options

TIMES, N_ROWS, ROOM = 36, 10, 64


def compare(engines: dict[str, GraphEngine], batches: list[int], rounds: int) -> None:
    """Time whole sentences with either kind of kernels."""
    vocab = SIZES["d512"].vocab_size or 0
    for batch in batches:
        sources = random_sources(batch, vocab, SOURCE_LENGTH, SOURCE_LENGTH)
        short, long = (Options(limits=np.full(batch, steps)) for steps in (STEPS, GREEDY_STEPS))
        timed: dict[str, Callable[[], object]] = {}
        for name, engine in engines.items():
            timed[f"{name}, K = 10"] = partial(engine.decode, sources, np.full(batch, 10), short)
            timed[f"{name}, K = 1"] = partial(engine.decode, sources, np.full(batch, 1), long)
            timed[f"{name}, beam 4"] = partial(engine.search, sources, 4, long)
        taken = {name: [seconds(call) for _ in range(2)][:0] for name, call in timed.items()}
        for _ in range(rounds):
            for name, call in timed.items():
                taken[name] += [seconds(call) for _ in range(3)]
        for name, own in taken.items():
            say(f"  batch {batch}  {name:22} {1e3 * statistics.median(own):7.3f} ms (best {1e3 * min(own):.3f})")


def seconds(call: Callable[[], object]) -> float:
    """Time a call that waits for the GPU itself."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def kernels(engine: GraphEngine) -> dict[str, tuple[str, Callable[[FewRows], object]]]:
    """Return each kernel, the name of its tiles, and a call of it."""
    weights = engine._model.weights
    attention, cross, feed = weights.decoder[0]
    x = torch.randn(N_ROWS, weights.sizes.d_model, device=weights.device).to(weights.dtype)
    y, cache = x.clone(), engine._model.new_caches(1, ROOM)
    mask = torch.zeros((1, 1, ROOM), dtype=weights.dtype, device=weights.device)
    newest = torch.arange(N_ROWS, device=weights.device) + 20
    rows = Rows(cache, weights.row_positions(ROOM, N_ROWS), newest, mask)
    memory: Memory = engine._model.new_memory(1, 32, mask[0, :, :32])
    return {
        "rows": ("_self", lambda few: few.attend_rows(x, y, attention, rows, 0, ROOM)),
        "source": ("_cross", lambda few: few.attend_source(x, y, cross, memory, 0)),
        "feed": ("_inner", lambda few: few.feed(x, y, feed)),
        "product": ("_outer", lambda few: few.project(x, cross.output)),
    }


def microseconds(call: Callable[[], object], capturer: Capturer, state: torch.Tensor) -> float:
    """Time a kernel among others of its kind."""

    def many() -> None:
        for _ in range(TIMES):
            call()

    replay = capturer.capture(many, state)
    found = []
    for _ in range(5):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(5):
            replay()
        torch.cuda.synchronize()
        found.append((time.perf_counter() - began) / 5 / TIMES)
    return 1e6 * min(found)


def search(engine: GraphEngine, until: float) -> dict[str, Tiles]:
    """Try tiles for each kernel; the best ones come back."""
    few, capturer = engine._model.few_rows, Capturer(engine._model.weights.device)
    assert isinstance(few, FewRows)
    state, best = torch.zeros(1, device=engine._model.weights.device), {}
    weights = engine._model.weights
    x = torch.randn(N_ROWS, weights.sizes.d_model, device=weights.device).to(weights.dtype)
    plain = partial(linear, x, weights.decoder[0][1].output)
    say(f"  torch's product {microseconds(plain, capturer, state):.2f} us")
    for name, (slot, call) in kernels(engine).items():
        found: dict[Tiles, float] = {}
        for chunk, warps, stages in itertools.product((128, 64, 256), (4, 8, 2), (2, 3, 4)):
            tiles, before = Tiles(chunk, warps, stages), getattr(few, slot)
            if time.monotonic() > until:
                break
            setattr(few, slot, tiles)
            try:
                found[tiles] = microseconds(partial(call, few), capturer, state)
            except Exception as error:  # too much shared memory, say
                say(f"  {name} {tiles}: {type(error).__name__}")
            setattr(few, slot, before)
        for tiles, us in sorted(found.items(), key=lambda item: item[1])[:4]:
            say(f"  {name:8} {us:6.2f} us  {tiles}")
        if found:
            best[slot] = min(found, key=lambda tiles: found[tiles])
    return best


def main() -> None:
    """Compare, search, compare again with what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=25)
    args = parser.parse_args()
    until, device = time.monotonic() + args.seconds, torch.device("cuda")
    graph_model.MOST_SENTENCES = max(args.batches)
    say(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    engines = {name: GraphEngine(endless_model(SIZES["d512"]), device, fused=True) for name in ("few rows", "torch")}
    engines["torch"]._model.few_rows = None
    compare(engines, args.batches, args.rounds)
    with torch.inference_mode():
        best = search(engines["few rows"], until)
    if best:
        faster = GraphEngine(endless_model(SIZES["d512"]), device, fused=True)
        for slot, tiles in best.items():
            setattr(faster._model.few_rows, slot, tiles)
        compare({"best tiles": faster}, args.batches[:1], args.rounds)


if __name__ == "__main__":
    main()
