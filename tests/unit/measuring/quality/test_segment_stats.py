"""Step, deletions and lengths against hand-made tables."""

import pytest

from recoversat.measuring.quality.outputs import SegmentStat
from recoversat.measuring.quality.results import summarise_segments, summarise_steps


def stats(*segments):
    return [SegmentStat(length, ending) for length, ending in segments]


def test_mean_and_distribution_of_steps():
    summary = summarise_steps([5, 3, 5, 11])
    assert summary.mean == 6.0
    assert list(summary.counts.items()) == [(3, 1), (5, 2), (11, 1)]
    assert summarise_steps([]).mean == 0.0


def test_segments_are_pooled_over_sentences():
    summary = summarise_segments([stats((3, "eos"), (1, "del")), stats((3, "eos"), (7, "cut"), (0, "eos"))])
    assert summary.total == 5
    assert summary.deleted_share == pytest.approx(1 / 5)
    assert summary.cut_share == pytest.approx(1 / 5)
    assert list(summary.length_counts.items()) == [(0, 1), (3, 2), (7, 1)]  # the deleted one is not there


def test_no_segments_have_no_shares():
    assert summarise_segments([[]]).deleted_share == 0
