"""Decoding stops between two steps as soon as it is told to."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from recoversat.decoding.stepping import Floats, Ints
from recoversat.decoding.stopping import StoppedError, between_steps, in_threads, stoppable
from recoversat.decoding.verify import write_verified


def test_nothing_is_decoded_after_the_stop(scripted: Any) -> None:
    translator = scripted({"a b": ["the the the the EOS", "house EOS"]})
    calls = []

    def check() -> None:
        calls.append(len(translator.engine.batches))
        if len(translator.engine.batches) == 2:
            raise StoppedError

    with pytest.raises(StoppedError), stoppable(check):
        translator.translate(["a b"])
    assert len(translator.engine.batches) == 2
    assert calls[-3:] == [0, 1, 2]
    assert translator.translate(["a b"])[0].text  # and nobody listens any more


def test_a_beam_stops_between_two_steps(scripted: Any) -> None:
    translator = scripted({"a b": ["the the the the EOS"]})

    def check() -> None:
        if len(translator.engine.batches) == 2:
            raise StoppedError

    with pytest.raises(StoppedError), stoppable(check):
        translator.translate(["a b"], beam=2, segments=1)
    assert len(translator.engine.batches) == 2


def test_verifying_stops_between_two_passes() -> None:
    passes = 0

    class Endless:
        ahead = 12

        def verify(self, tokens: Sequence[int], scores: bool) -> tuple[Ints, Floats]:
            nonlocal passes
            passes += 1
            return np.full(len(tokens), 7), np.zeros(len(tokens), dtype=np.float32)

        def forget(self, rows: int) -> None:
            pass

    def check() -> None:
        if passes == 3:
            raise StoppedError

    with pytest.raises(StoppedError), stoppable(check):
        write_verified([8] * 50, Endless(), 50, scores=True)
    assert passes == 3


def test_threads_are_watched_in_the_thread_that_waits_for_them_and_stop_together() -> None:
    watched_in, steps, lock = set[int](), [0, 0], threading.Lock()

    def check() -> None:
        watched_in.add(threading.get_ident())
        if min(steps) > 3:
            raise StoppedError

    def work(part: int) -> None:
        while True:
            between_steps()
            with lock:
                steps[part] += 1

    with ThreadPoolExecutor(2) as pool:
        with pytest.raises(StoppedError), stoppable(check):
            in_threads(pool, work, [0, 1])
        before = list(steps)
        assert in_threads(pool, str, [1, 2, 3]) == ["1", "2", "3"]  # and both threads are free again
        assert steps == before
    assert watched_in == {threading.get_ident()}


def test_what_fails_in_one_thread_stops_the_others() -> None:
    def work(part: int) -> None:
        while part:
            between_steps()
        raise ValueError("broken")

    with ThreadPoolExecutor(2) as pool, pytest.raises(ValueError, match="broken"):
        in_threads(pool, work, [0, 1])
