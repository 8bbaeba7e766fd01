"""Translate in a thread, for programs that await: whoever no longer waits stops the work at its next step."""

import threading
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from recoversat.decoding.stopping import StoppedError, stoppable

_LOOK_EVERY = 0.05  # seconds after which a call that waits for another looks whether it is still wanted


class HasTurns(Protocol):
    """Something that does one thing at a time."""

    turns: threading.Lock


S = TypeVar("S", bound=HasTurns)
P = ParamSpec("P")
R = TypeVar("R")


def awaitable(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Make a method that runs in a thread, one call after the other, and ends soon once it is cancelled."""

    @wraps(method)
    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        import asyncio  # a twelfth of the time to start, for those who never await

        left = threading.Event()

        def check() -> None:
            if left.is_set():
                raise StoppedError

        def work() -> R | None:
            try:
                while not self.turns.acquire(timeout=_LOOK_EVERY):
                    check()
            except StoppedError:
                return None
            try:
                with stoppable(check):
                    return method(self, *args, **kwargs)
            except StoppedError:
                return None
            finally:
                self.turns.release()

        working = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            await asyncio.wait([working])  # unlike awaiting it, this leaves the thread to us when we are cancelled
        finally:
            left.set()
        result = working.result()
        assert result is not None  # nobody has stopped it
        return result

    return run
