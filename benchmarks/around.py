"""Take apart what a single sentence costs from text to text on a CPU: in ONNX Runtime, in the engine, and around it.

    taskset -c 0 python benchmarks/around.py --segments 1 5 10 auto

For each K, in milliseconds a sentence: all of it; runs of the graph of whole sentences, or, with --steps and in models
that have no such graph, of the encoder's (with a list: what cuts and verifies too) and of the step's; the engine's own
Python between runs ("loop"); everything outside the engine ("around": text to ids, K, repairs, ids to text). Then how
many Python and C functions a sentence calls, and how many runs it takes. What happens between two switches from one of
these to another is timed by itself, its fastest round counts, since other work on the machine only adds, and the sums
are averaged over the sentences. The calls are the same in every run. --profile shows the functions that take longest.
Needs no torch.
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
from numpy.typing import NDArray

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
PARTS = ("sentence", "encoder", "steps", "loop", "around")


class Clock:
    """Knows which part of the program is at work, and for how long at a time."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.parts: list[str] = []
        self.seconds: list[float] = []
        self._part, self._since = "", 0.0

    def switch(self, part: str) -> str:
        """Say who is at work from now on; return who was."""
        before, now = self._part, self._now()
        self.parts.append(before)
        self.seconds.append(now - self._since)
        self._part, self._since = part, now
        return before

    def watched(self, part: Callable[..., str], work: Callable[..., Any]) -> Callable[..., Any]:
        """Switch before and after some work of an object, whoever calls it."""

        @wraps(work)
        def run(owner: Any, *args: Any) -> Any:
            before = self.switch(part(*args))
            result = work(owner, *args)
            self.switch(before)
            return result

        return run

    def time(self, work: Callable[[], object]) -> tuple[list[str], NDArray[np.float64]]:
        """Return who was at work, and for how long each time."""
        self.switch("around")
        self.parts.clear(), self.seconds.clear()
        work()
        self.switch("")
        return list(self.parts), np.array(self.seconds)


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
    parser.add_argument("--steps", action="store_true", help="a run for each step, not for each sentence")
    parser.add_argument("--processor", action="store_true", help="time of the processor, where others use it too")
    parser.add_argument("--scores", action="store_true", help="log-probabilities as well")
    parser.add_argument("--profile", type=int, default=0, help="print so many functions, those that take longest")
    args = parser.parse_args()
    texts = args.text.read_text(encoding="utf-8").splitlines() if args.text else SENTENCES
    translator = Translator(args.model, intra_threads=1)
    if args.steps:
        translator.engine._sentence = None
    cases = [
        (k, partial(translator.translate, [text], segments=int(k) if k.isdecimal() else k, scores=args.scores))
        for k in args.segments
        for text in texts
    ]
    calls = [calls_of(work) for _, work in cases if work()]  # counted in the second run: the first one fills buffers
    clock = Clock(time.process_time if args.processor else time.perf_counter)
    session = onnxruntime.InferenceSession
    session.run = clock.watched(
        lambda names, *_: "sentence" if "all_chosen" in (names or "") else "encoder", session.run
    )
    session.run_with_iobinding = clock.watched(lambda *_: "steps", session.run_with_iobinding)
    OnnxEngine.decode = clock.watched(lambda *_: "loop", OnnxEngine.decode)  # type: ignore[method-assign]
    rounds = [[clock.time(work) for _, work in cases] for _ in range(args.rounds)]
    for k in args.segments:
        mine = [number for number, (own, _) in enumerate(cases) if own == k]
        sums = dict.fromkeys(PARTS, 0.0)
        for number in mine:
            fastest = np.min([one[number][1] for one in rounds], axis=0)
            for part, seconds in zip(rounds[0][number][0], fastest.tolist(), strict=True):
                sums[part] += 1e3 * seconds / len(mine)
        n_runs = np.mean([rounds[0][number][0].count("steps") for number in mine])
        times = "  ".join(f"{part} {ms:6.2f}" for part, ms in (sums | {"all": sum(sums.values())}).items())
        print(f"K = {k:5} {times}  calls {np.mean([calls[i] for i in mine]):7.1f}  steps {n_runs:5.2f}")
    if args.profile:
        profile = cProfile.Profile()
        for _, work in cases:
            profile.runcall(work)
        pstats.Stats(profile).sort_stats("tottime").print_stats(args.profile)


if __name__ == "__main__":
    main()
