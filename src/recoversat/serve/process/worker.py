"""A process that translates, and nothing else: it knows no HTTP. Batches and results travel through a pipe."""

import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection

import psutil

from recoversat.decoding.stopping import StoppedError, stoppable
from recoversat.errors import UserError
from recoversat.serve.process.logs import log, log_error, start_logging
from recoversat.serve.process.metrics import Metrics
from recoversat.serve.settings import ServeSettings
from recoversat.serve.work.batching import Worker, WorkerLostError
from recoversat.serve.work.catalog import Catalog, OfferedModel, ServedModel, load_models, model_sources
from recoversat.serve.work.translating import BatchKey, Job, Outcome, Task, translate_tasks

_SPAWN = get_context("spawn")
_BEAT, _STOP = "beat", "stop"  # from the worker: I am getting on; to it: nobody waits any more
_BEAT_EVERY = 0.5  # seconds
_STUCK = 5.0  # seconds without a beat after which a worker is no longer called well
_LONGEST_PAUSE = 30.0

Results = Sequence[Outcome | Exception]


class TranslationError(Exception):
    """Something went wrong in a worker, whose log says what."""


class WorkerProcess(Worker[BatchKey, Task, Outcome]):
    """A worker, seen from the process that answers requests; it is replaced when it dies or hangs."""

    def __init__(self, settings: ServeSettings, metrics: Metrics) -> None:
        self._settings, self._metrics = settings, metrics
        self._ready, self._beat_at = False, float("inf")  # inf: it has nothing to do
        self._start()

    @property
    def pid(self) -> int | None:
        """The number of its process."""
        return self._process.pid

    @property
    def is_well(self) -> bool:
        """Say whether it is there and gets on with its work."""
        return self._ready and self._process.is_alive() and time.monotonic() - self._beat_at < _STUCK

    def wait_until_ready(self) -> list[OfferedModel]:
        """Wait for the models to be loaded; raise a UserError with what prevents it."""
        try:
            news: list[OfferedModel] | str = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode
            raise UserError(f"a worker died while starting (exit code {code}); its log says why") from None
        if isinstance(news, str):
            raise UserError(news)
        self._ready = True
        return news

    def prepare(self, closed: threading.Event) -> None:
        """Start another process in the place of one that is gone, after longer and longer pauses if need be."""
        if self._ready and self._process.is_alive():
            return
        self._process.kill()  # where only its pipe is broken
        self._process.join()
        log.warning("worker %s ended with %s", self.pid, self._process.exitcode)
        self._metrics.lost.inc()
        self._ready, pause = False, 1.0
        while not self._ready and not closed.is_set():
            self._start()
            try:
                self.wait_until_ready()
                log.info("worker %s is ready", self.pid)
            except UserError as error:
                log.error("a worker cannot start: %s", error)
                closed.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def run(self, group: BatchKey, tasks: list[Task], wanted: Callable[[], bool]) -> Results:
        """Have a batch translated; tell the worker once nobody wants it, and kill it when it hangs."""
        killer = threading.Timer(self._settings.hang_timeout, self._process.kill)
        killer.start()  # a pipe that nobody empties may be full
        self._beat_at = time.monotonic()
        told = False
        try:
            self._pipe.send((group, tasks))
            while True:
                killer.cancel()
                if self._pipe.poll(_BEAT_EVERY / 2):
                    if (news := self._pipe.recv()) == _BEAT:
                        self._beat_at = time.monotonic()
                        continue
                    results, sentences, steps, self._ready = news
                    self._metrics.count_decoding(sentences, steps)
                    return list(results)
                if time.monotonic() - self._beat_at > self._settings.hang_timeout:
                    log.error("worker %s hangs and is killed", self.pid)
                    self._process.kill()
                if not told and not wanted():
                    self._pipe.send(_STOP)
                    told = True
        except (EOFError, OSError) as error:
            self._ready = False
            raise WorkerLostError(f"worker {self.pid} was lost") from error
        finally:
            killer.cancel()
            self._beat_at = float("inf")

    def close(self) -> None:
        """Let the process go: it leaves when its pipe is closed, or is made to."""
        self._pipe.close()
        self._process.join(1)
        if self._process.is_alive():
            self._process.kill()

    def _start(self) -> None:
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=run_worker, args=(self._settings, theirs), daemon=True)
        self._process.start()
        theirs.close()


def run_worker(settings: ServeSettings, parent: Connection) -> None:
    """Load the models and translate until the pipe is closed; what prevents it is told through the pipe."""
    start_logging()
    for number in (signal.SIGINT, signal.SIGTERM):  # they reach the whole group; whoever owns the pipe decides
        signal.signal(number, signal.SIG_IGN)
    try:
        catalog = Catalog(load_models(model_sources(settings.models), settings))
        models = [model for pair in catalog.pairs for model in catalog.of(*pair)]
        for model in models:
            model.translator.translate(["."])  # the first call is slow: not at a user's expense
        if too_much := _over_share(settings):
            raise UserError(f"--max-memory: a worker holds {too_much} allowed")
    except UserError as error:
        parent.send(str(error))
        return
    with suppress(EOFError, OSError):  # until whoever started us closes the pipe, or is gone
        parent.send([model.offered for model in models])
        while True:
            while (batch := parent.recv()) == _STOP:
                pass  # too late: the batch it meant was done
            key, tasks = batch
            done = _translate(catalog, key, tasks, settings, parent)
            too_much = _over_share(settings)
            parent.send((*done, not too_much))  # whether it is ready for more
            if too_much:
                log.warning("worker leaves: it holds %s allowed", too_much)
                return


def _translate(
    catalog: Catalog[ServedModel], key: BatchKey, tasks: list[Task], settings: ServeSettings, parent: Connection
) -> tuple[Results, int, int]:
    """Translate a batch; return the results, sentences and steps."""
    counted = [0, 0]

    def count(sentences: int, steps: int) -> None:
        counted[0] += sentences
        counted[1] += steps

    model = catalog.route(key.source, key.target, key.segments)
    assert model is not None  # the key was made from what we offered
    try:
        with stoppable(_Heart(parent).check):
            found = translate_tasks(Job(model, key, settings.batch_size, settings.piece_limit, count), tasks)
    except StoppedError:
        found = [TranslationError("stopped")] * len(tasks)
    return [_told(result, settings.log_text) for result in found], counted[0], counted[1]


class _Heart:
    """Tell the other process between two steps that decoding gets on, and listen whether it is to stop."""

    def __init__(self, parent: Connection) -> None:
        self._parent, self._last = parent, time.monotonic()

    def check(self) -> None:
        """Beat, and raise StoppedError where nobody waits any more."""
        try:
            if self._parent.poll() and self._parent.recv() == _STOP:
                raise StoppedError
            if time.monotonic() - self._last > _BEAT_EVERY:
                self._parent.send(_BEAT)
                self._last = time.monotonic()
        except (EOFError, OSError):
            raise StoppedError from None


def _told(result: Outcome | Exception, log_text: bool) -> Outcome | Exception:
    """Keep errors that are the user's; log others here, where their traceback is."""
    if isinstance(result, Outcome | UserError):
        return result
    if not isinstance(result, TranslationError):
        log_error(result, log_text)
    return TranslationError()


def _over_share(settings: ServeSettings) -> str:
    """Say how much memory this process holds where that is more than its share of --max-memory."""
    share, size = settings.worker_memory, psutil.Process().memory_info().rss
    return f"{size >> 20} MiB, {share >> 20} are" if share is not None and size > share else ""
