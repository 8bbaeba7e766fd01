"""Compare the engine in C++ (built when this starts) with ONNX Runtime, or with peers; one core.

    taskset -c 1 python benchmarks/native_engine.py --untrained 6+2:256/1536 --list 1000 --segments 5 10 1 --batch 1 64
    taskset -c 1 python benchmarks/native_engine.py --src test.en --to de --segments auto 10 1 --batch 1 64
    taskset -c 1 python benchmarks/native_engine.py --peers --vocabulary 14000 --segments 5 10 --batch 64

Ways: "native", once for each of --kits; "onnx", the engine as it runs
here; and, where the processor has no VNNI, "one run", the graph of whole sentences with products that overflow, so that
its words are wrong: what ONNX Runtime would take if they were right.
Ways take turns in blocks of a few runs, since each evicts the weights of the others. Milliseconds are of a batch, the
fastest run by the clock and the least of the processor's time. Untrained models read 25 tokens and write 25; by length
K is 5. The bound: multiplications and bytes of weights, and what products of so many rows take with nothing between.
With --peers the systems are those of `recoversat bench --untrained tiny`, text to text, in one process: processor time
can be compared where other work makes the clock useless.
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
from recoversat.engines.native.library import build, library
from shortlist import LIVES, engine_of

from recoversat import Translator
from recoversat.config import ModelConfig
from recoversat.decoding.stepping import Ints
from recoversat.engines.engine import Engine, Options, Sources
from recoversat.engines.native.engine import NativeEngine
from recoversat.engines.native.model import NativeModel
from recoversat.engines.onnx import graphs
from recoversat.engines.onnx.engine import OnnxEngine
from recoversat.files.storage import lines_of
from recoversat.measuring.own import load_system
from recoversat.measuring.speed.untrained import build_untrained, sentences, untrained_config

LENGTH = 25
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
        natives = [NativeEngine(exported, config, kit=kit) for kit in args.kits or [None]]
        ways: dict[str, Engine] = {f"native {one._model.kit}": one for one in natives}
        ways |= {"one run": one_run} if graphs.saturates(exported) else {}
        ways["onnx"] = OnnxEngine(exported, config)
        sources = np.random.default_rng(1).integers(5, args.vocabulary, (max(args.batch), LENGTH)).tolist()
        for native in natives:
            bound(native._model, config, args.rounds)
        for batch in args.batch:
            for k in map(int, args.segments):
                for listed in (False, True):
                    options = Options(lives=LIVES[k], scores=False, shortlist=listed, verified=False)
                    cases: dict[str, Case] = {
                        name: partial(one.decode, sources[:batch], np.full(batch, k), options)
                        for name, one in ways.items()
                    }
                    pieces = args.list if listed else args.vocabulary
                    title = f"{shape} batch {batch:2} K = {k:2} {f'list of {pieces}' if listed else 'whole':13}"
                    show(cases, args.rounds, 1 if batch > 1 else args.block, title)
                    needed = batch * multiplications(config, k, pieces)
                    print(f"{title} {needed / 1e6:,.0f} million multiplications")


def multiplications(config: ModelConfig, k: int, pieces: int) -> int:
    """Count those of a sentence that is read and written in K segments."""
    encoder, layers = weights_of(config)
    return LENGTH * encoder + int(LIVES[k].sum()) * (layers + pieces * config.d_model)


def weights_of(config: ModelConfig) -> tuple[int, int]:
    """Count the weights that a token of the source meets, and a row of a step without the vocabulary."""
    d, hidden, layers = config.d_model, config.d_hidden, config.decoder_layers
    encoder = config.encoder_layers * (4 * d * d + 2 * d * hidden) + 2 * layers * d * d
    return encoder, layers * (6 * d * d + 2 * d * hidden)


def bound(native: NativeModel, config: ModelConfig, rounds: int) -> None:
    """Print what the products alone take."""
    sizes, work = (*weights_of(config), config.d_model * native.places), native.work()
    for n in (1, 2, 3, 4, 5, 8, 10, 25, 100):
        for part, size in enumerate(sizes):
            _, taken = fastest({"": partial(library().rs_products, work, part, n)}, rounds, 10)[""]
            print(
                f"{native.kit} {n:3} rows, {PARTS[part]:15} {size / 1e6:5.2f} MB: {taken:6.3f} ms,"
                f" {n * size / taken / 1e6:6.1f} billion multiplications and {size / taken / 1e6:5.1f} GB a second"
            )


def trained(args: argparse.Namespace) -> None:
    """Compare what is written, id by id, and time it: some sentences one by one, or all in batches."""
    onnx = Translator(args.model, target=args.to, intra_threads=1)
    engine = onnx.engine
    assert isinstance(engine, OnnxEngine)
    folder, config = engine._graphs._folder, onnx.config.model
    natives = [NativeEngine(folder, config, kit=kit) for kit in args.kits or [None]]
    ways: dict[str, Engine] = {f"native {one._model.kit}": one for one in natives}
    ways["onnx"] = engine
    if graphs.saturates(folder):
        with patch.object(graphs, "saturates", lambda _: False):
            ways["one run"] = OnnxEngine(folder, config)
    sources = sorted(onnx.encode(list(islice(lines_of(args.src), args.sentences))), key=len, reverse=True)
    for wanted in args.segments:
        counts = onnx.segment_counts(int(wanted) if wanted.isdecimal() else "auto", [len(source) for source in sources])
        written = {name: decode_all(one, sources, counts, 1) for name, one in ways.items()}
        same = {name: sum(map(list.__eq__, own, written["onnx"])) for name, own in written.items()}
        print(f"K = {wanted}: of {len(sources)} sentences the same, id by id: {same}")
        for batch in args.batch:
            chosen = slice(None, None, len(sources) // args.timed or 1) if batch == 1 else slice(None)
            some, own = sources[chosen], counts[chosen]
            cases: dict[str, Case] = {name: partial(decode_all, one, some, own, batch) for name, one in ways.items()}
            for name, taken in fastest(cases, args.rounds, 1).items():
                clock, processor = (each / len(some) for each in taken)
                took = f"{clock:6.2f} ms a sentence, {processor:6.2f} of the processor"
                print(f"  batch {batch:2} {name:18} {took} ({1000 / processor:.0f} a second)", flush=True)


def decode_all(engine: Engine, sources: Sources, counts: Ints, batch: int) -> list[list[list[int]]]:
    """Decode in batches; return the segments of each sentence."""
    starts = range(0, len(sources), batch)
    parts = (engine.decode(sources[at : at + batch], counts[at : at + batch], Options(scores=False)) for at in starts)
    return [one.segments for part in parts for one in part]


def peers(args: argparse.Namespace, folder: Path) -> None:
    """Time the systems of `recoversat bench --untrained tiny` in turn, text to text."""
    segments = [int(k) for k in args.segments]
    specs = build_untrained(folder, untrained_config("tiny", args.vocabulary, segments), segments, "cpu")
    chosen = [
        spec
        for spec in specs
        if any(kind in spec.name for kind in ("native", "CTranslate2 greedy int8", "Marian greedy int8"))
    ]
    systems = {spec.name: load_system(spec, "cpu", 1, scores=False) for spec in chosen if not spec.unavailable}
    texts = sentences(max(args.batch), LENGTH, args.vocabulary)
    for batch in args.batch:
        cases: dict[str, Case] = {
            name: partial(one.translate, texts[:batch], batch, LENGTH) for name, one in systems.items()
        }
        for name, (clock, processor) in fastest(cases, args.rounds, 2 if batch > 1 else args.block).items():
            took = f"{clock:7.2f} ms, {processor:7.2f} of the processor, {1000 * batch / processor:6.1f} sentences/s"
            print(f"{args.vocabulary} pieces, batch {batch:2} {name:50} {took}", flush=True)


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
    parser.add_argument("--batch", type=int, nargs="+", default=[1], help="sentences in a batch")
    parser.add_argument("--peers", action="store_true", help="untrained tiny models, and those of others")
    parser.add_argument("--untrained", nargs="+", help="shapes")
    parser.add_argument("--vocabulary", type=int, default=14_000)
    parser.add_argument("--list", type=int, default=1000)
    parser.add_argument("--kits", nargs="+", help="how products are computed; else the fastest")
    args = parser.parse_args()
    build()
    if args.untrained or args.peers:
        with tempfile.TemporaryDirectory() as folder:
            (peers if args.peers else untrained)(args, Path(folder))
    elif args.src and args.to:
        trained(args)
    else:
        parser.error("give --src and --to, --untrained or --peers")


if __name__ == "__main__":
    main()
