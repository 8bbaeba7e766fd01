"""Drafts to learn token-wise deletion from (the paper's footnote 2): targets of which a few tokens are said twice.

The paper marks a segment that repeats its neighbour by DEL. One segment that reads a whole draft can mark single
tokens in the same way: after a token that should not be there it expects DEL, after any other the next one that should.
"""

from dataclasses import dataclass

import numpy as np

from recoversat.data.corpus import Sentences, within
from recoversat.segments import Bools, Floats, Ints
from recoversat.vocab import DEL, EOS

MOST_REPEATED = 3  # tokens; none in a quarter of the drafts
_DRAW_DRAFT, _DRAW_COUNT, _DRAW_PLACE, N_DRAFT_DRAWS = range(4)


@dataclass(frozen=True)
class Drafts:
    """Targets of a batch, some of them drafts: `repeated` says which of their ids should not be there."""

    tgt: Sentences
    is_draft: Bools  # (sentences,)
    repeated: Bools  # (ids,)

    @classmethod
    def of(cls, tgt: Sentences, probability: float, draws: Floats) -> "Drafts":
        """Make drafts of some targets; each says up to three tokens again, right after them.

        >>> drafts = Drafts.of(Sentences.of([[11, 12, 13, 14]]), 1.0, np.array([[0.0, 0.5, 0.7]]))
        >>> drafts.tgt.ids.tolist(), drafts.repeated.astype(int).tolist()
        ([11, 12, 13, 12, 13, 14], [0, 0, 0, 1, 1, 0])
        """
        lengths = tgt.lengths
        is_draft = draws[:, _DRAW_DRAFT] < probability
        end = 1 + (draws[:, _DRAW_PLACE] * lengths).astype(np.int64)  # of what is said twice
        count = is_draft * np.minimum((draws[:, _DRAW_COUNT] * (MOST_REPEATED + 1)).astype(np.int64), end)
        longer = lengths + count
        place = within(longer)
        end, back = np.repeat(end, longer), np.repeat(count, longer)
        ids = tgt.ids[np.repeat(tgt.offsets[:-1], longer) + place - np.where(place >= end, back, 0)]
        return cls(Sentences(ids, np.cumsum([0, *longer])), is_draft, (place >= end) & (place < end + back))

    def relabel(self, labels: Ints, before: Ints, sentence: Ints) -> Ints:
        """Return the labels of rows, of which each has read the id at `before` last: -1 where a segment begins.

        >>> drafts = Drafts(Sentences.of([[11, 12, 12, 13]]), np.array([True]), np.array([False, False, True, False]))
        >>> labels, before = np.array([11, 12, 12, 13, EOS]), np.array([-1, 0, 1, 2, 3])
        >>> drafts.relabel(labels, before, np.zeros(5, dtype=int)).tolist()  # 12 -> 13, second 12 -> DEL
        [11, 12, 13, 4, 2]
        """
        ids, ends = self.tgt.ids, self.tgt.offsets[1:][sentence]
        said = np.where(self.repeated, len(ids), np.arange(len(ids)))
        said = np.append(np.minimum.accumulate(said[::-1])[::-1], len(ids))  # the next id that is not repeated
        following = said[before + 1]
        skipping = (before >= 0) & (following > before + 1)  # what is said next is a repetition
        proper = np.where(following < ends, ids[np.minimum(following, len(ids) - 1)], EOS)
        superfluous = (before >= 0) & self.repeated[before]
        return np.where(superfluous, DEL, np.where(skipping, proper, labels))
