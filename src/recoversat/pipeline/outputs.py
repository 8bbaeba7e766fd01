"""Which files are translated into which, and what is refused because one would be lost by it."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import IO

from recoversat.errors import UserError
from recoversat.files.partial import partial_names
from recoversat.files.storage import atomic_stream, write_faults_named


@dataclass(frozen=True)
class Job:
    """Files (none: standard input) whose translations go into one file (None: standard output)."""

    files: list[Path]
    out: Path | None


def plan_outputs(files: list[Path], out: str | None, trace: Path | None = None) -> list[Job]:
    """Give every file an output: all the same one, or, in a folder, each one of its own name."""
    if out is None:
        jobs = [Job(files, None)]
    elif not (out.endswith(("/", os.sep)) or Path(out).is_dir()):
        jobs = [Job(files, Path(out))]
    elif not files:
        raise UserError(f"--out {out} is a folder: name a file in it for what comes from standard input")
    else:
        refuse_same_names(files)
        jobs = [Job([path], Path(out) / path.name) for path in files]
    written = [job.out for job in jobs if job.out]
    if trace and any(_is_same(trace, path) for path in written):
        raise UserError(f"--trace and --out are both {trace}: name two files")
    for path in [*written, *([trace] if trace else [])]:
        if found := next((one for one in files for own in (path, *partial_names(path)) if _is_same(one, own)), None):
            raise UserError(f"{path}: writing it would destroy {found}, which is to be translated; choose another name")
    return jobs


def refuse_same_names(files: Sequence[Path]) -> None:
    """Refuse inputs that would write to the same name in a folder."""
    names = [path.name for path in files]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"two inputs are called {twice}, and so would be their outputs; rename one")


@contextmanager
def output_stream(out: Path) -> Iterator[IO[str]]:
    """Open a file, compressed as its name says, that appears whole or not at all."""
    with write_faults_named(out), atomic_stream(out) as stream:
        text = TextIOWrapper(stream, encoding="utf-8", newline="\n")
        yield text
        text.flush()
        text.detach()


def _is_same(one: Path, other: Path) -> bool:
    """Say whether two names mean one file, by whatever link; a device or pipe may be read and written."""
    if one.exists() and other.exists():
        return one.is_file() and one.samefile(other)
    return one.resolve() == other.resolve()
