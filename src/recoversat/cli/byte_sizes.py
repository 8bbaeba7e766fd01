"""Sizes as people write them."""

import re

from recoversat.errors import UserError

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_size(text: str) -> int:
    """Read a size in bytes.

    >>> parse_size("1.5G"), parse_size("512 MiB")
    (1610612736, 536870912)
    """
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match[1]) * _UNITS[match[2].lower()]) if match else 0
    if size < 1:
        raise UserError(f"{text!r} is no size; write e.g. 512M or 2G")
    return size
