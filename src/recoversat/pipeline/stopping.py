"""Ctrl-C and a polite kill, answered by our own code for as long as a block runs."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_signals(answer: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let `answer` handle SIGINT and SIGTERM inside the block; what handled them before comes back after it."""
    before = {number: signal.signal(number, answer) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
