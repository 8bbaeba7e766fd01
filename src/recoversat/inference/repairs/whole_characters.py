"""A rare character is spelt in bytes, and segments that are written at the same time may tear it."""

from dataclasses import replace

from recoversat.inference.assembling import Draft
from recoversat.inference.repairing import Repair, Write

_BROKEN = "\ufffd"  # what bytes that are no text decode to


class WholeCharacters(Repair):
    """Write again one token after the other; where the bytes are no text even then, the source stands."""

    def doubts(self, draft: Draft) -> bool:
        knows_better = len(draft.decoded.segments) > 1 and 1 in self.translator.config.train.segment_choices
        return knows_better and _is_broken(draft)

    def rewrite(self, drafts: list[Draft], write: Write) -> list[Draft]:
        return write([draft.source.text for draft in drafts], replace(self.request, segments=1))

    def mend(self, draft: Draft) -> Draft:
        return draft.saying(draft.source.text) if _is_broken(draft) else draft


def _is_broken(draft: Draft) -> bool:
    return _BROKEN in draft.text and _BROKEN not in draft.source.text
