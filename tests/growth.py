"""How much longer four times as much takes: a ratio in one run, which does not depend on the machine."""

import time
from collections.abc import Callable

TOO_FAST = 0.03  # seconds: what takes less says nothing about growth
LINEAR = 9.0  # times as long for four times the size, at most; a square would be 16


def slowdown(work: Callable[[int], object], size: int) -> float:
    """Return how many times longer `work` takes for four times the size."""
    few = min(_seconds(work, size) for _ in range(2))
    many = _seconds(work, 4 * size)
    if many > LINEAR * max(few, TOO_FAST):  # once more before anybody is blamed
        many = min(many, _seconds(work, 4 * size))
    return many / max(few, TOO_FAST)


def _seconds(work: Callable[[int], object], size: int) -> float:
    start = time.thread_time()  # not what others on this machine take
    work(size)
    return time.thread_time() - start
