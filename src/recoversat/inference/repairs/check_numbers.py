"""Numbers must survive a translation: a digit lost or doubled where two segments meet is worse than a clumsy word."""

import re
from collections import Counter

_DIGITS = re.compile(r"\d+")


def wrong_numbers(source: str, translation: str) -> int:
    """Count the runs of digits that stand in one text and not in the other.

    >>> wrong_numbers("from 9:30 to 10", "von 9.30 bis 10 Uhr"), wrong_numbers("on 2024-11-15", "am 2024-111-15")
    (0, 2)
    """
    here, there = Counter(_DIGITS.findall(source)), Counter(_DIGITS.findall(translation))
    return ((here - there) + (there - here)).total()
