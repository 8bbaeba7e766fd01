"""Decoding that can be stopped between two steps: a server's client may have left, or its time may be up."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


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
