"""What Python takes around the engine: text to text, less the engine's own calls, processor time of one sentence.

    taskset -c 1 python benchmarks/outside.py [--model FOLDER] [--compute-type int8_onnx] --to de < sentences

Every sentence is translated by itself, several times; the least of each is kept, and their mean and largest are told.
"""

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from recoversat import Translator


class Timed:
    """An engine whose own time is counted."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.seconds = engine, 0.0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.engine, name)
        return self._timed(found) if name in ("decode", "search", "score", "encode") else found

    def _timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **more: Any) -> Any:
            begun = time.process_time()
            try:
                return call(*args, **more)
            finally:
                self.seconds += time.process_time() - begun

        return timed


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--compute-type", default="default")
    parser.add_argument("--to", required=True)
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    translator = Translator(args.model, target=args.to, compute_type=args.compute_type, intra_threads=1)
    translator.engine = engine = Timed(translator.engine)  # type: ignore[assignment]
    texts = sys.stdin.read().splitlines()
    least = np.full((len(texts), 2), np.inf)
    for _ in range(args.rounds):
        for at, text in enumerate(texts):
            engine.seconds, begun = 0.0, time.process_time()
            translator.translate([text])
            whole = time.process_time() - begun
            if whole < least[at].sum():
                least[at] = engine.seconds, whole - engine.seconds
    own, around = 1e3 * least.T
    print(
        f"{len(texts)} sentences: engine {own.mean():.2f} ms, around it {around.mean():.2f}, at most {around.max():.2f}"
    )


if __name__ == "__main__":
    main()
