"""Step, deletions and lengths against hand-made tables."""

import pytest

from recoversat.measuring.quality.outputs import SegmentStat, SystemOutput
from recoversat.measuring.quality.segment_stats import steps_of, steps_taken, summarise_segments, summarise_steps

STEPS = [
    # (segments as (length, ending), steps)
    ([(0, "eos")], 1),  # an empty segment still has to say EOS
    ([(5, "eos")], 6),  # K = 1: every token and EOS
    ([(2, "eos"), (4, "eos"), (1, "eos")], 5),
    ([(2, "eos"), (6, "del")], 7),  # a deleted segment takes its time too
    ([(9, "cut"), (2, "eos")], 9),  # cut off: there was no terminator
    ([(4, "cut"), (4, "eos")], 5),
    ([], 0),
]


def stats(*segments):
    return [SegmentStat(length, ending) for length, ending in segments]


@pytest.mark.parametrize(("segments", "steps"), STEPS)
def test_steps_taken(segments, steps):
    assert steps_taken(stats(*segments)) == steps


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


def test_reported_steps_win_over_counted_ones():
    segments = [stats((4, "eos"))]
    assert steps_of(SystemOutput("s", "t", ["x"], segments=segments)) == [5]
    assert steps_of(SystemOutput("s", "t", ["x"], steps=[1], segments=segments)) == [1]
    assert steps_of(SystemOutput("s", "t", ["x"])) is None
