"""Rank correlations against values computed by hand and against the definitions."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoversat.measuring.quality.confidence import kendall, measure_confidence, ranks, spearman, split_by_score

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=20)


def test_ties_share_the_mean_rank():
    assert ranks([10, 20, 20, 5, 20]).tolist() == [2, 4, 4, 1, 4]


def test_spearman_by_hand():
    # without ties: 1 - 6 * sum(d^2) / (n * (n^2 - 1)), d = 1, 1, 0, 0, 0
    assert spearman([1, 2, 3, 4, 5], [2, 1, 3, 4, 5]) == pytest.approx(1 - 6 * 2 / (5 * 24))
    # with a tie: ranks (1, 2.5, 2.5, 4) and (1, 2, 3, 4); covariance 4.5, variances 4.5 and 5
    assert spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)


def test_kendall_by_hand():
    # 10 pairs, one discordant
    assert kendall([1, 2, 3, 4, 5], [2, 1, 3, 4, 5]) == pytest.approx((9 - 1) / 10)
    # 6 pairs, one tied on the left: 5 concordant, tau-b = 5 / sqrt(5 * 6)
    assert kendall([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(5 / 30**0.5)


@pytest.mark.parametrize("correlation", [spearman, kendall])
def test_perfect_reversed_and_undefined(correlation):
    assert correlation([-3.0, -1.0, -0.5], [10, 50, 51]) == pytest.approx(1)
    assert correlation([-3.0, -1.0, -0.5], [51, 50, 10]) == pytest.approx(-1)
    assert correlation([1, 1, 1], [1, 2, 3]) is None
    assert correlation([1, 2, 3], [7, 7, 7]) is None
    assert correlation([1], [1]) is None
    assert correlation([], []) is None


@given(PAIRS)
def test_kendall_is_its_definition_over_pairs(pairs):
    signs = [(np.sign(b[0] - a[0]), np.sign(b[1] - a[1])) for a, b in combinations(pairs, 2)]
    left, right = sum(x != 0 for x, _ in signs), sum(y != 0 for _, y in signs)
    expected = sum(x * y for x, y in signs) / (left * right) ** 0.5 if left and right else None
    assert kendall([p[0] for p in pairs], [p[1] for p in pairs]) == pytest.approx(expected)


@given(PAIRS)
def test_spearman_is_pearson_of_brute_force_ranks(pairs):
    def brute(values):
        return [sum(v < x for v in values) + (sum(v == x for v in values) + 1) / 2 for x in values]

    left, right = [p[0] for p in pairs], [p[1] for p in pairs]
    if len(set(left)) == 1 or len(set(right)) == 1:
        assert spearman(left, right) is None
    else:
        assert spearman(left, right) == pytest.approx(np.corrcoef(brute(left), brute(right))[0, 1])


def test_the_surer_half_comes_first_and_ties_keep_their_order():
    assert split_by_score([-1.0, -3.0, -1.0, -2.0]) == ([0, 2], [3, 1])
    assert split_by_score([-1.0, -1.0, -1.0]) == ([0], [1, 2])
    many = split_by_score([-2.0, -1.0] * 50)  # long enough for an unstable sort to show
    assert many == (list(range(1, 100, 2)), list(range(0, 100, 2)))


def test_a_score_that_knows_its_errors_ranks_well():
    references = ["the house stands on the hill", "people meet at the old bridge", "a day near the river"]
    hypotheses = ["the house stands on the hill", "people met near an old bridge", "nothing of it"]
    good = measure_confidence([-0.1, -0.5, -2.0], hypotheses, references)
    assert good.spearman == pytest.approx(1)
    assert good.kendall == pytest.approx(1)
    assert good.halves.top_bleu == pytest.approx(100)
    assert good.halves.top_chrf > good.halves.bottom_chrf
    bad = measure_confidence([-2.0, -0.5, -0.1], hypotheses, references)
    assert bad.spearman == pytest.approx(-1)
    assert bad.halves.top_chrf < bad.halves.bottom_chrf


def test_one_sentence_has_no_halves():
    assert measure_confidence([-1.0], ["a"], ["a"]).halves is None
