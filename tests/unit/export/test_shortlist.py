"""A table made of pairs: what is frequent in a direction is in every list of it, the rest comes from the source."""

from collections.abc import Sequence

import numpy as np
import pytest

from recoversat.data.corpus import ParallelSentences, Sentences
from recoversat.engines.vocabulary import Shortlist
from recoversat.export.shortlist import make_shortlist
from recoversat.vocab import DEL, EOS, NEVER_EMITTED, SPECIAL_PIECES

TAGS = ["<2xx>", "<2yy>"]
PIECES = [*SPECIAL_PIECES, *TAGS, "7", "!", *(f"x{'abcdefghijklmnopqrstu'[i]}" for i in range(20))]
PIECES += [f"y{piece[1:]}" for piece in PIECES[-20:]]
XX, YY, X, Y = 5, 6, 9, 29  # tags, and where the pieces of each language begin


class Toy:
    """A tokenizer of two languages, whose words are their places."""

    def __init__(self, tags: list[str]) -> None:
        self.size, self.tags = len(PIECES), tags

    def encode(self, lines: Sequence[str], tag: str = "") -> list[list[int]]:
        return [[PIECES.index(tag)] for _ in lines]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [PIECES[i] for i in ids]


def words(rng: np.random.Generator) -> list[int]:
    """Draw words 3-19; 0, 1 and 2 are in every sentence."""
    return [0, 1, 2, *rng.choice(np.arange(3, 20), 3, replace=False).tolist()]


@pytest.fixture
def pairs() -> ParallelSentences:
    """Say the same in both languages, and both ways."""
    rng, sources, targets = np.random.default_rng(1), [], []
    for _ in range(80):
        said = words(rng)
        sources += [[XX, *(Y + word for word in said)], [YY, *(X + word for word in said)]]
        targets += [[X + word for word in said[::-1]], [Y + word for word in said[::-1]]]
    return ParallelSentences(Sentences.of(sources), Sentences.of(targets))


def held(table: Shortlist, source: list[int]) -> set[int]:
    return set(np.flatnonzero(table.members([source])[0]).tolist())


def test_a_list_holds_the_translation_and_what_is_frequent(pairs: ParallelSentences) -> None:
    table = make_shortlist(pairs, Toy(TAGS), likeliest=1, frequent=3)  # type: ignore[arg-type]
    always = {EOS, DEL, PIECES.index("7"), PIECES.index("!")}
    for word in range(3, 20):
        assert held(table, [XX, Y + word]) == always | {X, X + 1, X + 2, X + word, Y + word}
        assert held(table, [YY, X + word]) == always | {Y, Y + 1, Y + 2, Y + word, X + word}


def test_one_direction_needs_no_tag(pairs: ParallelSentences) -> None:
    one_way = ParallelSentences(
        Sentences.of(pairs.src[i][1:].tolist() for i in range(0, len(pairs), 2)),
        Sentences.of(pairs.tgt[i].tolist() for i in range(0, len(pairs), 2)),
    )
    table = make_shortlist(one_way, Toy([]), likeliest=1, frequent=3)  # type: ignore[arg-type]
    assert len(table.tags) == 0
    assert {X, X + 1, X + 2, EOS, DEL} <= held(table, [Y + 5])
    assert not held(table, [Y + 5]) & set(NEVER_EMITTED)


def test_pieces_that_never_occur_are_not_frequent(pairs: ParallelSentences) -> None:
    table = make_shortlist(pairs, Toy(TAGS), likeliest=1, frequent=1000)  # type: ignore[arg-type]
    assert set(range(X, X + 20)) <= held(table, [XX, Y])
    assert not set(range(Y + 1, Y + 20)) & held(table, [XX, Y])
