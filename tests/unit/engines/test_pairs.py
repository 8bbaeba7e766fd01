"""Given targets on their way to being scored."""

import numpy as np
import pytest

from recoversat.engines.pairs import Pair, equal_rows, pair_batches, scored
from recoversat.segments import assemble
from tests import oracles


@pytest.mark.parametrize("length", [0, 1, 4, 9])
@pytest.mark.parametrize("n_segments", [1, 2, 5])
def test_equal_rows_are_the_papers(length: int, n_segments: int) -> None:
    target = list(range(10, 10 + length))
    found = equal_rows(target, n_segments)
    columns = [column.tolist() for column in (found.tokens, found.labels, found.steps, found.segments)]
    expected = oracles.rows(oracles.divided_evenly(target, n_segments))
    assert list(zip(*columns, strict=True)) == expected


@pytest.mark.parametrize("most_rows", [1, 30, 100])
def test_every_pair_is_in_one_batch_and_none_holds_too_much(most_rows: int) -> None:
    rng = np.random.default_rng(2)
    pairs: list[Pair] = [([7] * n, [8] * m) for n, m in rng.integers(1, 14, size=(25, 2)).tolist()]
    batches = list(pair_batches(pairs, 2, most_rows))
    assert sorted(i for batch in batches for i in batch) == list(range(25))
    widths = [max(max(len(pairs[i][0]), len(pairs[i][1]) + 2) for i in batch) for batch in batches]
    assert all(len(batch) == 1 or len(batch) * width <= most_rows for batch, width in zip(batches, widths, strict=True))
    assert widths == sorted(widths)


@pytest.mark.parametrize("n_segments", [1, 2, 5])
def test_scored_rows_become_segments_again(n_segments: int) -> None:
    target, own = [11, 12, 13], equal_rows([11, 12, 13], n_segments)
    one = scored(own, [-float(i) for i in range(len(own.labels))])
    assert assemble(one.segments) == target
    assert [p for segment in one.log_probs for p in segment] == [-float(i) for i in range(3 + n_segments)]
    assert one.steps == max(map(len, one.segments))
