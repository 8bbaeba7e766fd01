"""Work that may hang, crash or eat memory: each piece of it in a process of its own, with limits.

A process that answers requests has threads, so it cannot be forked, and to start Python anew takes a third of a second.
So there is a fork server: a process with one thread that has imported what its children need, started when it is
first needed. For each call it forks a child and hands it one end of a socket; the other end is the caller's. Through it
goes one question and one answer. When the caller closes its end, the fork server kills the child; when a child is
gone, it closes the child's end, and if that was not in peace, says before how it ended.
"""

import asyncio
import atexit
import gc
import math
import os
import pickle
import resource
import select
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar

import psutil

from recoversat.errors import UserError
from recoversat.serve.process.logs import described, log

_SPAWN = get_context("spawn")
_CALL = b"c"  # what goes to the fork server with the socket of a new child; its content does not matter
_LARGEST_ANSWER = 100_000_000  # bytes
_CHUNK = 1 << 20
_OUT_OF_MEMORY = 77  # how a child says that it may not have more

P = ParamSpec("P")
R = TypeVar("R")


class ChildLostError(Exception):
    """A child crashed, or met a mistake in our code; it says how, and nothing of what users wrote."""


@dataclass(frozen=True)
class Limits:
    """What a child may take: seconds, and bytes of memory beside those it begins with."""

    seconds: float
    memory: int

    def why(self, ending: int) -> Exception:
        """Tell a child that reached a limit from one that crashed."""
        if ending == _OUT_OF_MEMORY or ending == -signal.SIGKILL:  # the latter by a system that has none left
            return UserError(f"the file takes more than {self.memory >> 20} MiB of memory to be read or written")
        if ending == -signal.SIGXCPU:
            return self.too_slow
        return ChildLostError(signal.Signals(-ending).name if ending < 0 else f"exit code {ending}")

    @property
    def too_slow(self) -> UserError:
        return UserError(f"the file takes more than {self.seconds:g} seconds to be read or written")


