"""Text in capitals, as in warnings and headings: few models have learnt any, so it is translated in small letters."""

import re

_WORD = re.compile(r"[^\W\d_]{3,}")


def is_loud(text: str) -> bool:
    """Say whether a text is all in capitals: at least two words of three letters, so that names stay what they are.

    >>> [is_loud(text) for text in ("DO NOT OPEN!", "Do NOT OPEN", "IBM PC 300", "NATO")]
    [True, False, False, False]
    """
    return text.isupper() and len(_WORD.findall(text)) >= 2


def calm(text: str) -> str:
    """Write a text in small letters, with a capital at its beginning.

    >>> calm("“DO NOT OPEN!”")
    '“Do not open!”'
    """
    small = text.lower()
    first = next((at for at, letter in enumerate(small) if letter.isalpha()), 0)
    return small[:first] + small[first : first + 1].upper() + small[first + 1 :]
