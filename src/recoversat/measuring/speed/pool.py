"""The other side of a worker: start it, ask it, end it."""

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict
from typing import IO, Any, cast

from recoversat.measuring.specs import SystemSpec


class WorkerError(Exception):
    """A system could not be loaded or did not go on."""


class Worker:
    """A process with one system at one number of threads."""

    def __init__(self, system: SystemSpec, device: str, threads: int, warm_up: float = 0.0) -> None:
        self.system, self.device, self.threads, self._warm_up = system, device, threads, warm_up
        self.error: str | None = None
        self.facts: dict[str, Any] = {}
        self.start_s, self.load_s, self.cpu_s = 0.0, 0.0, 0.0
        self._process: subprocess.Popen[str] | None = None
        self._waiting = False
        self._said: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115

    @property
    def alive(self) -> bool:
        return self.error is None

    def start(self, first: str, length: int | None) -> None:
        """Load the system in a new process, up to its first translation; what goes wrong is kept in `error`."""
        if self.system.unavailable:
            self.error = self.system.unavailable
            return
        environment = os.environ | {"OMP_NUM_THREADS": str(self.threads), "PYTHONIOENCODING": "utf-8"}
        began = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "recoversat.measuring.speed.worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said,
            text=True, encoding="utf-8", env=environment, start_new_session=True,
        )  # fmt: skip
        with suppress(WorkerError):
            answer = self.ask(
                "load", system=asdict(self.system), device=self.device, threads=self.threads, first=first,
                length=length, warm_up=self._warm_up,
            )  # fmt: skip
            self.start_s, self.load_s, self.facts = time.perf_counter() - began, answer["load_s"], answer["facts"]

    def ask(self, what: str, **details: Any) -> dict[str, Any]:
        assert self._process is not None
        requests, answers = cast(IO[str], self._process.stdin), cast(IO[str], self._process.stdout)
        if self._waiting:
            answers.readline()  # the answer to a request during which we were interrupted
        line = ""
        with suppress(BrokenPipeError):
            try:
                requests.write(json.dumps({"do": what, **details}) + "\n")
                requests.flush()
            except KeyboardInterrupt:  # half a request: it would wait for the rest, and we for its answer
                self.error = "interrupted while it was asked"
                raise
            self._waiting = True
            line = answers.readline()
        self._waiting = False
        answer: dict[str, Any] = json.loads(line) if line.endswith("\n") else {"error": self._last_words(self._process)}
        if "error" in answer:
            self.error = str(answer["error"])
            raise WorkerError(self.error)
        self.cpu_s = answer.get("cpu_s", self.cpu_s)
        return answer

    def close(self) -> None:
        """End the process: it goes when its input ends, or else is killed."""
        self._said.close()
        if self._process is None:
            return
        process, self._process = self._process, None
        try:
            process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()

    def _last_words(self, process: subprocess.Popen[str]) -> str:
        code = process.wait()
        self._said.seek(0)
        said = self._said.read().strip().splitlines()
        return f"its process ended with code {code}" + (f": {said[-1]}" if said else "")
