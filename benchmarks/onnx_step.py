"""Time the ONNX engine with an untrained model and a fixed number of steps, so that ratios show in one run.

    python benchmarks/onnx_step.py --precision int8 --threads 1 2 --batches 1 8 64

K = 10 takes 5 steps and K = 1 takes 25, for a source of 25 tokens. "all" keeps every segment alive to the last
step; "ended" lets the 10 segments end after 3 to 5 steps, as 25 tokens and 10 ends do. "score" gives a target of 25
tokens its log-probabilities, all rows at once or a step at a time. Times are medians of
interleaved rounds, the encoder included; the best round stands beside them, since other work on the machine only
adds. --scores computes log-probabilities as well, which CTranslate2 leaves out by default too. Needs no torch.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recoversat.config import ModelConfig
from recoversat.engines.engine import Options, StepEngine
from recoversat.engines.onnx.engine import OnnxEngine
from recoversat.export.int8 import quantised
from recoversat.export.onnx import export_fp32, export_int8
from recoversat.files.int8 import write_int8
from recoversat.files.model_folder import ONNX
from recoversat.measuring.speed.untrained import made_up_ranges, random_weights

SOURCE, TARGET = np.random.default_rng(1).integers(5, 1000, (2, 25)).tolist()
ENDS = np.array([3, 4, 3, 4, 5, 3, 3, 4, 3, 3])  # steps that each of 10 segments lives


def decode(engine: OnnxEngine, batch: int, lives: NDArray[np.int64], scores: bool) -> None:
    """Decode one batch, each of its segments for as many steps as it lives."""
    options = Options(lives=lives, scores=scores)
    engine.decode([SOURCE] * batch, np.full(batch, len(lives)), options)


def time_rounds(cases: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Run the cases in turn, after a warm-up, and return the seconds of each, in order."""
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for round_number in range(rounds + 1):
        for name, case in cases.items():
            begin = time.perf_counter()
            case()
            if round_number:
                seconds[name].append(time.perf_counter() - begin)
    return {name: sorted(times) for name, times in seconds.items()}


def main() -> None:
    """Print one line for each case, and the ratios the targets speak of."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precision", choices=("int8", "fp32"), default="int8")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--scores", action="store_true")
    parser.add_argument("--d-model", type=int, default=512)
    parser.add_argument("--d-hidden", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocabulary", type=int, default=32_000)
    args = parser.parse_args()
    config = ModelConfig(
        d_model=args.d_model, d_hidden=args.d_hidden, n_heads=args.heads,
        encoder_layers=args.layers, decoder_layers=args.layers, vocab_size=args.vocabulary,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        weights, exported = random_weights(config), Path(folder)
        if args.precision == "int8":
            write_int8(exported, quantised(weights, config, made_up_ranges(weights)), config)
            export_int8(config, exported / ONNX)
        else:
            export_fp32(weights, config, exported / ONNX)
        size = sum(path.stat().st_size for path in exported.rglob("*") if path.is_file()) / 1e6
        for threads in args.threads:
            begin = time.perf_counter()
            engine = OnnxEngine(exported, args.precision, config, threads)
            loaded = time.perf_counter() - begin
            print(f"{args.precision}, {threads} thread(s), {size:.1f} MB, loaded in {loaded:.2f} s")
            for batch in args.batches:
                report(engine, batch, max(3, args.rounds // (1 if batch == 1 else 5)), args.scores)


def report(engine: OnnxEngine, batch: int, rounds: int, scores: bool) -> None:
    """Print the cases of one batch size."""
    cases: dict[str, Callable[[], object]] = {
        "encoder": lambda: engine._encode([SOURCE] * batch),
        "K=1 x 25": lambda: decode(engine, batch, np.array([25]), scores),
        "K=10 x 5 all": lambda: decode(engine, batch, np.full(10, 5), scores),
        "K=10 x 5 ended": lambda: decode(engine, batch, ENDS, scores),
        "score K=1": lambda: engine.score([(SOURCE, TARGET)] * batch),
        "score stepwise": lambda: StepEngine.score(engine, [(SOURCE, TARGET)] * batch),
        "score K=10": lambda: engine.score([(SOURCE, TARGET)] * batch, 10),
        "score K=10 steps": lambda: StepEngine.score(engine, [(SOURCE, TARGET)] * batch, 10),
    }
    seconds = time_rounds(cases, rounds)
    reference = np.array([seconds["K=1 x 25"][0], np.median(seconds["K=1 x 25"])])
    for name, times in seconds.items():
        best, median = taken = np.array([times[0], np.median(times)])
        ratios = "{:5.2f}x {:5.2f}x K=1".format(*reference / taken) if name != "encoder" else ""
        print(
            f"batch {batch:3}  {name:16} best {1e3 * best:8.2f} ms  median {1e3 * median:8.2f} ms  "
            f"{batch / median:8.1f} sentences/s  {ratios}"
        )


if __name__ == "__main__":
    main()
