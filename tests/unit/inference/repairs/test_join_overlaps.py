"""What one segment's end and the next one's beginning both say is said once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoversat.files.model_folder import builtin_models
from recoversat.inference.repairs.join_overlaps import overlaps
from recoversat.text.tokenizer import BpeTokenizer, load_tokenizer
from recoversat.vocab import DEL, EOS, N_SPECIAL, SPECIAL_PIECES

_ENDS = {"EOS": EOS, "DEL": DEL}
WORDS = ["by", "leaves", "surrounded", "0", "cham@@", "bers", ",", "of"]
TOKENIZER = BpeTokenizer([*SPECIAL_PIECES, *WORDS])


def ids(text: str) -> list[int]:
    return [_ENDS.get(word) or TOKENIZER.encode([word])[0][0] for word in text.split()]


@pytest.mark.parametrize(
    ("segments", "found"),
    [
        (["surrounded by EOS", "by leaves EOS"], [0, 1]),
        (["surrounded by leaves EOS", "by leaves of EOS"], [0, 2]),
        (["by leaves by EOS", "leaves by leaves EOS"], [0, 2]),
        (["by leaves by EOS", "by leaves by EOS"], [0, 3]),  # the longest
        (["surrounded EOS", "by EOS", "surrounded by leaves EOS"], [0, 0, 2]),  # of all that stands before
        (["by leaves EOS", "leaves DEL", "leaves of EOS"], [0, 0, 1]),  # what is deleted says nothing
        (["by EOS", "by EOS", "by EOS"], [0, 1, 1]),
        (["by leaves", "leaves EOS", "EOS"], [0, 1, 0]),  # cut off; repeated whole; empty
        (["by EOS", "leaves EOS"], [0, 0]),
        (["0 0 EOS", "0 0 EOS"], [0, 0]),  # a number
        ([", EOS", ", EOS"], [0, 0]),
        (["cham@@ EOS", "cham@@ bers EOS"], [0, 0]),  # a part of a word
        (["cham@@ bers EOS", "cham@@ bers EOS"], [0, 2]),
        ([], []),
    ],
)
def test_overlaps_are_found_at_words(segments: list[str], found: list[int]) -> None:
    assert overlaps([ids(one) for one in segments], ids("of"), TOKENIZER) == found


def test_a_source_that_repeats_itself_is_left_alone() -> None:
    segments = [ids("surrounded by EOS"), ids("by leaves EOS")]
    assert overlaps(segments, ids("of of"), TOKENIZER) == [0, 0]
    assert overlaps(segments, ids("of , of"), TOKENIZER) == [0, 0]
    assert overlaps(segments, ids("of by leaves surrounded of by leaves surrounded"), TOKENIZER) == [0, 0]
    assert overlaps(segments, ids("of by of"), TOKENIZER) == [0, 1]
    assert overlaps(segments, ids("of , , leaves"), TOKENIZER) == [0, 1]


def test_a_number_with_zeros_is_no_repetition() -> None:
    sentencepiece = load_tokenizer(builtin_models()[0])
    source, (left, right) = (
        sentencepiece.encode(["It costs 1,500 in 2001"])[0],
        sentencepiece.encode(["a dog", "dog runs"]),
    )
    assert overlaps([[*left, EOS], [*right, EOS]], source, sentencepiece) == [0, 1]


@given(st.lists(st.lists(st.integers(N_SPECIAL, N_SPECIAL + len(WORDS) - 1), max_size=6), max_size=6))
def test_nothing_is_lost_but_what_stands_before_it(segments: list[list[int]]) -> None:
    found = overlaps([[*segment, EOS] for segment in segments], [], TOKENIZER)
    written: list[int] = []
    for segment, n in zip(segments, found, strict=True):
        assert n == 0 or written[-n:] == segment[:n]
        written += segment[n:]


def test_what_two_segments_both_say_is_said_once(scripted) -> None:
    translator = scripted({"a b": ["in the EOS", "the house EOS"]})
    assert [t.text for t in translator.translate(["a b"])] == ["in the the house"]
    translator.set_decoding(join_overlaps=True)
    (translation,) = translator.translate(["a b"])
    assert (translation.text, translation.repairs) == ("in the house", ("join_overlaps",))
    assert translation.score == pytest.approx((-0.1 - 0.2 - 0.3 - 0.2 - 0.3) / 5)  # without the second "the"
    assert translator.tokenizer.decode(translation.ids) == "in the house"
    assert [(segment.text, segment.overlap) for segment in translation.segments] == [("in the", 0), ("the house", 1)]
