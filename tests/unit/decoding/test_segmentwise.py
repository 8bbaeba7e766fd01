"""Section 3.1: every open segment gets a token a step; EOS, DEL or the maximum ends it."""

import numpy as np

from recoversat.decoding.segmentwise import Decoded, decode_segments
from recoversat.decoding.stepping import Bools, Choice, Ints
from recoversat.segments import assemble
from recoversat.vocab import BOS, DEL, EOS, PAD

THERE, ARE, LOTS, OF, FARMERS, A, LOT, DOING, THIS, TODAY = range(10, 20)
FIGURE_1 = [[THERE, ARE, EOS], [LOTS, OF, FARMERS, EOS], [A, LOT, DEL], [DOING, THIS, TODAY, EOS]]


class Script:
    """A stepper that writes what it was told to, and remembers what it was asked."""

    def __init__(self, sentences: list[list[list[int]]]) -> None:
        self.sentences, self.now = sentences, 0
        self.rows: list[tuple[list[list[int]], list[list[bool]]]] = []

    def step(
        self, tokens: Ints, active: Bools, forced: Ints | None = None, n_best: int = 0, scores: bool = True
    ) -> Choice:
        self.rows.append((tokens.tolist(), active.tolist()))
        chosen = np.full(tokens.shape, A)
        for b, segments in enumerate(self.sentences):
            for i, segment in enumerate(segments):
                if self.now < len(segment):
                    chosen[b, i] = segment[self.now]
        self.now += 1
        return Choice(chosen, np.zeros(tokens.shape, dtype=np.float32))

    def keep(self, which: Ints) -> None:
        self.sentences = [self.sentences[i] for i in which]


def written(script: Script, limits: list[int]) -> list[Decoded]:
    counts = np.array([len(segments) for segments in script.sentences])
    return decode_segments(script, counts, np.array(limits))


def test_the_segments_of_figure_1_are_written_at_once_and_the_deleted_one_is_left_out() -> None:
    script = Script([FIGURE_1])
    (decoded,) = written(script, [20])
    assert decoded.segments == FIGURE_1
    assert decoded.steps == 4  # the longest segment with its EOS: Step of Table 3
    assert assemble(decoded.segments) == [THERE, ARE, LOTS, OF, FARMERS, DOING, THIS, TODAY]


def test_a_segment_that_has_ended_gets_no_more_rows_and_its_terminator_none() -> None:
    script = Script([FIGURE_1])
    written(script, [20])
    assert script.rows == [
        ([[BOS] * 4], [[True] * 4]),
        ([[THERE, LOTS, A, DOING]], [[True] * 4]),
        ([[ARE, OF, LOT, THIS]], [[True] * 4]),
        ([[PAD, FARMERS, PAD, TODAY]], [[False, True, False, True]]),
    ]


def test_a_segment_that_never_ends_is_cut_off_at_its_own_maximum_and_kept() -> None:
    script = Script([[[LOTS] * 9, [OF, EOS]], [[LOTS] * 9]])
    first, second = written(script, [3, 5])
    assert first.segments == [[LOTS] * 3, [OF, EOS]]
    assert second.segments == [[LOTS] * 5]
    assert (first.steps, second.steps) == (3, 5)
    assert assemble(first.segments) == [LOTS, LOTS, LOTS, OF]
