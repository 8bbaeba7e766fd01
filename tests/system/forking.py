"""Commands as processes of their own that need not import anything: they are forks of one that has."""

import os
import sys
import tempfile
import traceback
from functools import cache
from importlib import import_module
from multiprocessing import forkserver, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired
from unittest.mock import patch

ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # sums are added in one order
_CONTEXT = get_context("forkserver")
PRELOADED = "tests.system.preloaded"  # by the process from which commands are forked


class Forked:
    """`recoversat ARGUMENTS`, started in a process that has torch imported; it sees one thread."""

    def __init__(self, arguments: list[object], stdin: str | None = None, cwd: Path | None = None, **more: str) -> None:
        _start()
        self.arguments = list(map(str, arguments))
        self._folder = tempfile.TemporaryDirectory()
        streams = [Path(self._folder.name, name) for name in ("in", "out", "err")]
        streams[0].write_text(stdin or "", encoding="utf-8", newline="")
        for path in streams[1:]:
            path.touch()
        self._out, self._err = streams[1:]
        environment = os.environ | ONE_THREAD | more
        self._process = _CONTEXT.Process(
            target=_command, args=(self.arguments, streams, environment, cwd or Path.cwd())
        )
        self._process.start()
        assert self._process.pid
        self.pid: int = self._process.pid

    @property
    def out(self) -> str:
        """What it has written to standard output so far."""
        return self._out.read_bytes().decode()

    @property
    def said(self) -> str:
        """What it has said on standard error so far."""
        return self._err.read_bytes().decode()

    def poll(self) -> int | None:
        """Return its exit code, if it has ended."""
        return self._process.exitcode

    def wait(self, timeout: float = 600) -> int:
        """Wait for its end and return its exit code."""
        self._process.join(timeout)
        if (code := self._process.exitcode) is None:
            raise TimeoutExpired(self.arguments, timeout)
        return code

    def __enter__(self) -> "Forked":
        return self

    def __exit__(self, *_: object) -> None:
        """End it, if it runs still."""
        self._process.kill()
        self._process.join()
        self._folder.cleanup()


def run(
    arguments: list[str], stdin: str | None, cwd: Path | None = None, timeout: float = 600
) -> CompletedProcess[str]:
    """Run a command to its end."""
    with Forked([*arguments], stdin, cwd) as command:
        code = command.wait(timeout)
        return CompletedProcess(arguments, code, command.out, command.said)


@cache
def _start() -> None:
    """Start the process to fork from, and see that it has imported what it should: it is silent where it could not."""
    _CONTEXT.set_forkserver_preload([PRELOADED])
    with patch.dict(os.environ, ONE_THREAD):
        forkserver.ensure_running()
    receiver, sender = _CONTEXT.Pipe(duplex=False)
    _CONTEXT.Process(target=_tell_fault, args=(PRELOADED, sender)).start()
    sender.close()
    if fault := receiver.recv():
        raise ImportError(f"commands cannot be forked from what has imported {PRELOADED}:\n{fault}")


def _tell_fault(name: str, sender: "Connection[str, str]") -> None:
    fault = "" if name in sys.modules else "only this process could import it; run the tests in the repository's root"
    try:
        import_module(name)
    except BaseException:
        fault = traceback.format_exc()
    sender.send(fault)


def _command(arguments: list[str], streams: list[Path], environment: dict[str, str], cwd: Path) -> None:
    from recoversat.cli import main

    for number, (path, flags) in enumerate(zip(streams, (os.O_RDONLY, *[os.O_WRONLY | os.O_CREAT] * 2), strict=True)):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, buffering, encoding="utf-8", closefd=False)  # noqa: SIM115
        for number, (mode, buffering) in enumerate((("r", -1), ("w", -1), ("w", 1)))
    )
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.argv = ["recoversat", *arguments]
    main()