class ForkServer:
    """The fork server, seen from the process that answers requests; it is started when needed, and again if it dies.

    What `prepare` imports there, its children find imported.
    """

    def __init__(self, prepare: Callable[[], None]) -> None:
        self._prepare = prepare
        self._process: BaseProcess | None = None
        self._control = socket.socket(socket.AF_UNIX)
        self._control.close()  # it leads nowhere yet
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def call(self, limits: Limits, function: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
        """Call a function of some module in a process of its own; what is not awaited to the end is killed.

        A UserError says what the function, or a limit, has to say; ChildLostError is no fault of the user.
        """
        question = pickle.dumps((limits, function, args, named))
        try:
            async with asyncio.timeout(limits.seconds):
                answer = await _answer(self._child(), question)
        except TimeoutError:
            raise limits.too_slow from None
        except OSError as error:  # it was gone before it had heard all
            raise ChildLostError(str(error)) from None
        result: R = _result(answer, limits)
        return result

    def close(self) -> None:
        """Let the fork server go, and its children with it."""
        atexit.unregister(self.close)
        self._control.close()
        if self._process:
            self._process.join(1)
            self._process.kill()
            self._process.join()
            self._process = None

    def _child(self) -> socket.socket:
        """Have a child forked; return our end of the socket between us."""
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            try:
                socket.send_fds(self._control, [_CALL], [theirs.fileno()])
            except OSError:  # it has not been started, or is gone, or hangs
                self._start()
                socket.send_fds(self._control, [_CALL], [theirs.fileno()])
        return ours

    def _start(self) -> None:
        if self._process:
            log.warning("the fork server ended with %s", self._process.exitcode)
            self._process.kill()  # where it only hangs
        self.close()
        self._control, theirs = socket.socketpair()
        self._control.setblocking(False)
        self._process = _SPAWN.Process(target=run_fork_server, args=(theirs, self._prepare), daemon=True)
        self._process.start()
        theirs.close()
        atexit.register(self.close)  # else Python would wait for it for ever


async def _answer(ours: socket.socket, question: bytes) -> bytes:
    """Ask a child, and hear all that it says until its socket is closed."""
    reader, writer = await asyncio.open_unix_connection(sock=ours, limit=_CHUNK)
    try:
        writer.write(question)
        await writer.drain()
        answer = bytearray()
        while chunk := await reader.read(_CHUNK):
            answer += chunk
            if len(answer) > _LARGEST_ANSWER:
                raise UserError(f"the file written would have more than {_LARGEST_ANSWER} bytes")
        return bytes(answer)
    finally:
        writer.transport.abort()  # if it is still there, that is its end


def _result(answer: bytes, limits: Limits) -> Any:
    """Read what a child has said, or how it ended."""
    if len(answer) < 2:
        raise limits.why(int.from_bytes(answer, signed=True))
    try:
        is_well, result = pickle.loads(answer)
    except Exception:  # of what is cut off, pickle says this or that
        raise ChildLostError("half an answer") from None
    if is_well:
        return result
    raise result if isinstance(result, UserError) else ChildLostError(result)


def run_fork_server(control: socket.socket, prepare: Callable[[], None]) -> None:
    """Fork a child for each socket that comes, until whoever sends them is gone."""
    for number in (signal.SIGINT, signal.SIGTERM):  # they reach the whole group; whoever owns the socket decides
        signal.signal(number, signal.SIG_IGN)
    prepare()
    gc.freeze()
    _Forks(control).run()


class _Forks:
    """The children of a fork server, by the file descriptors of their sockets."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._children: dict[int, tuple[int, socket.socket]] = {}
        self._deaths, wake = os.pipe()
        for end in (self._deaths, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._poll.register(self._deaths, select.POLLIN)

    def run(self) -> None:
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._deaths:
                    os.read(self._deaths, 1000)
                    self._remove_dead()
                elif descriptor != self._control.fileno():
                    self._kill(descriptor)
                elif not self._fork():
                    for one in list(self._children):
                        self._kill(one)
                    return

    def _fork(self) -> bool:
        """Fork a child for the next socket; say whether there was one."""
        message, descriptors, _, _ = socket.recv_fds(self._control, 1, 1)
        if not message:
            return False
        theirs = socket.socket(fileno=descriptors[0])
        try:
            pid = os.fork()
        except OSError:  # there are too many processes
            theirs.close()
            return True
        if pid == 0:
            self._control.close()
            for _, other in self._children.values():
                other.close()
            _run_child(theirs)
        self._children[theirs.fileno()] = pid, theirs
        self._poll.register(theirs, 0)  # 0: tell only when the other end is closed
        return True

    def _kill(self, descriptor: int) -> None:
        if descriptor in self._children:
            self._poll.unregister(descriptor)
            os.kill(self._children[descriptor][0], signal.SIGKILL)

    def _remove_dead(self) -> None:
        """Close the sockets of children that are gone."""
        for descriptor, (pid, theirs) in list(self._children.items()):
            gone, status = os.waitpid(pid, os.WNOHANG)
            if gone:
                ending = os.waitstatus_to_exitcode(status)
                with suppress(OSError), theirs:
                    if ending:
                        theirs.send(ending.to_bytes(signed=True), socket.MSG_DONTWAIT)
                with suppress(KeyError):
                    self._poll.unregister(descriptor)
                del self._children[descriptor]


def _run_child(caller: socket.socket) -> NoReturn:
    """Answer one question within its limits."""
    ending = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with caller.makefile("rb") as heard:
            limits, function, args, named = pickle.load(heard)
        _set_limits(limits)
        caller.sendall(pickle.dumps(_attempt(function, args, named)))
        ending = 0
    except MemoryError:
        ending = _OUT_OF_MEMORY
    finally:
        os._exit(ending)


def _attempt(
    function: Callable[..., object], args: tuple[object, ...], named: dict[str, object]
) -> tuple[bool, object]:
    try:
        return True, function(*args, **named)
    except UserError as error:
        return False, error
    except MemoryError:
        raise
    except Exception as error:
        return False, described(error)


def _set_limits(limits: Limits) -> None:
    """Take no more than that, let others go first, and leave nothing behind: neither files nor a dump of the memory."""
    os.nice(5)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # whatever else runs is worth more, to Linux too
    begins_with = psutil.Process().memory_info().vms
    _limit(resource.RLIMIT_CPU, math.ceil(limits.seconds))
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CORE, 0)
    with suppress(ValueError, OSError):  # macOS knows no such limit
        _limit(resource.RLIMIT_AS, begins_with + limits.memory)


def _limit(what: int, most: int) -> None:
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
