"""Which devices there may be, for those who do not need torch to know."""

import re

from recoversat.errors import UserError


def check_device(name: str) -> None:
    """Refuse what is no device, before anything is loaded.

    >>> check_device("auto"), check_device("cuda:1")
    (None, None)
    """
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise UserError(f"device {name}: there is no such device; use cpu, cuda or auto")
