"""Which target pieces a source piece becomes: IBM model 1, learnt from pairs of sentences in a few passes.

Every target piece of a pair was made by one of the source's pieces or by none; how likely each made it follows from
the table, and the table from that, in turn (expectation and maximisation). Pure numpy: all links between the two
sides of all pairs lie side by side, (R,), each with its cell of the table, (C,).
"""

import numpy as np

from recoversat.data.corpus import ParallelSentences, Sentences
from recoversat.segments import Floats, Ints
from recoversat.vocab import BOS

PASSES = 4
LINKS = 50_000_000  # of one part: some three gigabytes
PAIRS = 2_000_000  # at most so many are read
_NOBODY = BOS  # made what no source piece made; it never occurs in a source


def learn_lexicon(pairs: ParallelSentences, vocab_size: int, passes: int = PASSES, links: int = LINKS) -> "Lexicon":
    """Learn from pairs in parts that fit into memory; what each has counted is added up."""
    chosen = np.random.default_rng(1).permutation(len(pairs))[:PAIRS]
    ends = np.cumsum((pairs.src.lengths[chosen] + 1) * pairs.tgt.lengths[chosen])
    lexicon = Lexicon(vocab_size, np.empty(0, dtype=np.int64), np.empty(0))
    for part in np.split(chosen, np.flatnonzero(np.diff(ends // links)) + 1):
        src, tgt = pairs.src.pick(part), pairs.tgt.pick(part)
        if len(tgt.ids):
            lexicon = lexicon.with_counts(*_counted(src, tgt, vocab_size, passes))
    return lexicon


def _counted(src: Sentences, tgt: Sentences, vocab_size: int, passes: int) -> tuple[Ints, Floats]:
    """Return the cells of some pairs and how often each was made, as it is expected after the last pass."""
    links, targets, ends = _linked(src, tgt)
    links *= vocab_size
    links += targets
    cells, cell_of = np.unique(links, return_inverse=True)  # (C,), (R,)
    del links, targets  # memory is what takes the time
    cell_of = cell_of.astype(np.int32)
    makers, reach = cells // vocab_size, np.diff(ends)
    chances = np.ones(len(cells))
    for _ in range(passes):
        each = chances[cell_of]
        each /= np.repeat(np.add.reduceat(each, ends[:-1]), reach)
        counts: Floats = np.bincount(cell_of, each, minlength=len(cells)).astype(np.float64)
        chances = counts / np.bincount(makers, counts, minlength=vocab_size)[makers]
    return cells, counts


class Lexicon:
    """How often each source piece became each target piece, as far as they were seen together."""

    def __init__(self, vocab_size: int, cells: Ints, counts: Floats) -> None:
        """Take cells, source * V + target in ascending order, and their counts."""
        self._vocab_size, self._cells, self._counts = vocab_size, cells, counts

    def with_counts(self, cells: Ints, counts: Floats) -> "Lexicon":
        """Return one that has counted these as well."""
        both, place = np.unique(np.concatenate([self._cells, cells]), return_inverse=True)
        summed: Floats = np.bincount(place, np.concatenate([self._counts, counts])).astype(np.float64)
        return Lexicon(self._vocab_size, both, summed)

    def likeliest(self, n: int, filler: int) -> Ints:
        """Return the n likeliest pieces of each source piece (V, n); `filler` where there are fewer."""
        order = np.lexsort((-self._counts, self._cells // self._vocab_size))
        sources, targets = np.divmod(self._cells[order], self._vocab_size)
        rank = np.arange(len(order)) - np.searchsorted(sources, sources)
        table = np.full((self._vocab_size, n), filler, dtype=np.int64)
        kept = rank < n
        table[sources[kept], rank[kept]] = targets[kept]
        return table


def _linked(src: Sentences, tgt: Sentences) -> tuple[Ints, Ints, Ints]:
    """Link each target piece with all pieces of its source and with nobody.

    Return sources (R,), targets (R,), and where the links of each target piece begin and the last end.
    """
    reach = np.repeat(src.lengths + 1, tgt.lengths)  # links of each target piece
    ends = np.concatenate([[0], np.cumsum(reach)])
    # a source lies after the place of nobody, and the links of a target piece run over both
    makers = np.insert(src.ids, src.offsets[:-1], _NOBODY)
    first = np.repeat(src.offsets[:-1] + np.arange(len(src)), tgt.lengths)
    at = np.arange(ends[-1]) + np.repeat(first - ends[:-1], reach)
    return makers[at], np.repeat(tgt.ids, reach), ends
