"""Compare the engine in C++ (built when this starts) with ONNX Runtime, one sentence at a time, one core.

    taskset -c 1 python benchmarks/native_engine.py --untrained 6+2:256/1536 --list 1000 --segments 5 10 1
    taskset -c 1 python benchmarks/native_engine.py --src test.en --to de --segments auto 10 1

Ways: "native", once for each of --kits; "onnx", the engine as it runs
here; and, where the processor has no VNNI, "one run", the graph of whole sentences with products that overflow, so that
its words are wrong: what ONNX Runtime would take if they were right.
Ways take turns in blocks of a few runs, since each evicts the weights of the others. Milliseconds are the fastest run
by the clock, and the least of the processor's time. Untrained models read 25 tokens and write 25; by length K is 5.
The bound: multiplications and bytes of weights, and what products of so many rows take with nothing between them.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from unittest.mock import patch

import numpy as np
from shortlist import LIVES, engine_of

from recoversat import Translator
from recoversat.config import ModelConfig
from recoversat.engines.engine import Options
from recoversat.engines.native.library import build, library
from recoversat.engines.native.model import NativeModel
from recoversat.engines.onnx import graphs
from recoversat.engines.onnx.engine import OnnxEngine
from recoversat.files.storage import lines_of

Case = Callable[[], object]
PARTS = ("encoder", "a step's layers", "vocabulary")


def fastest(cases: dict[str, Case], rounds: int, block: int) -> dict[str, tuple[float, float]]:
    """Run the cases in turn, a block of each at a time; return milliseconds by the clock and of the processor."""
    best = dict.fromkeys(cases, (np.inf, np.inf))
    for _ in range(rounds):
        for name, case in cases.items():
            for _ in range(block):
                clock, processor = time.perf_counter(), time.process_time()
                case()
                taken = time.perf_counter() - clock, time.process_time() - processor
                best[name] = (min(best[name][0], 1e3 * taken[0]), min(best[name][1], 1e3 * taken[1]))
    return best


def show(cases: dict[str, Case], rounds: int, block: int, title: str) -> None:
    """Time them and print a line each, with how many times as long as the first they take."""
    found = fastest(cases, rounds, block)
    first, least = next(iter(found.values()))
    for name, (clock, processor) in found.items():
        took = f"{clock:7.3f} ms, {processor:7.3f} of the processor"
        print(f"{title} {name:17} {took}, {clock / first:5.2f} and {processor / least:5.2f} x", flush=True)


def untrained(args: argparse.Namespace, folder: Path) -> None:
    """Time models whose weights are random, and their products alone."""
    for shape in args.untrained:
        with patch.object(graphs, "saturates", lambda _: False):
            one_run = engine_of(folder, shape, args.vocabulary, args.list)
        config, exported = one_run._config, one_run._graphs._folder
        ways = {"one run": one_run} if graphs.saturates(exported) else {}
        ways["onnx"] = OnnxEngine(exported, config)
        natives = {kit: NativeModel(exported, config, kit) for kit in args.kits or [None]}
        source = np.random.default_rng(1).integers(5, args.vocabulary, 25).tolist()
        pieces = np.flatnonzero(one_run._lists._table.members([source])[0])
        writers = {f"native {one.kit}": one for one in natives.values()}
        for k in map(int, args.segments):
            bias, lives = one_run._bias_for(k == 1), LIVES[k]
            for listed in (None, pieces):
                options = Options(lives=lives, scores=False, shortlist=listed is not None, verified=False)
                cases: dict[str, Case] = {
                    name: partial(writer.write, source, None, lives, bias, listed) for name, writer in writers.items()
                }
                cases |= {name: partial(one.decode, [source], np.array([k]), options) for name, one in ways.items()}
                title = f"{shape} K = {k:2} {'whole' if listed is None else f'list of {len(pieces)}':13}"
                show(cases, args.rounds, args.block, title)
        for native in natives.values():
            bound(native, config, args.rounds)


def bound(native: NativeModel, config: ModelConfig, rounds: int) -> None:
    """Print what the products alone take."""
    d, hidden = config.d_model, config.d_hidden
    encoder = config.encoder_layers * (4 * d * d + 2 * d * hidden) + 2 * config.decoder_layers * d * d
    sizes = (encoder, config.decoder_layers * (6 * d * d + 2 * d * hidden), d * native.places)
    work = native.work()
    for n in (1, 4, 5, 10, 25):
        for part, size in enumerate(sizes):
            taken, _ = fastest({"": partial(library().rs_products, work, part, n)}, rounds, 10)[""]
            print(
                f"{native.kit} {n:2} rows, {PARTS[part]:15} {size / 1e6:5.2f} MB: {taken:6.3f} ms,"
                f" {n * size / taken / 1e6:6.1f} billion multiplications and {size / taken / 1e6:5.1f} GB a second"
            )


def trained(args: argparse.Namespace) -> None:
    """Compare what is written, id by id, and time each sentence."""
    onnx = Translator(args.model, target=args.to, intra_threads=1)
    engine = onnx.engine
    assert isinstance(engine, OnnxEngine)
    ways = {"onnx": engine}
    folder, config = engine._graphs._folder, onnx.config.model
    if graphs.saturates(folder):
        with patch.object(graphs, "saturates", lambda _: False):
            ways["one run"] = OnnxEngine(folder, config)
    natives = {kit: NativeModel(folder, config, kit) for kit in args.kits or [None]}
    writers = {f"native {one.kit}": one for one in natives.values()}
    sources = onnx.encode(list(islice(lines_of(args.src), args.sentences)))
    for wanted in args.segments:
        choice = int(wanted) if wanted.isdecimal() else "auto"
        counts = onnx.segment_counts(choice, [len(source) for source in sources])

        same, times = dict.fromkeys(writers, 0), []
        for number, (source, k) in enumerate(zip(sources, counts.tolist(), strict=True)):
            steps = np.full(k, Options().most_steps([source], np.array([k]))[0])
            cases: dict[str, Case] = {
                name: partial(writer.write, source, None, steps, engine._bias_for(k == 1))
                for name, writer in writers.items()
            }
            cases |= {
                name: partial(one.decode, [source], np.array([k]), Options(scores=False)) for name, one in ways.items()
            }
            [expected] = cases["onnx"]()  # type: ignore[misc]
            for name in writers:
                same[name] += cases[name]().segments == expected.segments  # type: ignore[attr-defined]
            if number % (len(sources) // args.timed or 1) == 0:
                found = fastest(cases, args.rounds, args.block)
                times.append([found[name] for name in cases])
        print(f"K = {wanted}: of {len(sources)} sentences the same, id by id: {same}")
        for name, (clock, processor) in zip(cases, np.mean(times, axis=0), strict=True):
            print(f"  {name:16} {clock:6.2f} ms a sentence, {processor:6.2f} of the processor ({len(times)} sentences)")
    for native in natives.values():
        bound(native, config, args.rounds)


def main() -> None:
    """Read what is wanted and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--src", type=Path)
    parser.add_argument("--to")
    parser.add_argument("--segments", nargs="+", default=["10"])
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--timed", type=int, default=30, help="sentences that are timed")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--block", type=int, default=5)
    parser.add_argument("--untrained", nargs="+", help="shapes")
    parser.add_argument("--vocabulary", type=int, default=14_000)
    parser.add_argument("--list", type=int, default=1000)
    parser.add_argument("--kits", nargs="+", help="how products are computed; else the fastest")
    args = parser.parse_args()
    build()
    if args.untrained:
        with tempfile.TemporaryDirectory() as folder:
            untrained(args, Path(folder))
    elif args.src and args.to:
        trained(args)
    else:
        parser.error("give --src and --to, or --untrained")


if __name__ == "__main__":
    main()
