"""The queue: who is next, with whom, and what happens when a worker is lost."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from recoversat.serve.work import batching
from recoversat.serve.work.batching import (
    Batch,
    Batcher,
    BatchLimits,
    ClosedError,
    QueueFullError,
    Worker,
    WorkerLostError,
)

Run = Callable[[str, list[int]], Sequence[int | Exception]]


class Doing(Worker[str, int, int]):
    """A worker that calls a function, once its gate is open."""

    def __init__(self, run: Run, *, is_open: bool = True) -> None:
        self._run, self.gate = run, threading.Event()
        self.seen: list[list[int]] = []
        if is_open:
            self.gate.set()

    @property
    def is_well(self) -> bool:
        return True

    def prepare(self, closed: threading.Event) -> None:
        pass

    def run(self, batch: Batch[str, int, int], errand: Callable[[], Batch[str, int, int] | None]) -> None:
        self.seen.append(batch.tasks)
        self.batch, self.errand = batch, errand
        self.gate.wait(30)
        batch.finish(self._run(batch.group, batch.tasks))

    def close(self) -> None:
        pass


def same(group: str, tasks: list[int]) -> list[int]:
    return tasks


async def results_of(futures: "list[asyncio.Future[int]]") -> list[Any]:
    return await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), 30)


def jobs(group: str, tasks: Sequence[tuple[int, int]]) -> list[tuple[str, int, int]]:
    return [(group, task, cost) for task, cost in tasks]


async def busy(worker: Doing) -> None:
    while not worker.seen:
        await asyncio.sleep(0.001)


def test_batches_keep_the_oldest_first_and_stay_within_their_cost() -> None:
    def run(group: str, tasks: list[int]) -> Sequence[int | Exception]:
        return [ValueError("7") if task == 7 else task * 10 for task in tasks]

    worker = Doing(run)

    async def main() -> list[Any]:
        batcher = Batcher([worker], BatchLimits(jobs=3, cost=100, window=0.05, queue=8))
        futures = batcher.submit("me", jobs("a", [(5, 5), (60, 60), (7, 7), (30, 30), (8, 8)]))
        futures += batcher.submit("me", jobs("b", [(1, 1)]))
        with pytest.raises(QueueFullError):
            batcher.submit("me", jobs("a", [(1, 1)] * 3))
        futures[3].cancel()
        results = await asyncio.gather(*futures, return_exceptions=True)
        batcher.close(5)
        with pytest.raises(ClosedError):
            batcher.submit("me", jobs("a", [(1, 1)]))
        return results

    results = asyncio.run(main())
    assert worker.seen == [[5, 7, 8], [60], [1]]
    assert [str(result) for result in results] == ["50", "600", "7", "", "80", "10"]


def test_a_batch_costs_no_more_than_it_may() -> None:
    worker = Doing(same)

    async def main() -> None:
        batcher = Batcher([worker], BatchLimits(jobs=8, cost=100, window=0.05))
        await results_of(batcher.submit("me", jobs("a", [(40, 40), (50, 50), (45, 45), (500, 500)])))
        batcher.close()

    asyncio.run(main())
    assert worker.seen == [[40, 45], [50], [500]]


def test_a_crowd_of_clients_is_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "_MOST_CLIENTS", 10)
    worker = Doing(same, is_open=False)

    async def main() -> None:
        batcher = Batcher([worker], BatchLimits(window=0))
        batcher.submit("busy", jobs("a", [(1, 1)]))
        await busy(worker)  # the queue never empties while there is something to do
        for number in range(50):
            batcher.submit(f"client {number}", jobs("a", [(1, 1)]))[0].cancel()
        assert list(batcher._last_turn) == [f"client {number}" for number in range(40, 50)]
        worker.gate.set()
        batcher.close()

    asyncio.run(main())


def test_a_lost_result_is_an_error_and_not_a_hanging_request() -> None:
    async def main() -> None:
        batcher = Batcher([Doing(lambda group, tasks: [1])], BatchLimits(window=0.05))
        results = await results_of(batcher.submit("me", jobs("a", [(1, 1), (2, 2)])))
        assert all(isinstance(result, AssertionError) for result in results)
        batcher.close()

    asyncio.run(main())


def test_figures_that_cannot_be_written_do_not_stop_the_translating() -> None:
    def full_disk(jobs: int, waited: float, waiting: int) -> None:
        raise OSError("no space left")

    async def main() -> None:
        batcher = Batcher([Doing(same)], BatchLimits(window=0.01), full_disk)
        for _ in range(2):
            assert await results_of(batcher.submit("me", jobs("a", [(1, 1)]))) == [1]
        assert batcher.is_working
        batcher.close(30)
        assert not batcher.is_working

    asyncio.run(main())


def test_clients_take_turns_by_cost_not_by_arrival() -> None:
    worker = Doing(same, is_open=False)

    async def main() -> None:
        batcher = Batcher([worker], BatchLimits(jobs=1, window=0))
        futures = batcher.submit("greedy", jobs("a", [(0, 10)]))
        await busy(worker)
        futures += batcher.submit("greedy", jobs("a", [(i, 10) for i in range(1, 6)]))
        futures += batcher.submit("modest", jobs("a", [(100, 10), (101, 10)]))
        futures += batcher.submit("tiny", jobs("a", [(200, 1)]))
        worker.gate.set()
        await results_of(futures)
        batcher.close()

    asyncio.run(main())
    order = [task for (task,) in worker.seen]
    assert order[:2] == [0, 200]  # what costs least is next, though it came last
    assert order.index(101) < order.index(3)  # two of each, in turns
    assert [task for task in order if task < 100] == [0, 1, 2, 3, 4, 5]


def test_whoever_fills_the_queue_makes_room_for_others() -> None:
    worker = Doing(same, is_open=False)

    async def main() -> tuple[list[Any], list[Any]]:
        batcher = Batcher([worker], BatchLimits(jobs=1, window=0, queue=4))
        first = batcher.submit("greedy", jobs("a", [(0, 1)]))
        await busy(worker)
        first += batcher.submit("greedy", jobs("a", [(1, 1), (2, 1), (3, 1), (4, 1)]))
        second = batcher.submit("modest", jobs("a", [(100, 1), (101, 1)]))
        with pytest.raises(QueueFullError):
            batcher.submit("modest", jobs("a", [(102, 1)]))  # each has half of it now
        worker.gate.set()
        results = await results_of(first), await results_of(second)
        batcher.close()
        return results

    greedy, modest = asyncio.run(main())
    assert modest == [100, 101]
    assert greedy[:3] == [0, 1, 2]
    assert all(isinstance(result, QueueFullError) for result in greedy[3:])


@pytest.mark.parametrize(("queue", "seconds"), [(1, 1), (100, 5), (399, 20), (1000, 30)])
def test_whoever_is_refused_is_told_to_come_back_within_half_a_minute(queue: int, seconds: int) -> None:
    worker = Doing(same, is_open=False)

    async def main() -> int:
        batcher = Batcher([worker], BatchLimits(jobs=1, window=0, queue=queue))
        first = batcher.submit("greedy", jobs("a", [(0, 1)]))
        await busy(worker)
        first += batcher.submit("greedy", jobs("a", [(number, 1) for number in range(queue)]))
        with pytest.raises(QueueFullError) as refused:
            batcher.submit("greedy", jobs("a", [(0, 1)]))
        for future in first:
            future.cancel()
        worker.gate.set()
        batcher.close()
        return refused.value.retry_after

    assert asyncio.run(main()) == seconds  # none has been done yet: 0.05 seconds each are expected


def test_what_a_lost_worker_held_is_done_by_another_each_alone() -> None:
    def dies_of_seven(group: str, tasks: list[int]) -> list[int]:
        if 7 in tasks:
            raise WorkerLostError("gone")
        return tasks

    worker = Doing(dies_of_seven)

    async def main() -> list[Any]:
        batcher = Batcher([worker], BatchLimits(window=0.05))
        results = await results_of(batcher.submit("me", jobs("a", [(5, 1), (7, 1), (9, 1)])))
        batcher.close()
        return results

    results = asyncio.run(main())
    assert [results[0], results[2]] == [5, 9]
    assert isinstance(results[1], WorkerLostError)
    assert worker.seen[0] == [5, 7, 9]
    assert sorted(worker.seen[1:]) == [[5], [7], [7], [9]]


@pytest.mark.parametrize("cost", [1, 100])  # taken before what was lost, and after it
def test_what_was_lost_once_keeps_no_company(cost: int) -> None:
    def dies_once(group: str, tasks: list[int]) -> list[int]:
        if len(worker.seen) == 1:
            raise WorkerLostError("gone")
        return tasks

    worker = Doing(dies_once, is_open=False)

    async def main() -> None:
        batcher = Batcher([worker], BatchLimits(jobs=2, window=0.05))
        lost = batcher.submit("me", jobs("a", [(1, 5), (2, 5)]))
        await busy(worker)
        fresh = batcher.submit("you", jobs("a", [(3, cost)]))
        worker.gate.set()
        assert await results_of(lost + fresh) == [1, 2, 3]
        batcher.close()

    asyncio.run(main())
    assert worker.seen[0] == [1, 2]
    assert sorted(worker.seen[1:]) == [[1], [2], [3]]


def test_a_worker_is_told_once_nobody_waits_any_more() -> None:
    worker = Doing(same, is_open=False)

    async def main() -> None:
        batcher = Batcher([worker], BatchLimits(window=0.05))
        futures = batcher.submit("me", jobs("a", [(1, 1), (2, 1)]))
        await busy(worker)
        futures[0].cancel()
        assert worker.batch.is_wanted
        futures[1].cancel()
        assert not worker.batch.is_wanted
        worker.gate.set()
        batcher.close()

    asyncio.run(main())


def test_a_short_request_goes_in_between_where_its_client_has_not_had_its_share() -> None:
    worker = Doing(same, is_open=False)

    async def main() -> None:
        batcher = Batcher([worker], BatchLimits(window=0.01))
        futures = batcher.submit("slow", jobs("a", [(1, 100), (2, 100)]))  # long only as a whole
        await busy(worker)
        assert worker.batch.is_long
        assert worker.errand() is None
        futures += batcher.submit("slow", jobs("a", [(3, 60)]))  # begins after the turn of the long one
        futures += batcher.submit("slow", jobs("a", [(4, 10)]))
        futures += batcher.submit("quick", jobs("b", [(5, 30), (6, 30), (7, 30)]))
        futures += batcher.submit("long", jobs("b", [(8, 100), (9, 100)]))  # no part of it goes in between
        errand = worker.errand()
        assert errand is not None
        assert (errand.group, errand.tasks) == ("b", [5, 6])  # as much as an errand may cost
        errand.finish([50, 60])
        assert await results_of(futures[4:6]) == [50, 60]
        errand = worker.errand()
        assert errand is not None
        assert errand.tasks == [7]
        errand.finish([70])
        assert worker.errand() is None
        worker.gate.set()
        assert await results_of(futures) == [1, 2, 3, 4, 50, 60, 70, 8, 9]
        batcher.close()

    asyncio.run(main())
    assert worker.seen[1:] == [[8, 9], [4, 3]]


def test_what_is_done_in_between_costs_no_more_than_what_has_to_wait() -> None:
    worker = Doing(same, is_open=False)

    async def main() -> None:
        batcher = Batcher([worker], BatchLimits(window=0.01))
        futures = batcher.submit("slow", jobs("a", [(1, 200)]))
        await busy(worker)
        for number in range(2, 6):
            futures += batcher.submit(f"quick {number}", jobs("a", [(number, 70)]))
        for number in range(2, 5):
            errand = worker.errand()
            assert errand is not None
            assert errand.tasks == [number]
            errand.finish([number])
        assert worker.errand() is None
        worker.gate.set()
        assert await results_of(futures) == [1, 2, 3, 4, 5]
        batcher.close()

    asyncio.run(main())


def test_a_short_request_has_no_long_company() -> None:
    worker = Doing(same, is_open=False)

    async def main() -> None:
        batcher = Batcher([worker], BatchLimits(window=0.01))
        futures = batcher.submit("first", jobs("a", [(1, 1)]))
        await busy(worker)
        futures += batcher.submit("list", jobs("a", [(2, 20)] * 8))
        futures += batcher.submit("short", jobs("a", [(3, 20)]))
        futures += batcher.submit("later", jobs("a", [(4, 1000), (5, 20)]))
        worker.gate.set()
        await results_of(futures)
        batcher.close()

    asyncio.run(main())
    assert worker.seen == [[1], [3], [2] * 8, [5, 4]]


def test_the_short_requests_of_one_client_keep_each_other_company_and_let_others_in_between() -> None:
    worker = Doing(same, is_open=False)

    async def main() -> None:
        batcher = Batcher([worker], BatchLimits(window=0.05))
        futures = [batcher.submit("crowd", jobs("a", [(number, 20)]))[0] for number in range(20)]
        await busy(worker)
        assert worker.batch.is_long
        futures += batcher.submit("crowd", jobs("a", [(20, 20)]))
        assert worker.errand() is None
        futures += batcher.submit("other", jobs("a", [(21, 20)]))
        errand = worker.errand()
        assert errand is not None
        assert errand.tasks == [21]
        errand.finish([21])
        worker.gate.set()
        assert await results_of(futures) == list(range(22))
        batcher.close()

    asyncio.run(main())
    assert [len(tasks) for tasks in worker.seen] == [20, 1]


def test_what_was_given_in_between_is_answered_when_everything_fails() -> None:
    class Failing(Doing):
        def run(self, batch: Batch[str, int, int], errand: Callable[[], Batch[str, int, int] | None]) -> None:
            super().run(batch, errand)
            errand()
            raise ValueError("broken")

    worker = Failing(same, is_open=False)

    async def main() -> None:
        batcher = Batcher([worker], BatchLimits(window=0.01))
        futures = batcher.submit("slow", jobs("a", [(1, 200)]))
        await busy(worker)
        futures += batcher.submit("quick", jobs("a", [(2, 1)]))
        worker.gate.set()
        first, second = await results_of(futures)
        assert first == 1  # told before
        assert isinstance(second, ValueError)
        batcher.close()

    asyncio.run(main())
