"""Shortlists of the engine in C++ are those of the table."""

from pathlib import Path

import numpy as np
import pytest

from recoversat.engines.native.lists import load_shortlist, shortlist_of
from recoversat.engines.vocabulary import Shortlist
from recoversat.errors import UserError
from tests.processors import needs_native

pytestmark = needs_native
VOCABULARY = 333


def table(rng: np.random.Generator, directions: int, each: int) -> Shortlist:
    common = rng.random((max(1, directions), VOCABULARY)) < 0.1
    tags = np.arange(VOCABULARY - directions, VOCABULARY)
    return Shortlist(rng.integers(0, VOCABULARY, (VOCABULARY, each)), tags, common)


@pytest.mark.parametrize("directions", [0, 1, 3])
@pytest.mark.parametrize("each", [1, 4])
def test_they_are_the_members_of_the_table(directions: int, each: int) -> None:
    rng = np.random.default_rng(directions + each)
    shortlist = table(rng, directions, each)
    lists, kinds = shortlist_of(shortlist), set()
    for length in (1, 2, 9, 30, 200):
        for first in [7, *shortlist.tags.tolist()]:
            source = [first, *rng.integers(0, VOCABULARY, length - 1).tolist()]
            for forced in ([], [1], [250, 251]):
                (members,) = shortlist.members([source], [{(0, at): piece for at, piece in enumerate(forced)}])
                found = lists.find(source, forced)
                kinds.add(not found)
                assert found == ([] if shortlist.is_too_long(members) else np.flatnonzero(members).tolist())
    assert kinds == {True, False}


def test_a_list_of_nothing_is_none() -> None:
    nothing = Shortlist(
        np.zeros((VOCABULARY, 1), dtype=np.int64), np.array([7]), np.zeros((1, VOCABULARY), dtype=np.bool_)
    )
    lists = shortlist_of(nothing)
    assert lists.find([7], []) == []
    assert lists.find([VOCABULARY + 5], []) == []  # the padding of the vocabulary
    assert lists.find([7, 9], []) == [9]


@pytest.mark.parametrize("forced", [[-1], [VOCABULARY], [5, 1 << 20]])
def test_forced_pieces_are_checked(forced: list[int]) -> None:
    lists = shortlist_of(table(np.random.default_rng(1), 0, 2))
    with pytest.raises(ValueError, match="ids from 0 to 332 can be forced"):
        lists.find([8], forced)


@pytest.mark.parametrize(
    ("piece", "tag", "error"),
    [(8, VOCABULARY - 1, None), (-1, 7, "damaged"), (8, VOCABULARY, "damaged"), (8, -1, "damaged")],
)
def test_a_table_of_what_are_no_pieces_is_refused(piece: int, tag: int, error: str | None, tmp_path: Path) -> None:
    steps = np.full((VOCABULARY, 1), piece, dtype=np.int32)
    common = np.packbits(np.ones((1, VOCABULARY), dtype=np.bool_), axis=1)
    np.savez(tmp_path / "table.npz", steps=steps, tags=np.array([tag]), common=common)
    if error is None:
        load_shortlist(tmp_path / "table.npz", VOCABULARY)
        return
    with pytest.raises(UserError, match=error):
        load_shortlist(tmp_path / "table.npz", VOCABULARY)
