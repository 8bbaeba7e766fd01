"""Lists that the library makes are those of the table."""

from pathlib import Path

import numpy as np
import pytest

from recoversat.engines.native import library
from recoversat.engines.native.lists import NativeLists, lists_of
from recoversat.engines.vocabulary import Shortlist
from recoversat.errors import UserError
from tests.processors import needs_compiler

pytestmark = needs_compiler
VOCABULARY = 333


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    if not library.library_path().is_file():
        library.build()


def table(rng: np.random.Generator, directions: int, each: int) -> Shortlist:
    common = rng.random((max(1, directions), VOCABULARY)) < 0.1
    tags = np.arange(VOCABULARY - directions, VOCABULARY)
    return Shortlist(rng.integers(0, VOCABULARY, (VOCABULARY, each)), tags, common)


@pytest.mark.parametrize("directions", [0, 1, 3])
@pytest.mark.parametrize("each", [1, 4])
def test_they_are_the_members_of_the_table(directions: int, each: int) -> None:
    rng = np.random.default_rng(directions + each)
    shortlist = table(rng, directions, each)
    lists, kinds = NativeLists(shortlist), set()
    for length in (1, 2, 9, 30, 200):
        for first in [7, *shortlist.tags.tolist()]:
            source = [first, *rng.integers(0, VOCABULARY, length - 1).tolist()]
            for forced in ([], [1], [250, 251]):
                (members,) = shortlist.members([source], [{(0, at): piece for at, piece in enumerate(forced)}])
                found = lists.pieces(np.array(source, dtype=np.int32), forced)
                kinds.add(found is None)
                if shortlist.is_too_long(members):
                    assert found is None
                else:
                    assert found is not None
                    assert found.tolist() == np.flatnonzero(members).tolist()
    assert kinds == {True, False}


def test_a_list_of_nothing_is_none() -> None:
    nothing = Shortlist(
        np.zeros((VOCABULARY, 1), dtype=np.int64), np.array([7]), np.zeros((1, VOCABULARY), dtype=np.bool_)
    )
    lists = NativeLists(nothing)
    assert lists.pieces(np.array([7], dtype=np.int32)) is None
    assert lists.pieces(np.array([VOCABULARY + 5], dtype=np.int32)) is None  # the padding of the vocabulary
    found = lists.pieces(np.array([7, 9], dtype=np.int32))
    assert found is not None
    assert found.tolist() == [9]


@pytest.mark.parametrize("forced", [[-1], [VOCABULARY], [5, 1 << 20]])
def test_what_the_library_would_trust_is_checked_before(forced: list[int]) -> None:
    lists = NativeLists(table(np.random.default_rng(1), 0, 2))
    with pytest.raises(ValueError, match="ids from 0 to 332 can be forced"):
        lists.pieces(np.array([8], dtype=np.int32), forced)


@pytest.mark.parametrize(
    ("piece", "tag", "error"),
    [(8, VOCABULARY - 1, None), (-1, 7, "damaged"), (8, VOCABULARY, "damaged"), (8, -1, "damaged")],
)
def test_a_table_of_what_are_no_pieces_is_refused(piece: int, tag: int, error: str | None, tmp_path: Path) -> None:
    steps = np.full((VOCABULARY, 1), piece, dtype=np.int32)
    common = np.packbits(np.ones((1, VOCABULARY), dtype=np.bool_), axis=1)
    np.savez(tmp_path / "table.npz", steps=steps, tags=np.array([tag]), common=common)
    if error is None:
        lists_of(tmp_path / "table.npz", VOCABULARY)
        return
    with pytest.raises(UserError, match=error):
        lists_of(tmp_path / "table.npz", VOCABULARY)


def test_lists_that_nobody_holds_any_more_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[int] = []
    monkeypatch.setattr("recoversat.engines.native.lists.give_back", lambda _, free, address: freed.append(address))
    lists = NativeLists(table(np.random.default_rng(1), 0, 2))
    assert freed == [lists.address]
