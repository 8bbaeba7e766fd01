"""Readers and writers of documents that do harm: a child finds them by their names, as it finds ours."""

import os
import resource
import signal
import stat
import tempfile
import time
from typing import Any

from recoversat.errors import UserError
from recoversat.serve.work.documents import read_document


def prepare() -> None:
    """Have a fork server import this module."""


def loop(*_: Any) -> None:
    while True:
        pass


def wait_for(path: str) -> str:
    """Wait until there is such a file."""
    while not os.path.exists(path):
        time.sleep(0.01)
    return path


def doze(*_: Any) -> None:
    time.sleep(90)


def allocate(*_: Any) -> None:
    held = []
    while True:
        held.append(bytes(1 << 22))  # never touched: it costs no time


def crash(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def leave(*_: Any) -> None:
    os._exit(0)


def refuse(*_: Any) -> None:
    raise UserError("this is no document")


def fail(*_: Any) -> None:
    raise RuntimeError("a secret sentence")


def answer(size: int) -> bytes:
    return bytes(size)


def write_a_file(*_: Any) -> str:
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
    return "written"


def limits() -> dict[str, int]:
    names = ("RLIMIT_CPU", "RLIMIT_CORE", "RLIMIT_FSIZE")
    return {name: resource.getrlimit(getattr(resource, name))[0] for name in names}


def open_sockets() -> int:
    return sum(stat.S_ISSOCK(os.fstat(one).st_mode) for one in range(3, 100) if _is_open(one))


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def read_slowly(*args: Any) -> Any:
    time.sleep(1)
    return read_document(*args)


def read_as_told(source: bytes, *rest: Any) -> Any:
    """Do what the first word of a document says."""
    harm = {b"crash": crash, b"allocate": allocate, b"loop": loop, b"slowly": read_slowly}
    return harm.get(source.split()[0], read_document)(source, *rest)
