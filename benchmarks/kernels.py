"""Time the kits that this processor runs: single products, and sentences of the built-in model; one core.

    taskset -c 1 python benchmarks/kernels.py
    taskset -c 1 python benchmarks/kernels.py --model FOLDER --kits amx avx512-vnni --rounds 50

Kits take turns; every figure is the fastest of its rounds. A product of 512 inputs and 512 outputs is that of a layer
(the residual is added), one with 14,016 outputs that of a vocabulary (the best piece is found). Before sentences are
timed, all kits have to write the same. They have 25 ids and are written with fixed lengths of 25 tokens in all, without
scores, "verified" from a shortlist that is verified.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from recoversat.engines.engine import Options
from recoversat.engines.native import _engine
from recoversat.engines.native.engine import NativeEngine
from recoversat.files.model_folder import builtin_models, read_config
from recoversat.measuring.speed.fixed import lives

ROWS = (1, 2, 5, 10, 16, 25, 32, 100)
SIZES = ((512, 512), (512, 14_016))
LENGTH = 25
WAYS = {
    "verified": {"shortlist": True, "verified": True},
    "shortlist": {"shortlist": True, "verified": False},
    "whole": {"shortlist": False, "verified": True},
}


def products(kits: list[str], rounds: int) -> None:
    """Print microseconds for products of several rows."""
    print(f"{'product, us':26}" + "".join(f"{n:>8}" for n in ROWS) + "  rows")
    for inputs, outputs in SIZES:
        repeats = max(1, 14_016 // outputs)
        best = {kit: np.full(len(ROWS), np.inf) for kit in kits}
        for _ in range(rounds):
            for kit, times in best.items():
                each = [_engine.time_product(kit, inputs, outputs, n, 5 * repeats) for n in ROWS]
                np.minimum(times, each, out=times)
        for kit, times in best.items():
            print(f"{kit:12} {inputs} x {outputs:6,} " + "".join(f"{1e6 * value:8.1f}" for value in times), flush=True)


def sentences(kits: list[str], folder: Path, rounds: int, batches: list[int]) -> None:
    """Print milliseconds a sentence."""
    config, _ = read_config(folder)
    engines = {kit: NativeEngine(folder, config.model, kit=kit) for kit in kits}
    ids = np.random.default_rng(1).integers(5, config.model.vocab_size, (max(16, *batches), LENGTH)).tolist()
    for k in (1, 5, 10):
        written = [engine.decode(ids, np.full(len(ids), k)) for engine in engines.values()]
        if any(other != written[0] for other in written):
            raise SystemExit(f"K = {k}: the kits differ in tokens or log-probabilities")
    print(f"all kits write the same {3 * len(ids)} sentences, with the same log-probabilities")
    for batch in batches:
        for way, options in WAYS.items():
            if batch > 1 and way == "verified":
                continue  # batches are not verified
            for k in (1, 5, 10):
                wanted = Options(scores=False, lives=lives(LENGTH, k), **options)
                best = dict.fromkeys(engines, np.inf)
                for _ in range(rounds if batch == 1 else max(1, rounds // 5)):
                    for kit, engine in engines.items():
                        for _ in range(3 if batch == 1 else 1):
                            before = time.perf_counter()
                            engine.decode(ids[:batch], np.full(batch, k), wanted)
                            best[kit] = min(best[kit], time.perf_counter() - before)
                print(
                    f"batch {batch:2} {way:9} K = {k:2}, ms a sentence: "
                    + ", ".join(f"{kit} {1e3 * value / batch:.3f}" for kit, value in best.items()),
                    flush=True,
                )


def main() -> None:
    """Read what is wanted and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usable = [kit for kit in _engine.kits() if kit not in ("plain", "amx-emulated")]
    parser.add_argument("--kits", nargs="+", default=usable, help="else all but the plain one")
    parser.add_argument("--model", type=Path, default=builtin_models()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 64])
    args = parser.parse_args()
    products(args.kits, args.rounds)
    sentences(args.kits, args.model, args.rounds, args.batch)


if __name__ == "__main__":
    main()
