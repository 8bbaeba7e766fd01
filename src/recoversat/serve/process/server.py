"""The process people start: it holds the address, keeps the workers alive and takes them down in order."""

import logging
import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import cast

from recoversat.engines.loading import ComputeType, EngineOptions
from recoversat.errors import UserError
from recoversat.serve.http.api_keys import read_api_keys
from recoversat.serve.process.worker import READY, run_worker, start_logging
from recoversat.serve.settings import ServeSettings
from recoversat.serve.work.catalog import model_sources

log = logging.getLogger("recoversat.serve")

_SPAWN = get_context("spawn")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_LONGEST_PAUSE = 30.0


@dataclass
class _Place:
    """Where a worker stands; `failures` in a row make the next start wait longer."""

    process: BaseProcess | None = None
    pipe: Connection | None = None
    ready: bool = False
    failures: int = 0
    start_at: float = 0.0


@dataclass
class Supervisor:
    """Keep `settings.workers` workers running on one socket until a signal comes."""

    settings: ServeSettings
    sock: socket.socket
    places: list[_Place] = field(default_factory=list)
    started: bool = False

    def run(self, bell: Connection) -> None:
        """Start the workers and replace those that die; return once `bell` rings and all have left."""
        self.places = [_Place() for _ in range(self.settings.workers)]
        try:
            while not bell.poll():
                self._start_missing()
                things = [p.process.sentinel for p in self.places if p.process]
                pipes = [p.pipe for p in self.places if p.pipe and not p.ready]
                wait([bell, *things, *pipes], timeout=0.5)
                for place in self.places:
                    self._look_at(place)
        finally:
            self._stop()

    def _start_missing(self) -> None:
        for place in self.places:
            if place.process is None and time.monotonic() >= place.start_at:
                place.pipe, theirs = _SPAWN.Pipe()
                process = _SPAWN.Process(target=run_worker, args=(self.settings, self.sock, theirs), daemon=True)
                process.start()
                theirs.close()
                place.process, place.ready = process, False

    def _look_at(self, place: _Place) -> None:
        if place.pipe and not place.ready and place.pipe.poll():
            self._hear(place, place.pipe)
        if place.process and not place.process.is_alive():
            self._bury(place)

    def _hear(self, place: _Place, pipe: Connection) -> None:
        try:
            news = pipe.recv()
        except EOFError:
            return  # it died; what is left of it is found in a moment
        if news != READY:
            if self.started:
                log.error("a worker cannot start: %s", news)
                return
            raise UserError(news)
        place.ready, place.failures = True, 0
        if self.started:
            log.info("worker %s is ready", place.process and place.process.pid)
        elif all(p.ready for p in self.places):
            self.started = True
            host, port = self.sock.getsockname()[:2]
            log.info("recoversat serves http://%s:%d with %d worker(s)", host, port, len(self.places))

    def _bury(self, place: _Place) -> None:
        assert place.process is not None
        log.warning("worker %s ended with %s", place.process.pid, place.process.exitcode)
        from prometheus_client.multiprocess import mark_process_dead

        mark_process_dead(place.process.pid)  # type: ignore[no-untyped-call]
        if not place.ready and not self.started:
            raise UserError(f"a worker died while starting (exit code {place.process.exitcode}); its log says why")
        if not place.ready:
            place.failures += 1
            place.start_at = time.monotonic() + min(2.0**place.failures, _LONGEST_PAUSE)
        if place.pipe:
            place.pipe.close()
        place.process, place.pipe, place.ready = None, None, False

    def _stop(self) -> None:
        """Refuse new connections, let the workers finish, and end those that do not in time."""
        self.sock.close()
        alive = [p.process for p in self.places if p.process and p.process.is_alive()]
        for process in alive:
            process.terminate()
        end = time.monotonic() + self.settings.shutdown_timeout + 5
        for process in alive:
            process.join(max(0.0, end - time.monotonic()))
            if process.is_alive():
                log.error("worker %s did not leave in time", process.pid)
                process.kill()


def serve(settings: ServeSettings) -> None:
    """Serve until a signal comes."""
    start_logging()
    # What is wrong is told before anything is started.
    model_sources(settings.models)
    EngineOptions(settings.device, cast("ComputeType", settings.compute_type))
    if settings.api_keys:
        read_api_keys(settings.api_keys)
    sock = _bind(settings.host, settings.port)
    for name in _THREAD_VARIABLES:
        os.environ[name] = str(settings.threads)
    with _runtime_folder() as folder, _bell() as bell:
        Supervisor(settings.model_copy(update={"runtime_folder": folder}), sock).run(bell)
    log.info("stopped")


def _bind(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError as error:
        raise UserError(f"cannot listen on {host}:{port}: {error.strerror}; choose another --host or --port") from None
    return sock


@contextmanager
def _runtime_folder() -> Iterator[Path]:
    """Make a folder for what the workers share: figures and rates."""
    folder = Path(tempfile.mkdtemp(prefix="recoversat-"))
    (folder / "metrics").mkdir()
    (folder / "rates").touch()
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder / "metrics")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _bell() -> Iterator[Connection]:
    """Give a connection on which a signal to stop can be heard."""
    listen, ring = _SPAWN.Pipe(duplex=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ring.send(None))
    yield listen
