"""Decoding that can be stopped between two steps: a server's client may have left, or its time may be up."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event
from typing import TypeVar

_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)
_LOOK_EVERY = 0.01  # seconds between two looks of whoever is watching several threads

P = TypeVar("P")
R = TypeVar("R")


class StoppedError(BaseException):
    """Nobody wants the result any more; no Exception, so that nobody takes it for a failure and tries again."""


@contextmanager
def stoppable(check: Callable[[], None]) -> Iterator[None]:
    """Call `check` before every decoding step within; it may raise StoppedError."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def between_steps() -> None:
    """Give whoever is watching the chance to stop."""
    if check := _check.get():
        check()


def in_threads(pool: ThreadPoolExecutor, work: Callable[[P], R], parts: Sequence[P]) -> list[R]:
    """Work on parts in several threads; who watches is asked in this one, as ever, and a stop reaches all of them."""
    stopped = Event()

    def stop_too() -> None:
        if stopped.is_set():
            raise StoppedError

    def watched(part: P) -> R:
        with stoppable(stop_too):
            between_steps()
            return work(part)

    futures = [pool.submit(watched, part) for part in parts]
    try:
        waiting = set(futures)
        while waiting:
            between_steps()
            done, waiting = wait(waiting, _LOOK_EVERY if _check.get() else None, FIRST_EXCEPTION)
            for future in done:
                future.result()  # raises what went wrong
        return [future.result() for future in futures]
    except BaseException:
        stopped.set()
        wait(futures)  # none goes on behind the back of what is done next
        raise
