"""A model may end every segment at once and say nothing; a reader wants at least a word."""

from dataclasses import replace

from recoversat.decoding.segmentwise import Forced
from recoversat.inference.assembling import Draft
from recoversat.inference.repairing import Repair, Write

_FIRST_WORDS = 8  # tokens that are looked at for a first word


class NeverEmpty(Repair):
    """Write again from the likeliest first word on; where that says nothing either, the source stands."""

    def doubts(self, draft: Draft) -> bool:
        return not draft.text.strip() and self.translator.config.model.kind == "segments"

    def rewrite(self, drafts: list[Draft], write: Write) -> list[Draft]:
        texts = [draft.source.text for draft in drafts]
        begun = write(texts, replace(self.slowly(), top_tokens=_FIRST_WORDS))
        again = write(texts, replace(self.slowly(), forced=[self._first_word(draft) for draft in begun]))
        return [
            replace(other if other.text.strip() else other.saying(other.source.text), steps=seen.steps + other.steps)
            for seen, other in zip(begun, again, strict=True)
        ]

    def _first_word(self, draft: Draft) -> Forced:
        likely = (token for token, _ in draft.decoded.top_tokens[0][0])
        word = next((token for token in likely if any(map(str.isalpha, draft.tokenizer.decode([token])))), None)
        return {} if word is None else {(0, 0): word}
