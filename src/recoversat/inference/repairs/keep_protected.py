"""URLs, e-mail addresses, placeholders, emoji and data must come through unchanged.

A model that has seen some mostly copies them, and the sentence is best as it is. Where it does not, it is written again
with numbers in their place, which models copy best, and then the words around them by themselves. Only what is long,
such as a URL with all its arguments, travels as a number from the beginning.
"""

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from recoversat.inference.assembling import Draft
from recoversat.inference.repairing import Repair, Write
from recoversat.inference.request import Request
from recoversat.text.placeholders import Masked, filled, has_protected, keeps_hard, mask, put_back

if TYPE_CHECKING:
    from recoversat.translator import Translator

_BROKEN = re.compile(r"[\ud800-\udfff]")  # half a character: no file could keep it


class KeepProtected(Repair):
    """Put stand-ins for long addresses; what loses anything protected is written again, or else stays as it is."""

    def __init__(self, name: str, translator: "Translator", request: Request) -> None:
        super().__init__(name, translator, request)
        self.given: dict[str, Masked] = {}
        self.stand_ins: set[str] = set()
        self.plain: set[str] = set()  # texts that have nothing to keep

    def prepare(self, text: str) -> str:
        if not has_protected(text):
            self.plain.add(text)
            return text
        if not (seen := mask(text, "long")) or not seen.stand_ins:
            return text
        self.given[text] = seen
        self.stand_ins.update(seen.stand_ins)
        return seen.text

    def restore(self, translation: str, given: str) -> str:
        if not (seen := self.given.get(given)):
            return translation
        forced = filled(seen, translation) if self.request.is_forced else given  # which nobody may write again
        return put_back(seen, translation) or forced

    def doubts(self, draft: Draft) -> bool:
        source = draft.source.text
        watched = self.stand_ins or (source not in self.plain and has_protected(source))
        return bool(watched) and not self._keeps(draft, draft.text) and not _BROKEN.search(source)

    def rewrite(self, drafts: list[Draft], write: Write) -> list[Draft]:
        masked = [mask(draft.source.text) or Masked("", draft.source.text, {}) for draft in drafts]
        again = write([seen.text for seen in masked], self.slowly())
        texts = [put_back(seen, draft.text) or "" for seen, draft in zip(masked, again, strict=True)]
        lost = [i for i, draft in enumerate(drafts) if not self._keeps(draft, texts[i])]
        for i, text in zip(lost, self.in_pieces([drafts[i].source.text for i in lost], write), strict=True):
            texts[i] = text if self._keeps(drafts[i], text) else drafts[i].source.text
        sources = [draft.source for draft in drafts]  # not what was masked
        return [
            replace(one.saying(text), source=source) for one, text, source in zip(again, texts, sources, strict=True)
        ]

    def _keeps(self, draft: Draft, text: str) -> bool:
        """Say whether all that is protected in a source came back, stand-ins too."""
        source = draft.source.text
        numbers = {number for number in self.stand_ins if number in source}
        return keeps_hard(source, text) and all(text.count(number) == source.count(number) for number in numbers)
