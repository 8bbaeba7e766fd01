"""Text in capitals, as in warnings and headings: few models were trained on any, so they read it in small letters."""

import re

from recoversat.inference.repairing import Repair

_WORD = re.compile(r"[^\W\d_]{3,}")


class LowerCapitals(Repair):
    """Let the model read a sentence in sentence case, and give the translation capitals again."""

    def prepare(self, text: str) -> str:
        return to_sentence_case(text) if is_all_caps(text) else text

    def restore(self, translation: str, given: str) -> str:
        return translation.upper() if is_all_caps(given) else translation


def is_all_caps(text: str) -> bool:
    """Say whether a text is all in capitals: at least two words of three letters, so that names stay what they are.

    >>> [is_all_caps(text) for text in ("DO NOT OPEN!", "Do NOT OPEN", "IBM PC 300", "NATO")]
    [True, False, False, False]
    """
    return text.isupper() and len(_WORD.findall(text)) >= 2


def to_sentence_case(text: str) -> str:
    """Write a text in small letters, with a capital at its beginning.

    >>> to_sentence_case("“DO NOT OPEN!”")
    '“Do not open!”'
    """
    small = text.lower()
    first = next((at for at, letter in enumerate(small) if letter.isalpha()), 0)
    return small[:first] + small[first : first + 1].upper() + small[first + 1 :]
