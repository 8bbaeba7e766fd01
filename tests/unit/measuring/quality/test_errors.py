"""Rep and Mis against tables computed by hand from the formulas of Section 4.5."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoversat.measuring.quality.errors import error_rates, missing_ratio, relative_increment, repeated_ratio
from tests import oracles

SENTENCES = st.lists(st.lists(st.integers(5, 12), max_size=25), max_size=4)
SENTENCE = st.lists(st.integers(5, 12), min_size=1, max_size=25)

REPEATED = [
    # (what it shows, sentences, repeated tokens, all tokens)
    ("no repetition", [[5, 6, 7]], 0, 3),
    ("the first token never counts", [[5]], 0, 1),
    ("first tokens of two sentences are not compared", [[5, 6], [5, 6]], 0, 4),
    ("adjacent", [[5, 5]], 1, 2),
    ("a token three times in a row counts twice", [[5, 5, 5]], 2, 3),
    ("several matches in the window count once", [[5, 5, 6, 5]], 2, 4),
    ("distance 9 is inside the window", [[5, 10, 11, 12, 13, 14, 15, 16, 17, 5]], 1, 10),
    ("distance 10 is outside", [[5, 10, 11, 12, 13, 14, 15, 16, 17, 18, 5]], 0, 11),
    ("sentences are pooled, not averaged", [[5, 5], [6, 7, 8, 9, 10, 11]], 1, 8),
    ("an empty output adds nothing", [[], [5, 5]], 1, 2),
]

MISSING = [
    # (what it shows, sentences, references, missing tokens, reference tokens)
    ("the same", [[5, 6]], [[5, 6]], 0, 2),
    ("the order does not matter", [[6, 5]], [[5, 6]], 0, 2),
    ("one lacks", [[5]], [[5, 6]], 1, 2),
    ("counted as a multiset", [[5]], [[5, 5, 5]], 2, 3),
    ("too many of one do not make up for another", [[5, 5, 5]], [[5, 6, 7]], 2, 3),
    ("extra tokens cost nothing", [[5, 6, 7, 8]], [[5]], 0, 1),
    ("an empty output misses all", [[]], [[5, 5, 6]], 3, 3),
    ("sentences are not mixed", [[5], [6]], [[6], [5]], 2, 2),
    ("pooled, not averaged", [[5], []], [[5, 6, 7], [8]], 3, 4),
]


@pytest.mark.parametrize(("sentences", "repeated", "total"), [c[1:] for c in REPEATED], ids=[c[0] for c in REPEATED])
def test_repeated_ratio_is_the_hand_count(sentences, repeated, total):
    assert repeated_ratio(sentences) == repeated / total


@pytest.mark.parametrize(
    ("sentences", "references", "missing", "total"), [c[1:] for c in MISSING], ids=[c[0] for c in MISSING]
)
def test_missing_ratio_is_the_hand_count(sentences, references, missing, total):
    assert missing_ratio(sentences, references) == missing / total


def test_nothing_at_all_has_ratio_zero():
    assert repeated_ratio([]) == repeated_ratio([[]]) == 0
    assert missing_ratio([[]], [[]]) == missing_ratio([[5]], [[]]) == 0


def test_missing_ratio_refuses_unequal_numbers_of_sentences():
    with pytest.raises(ValueError, match="zip"):
        missing_ratio([[5]], [[5], [6]])


@given(SENTENCES)
def test_repeated_ratio_is_the_printed_double_sum(sentences):
    if any(sentences):
        assert repeated_ratio(sentences) == pytest.approx(float(oracles.repeated_ratio(sentences)))


@given(SENTENCES, st.randoms())
def test_missing_ratio_is_the_printed_sum(references, random):
    sentences = [random.sample(y, random.randint(0, len(y))) for y in references]
    if any(references):
        assert missing_ratio(sentences, references) == pytest.approx(
            float(oracles.missing_ratio(sentences, references))
        )


@given(st.lists(st.tuples(SENTENCE, SENTENCE, SENTENCE), min_size=1, max_size=4))
def test_rep_and_mis_are_the_printed_increments(triples):
    ours, at, references = map(list, zip(*triples, strict=True))
    rates = error_rates(ours, "AT", at, references)
    repeated, missing = oracles.repeated_ratio(at), oracles.missing_ratio(at, references)
    if repeated:
        rep = oracles.relative_increment(oracles.repeated_ratio(ours), repeated)
        assert rates.rep == pytest.approx(float(rep))
    if missing:
        mis = oracles.relative_increment(oracles.missing_ratio(ours, references), missing)
        assert rates.mis == pytest.approx(float(mis))


def test_rep_and_mis_are_percent_relative_to_the_at_system():
    at = [[5, 6, 7, 8, 5]]  # 1 of 5 repeated; 9 of 5, 6, 7, 9 missing: 1/4
    ours = [[5, 5, 7, 7, 7]]  # 3 of 5 repeated; 6 and 9 missing: 2/4
    rates = error_rates(ours, "teacher", at, [[5, 6, 7, 9]])
    assert rates.relative_to == "teacher"
    assert (rates.repeated, rates.at_repeated) == (0.6, 0.2)
    assert rates.rep == pytest.approx(200.0)
    assert (rates.missing, rates.at_missing) == (0.5, 0.25)
    assert rates.mis == pytest.approx(100.0)


def test_a_system_better_than_the_at_system_is_negative():
    assert error_rates([[5, 6]], "AT", [[5, 5]], [[5, 6]]).rep == -100
    assert error_rates([[5, 6]], "AT", [[5, 5]], [[5, 6]]).mis == -100


def test_an_at_ratio_of_zero_gives_zero_or_infinity():
    assert relative_increment(0.0, 0.0) == 0
    assert relative_increment(0.2, 0.0) == math.inf


def test_without_reference_tokens_there_is_rep_but_no_mis():
    rates = error_rates([[5, 5]], "AT", [[5, 5]])
    assert (rates.rep, rates.mis, rates.missing) == (0, None, None)
