"""Text in capitals, as in warnings, or in small letters, as typed in haste: models know few words so written."""

import re

from recoversat.inference.repairing import Repair
from recoversat.text.tokenizer import Tokenizer
from recoversat.vocab import UNK

_WORD = re.compile(r"[^\W\d_]{3,}")
# A word between blanks with marks around it: no address, no placeholder, no file name, no option.
_PLAIN = re.compile(r"(?<!\S)([\"'“”„‚‘’«»(\[]*)([^\W\d_]+)(?=[\"'“”‘’«»)\].,;:!?…]*(?!\S))")


class LowerCapitals(Repair):
    """Let the model read each word in the case it knows it in; give the translation of capitals capitals again."""

    def prepare(self, text: str) -> str:
        if is_all_caps(text):
            return to_sentence_case(known_case(text.lower(), self.translator.tokenizer))
        return known_case(text, self.translator.tokenizer) if is_all_small(text) else text

    def restore(self, translation: str, given: str) -> str:
        return translation.upper() if is_all_caps(given) else translation


def is_all_caps(text: str) -> bool:
    """Say whether a text is all in capitals: at least two words of three letters, so that names stay what they are.

    >>> [is_all_caps(text) for text in ("DO NOT OPEN!", "Do NOT OPEN", "IBM PC 300", "NATO")]
    [True, False, False, False]
    """
    return text.isupper() and _has_words(text)


def is_all_small(text: str) -> bool:
    """Say whether a text has no capital: at least two words of three letters, so that a word alone stays what it is.

    >>> [is_all_small(text) for text in ("wo ist der bahnhof", "wo ist der Bahnhof", "und", "42")]
    [True, False, False, False]
    """
    return text.islower() and _has_words(text)


def _has_words(text: str) -> bool:
    return len(_WORD.findall(text)) >= 2


def to_sentence_case(text: str) -> str:
    """Write a text with a capital at its beginning.

    >>> to_sentence_case("“do not open!”")
    '“Do not open!”'
    """
    first = next((at for at, letter in enumerate(text) if letter.isalpha()), 0)
    return text[:first] + text[first : first + 1].upper() + text[first + 1 :]


def known_case(text: str, tokenizer: Tokenizer) -> str:
    """Begin those words of a text in small letters with a capital which the tokenizer spells in fewer pieces so.

    Of as many pieces those are taken that were learnt first: they are the more frequent ones.
    """

    def better(match: re.Match[str]) -> str:
        marks, word = match.groups()
        capital = word[0].upper() + word[1:]
        small, large = ((UNK in ids, len(ids), max(ids, default=0)) for ids in tokenizer.encode([word, capital]))
        return marks + (capital if large < small else word)

    return _PLAIN.sub(better, text)
