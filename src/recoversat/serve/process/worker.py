"""A process that translates, and nothing else: it knows no HTTP. Batches and results travel through a pipe."""

import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection

import psutil

from recoversat.decoding.stopping import StoppedError, stoppable
from recoversat.errors import UserError
from recoversat.serve.process.logs import log, log_error, start_logging
from recoversat.serve.process.metrics import Metrics
from recoversat.serve.settings import ServeSettings
from recoversat.serve.work.batching import Batch, Worker, WorkerLostError
from recoversat.serve.work.catalog import Catalog, OfferedModel, ServedModel, load_models, model_sources
from recoversat.serve.work.translating import BatchKey, Job, Outcome, Task, translate_tasks

_SPAWN = get_context("spawn")
_BEAT = "beat"  # from the worker: I am getting on
_BEAT_EVERY = 0.5  # seconds
_STUCK = 5.0  # seconds without a beat after which a worker is no longer called well
_LONGEST_PAUSE = 30.0

_ERRAND_EVERY = 0.005  # seconds between two looks for something short to do while a long text is being translated

Results = Sequence[Outcome | Exception]
_Batch = Batch[BatchKey, Task, Outcome]
_Order = tuple[int, BatchKey, list[Task]]  # a batch on its way to a worker, with its number; to stop it, its number


class TranslationError(Exception):
    """Something went wrong in a worker, whose log says what."""


class WorkerProcess(Worker[BatchKey, Task, Outcome]):
    """A worker, seen from the process that answers requests; it is replaced when it dies or hangs."""

    def __init__(self, settings: ServeSettings, metrics: Metrics) -> None:
        self._settings, self._metrics = settings, metrics
        self._ready, self._beat_at = False, float("inf")  # inf: it has nothing to do
        self._number = 0  # of the last batch it was given
        self._start()

    @property
    def pid(self) -> int | None:
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

    def run(self, batch: _Batch, errand: Callable[[], _Batch | None]) -> None:
        """Have a batch translated; tell the worker once nobody wants it, and kill it when it hangs."""
        given, told = dict[int, _Batch](), False
        self._beat_at = time.monotonic()
        try:
            number = self._give(batch, given)
            while given:
                if self._pipe.poll(_ERRAND_EVERY if batch.is_long else _BEAT_EVERY / 2):
                    self._hear(given)
                    continue
                if time.monotonic() - self._beat_at > self._settings.hang_timeout:
                    log.error("worker %s hangs and is killed", self.pid)
                    self._process.kill()
                if not told and not batch.is_wanted:
                    self._pipe.send(number)
                    told = True
                alone = batch.is_long and not told and list(given.values()) == [batch]
                if alone and (found := errand()):
                    self._give(found, given)
        except (EOFError, OSError) as error:
            self._ready = False
            raise WorkerLostError(f"worker {self.pid} was lost") from error
        finally:
            self._beat_at = float("inf")

    def _give(self, batch: _Batch, given: dict[int, _Batch]) -> int:
        self._number += 1
        given[self._number] = batch
        killer = threading.Timer(self._settings.hang_timeout, self._process.kill)
        killer.start()  # a pipe that nobody empties may be full
        try:
            self._pipe.send((self._number, batch.group, batch.tasks))
        finally:
            killer.cancel()
        return self._number

    def _hear(self, given: dict[int, _Batch]) -> None:
        news = self._pipe.recv()
        self._beat_at = time.monotonic()
        if news != _BEAT:
            number, results, sentences, steps, self._ready = news
            self._metrics.count_decoding(sentences, steps)
            given.pop(number).finish(results)

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
        desk = _Desk(settings, catalog, parent)
        while not (too_much := _over_share(settings)):
            order: _Order | int = parent.recv()
            if not isinstance(order, int):  # else it is too late: the batch it means was done
                desk.fill(order)
        log.warning("worker leaves: it holds %s allowed", too_much)


class _Desk:
    """Where batches are translated: one after the other, and a short one in the middle of a long one."""

    def __init__(self, settings: ServeSettings, catalog: Catalog[ServedModel], parent: Connection) -> None:
        self._settings, self._catalog, self._parent = settings, catalog, parent
        self._beat_at = time.monotonic()

    def fill(self, order: _Order, *, in_between: bool = False) -> None:
        """Translate a batch and send the results back, with sentences, steps, and whether we are ready for more."""
        number, key, tasks = order
        counted = [0, 0]

        def count(sentences: int, steps: int) -> None:
            counted[0] += sentences
            counted[1] += steps

        model = self._catalog.route(key.source, key.target, key.segments)
        assert model is not None  # the key was made from what we offered
        settings, found = self._settings, list[Outcome | Exception]()
        try:
            with stoppable(self._beat if in_between else partial(self._listen, number)):
                found = translate_tasks(Job(model, key, settings.batch_size, settings.piece_limit, count), tasks)
        except StoppedError:
            found = [TranslationError("stopped")] * len(tasks)
        results = [_told(result, settings.log_text) for result in found]
        self._parent.send((number, results, *counted, not _over_share(settings)))

    def _beat(self) -> None:
        """Tell the other process between two steps that decoding gets on."""
        if time.monotonic() - self._beat_at > _BEAT_EVERY:
            self._parent.send(_BEAT)
            self._beat_at = time.monotonic()

    def _listen(self, number: int) -> None:
        """Beat, do what is sent in between, and stop where nobody waits for this batch any more."""
        try:
            while self._parent.poll():
                order: _Order | int = self._parent.recv()
                if order == number:
                    raise StoppedError
                if not isinstance(order, int):
                    self.fill(order, in_between=True)
            self._beat()
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
