"""Commands as processes of their own that need not import anything: they are forks of one that has."""

import os
import sys
import tempfile
from functools import cache
from multiprocessing import forkserver, get_context
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired
from unittest.mock import patch

ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # sums are added in one order
_CONTEXT = get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "torch",
        "torch._dynamo",
        "matplotlib.figure",
        "onnxruntime",
        "sacrebleu",
        "sentencepiece",
        "recoversat.cli",
        __name__,
    ]
)


def run(
    arguments: list[str], stdin: str | None, cwd: Path | None = None, timeout: float = 600
) -> CompletedProcess[str]:
    """Run `recoversat ARGUMENTS` in a process that has torch imported; it sees one thread."""
    _start()
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("in", "out", "err")]
        streams[0].write_text(stdin or "", encoding="utf-8", newline="")
        process = _CONTEXT.Process(
            target=_command, args=(arguments, streams, os.environ | ONE_THREAD, cwd or Path.cwd())
        )
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            raise TimeoutExpired(arguments, timeout)
        out, err = (path.read_bytes().decode() for path in streams[1:])
        return CompletedProcess(arguments, process.exitcode, out, err)


@cache
def _start() -> None:
    with patch.dict(os.environ, ONE_THREAD):
        forkserver.ensure_running()


def _command(arguments: list[str], streams: list[Path], environment: dict[str, str], cwd: Path) -> None:
    from recoversat.cli import main

    for number, (path, flags) in enumerate(zip(streams, (os.O_RDONLY, *[os.O_WRONLY | os.O_CREAT] * 2), strict=True)):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
        for number, mode in enumerate("rww")
    )
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.argv = ["recoversat", *arguments]
    main()
