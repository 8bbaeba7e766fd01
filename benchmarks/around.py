"""Take apart what a single sentence costs from text to text on a CPU: in ONNX Runtime, in the engine, and around it.

    taskset -c 0 python benchmarks/around.py --segments 1 5 10 auto

For each K, in milliseconds a sentence: all of it; runs of the encoder's and of the step's graph; the engine's own Python
between runs ("loop"); everything outside the engine ("around": text to ids, K, repairs, ids to text). Then how many
Python and C functions a sentence calls, and how many runs it takes. Times are the processor's, as all of it happens in
one thread: means over the sentences of each one's fastest round, since other work on the machine only adds. The calls
are the same in every run. --profile shows the functions that take longest. Needs no torch.
"""

import argparse
import cProfile
import pstats
import sys
import time
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from recoversat import Translator
from recoversat.engines.onnx.engine import OnnxEngine

SENTENCES = [
    "The committee will meet again next week to discuss the results of the vote.",
    "She opened the window because it was far too warm in the small kitchen.",
    "How long have you been waiting for the bus at this time of day?",
    "If you want to change the settings, open the menu and choose the second entry.",
    "Most of the houses in the old town were built more than 200 years ago.",
    "I would like to thank the rapporteur for her excellent work on this difficult report.",
    "The file could not be opened because another program is using it.",
    "He has never told anybody what really happened on that night in the mountains.",
]
_COLUMNS = ("all", "encoder", "steps", "loop", "around")


def timed(seconds: list[float], work: Callable[..., Any]) -> Callable[..., Any]:
    """Note how long some work takes, whoever calls it."""

    @wraps(work)
    def run(*args: Any) -> Any:
        begin = time.thread_time()
        result = work(*args)
        seconds.append(time.thread_time() - begin)
        return result

    return run


def calls_of(work: Callable[[], object]) -> int:
    """Count the function calls that some work makes."""
    counted = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted


def main() -> None:
    """Print a line for each K."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a model folder; without it the built-in model")
    parser.add_argument("--text", type=Path, help="sentences, a line each; without it eight of its own")
    parser.add_argument("--segments", nargs="+", default=["1", "5", "10", "auto"])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--scores", action="store_true", help="log-probabilities as well")
    parser.add_argument("--profile", type=int, default=0, help="print so many functions, those that take longest")
    args = parser.parse_args()
    texts = args.text.read_text(encoding="utf-8").splitlines() if args.text else SENTENCES
    translator = Translator(args.model, intra_threads=1)
    cases = [
        (k, partial(translator.translate, [text], segments=int(k) if k.isdecimal() else k, scores=args.scores))
        for k in args.segments
        for text in texts
    ]
    calls = [calls_of(work) for _, work in cases if work()]  # counted in the second run: the first one fills buffers
    runs: list[float] = []
    decoded: list[float] = []
    onnxruntime.InferenceSession.run_with_iobinding = timed(runs, onnxruntime.InferenceSession.run_with_iobinding)
    OnnxEngine.decode = timed(decoded, OnnxEngine.decode)  # type: ignore[method-assign]
    fastest = np.full((len(cases), len(_COLUMNS)), np.inf)
    n_runs = np.zeros(len(cases))
    for _ in range(args.rounds):
        for number, (_, work) in enumerate(cases):
            runs.clear(), decoded.clear()
            begin = time.thread_time()
            work()
            whole, engine, inside = time.thread_time() - begin, sum(decoded), sum(runs)
            found = [whole, runs[0], inside - runs[0], engine - inside, whole - engine]
            fastest[number], n_runs[number] = np.minimum(fastest[number], found), len(runs)
    for k in args.segments:
        mine = [number for number, (own, _) in enumerate(cases) if own == k]
        times = "  ".join(
            f"{name} {1e3 * seconds:6.2f}" for name, seconds in zip(_COLUMNS, fastest[mine].mean(axis=0), strict=True)
        )
        print(f"K = {k:5} {times}  calls {np.mean([calls[i] for i in mine]):7.1f}  runs {n_runs[mine].mean():5.2f}")
    if args.profile:
        profile = cProfile.Profile()
        for _, work in cases:
            profile.runcall(work)
        pstats.Stats(profile).sort_stats("tottime").print_stats(args.profile)


if __name__ == "__main__":
    main()
