"""Numbers must survive a translation: a digit lost or doubled where two segments meet is worse than a clumsy word."""

import re
from collections import Counter
from dataclasses import replace

from recoversat.inference.assembling import Draft
from recoversat.inference.repairing import Repair, Write

_DIGITS = re.compile(r"\d+")
# Numbers as words: they excuse a number and never ask for one, because some mean other things too ("acht").
# "ein" is missing: nearly every sentence has one.
_ENGLISH = "zero one two three four five six seven eight nine ten eleven twelve"
_GERMAN = "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf"
_WORDS = {word: str(number) for words in (_ENGLISH, _GERMAN) for number, word in enumerate(words.split())}


class CheckNumbers(Repair):
    """Write again, one token after the other, what has lost or invented a number, and keep what is better.

    Where that does not help either, the words around the numbers are translated by themselves.
    """

    def copies(self, text: str) -> bool:
        return not any(map(str.isalpha, text))

    def doubts(self, draft: Draft) -> bool:
        by_length = not isinstance(self.request.segments, int) and 1 in self.translator.config.train.segment_choices
        return by_length and len(draft.decoded.segments) > 1 and _wrong(draft) > 0

    def rewrite(self, drafts: list[Draft], write: Write) -> list[Draft]:
        again = write([draft.source.text for draft in drafts], replace(self.request, segments=1))
        best = [min(pair, key=_wrong) for pair in zip(drafts, again, strict=True)]  # the first one where they are equal
        still = [i for i, draft in enumerate(best) if _wrong(draft)]
        texts = [drafts[i].source.text for i in still]
        for i, text in zip(still, self._around_numbers(texts, write), strict=True):
            best[i] = best[i] if wrong_numbers(best[i].source.text, text) else best[i].saying(text)
        return [replace(draft, steps=other.steps) for draft, other in zip(best, again, strict=True)]

    def is_better(self, again: Draft, first: Draft) -> bool:
        return _wrong(again) < _wrong(first)

    def _around_numbers(self, texts: list[str], write: Write) -> list[str]:
        def translate(parts: list[str]) -> list[str]:
            return [draft.text for draft in write(parts, self.request)]

        return [document.text for document in self.translator.translate_documents(texts, translate=translate)]


def wrong_numbers(source: str, translation: str) -> int:
    """Count the runs of digits that stand in one text and not in the other, neither in digits nor as a word.

    >>> wrong_numbers("from 9:30 to 10", "von 9.30 bis 10 Uhr"), wrong_numbers("on 2024-11-15", "am 2024-111-15")
    (0, 2)
    >>> wrong_numbers("two dogs", "2 Hunde"), wrong_numbers("2 dogs", "zwei Hunde"), wrong_numbers("2 cats", "Katzen")
    (0, 0, 1)
    """
    digits = sorted(_DIGITS.findall(source)), sorted(_DIGITS.findall(translation))
    if digits[0] == digits[1]:
        return 0
    here, there = map(Counter, digits)
    return ((here - there - _in_words(translation)) + (there - here - _in_words(source))).total()


def _in_words(text: str) -> Counter[str]:
    return Counter(_WORDS[word] for word in re.findall(r"[^\W\d_]+", text.lower()) if word in _WORDS)


def _wrong(draft: Draft) -> int:
    return wrong_numbers(draft.source.text, draft.text)
