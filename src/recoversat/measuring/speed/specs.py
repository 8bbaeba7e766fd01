"""Systems to time, as written on the command line."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from recoversat.errors import UserError
from recoversat.files.builtin import builtin_model
from recoversat.measuring.named_specs import check_names, parse_named

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
    name, path, options = parse_named(text, _FORM, ("segments", "beam", "threads"), ("compute", "to"))
    compute = _compute(text, options.pop("compute", "default"))
    return BenchSystem(name, path, compute=compute, target=options.pop("to", None), **options)


def builtin_systems(target: str | None) -> list[BenchSystem]:
    """List the built-in model at several K, for those who name no system."""
    folder = str(builtin_model(None, target))
    chosen: list[tuple[str, int | str]] = [("AT greedy", 1), ("K2", 2), ("K5", 5), ("K10", 10), ("auto", AUTO)]
    return [BenchSystem(name, folder, k, target=target) for name, k in chosen]


def check_bench_systems(systems: Sequence[BenchSystem]) -> None:
    """Find what cannot work before anything is timed; what only one system lacks is left to its row."""
    check_names([system.name for system in systems], "--system")
    if not any(Path(system.path).exists() for system in systems):
        raise UserError(f"{systems[0].path}: no such model folder")


def _compute(text: str, value: str) -> str:
    if value not in (known := ("default", *_COMPUTE)):
        raise UserError(f"--system {text}: compute must be one of {', '.join(known)}, not {value!r}")
    return value
