"""Processes of their own: what hangs, crashes or eats memory in one costs nobody else anything."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from recoversat.errors import UserError
from recoversat.serve.process.fork_server import ChildLostError, ForkServer, Limits
from tests.unit.serve import bad_documents as bad
from tests.unit.serve.fake_translator import FORK_SERVER
from tests.unit.serve.test_connections import until

LIMITS = Limits(10.0, 200 << 20)
PATIENT = Limits(60.0, 200 << 20)


def call(function: Callable[..., Any], *args: Any, limits: Limits = LIMITS, server: ForkServer = FORK_SERVER) -> Any:
    return asyncio.run(server.call(limits, function, *args))


def children(server: ForkServer = FORK_SERVER) -> list[psutil.Process]:
    return psutil.Process(server.pid).children()


def test_an_answer_comes_back_whatever_its_size() -> None:
    for size in (0, 1, 5_000_000):
        assert call(bad.answer, size) == bytes(size)
    until(lambda: not children())


def test_what_the_function_refuses_is_refused() -> None:
    with pytest.raises(UserError, match="this is no document"):
        call(bad.refuse)


def test_of_a_mistake_in_our_code_only_its_place_is_told() -> None:
    with pytest.raises(ChildLostError, match="RuntimeError in fail") as told:
        call(bad.fail)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    ("function", "limits", "message"),
    [
        (bad.loop, Limits(0.2, 200 << 20), "more than 0.2 seconds"),
        (bad.doze, Limits(0.2, 200 << 20), "more than 0.2 seconds"),
        (bad.allocate, Limits(60, 50 << 20), "more than 50 MiB of memory"),
    ],
)
def test_limits_hold(function: Callable[..., Any], limits: Limits, message: str) -> None:
    async def ask() -> None:
        await asyncio.wait_for(FORK_SERVER.call(limits, function), 60)  # by itself none of them would end

    with pytest.raises(UserError, match=message):
        asyncio.run(ask())
    until(lambda: not children())


def test_the_system_itself_ends_what_takes_too_much_processor_time() -> None:
    """Even where nobody is left to look at the clock."""
    assert call(bad.limits, limits=Limits(3.2, 200 << 20)) == {"RLIMIT_CPU": 4, "RLIMIT_CORE": 0, "RLIMIT_FSIZE": 0}
    assert str(Limits(3.2, 1).why(-signal.SIGXCPU)) == "the file takes more than 3.2 seconds to be read or written"
    assert "memory" in str(Limits(3.2, 1).why(-signal.SIGKILL))  # so ends who takes the last of it


@pytest.mark.parametrize(("function", "how"), [(bad.crash, "SIGSEGV"), (bad.leave, "exit code 0")])
def test_a_crash_is_told(function: Callable[..., Any], how: str) -> None:
    with pytest.raises(ChildLostError, match=how):
        call(function)
    assert call(bad.answer, 3) == bytes(3)


def test_no_file_can_be_left_behind() -> None:
    with pytest.raises(ChildLostError, match=r"FileNotFoundError|OSError"):
        call(bad.write_a_file)


def test_an_answer_that_is_far_too_large_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoversat.serve.process.fork_server._LARGEST_ANSWER", 1000)
    with pytest.raises(UserError, match="more than 1000 bytes"):
        call(bad.answer, 1 << 22)
    until(lambda: not children())


async def born(number: int) -> None:
    """Wait until there are so many children."""
    async with asyncio.timeout(20):
        while len(children()) < number:
            await asyncio.sleep(0.01)


def test_who_gives_up_ends_the_child_and_no_other(tmp_path: Path) -> None:
    end = tmp_path / "end"

    async def ask() -> None:
        first = asyncio.create_task(FORK_SERVER.call(PATIENT, bad.doze))
        await born(1)
        second = asyncio.create_task(FORK_SERVER.call(PATIENT, bad.wait_for, str(end)))
        await born(2)
        first.cancel()
        end.touch()
        assert await second == str(end)  # it is told of its own end, though the other's socket was open when it began

    call(bad.answer, 1)
    asyncio.run(ask())
    until(lambda: not children())


def test_a_child_holds_no_socket_but_its_own() -> None:
    async def ask() -> int:
        first = asyncio.create_task(FORK_SERVER.call(PATIENT, bad.doze))
        await born(1)
        found = await FORK_SERVER.call(LIMITS, bad.open_sockets)
        first.cancel()
        return found

    assert asyncio.run(ask()) == 1


def test_a_fork_server_that_dies_is_started_again_and_leaves_when_it_is_closed() -> None:
    server = ForkServer(bad.prepare)
    assert server.pid is None  # nobody has needed it
    try:
        assert call(bad.answer, 1, server=server) == bytes(1)
        first = server.pid
        assert first
        os.kill(first, signal.SIGTERM)  # reaches it where the whole group is told to stop
        assert call(bad.answer, 1, server=server) == bytes(1)
        assert server.pid == first
        os.kill(first, signal.SIGKILL)
        until(lambda: psutil.Process(first).status() == psutil.STATUS_ZOMBIE)
        assert call(bad.answer, 1, server=server) == bytes(1)
        second = server.pid
        assert second
        assert second != first
    finally:
        server.close()
    assert not psutil.pid_exists(second)


def test_a_fork_server_and_its_children_leave_when_whoever_started_it_is_gone() -> None:
    server = ForkServer(bad.prepare)

    async def ask() -> list[psutil.Process]:
        waiting = asyncio.create_task(server.call(PATIENT, bad.doze))
        while not (server.pid and children(server)):
            await asyncio.sleep(0.01)
        found = children(server)
        server._control.close()  # as the system does for who is killed
        until(lambda: not any(one.is_running() for one in found))
        waiting.cancel()
        return found

    try:
        asyncio.run(ask())
        process = server._process
        assert process
        process.join(10)
        assert process.exitcode == 0
    finally:
        server.close()
