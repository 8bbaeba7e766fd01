"""Terms of a glossary that a translation lacks: the sentence is written again with the term forced into a segment.

A segment that must begin with the term is written at the same time as the others, which see it from the first step
on: the article before it agrees with it, and the word may go on with an ending. Which segment that is, the model
itself decides: all near the place of the term are tried, so is the first translation with the term put in its place,
and what becomes of the source with the wished-for word in it ("the Köter sleeps"). The likeliest with K = 1 stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from recoversat.config import QUALITIES
from recoversat.decoding.segmentwise import Forced
from recoversat.errors import UserError
from recoversat.inference.assembling import Draft
from recoversat.inference.repairing import Repair, Write
from recoversat.text.alignment import Part, Range
from recoversat.text.glossary import Wanted

_NEAR = 1  # segments on either side of the likeliest one that may begin with a term
_MOST_TERMS = 8  # of a sentence that are seen to


@dataclass(frozen=True)
class _Attempt:
    """A sentence as it stands: which terms it was written again for, and what had to be forced for them."""

    draft: Draft
    terms: tuple[Wanted, ...] = ()
    forced: Forced | None = None

    @property
    def mixed(self) -> str:
        """The source with the wished-for words in the places of the terms."""
        return _mixed(self.draft.source.text, self.terms)

    def part(self, draft: Draft, *, wished: bool) -> Part:
        """Ask for what has become of the last term, which stands in the source as it was, or as it is wished."""
        text, last = self.draft.source.text, self.terms[-1]
        others = [term for term in self.terms if term is not last]
        before, after = _mixed(text, others, end=last.start), _mixed(text, others, start=last.end)
        inside = last.target if wished else text[last.start : last.end]
        return Part(before + inside + after, inside, " ".join(f"{before} {after}".split()), draft.text)


class ObeyGlossary(Repair):
    """Write again what lacks a term, one term after the other."""

    def doubts(self, draft: Draft) -> bool:
        return bool(self._missing(draft))

    def rewrite(self, drafts: list[Draft], write: Write) -> list[Draft]:
        attempts = [_Attempt(replace(draft, steps=0)) for draft in drafts]
        missing = [self._missing(draft)[:_MOST_TERMS] for draft in drafts]
        for nth in range(max(map(len, missing))):
            several = [i for i, wanted in enumerate(missing) if nth < len(wanted)]
            lacking = [i for i in several if self._lacks(attempts[i].draft, missing[i][nth])]
            tried = self._with_term([attempts[i] for i in lacking], [missing[i][nth] for i in lacking], write)
            for i, attempt in zip(lacking, tried, strict=True):
                attempts[i] = attempt
        return [attempt.draft for attempt in attempts]

    def is_better(self, again: Draft, first: Draft) -> bool:
        return len(self._missing(again, alone=True)) < len(self._missing(first, alone=True))

    def _missing(self, draft: Draft, *, alone: bool = False) -> list[Wanted]:
        """List what a draft lacks; what is written again must have a term as a word of its own."""
        assert self.request.glossary
        wanted = self.request.glossary.wanted(draft.source.text, self.translator.source)
        return [one for one in wanted if self._lacks(draft, one, alone=alone)]

    def _lacks(self, draft: Draft, wanted: Wanted, *, alone: bool = False) -> bool:
        return wanted.find_in(draft.text, self.translator.target, alone=alone) is None

    def _with_term(self, attempts: list[_Attempt], wanted: list[Wanted], write: Write) -> list[_Attempt]:
        """Write each again with one term more, in all ways there are, and keep the likeliest that lacks fewer."""
        if not attempts:
            return []
        asked = [replace(one, terms=(*one.terms, term)) for one, term in zip(attempts, wanted, strict=True)]
        places = self.translator.locate([one.part(one.draft, wished=False) for one in asked])
        put = [
            (i, _put(one, one.draft, place)) for i, (one, place) in enumerate(zip(asked, places, strict=True)) if place
        ]
        tried = [*put, *self._mixed(asked, write), *self._forced(asked, places, write)]
        spent = [1] * len(attempts)  # the pass that judges
        best, likely = list(attempts), [-np.inf] * len(attempts)
        for (i, new), score in zip(tried, self._judged([new for _, new in tried]), strict=True):
            spent[i] = max(spent[i], new.draft.steps + 1)
            if score > likely[i] and self.is_better(new.draft, attempts[i].draft):
                best[i], likely[i] = new, score
        steps = [one.draft.steps + more for one, more in zip(attempts, spent, strict=True)]
        return [replace(one, draft=replace(one.draft, steps=n)) for one, n in zip(best, steps, strict=True)]

    def _mixed(self, asked: list[_Attempt], write: Write) -> list[tuple[int, _Attempt]]:
        """Write what the model makes of a source that has the wished-for words in it, and spell them right."""
        drafts = write([one.mixed for one in asked], self.request)
        places = self.translator.locate(
            [one.part(draft, wished=True) for one, draft in zip(asked, drafts, strict=True)]
        )
        return [
            (i, _put(one, draft, place if self._lacks(draft, one.terms[-1], alone=True) else None))
            for i, (one, draft, place) in enumerate(zip(asked, drafts, places, strict=True))
        ]

    def _forced(self, asked: list[_Attempt], places: list[Range | None], write: Write) -> list[tuple[int, _Attempt]]:
        """Write with the term at the beginning of a segment, each of those near its place in turn."""
        counts = self._counts(asked)
        jobs: list[tuple[int, int, Forced]] = []  # K, attempt, what is forced in it
        for i, (one, place) in enumerate(zip(asked, places, strict=True)):
            before = one.forced or {}
            free = _near(place, len(one.draft.text), counts[i]).difference(segment for segment, _ in before)
            jobs += [(counts[i], i, {**before, **self._begins(segment, one.terms[-1])}) for segment in sorted(free)]
        written, decode = [], self.request.decode.model_copy(update=QUALITIES["fast"])
        for k, some in groupby(sorted(jobs, key=lambda job: job[:2]), key=lambda job: job[0]):
            group = list(some)
            plain = replace(self.request, segments=k, beam=1, decode=decode)
            texts = [asked[i].draft.source.text for _, i, _ in group]
            drafts = write(texts, replace(plain, forced=[forced for _, _, forced in group]))
            for (_, i, forced), draft in zip(group, drafts, strict=True):
                written.append((i, replace(asked[i], draft=draft, forced=forced)))
        return written

    def _counts(self, asked: list[_Attempt]) -> list[int]:
        """Return K for each: as asked, or by length, but at least two where the model has learnt that."""
        lengths = [len(one.draft.source.ids) for one in asked]
        k = self.request.segments if isinstance(self.request.segments, int) else None
        least = min((n for n in self.translator.config.train.segment_choices if n > 1), default=1)
        return [max(int(n), least) for n in self.translator.segment_counts(k, lengths)]

    def _begins(self, segment: int, term: Wanted) -> Forced:
        text = term.target if segment or not term.inflected else term.target[:1].upper() + term.target[1:]
        return {(segment, at): token for at, token in enumerate(self.translator.tokenizer.encode_targets([text])[0])}

    def _judged(self, tried: list[_Attempt]) -> list[float]:
        """Score with K = 1 (or what is nearest to it), given the source and given that with the wished-for words.

        The first finds every sentence with a rare word in it unlikely; the second knows the word, and so whether it
        stands where it belongs, whether its article agrees, and whether the old word is still there.
        """
        translator = self.translator
        mixed = translator.encode([one.mixed for one in tried])
        given = zip(tried, mixed, strict=True)
        pairs = [(source, one.draft.ids) for one, other in given for source in (one.draft.source.ids, other)]
        k = min(translator.config.train.segment_choices)
        scored = translator.score_ids(pairs, segments=k, batch_size=self.request.batch_size)
        means = [float(np.mean([p for segment in one.log_probs for p in segment])) for one in scored]
        return [a + b for a, b in zip(means[::2], means[1::2], strict=True)]


def _put(asked: _Attempt, draft: Draft, place: Range | None) -> _Attempt:
    """Take a draft, with the last term in a place of it."""
    own = replace(draft, source=asked.draft.source)
    if place:
        own = own.saying(draft.text[: place[0]] + asked.terms[-1].target + draft.text[place[1] :])
    return replace(asked, draft=own, forced=None)


def _mixed(text: str, terms: Sequence[Wanted], start: int = 0, end: int | None = None) -> str:
    """Put the wished-for words into the places of terms, in a part of a text.

    >>> _mixed("the dog and the cat", [Wanted(16, 19, "Katze", True), Wanted(4, 7, "Hund", True)], start=4)
    'Hund and the Katze'
    """
    end = len(text) if end is None else end
    for term in sorted(terms, key=lambda one: -one.start):
        if start <= term.start and term.end <= end:
            text, end = (
                text[: term.start] + term.target + text[term.end :],
                end + len(term.target) - term.end + term.start,
            )
    return text[start:end]


def _near(place: Range | None, length: int, k: int) -> set[int]:
    """Return the segments that may begin with what stands at a place of a text; all where it is not known.

    >>> sorted(_near((50, 60), 100, 6)), sorted(_near(None, 100, 3)), _near((5, 9), 10, 1)
    ([2, 3, 4], [0, 1, 2], set())
    """
    if k == 1:  # a term that begins the whole sentence is seldom right
        return set()
    if place is None:
        return set(range(k))
    at = min(k * place[0] // max(length, 1), k - 1)
    return set(range(max(at - _NEAR, 0), min(at + _NEAR, k - 1) + 1))


def check_glossary(kind: str, *, forced: bool) -> None:
    """Refuse a glossary where it could not be obeyed."""
    if kind != "segments":
        raise UserError(f"a glossary needs a model of kind 'segments'; one of kind {kind!r} cannot be given terms")
    if forced:
        raise UserError("a glossary goes without forced words, which name a place in one division into segments")
