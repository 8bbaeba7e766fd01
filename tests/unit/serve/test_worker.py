"""Both ends of the pipe between the process that answers and one that translates."""

from collections.abc import Sequence
from multiprocessing import Pipe
from typing import Any

import pytest

from recoversat.decoding.stopping import between_steps
from recoversat.serve.process import worker
from recoversat.serve.settings import ServeSettings
from recoversat.serve.work.catalog import Catalog
from recoversat.serve.work.translating import BatchKey, Job, Outcome, Task
from tests.unit.serve.fake_translator import fake_model

KEY = BatchKey("en", "de", None)


def test_a_stop_that_comes_too_late_stops_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client leaves in the moment its batch is done, and another's short text is the next on the desk."""

    def translate(job: Job, tasks: Sequence[Task]) -> list[Outcome]:
        if tasks[0].text == "long":
            here.send((2, KEY, [Task("short")]))  # too late to be done in between
            here.send(1)
        between_steps() if tasks[0].text == "short" else None
        return [Outcome(task.text.upper()) for task in tasks]

    monkeypatch.setattr(worker, "translate_tasks", translate)
    here, there = Pipe()
    desk = worker._Desk(ServeSettings(), Catalog([fake_model()]), there)
    desk.fill((1, KEY, [Task("long")]))
    desk.fill(there.recv())  # as the worker's loop does
    answers: list[Any] = [here.recv(), here.recv()]
    assert [(number, results[0].text) for number, results, *_ in answers] == [(1, "LONG"), (2, "SHORT")]


def test_a_batch_that_nobody_waits_for_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0

    def translate(job: Job, tasks: Sequence[Task]) -> list[Outcome]:
        nonlocal steps
        for steps in range(10):
            if steps == 3:
                here.send(1)
            between_steps()
        return [Outcome(task.text) for task in tasks]

    monkeypatch.setattr(worker, "translate_tasks", translate)
    here, there = Pipe()
    worker._Desk(ServeSettings(), Catalog([fake_model()]), there).fill((1, KEY, [Task("long")]))
    assert steps == 3
    number, results, *_ = here.recv()
    assert number == 1
    assert isinstance(results[0], worker.TranslationError)
