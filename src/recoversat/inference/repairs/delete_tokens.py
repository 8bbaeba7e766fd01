"""Single tokens are deleted, not only segments: the paper's footnote 2, which it leaves for the future.

K = 1 reads what the segments have written in one parallel pass. A model that was trained for it (`train.delete_tokens`)
expects DEL after a token that should not be there. The pass costs one call of the model and no step.
"""

from collections.abc import Sequence
from dataclasses import replace

from recoversat.inference.assembling import Draft
from recoversat.inference.repairing import Repair, Write

_SURE = 0.5  # probability of DEL above which it is more probable than all else together


class DeleteTokens(Repair):
    """Leave out what K = 1 marks."""

    def doubts(self, draft: Draft) -> bool:
        return len(draft.decoded.segments) > 1 and bool(draft.ids)

    def rewrite(self, drafts: list[Draft], write: Write) -> list[Draft]:
        marks = self.translator.engine.deletions([(draft.source.ids, draft.ids) for draft in drafts])
        return [_without(draft, own) for draft, own in zip(drafts, marks, strict=True)]

    def is_better(self, again: Draft, first: Draft) -> bool:
        return again.ids != first.ids


def _without(draft: Draft, marks: Sequence[float]) -> Draft:
    """Leave out the marked tokens, unless nothing would be left; what K = 1 said of the whole is no longer true."""
    marked = [place for place, mark in zip(draft.places(), marks, strict=True) if mark > _SURE]
    if 0 < len(marked) < len(marks):
        draft = replace(draft.without(marked), decoded=replace(draft.decoded, judged=[]))
    return replace(draft, steps=1)
