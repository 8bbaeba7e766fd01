"""A process that holds one system and times it when told to; until then it sleeps, so that others have the machine.

Requests and answers are lines of JSON on standard input and output.
"""

import itertools
import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from recoversat.errors import UserError
from recoversat.measuring.specs import SystemSpec


def serve(requests: Iterator[str], answers: IO[str]) -> None:
    worker = _Worker()
    for line in requests:
        request = json.loads(line)
        try:
            answer = getattr(worker, f"do_{request.pop('do')}")(**request)
        except UserError as error:
            answer = {"error": str(error)}
        except Exception as error:  # whatever it was, the other systems go on
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


class _Worker:
    def __init__(self) -> None:
        self._slept_from = time.process_time()
        self._warm: set[tuple[int, int | None]] = set()  # sizes of batches, and lengths, that were timed before

    def do_load(
        self, system: dict[str, Any], device: str, threads: int, first: str, length: int | None, warm_up: float = 0.0
    ) -> dict[str, Any]:
        from recoversat.measuring.own import load_system

        self._warm_up_s = warm_up
        began = time.perf_counter()
        spec = SystemSpec(**system)
        self._writes = spec.writes
        self._system = load_system(spec, device, threads, scores=False)
        loaded = time.perf_counter()
        self._system.translate([first], 1, length or self._writes)
        return {"facts": self._system.facts, "load_s": loaded - began, **self._state()}

    def do_time(self, batches: list[list[str]], length: int | None) -> dict[str, Any]:
        idle, length = time.process_time() - self._slept_from, length or self._writes
        self._warm_up(batches, length)
        milliseconds, tokens = [], 0
        for batch in batches:
            began = time.perf_counter()
            written = self._system.translate(batch, len(batch), length)
            milliseconds.append(1000 * (time.perf_counter() - began))
            tokens += sum(length or len(one.ids) for one in written)
        return {"ms": milliseconds, "tokens": tokens, "idle_cpu_s": idle, **self._state()}

    def _warm_up(self, batches: list[list[str]], length: int | None) -> None:
        """Translate for a while, and all batches of a new shape: its first call may compile or capture.

        A process that slept finds its weights out of the cache, for a dozen sentences.
        """
        shape, until = (len(batches[0]), length), time.perf_counter() + self._warm_up_s
        least = 1 if shape in self._warm else len(batches)
        for number, batch in enumerate(itertools.cycle(batches)):
            if number >= least and time.perf_counter() > until:
                break
            self._system.translate(batch, len(batch), length)
        self._warm.add(shape)

    def do_write(self, texts: list[str], batch: int) -> dict[str, Any]:
        """Translate, untimed, and hand the text over."""
        written = [one.text for one in self._system.translate(texts, batch)]
        self._slept_from = time.process_time()
        return {"texts": written}

    def do_measure(self, texts: list[str]) -> dict[str, Any]:
        return {"lengths": self._system.source_lengths(texts)}

    def _state(self) -> dict[str, Any]:
        self._slept_from = time.process_time()
        return {"peak_bytes": _peak_memory(), "device_bytes": _device_memory(), "cpu_s": self._slept_from}


def _peak_memory() -> int:
    """Return the most memory this process had; what getrusage says may be its parent's, from before it was started."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _device_memory() -> int | None:
    """What torch has taken of a GPU at most; others do not say."""
    torch = sys.modules.get("torch")
    return int(torch.cuda.max_memory_reserved()) if torch and torch.cuda.is_available() else None


def main() -> None:
    """Keep standard output for answers: libraries that print get standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(iter(sys.stdin), answers)


if __name__ == "__main__":
    main()
