"""Numbers must survive a translation: a digit lost or doubled where two segments meet is worse than a clumsy word."""

import re
from dataclasses import replace

from recoversat.inference.assembling import Draft
from recoversat.inference.repairing import Repair, Write
from recoversat.text.numbers import has_digits, in_24_hours, invents_numbers, lost_codes, wrong_numbers
from recoversat.text.placeholders import mask, put_back

_NUMBER = re.compile(r"\s?(?<![\w.,-])\d++(?:[.,:/-]\d++)*+(?![\w-])")


class CheckNumbers(Repair):
    """Write again, one token after the other, what has lost or invented a number, and keep what is better.

    Where that does not help, times are read as German writes them; then stand-ins are put for the numbers, which are
    easier to copy; then the words around them are translated by themselves. What was made up is left out.
    """

    def copies(self, text: str) -> bool:
        return not any(map(str.isalpha, text))

    def doubts(self, draft: Draft) -> bool:
        return _wrong(draft) > 0

    def rewrite(self, drafts: list[Draft], write: Write) -> list[Draft]:
        again = write([draft.source.text for draft in drafts], self.slowly())
        best = [min(pair, key=_wrong) for pair in zip(drafts, again, strict=True)]  # the first one where they are equal
        for other_way in (self._with_other_times, self._with_stand_ins, self.in_pieces):
            still = [i for i, draft in enumerate(best) if _wrong(draft)]
            texts = [drafts[i].source.text for i in still]
            for i, text in zip(still, other_way(texts, write) if texts else [], strict=True):
                other = best[i].saying(text)
                best[i] = other if text and not _wrong(other) else best[i]
        return [replace(draft, steps=other.steps) for draft, other in zip(best, again, strict=True)]

    def is_better(self, again: Draft, first: Draft) -> bool:
        return _wrong(again) < _wrong(first)

    def mend(self, draft: Draft) -> Draft:
        if self.request.is_forced or not invents_numbers(draft.source.text, draft.text):
            return draft
        text = _NUMBER.sub("", draft.text)
        return draft.saying(text) if any(map(str.isalpha, text)) else draft

    def _with_other_times(self, texts: list[str], write: Write) -> list[str]:
        """Translate texts with 16:30 in the place of 4:30 p.m.; empty where there is no such time."""
        read = [in_24_hours(text) for text in texts]
        written = iter(write([new for new, text in zip(read, texts, strict=True) if new != text], self.slowly()))
        return [next(written).text if new != text else "" for new, text in zip(read, texts, strict=True)]

    def _with_stand_ins(self, texts: list[str], write: Write) -> list[str]:
        """Translate texts with other numbers in the place of theirs; empty where some of those got lost too."""
        masked = [mask(text, "all") for text in texts]
        written = iter(write([seen.text for seen in masked if seen], self.slowly()))
        return [(put_back(seen, next(written).text) if seen else None) or "" for seen in masked]


def _wrong(draft: Draft) -> int:
    source, text = draft.source.text, draft.text
    if not (has_digits(source) or has_digits(text)):  # nor any code: most sentences
        return 0
    return wrong_numbers(source, text) + lost_codes(source, text)
