"""NAME=PATH:key=value..., as systems and test sets are written on the command line."""

import re
from collections.abc import Sequence
from typing import Any

from recoversat.errors import UserError

_PATH_AND_OPTIONS = re.compile(r"(.+?)((?::\w+=[^:=]+)*)", re.DOTALL)
_NAME = re.compile(r"[\w+@-][\w.+@ -]*")  # it becomes a file's name


def parse_named(text: str, form: str, numbers: Sequence[str], words: Sequence[str]) -> tuple[str, str, dict[str, Any]]:
    """Read a system: its name, its path and its options, whole `numbers` (segments may be "auto") or `words`.

    >>> parse_named("k5=student:segments=5", "NAME=PATH", ["segments"], ["to"])
    ('k5', 'student', {'segments': 5})
    """
    name, rest = split_name(text, "--system", form)
    match = _PATH_AND_OPTIONS.fullmatch(rest)
    assert match  # whatever is no option belongs to the path
    options: dict[str, Any] = dict(part.split("=", 1) for part in match[2].split(":")[1:])
    for key, value in options.items():
        if key not in (*numbers, *words):
            known = ", ".join((*numbers, *words))
            raise UserError(f"--system {text}: no option {key}; there are {known}, e.g. :segments=5")
        if key in numbers and (key, value) != ("segments", "auto"):
            if not value.isdecimal() or int(value) < 1:
                raise UserError(f"--system {text}: {key} must be a whole number from 1, not {value!r}")
            options[key] = int(value)
    return name, match[1], options


def split_name(text: str, option: str, form: str) -> tuple[str, str]:
    """Cut NAME=REST in two; `form` is what should have been written."""
    name, _, rest = text.partition("=")
    if not name or not rest:
        raise UserError(f"{option} {text}: write {form}")
    if not _NAME.fullmatch(name):
        raise UserError(f"{option} {text}: {name!r} cannot be a name; use letters, digits, spaces and . _ - + @")
    return name, rest


def check_names(names: Sequence[str], option: str) -> None:
    """Refuse a name that is given twice."""
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"{option}: the name {twice[0]} is given twice; each needs its own")
