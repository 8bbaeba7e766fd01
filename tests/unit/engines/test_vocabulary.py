"""Shortlists: which pieces a table lets a sentence choose from, and how it is written and read."""

from pathlib import Path

import numpy as np
import pytest

from recoversat.engines.vocabulary import TABLE, Shortlist
from recoversat.errors import UserError
from recoversat.vocab import BOS, DEL, EOS, NEVER_EMITTED

V = 1001
COMMON = [EOS, DEL, *range(100, 220)]


def table_of(likeliest: np.ndarray) -> Shortlist:
    marked = np.zeros((1, V), dtype=bool)
    marked[0, COMMON] = True
    return Shortlist(likeliest, np.empty(0, dtype=np.int64), marked)


def test_lists_hold_the_sources_own_pieces_and_no_special_ones() -> None:
    table = table_of(np.full((V, 1), EOS))
    [members] = table.members([[300, BOS, 301]])
    assert set(np.flatnonzero(members)) == {*COMMON, 300, 301}
    assert not members[list(NEVER_EMITTED)].any()


def test_lists_hold_what_is_forced() -> None:
    table = table_of(np.full((V, 1), EOS))
    one, other = table.members([[300], [300]], [{(0, 0): 400}, {}])
    assert (one[400], other[400]) == (True, False)


def test_a_list_of_more_than_half_the_vocabulary_is_too_long() -> None:
    members = np.zeros((2, V), dtype=bool)
    members[0, : V // 2], members[1, : V // 2 + 1] = True, True
    assert Shortlist.is_too_long(members).tolist() == [False, True]


def test_a_source_has_what_is_common_in_its_direction() -> None:
    common = np.zeros((2, V), dtype=bool)
    common[0, 10], common[1, 11] = True, True
    table = Shortlist(np.full((V, 1), 20), np.array([5, 6]), common)
    members = table.members([[5, 30], [6, 30], [30]])
    assert [np.flatnonzero(row).tolist() for row in members] == [[10, 20, 30], [11, 20, 30], [10, 11, 20, 30]]


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    table = table_of(np.random.default_rng(2).integers(0, V, (V, 7)))
    table.save(tmp_path / TABLE)
    read = Shortlist.load(tmp_path / TABLE, V)
    np.testing.assert_array_equal(np.sort(table.likeliest, axis=1), read.likeliest)
    np.testing.assert_array_equal(table.tags, read.tags)
    np.testing.assert_array_equal(table.common, read.common)


def test_a_damaged_table_or_one_of_another_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / TABLE
    table_of(np.zeros((V, 3), dtype=np.int64)).save(path)
    with pytest.raises(UserError, match="another model"):
        Shortlist.load(path, V + 1)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UserError, match="damaged"):
        Shortlist.load(path, V)
