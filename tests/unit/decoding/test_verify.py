"""Draft and verify writes what greedy decoding writes, whatever the draft, and in fewer passes where it is good."""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from recoversat.decoding.stepping import Floats, Ints
from recoversat.decoding.verify import AHEAD, find_again, write_verified
from recoversat.vocab import BOS, EOS


def following(prefix: Sequence[int]) -> int:
    """Say what a made-up model writes after a prefix: it depends on all of it, and ends at times."""
    drawn = random.Random(str(list(prefix))).randint(0, 999)
    return EOS if drawn < 50 and len(prefix) > 6 else 5 + drawn % 70


def greedy(limit: int, first: int) -> list[int]:
    written: list[int] = []
    while len(written) < limit and EOS not in written[-1:]:
        written.append(following([first, BOS, *written]))
    return written


class Model:
    """Keeps the rows it was given, as an engine's cache does."""

    ahead, most = AHEAD, 50

    def __init__(self, first: int) -> None:
        self._first, self.rows, self.passes = first, [], []

    def verify(self, tokens: Sequence[int], scores: bool) -> tuple[Ints, Floats]:
        self.passes.append(len(tokens))
        kept = len(self.rows)
        self.rows += tokens
        chosen = [following([self._first, *self.rows[: kept + n + 1]]) for n in range(len(tokens))]
        return np.array(chosen), np.array(chosen if scores else [], dtype=np.float32) / -10

    def compare(self, tokens: Sequence[int]) -> tuple[Ints, Floats, Floats]:
        """Any other token is less likely by a hundredth of the difference of their numbers."""
        chosen, likely = self.verify(tokens, scores=True)
        return chosen, likely, likely[:-1] - np.abs(chosen[:-1] - tokens[1:]).astype(np.float32) / 100

    def forget(self, rows: int) -> None:
        assert rows <= len(self.rows)
        self.rows = self.rows[:rows]


def damaged(tokens: list[int], rng: random.Random) -> list[int]:
    """Drop, double, replace and swap tokens."""
    draft = list(tokens)
    for _ in range(rng.randint(0, 5)):
        at = rng.randrange(len(draft) + 1)
        draft[at : at + rng.randint(0, 2)] = [rng.randint(5, 74) for _ in range(rng.randint(0, 2))]
    return draft


@pytest.mark.parametrize("limit", [1, 2, 5, 60])
def test_the_draft_decides_how_long_it_takes_and_never_what_is_written(limit: int) -> None:
    rng = random.Random(limit)
    for first in range(200):
        expected = greedy(limit, first)
        whole = [token for token in expected if token != EOS]
        for draft in (whole, damaged(whole, rng), [], [5] * 40):
            model = Model(first)
            written = write_verified(draft, model, limit, scores=True)
            assert written.segments == [expected]
            assert written.log_probs == [pytest.approx(np.array(expected) / -10)]
            assert written.steps == len(model.passes) <= len(expected)
            assert max(model.passes) <= AHEAD + 1


class Counting(Model):
    """Writes 10, 11, ... 21 and ends; what it writes depends on the token before alone."""

    ahead = 30

    def verify(self, tokens: Sequence[int], scores: bool) -> tuple[Ints, Floats]:
        self.rows += tokens
        chosen = [10 if token == BOS else EOS if token == 21 else token + 1 for token in tokens]
        return np.array(chosen), np.zeros(len(tokens) if scores else 0, dtype=np.float32)


@pytest.mark.parametrize("second", [[99], [99, 98, 19], []], ids=["another", "too many", "none"])
def test_one_pass_also_mends_what_lies_beyond_the_first_difference(second: list[int]) -> None:
    draft = [10, 11, 99, 13, 14, 15, 16, 17, 18, *(second or [19]), 20, 21]
    written = write_verified(draft, Counting(0), 40, scores=False)
    assert written.segments == [[*range(10, 22), EOS]]
    assert written.steps == 2
    assert written.accepted == [n not in (12, *((19,) if second == [99] else ())) for n in (*range(10, 22), EOS)]


def test_a_good_draft_takes_few_passes() -> None:
    long = next(tokens for first in range(2000) if len(tokens := greedy(60, first)) > 2 * AHEAD and EOS in tokens)
    first = next(first for first in range(2000) if greedy(60, first) == long)
    text = long[:-1]
    written = write_verified(text, Model(first), 60, scores=False)
    passes = -(-len(long) // (AHEAD + 1))
    assert (written.segments, written.log_probs, written.steps) == ([long], [[]], passes)
    assert written.draft == text
    assert written.accepted == [True] * len(long)
    at = 5  # a token too many, one too few, another one: each costs a pass or two
    for wrong in ([*text[:at], 99, *text[at:]], [*text[:at], *text[at + 1 :]], [*text[:at], 99, *text[at + 1 :]]):
        mended = write_verified(wrong, Model(first), 60, scores=False)
        assert mended.steps <= passes + 2
        corrected = [n for n, right in enumerate(mended.accepted) if not right]
        assert corrected in ([at], [at, at + 1])


def test_with_a_tolerance_stands_what_is_nearly_as_likely() -> None:
    for first in range(50):
        expected = greedy(60, first)
        rng = random.Random(first)
        draft = damaged([token for token in expected if token != EOS], rng)
        assert write_verified(draft, Model(first), 60, True, 1e-6).segments == [expected]  # next to none: as without
        for tolerance in (0.1, 0.3):
            model = Model(first)
            near = write_verified(draft, model, 60, True, tolerance)
            (tokens,), (scores,) = near.segments, near.log_probs
            assert near.steps == len(model.passes)
            for at, (token, score, kept) in enumerate(zip(tokens, scores, near.accepted, strict=True)):
                own = following([first, BOS, *tokens[:at]])
                gap = abs(own - token) / 100
                assert gap <= tolerance + 1e-6
                assert kept or gap == 0  # only a draft's token may differ from K = 1's own
                assert score == pytest.approx(own / -10 - gap)
    whole = write_verified([7] * 20, Model(1), 21, True, 100.0)
    assert (whole.segments[0][:20], whole.steps) == ([7] * 20, 1)


def test_the_place_is_where_most_of_the_end_stands_and_else_the_nearest() -> None:
    assert find_again([5, 6, 7], [7, 9, 6, 7, 8], 0) == 4  # after "6 7", though a 7 is nearer
    assert find_again([9, 7], [7, 1, 7, 1, 7], 2) == 3  # three of the same kind: the one where they differed
    assert find_again([5], [], 0) == 1  # nothing is left
