"""Loops are cut; what language or the source repeats stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoversat.inference.repairs.cut_loops import _may_loop, most_repeats, without_loops
from tests.unit.inference.by_count import writes

ids = st.lists(st.integers(5, 8), max_size=40)


@pytest.mark.parametrize(
    ("written", "source", "kept"),
    [
        ([], [], []),
        ([7, 7, 7], [], [7, 7, 7]),
        ([7, 7, 7, 7], [], [7]),
        ([1, 2, 1, 2, 1, 2, 1, 2, 9], [], [1, 2, 9]),
        ([4, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3], [], [4, 1, 2, 3]),
        ([4, *[1, 2, 3, 1, 5, 6] * 4, 8], [], [4, 1, 2, 3, 1, 5, 6, 8]),
        ([7] * 6, [9] * 6, [7] * 6),
        ([7] * 7, [9] * 6, [7] * 6),
        ([6, 0, 0, 0, 0, 0], [6, 0, 0, 0, 0], [6, 0, 0, 0, 0]),
        ([1, 1, 1, 1, 5, 2, 2, 2, 2, 2], [], [1, 5, 2]),
    ],
)
def test_a_loop_is_cut_to_one_round(written: list[int], source: list[int], kept: list[int]) -> None:
    assert [written[at] for at in without_loops(written, source)] == kept


@given(ids, ids)
def test_short_repeats_are_left_alone(written: list[int], source: list[int]) -> None:
    kept = without_loops(written, source)
    if most_repeats(written) <= max(3, most_repeats(source)):
        assert kept == list(range(len(written)))
    assert {written[at] for at in kept} == set(written)
    assert len(kept) <= len(written)


@given(ids)
def test_every_loop_is_suspected(written: list[int]) -> None:
    assert _may_loop(written) or most_repeats(written) < 4


def test_what_is_said_again_and_again_is_said_once(scripted) -> None:
    translator = scripted({"a b": ["the the the the EOS", "house EOS"]})
    assert [t.text for t in translator.translate(["a b"])] == ["the the the the house"]
    translator.set_decoding(cut_loops=True)
    (translation,) = translator.translate(["a b"])
    assert (translation.text, translation.repairs) == ("the house", ("cut_loops",))
    assert translator.tokenizer.decode(translation.ids) == "the house"
    assert translation.segments[0].text == "the the the the"  # as it was written
    assert [sorted(segment.left_out) for segment in translation.segments] == [[1, 2, 3], []]
    kept = [-0.1, -0.1, -0.2]  # the first "the", whose segment was cut off; "house" and its EOS
    assert translation.score == pytest.approx(sum(kept) / len(kept))


def test_a_loop_may_run_through_several_segments(scripted) -> None:
    translator = scripted({"a b": ["in the EOS", "the the EOS", "the the house EOS"]})
    translator.set_decoding(cut_loops=True)
    (translation,) = translator.translate(["a b"])
    assert (translation.text, translator.tokenizer.decode(translation.ids)) == ("in the house", "in the house")
    assert [segment.overlap for segment in translation.segments] == [0, 2, 2]


def test_what_one_segment_does_not_end_is_written_in_two() -> None:
    endless = {("no 7 8", 1): ["7 8 7 8 7 EOS"], ("no 7", 1): ["7 no 7 no EOS"], ("no", 1): ["7 EOS"]}
    scripts = endless | {("no 7 8", 2): ["7 EOS", "8 EOS"], ("no 7", 2): ["7 no 8 EOS", "no EOS"]}
    plain, mended = (writes(scripts, extra_steps=1, cut_loops=cut) for cut in (False, True))
    texts = ["no 7 8", "no 7", "no"]  # at most as long as the source and one more
    assert [one.text for one in plain.translate(texts, segments=1)] == ["7 8 7 8", "7 no 7", "7"]
    ended, endless_still, short = mended.translate(texts, segments=1)
    assert (ended.text, ended.repairs, len(ended.segments)) == ("7 8", ("cut_loops",), 2)
    assert (endless_still.text, endless_still.repairs) == ("7 no 7", ())  # two segments did not end either
    assert (short.text, short.repairs) == ("7", ())
