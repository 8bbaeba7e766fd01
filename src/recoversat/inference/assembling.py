"""From what was decoded to a translation: segments put together, and spelt out when somebody looks at them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from recoversat.decoding.segmentwise import Decoded
from recoversat.inference.confidence import Curve, judge
from recoversat.inference.translation import Ending, LazySegments, Segment, Translation, Verified
from recoversat.segments import assemble
from recoversat.text.parts import Parts
from recoversat.text.tokenizer import Tokenizer
from recoversat.vocab import DEL, EOS

Place = tuple[int, int]  # segment, and position in it


@dataclass(frozen=True)
class Source:
    """A sentence as it was given, and as the model reads it."""

    text: str
    ids: list[int]


@dataclass(frozen=True)
class Draft:
    """A sentence that is being put together; `ids` always spell `text`, white space apart."""

    source: Source
    text: str
    ids: list[int]
    decoded: Decoded  # without any segments where the source stands
    tokenizer: Tokenizer = field(repr=False, compare=False)
    left_out: frozenset[Place] = frozenset()
    steps: int = 0
    repairs: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: Source, decoded: Decoded, tokenizer: Tokenizer) -> "Draft":
        """Join the segments, without the deleted ones."""
        ids = assemble(decoded.segments)
        text = _spelt(ids, source.text, tokenizer)
        return cls(source, text, ids, decoded, tokenizer, steps=decoded.steps)

    def without(self, places: Collection[Place]) -> "Draft":
        left_out = self.left_out.union(places)
        kept = [
            [token for position, token in enumerate(segment) if (index, position) not in left_out]
            for index, segment in enumerate(self.decoded.segments)
        ]
        ids = assemble(kept)
        return replace(self, text=_spelt(ids, self.source.text, self.tokenizer), ids=ids, left_out=left_out)

    def saying(self, text: str) -> "Draft":
        """Say something else than the segments do."""
        return replace(self, text=text, ids=self.tokenizer.encode_targets([text.strip()])[0])

    def places(self) -> list[Place]:
        """Return where each of `ids` stands in the segments, as long as they spell it."""
        return [
            (index, position)
            for index, segment in enumerate(self.decoded.segments)
            if not (segment and segment[-1] == DEL)
            for position, token in enumerate(segment)
            if token != EOS and (index, position) not in self.left_out
        ]

    def translation(self, source: str, curve: Curve | None = None) -> Translation:
        """Finish the translation of what was once `source`; `curve` says what its confidence means."""
        segments = lazy_segments(self.decoded, self.tokenizer, self.left_out)
        confidence, doubtful = judge(self.text, self.ids, self.decoded.as_one, self.tokenizer, curve)
        draft = self.decoded.draft
        verified = Verified(self.tokenizer.pieces(draft), self.decoded.accepted) if draft else None
        return Translation(
            source, self.text, segments, self.steps, self.ids, self.repairs, confidence, doubtful, verified
        )


def join_drafts(parts: Parts, drafts: Sequence[Draft]) -> Draft:
    """Make one draft of those of a text's parts."""
    if len(drafts) == 1 and not any(parts.gaps):
        return drafts[0]
    text = parts.joined([draft.text for draft in drafts])
    if len(drafts) == 1 and drafts[0].text == text:
        return drafts[0]
    whole = Decoded([], [])
    left_out: set[Place] = set()
    for draft in drafts:
        left_out |= {(len(whole.segments) + segment, position) for segment, position in draft.left_out}
        whole.segments += draft.decoded.segments
        whole.log_probs += draft.decoded.log_probs
        whole.top_tokens += draft.decoded.top_tokens
        whole.judged += draft.decoded.as_one
    if not all(draft.decoded.as_one for draft in drafts if draft.decoded.segments):
        whole.judged = []
    names = dict.fromkeys(name for draft in drafts for name in draft.repairs)
    steps, source = sum(draft.steps for draft in drafts), Source("".join(parts.texts), [])
    joined = Draft(source, text, [], whole, drafts[0].tokenizer, frozenset(left_out), steps, tuple(names))
    return joined.saying(text)


def lazy_segments(decoded: Decoded, tokenizer: Tokenizer, left_out: frozenset[Place] = frozenset()) -> LazySegments:
    """Give segments that are made when somebody looks at them."""
    return LazySegments(len(decoded.segments), partial(_segment, decoded, tokenizer, left_out))


def _spelt(ids: list[int], source: str, tokenizer: Tokenizer) -> str:
    """Turn ids into one line, with the white space that is around the source."""
    line = tokenizer.decode(ids).replace("\n", " ").replace("\r", " ")  # a model may spell a line break in bytes
    return source[: len(source) - len(source.lstrip())] + line.strip() + source[len(source.rstrip()) :]


def _segment(decoded: Decoded, tokenizer: Tokenizer, left_out: frozenset[Place], index: int) -> Segment:
    tokens = decoded.segments[index]
    ending: Ending = {EOS: "eos", DEL: "del"}.get(tokens[-1], "cut") if tokens else "cut"  # type: ignore[assignment]
    ids = tokens if ending == "cut" else tokens[:-1]
    alternatives = [
        list(zip(tokenizer.pieces([i for i, _ in best]), [p for _, p in best], strict=True))
        for best in (decoded.top_tokens[index] if decoded.top_tokens else [])
    ]
    mine = frozenset(position for which, position in left_out if which == index)
    text, pieces = tokenizer.decode(ids), tokenizer.pieces(ids)
    return Segment(text, pieces, ids, ending, decoded.log_probs[index], alternatives, mine)
