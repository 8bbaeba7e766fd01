"""Take apart what a single sentence costs from text to text on a CPU: inside ONNX Runtime, and around it.

    taskset -c 0 python benchmarks/around.py --segments 1 5 10 auto

For each K: milliseconds that sessions take ("inside", of which the encoder), milliseconds of everything else
("around"), calls of Python and C functions that a sentence makes outside sessions, and how many times a session is run.
Times are of the processor (everything runs in one thread): means over the sentences of each one's fastest round, since
other work on the machine only adds. The calls
are the same in every run. The rest of a sentence is in --profile: the functions that take longest. Needs no torch.
"""

import argparse
import cProfile
import pstats
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from recoversat import Translator

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


class Clock:
    """Times every run of a session, whoever runs it."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        run = onnxruntime.InferenceSession.run_with_iobinding

        def timed(session: Any, *args: Any) -> None:
            begin = time.thread_time()
            run(session, *args)
            self.seconds.append(time.thread_time() - begin)

        onnxruntime.InferenceSession.run_with_iobinding = timed


def calls_of(work: Any) -> int:
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
    translator, clock = Translator(args.model, intra_threads=1), Clock()
    cases = [int(k) if k.isdecimal() else k for k in args.segments]

    def translate(text: str, k: Any) -> None:
        translator.translate([text], segments=k, scores=args.scores)

    fastest = {(k, text): np.full(3, np.inf) for k in cases for text in texts}  # whole, encoder, around, in seconds
    runs = dict.fromkeys(fastest, 0)
    for _ in range(args.rounds):
        for k, text in fastest:
            clock.seconds.clear()
            begin = time.thread_time()
            translate(text, k)
            whole = time.thread_time() - begin
            inside = clock.seconds
            runs[k, text] = len(inside)
            found = np.array([whole, inside[0], whole - sum(inside)])
            fastest[k, text] = np.minimum(fastest[k, text], found)
    for k in cases:
        whole, encoder, around = 1e3 * np.mean([fastest[k, text] for text in texts], axis=0)
        calls = np.mean([calls_of(lambda text=text: translate(text, k)) for text in texts])
        n_runs = np.mean([runs[k, text] for text in texts])
        print(
            f"K = {k!s:5} {whole:6.2f} ms  encoder {encoder:5.2f}  steps {whole - encoder - around:6.2f}  "
            f"around {around:5.2f}  calls {calls:7.1f}  runs {n_runs:5.2f}"
        )
    if args.profile:
        profile = cProfile.Profile()
        for k, text in fastest:
            profile.runcall(translate, text, k)
        pstats.Stats(profile).sort_stats("tottime").print_stats(args.profile)


if __name__ == "__main__":
    main()
