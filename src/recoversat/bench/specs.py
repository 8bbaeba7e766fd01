"""Systems to time, as written on the command line."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from recoversat.builtin import builtin_model
from recoversat.errors import UserError

_OPTIONS = re.compile(r"(.+?)((?::\w+=[^:=]+)*)")
_NAME = re.compile(r"[\w+@-][\w.+@ -]*")
_KNOWN = ("segments", "beam", "compute", "threads", "to")
_COMPUTE = ("int8", "float32", "float16", "bfloat16", "int8_float16")  # the last three on a GPU
_FORM = "NAME=PATH[:segments=K][:beam=N][:compute=int8][:threads=N][:to=LANGUAGE]"
AUTO = "auto"


@dataclass(frozen=True)
class BenchSystem:
    """A model folder, ours or CTranslate2's, and how it is to decode."""

    name: str
    path: str
    segments: int | str | None = None  # K, "auto", or the model's own
    beam: int = 1
    compute: str = "default"
    threads: int | None = None  # None = each of those the run asks for
    target: str | None = None  # of a model of both directions: the language to translate into
    unavailable: str | None = None  # why it cannot be measured, known beforehand


def parse_bench_system(text: str) -> BenchSystem:
    """Read NAME=PATH with options.

    >>> parse_bench_system("k10=exported:segments=10:compute=int8").compute
    'int8'
    """
    name, equals, rest = text.partition("=")
    match = _OPTIONS.fullmatch(rest)
    if not equals or match is None:
        raise UserError(f"--system {text}: write {_FORM}")
    if not _NAME.fullmatch(name):  # it becomes a file's name
        raise UserError(f"--system {text}: {name!r} cannot be a name; use letters, digits and . _ - + @")
    options = dict(part.split("=", 1) for part in match[2].split(":")[1:])
    for key in options:
        if key not in _KNOWN:
            raise UserError(f"--system {text}: no option {key}; there are {', '.join(_KNOWN)}")
    return BenchSystem(
        name,
        match[1],
        segments=AUTO if options.get("segments") == AUTO else _whole(text, options, "segments"),
        beam=_whole(text, options, "beam") or 1,
        compute=_compute(text, options.get("compute", "default")),
        threads=_whole(text, options, "threads"),
        target=options.get("to"),
    )


def builtin_systems(target: str | None) -> list[BenchSystem]:
    """List the built-in model at several K, for those who name no system."""
    folder = str(builtin_model(None, target))
    chosen: list[tuple[str, int | str]] = [("AT greedy", 1), ("K2", 2), ("K5", 5), ("K10", 10), ("auto", AUTO)]
    return [BenchSystem(name, folder, k, target=target) for name, k in chosen]


def check_bench_systems(systems: Sequence[BenchSystem]) -> None:
    """Find what cannot work before anything is timed; what only one system lacks is left to its row."""
    names = [system.name for system in systems]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"--system: the name {twice[0]} is given twice; each needs its own")
    if not any(Path(system.path).exists() for system in systems):
        raise UserError(f"{systems[0].path}: no such model folder")


def _whole(text: str, options: dict[str, str], key: str) -> int | None:
    value = options.get(key)
    if value is None:
        return None
    if not value.isdecimal() or int(value) < 1:
        raise UserError(f"--system {text}: {key} must be a whole number from 1, not {value!r}")
    return int(value)


def _compute(text: str, value: str) -> str:
    if value not in (known := ("default", *_COMPUTE)):
        raise UserError(f"--system {text}: compute must be one of {', '.join(known)}, not {value!r}")
    return value
