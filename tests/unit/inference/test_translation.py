"""What translating gives back."""

import copy
import pickle

from recoversat.inference.translation import LazySegments, Segment, Translation


def later(*texts: str) -> tuple[LazySegments, list[int]]:
    looked_at: list[int] = []

    def spell(index: int) -> Segment:
        looked_at.append(index)
        return Segment(texts[index], [texts[index]], [index + 7], "eos", [-0.5, -0.25])

    return LazySegments(len(texts), spell), looked_at


def test_segments_are_spelt_when_looked_at_and_once() -> None:
    segments, looked_at = later("a", "b")
    translation = Translation("x", "a b", segments, steps=2)
    assert len(translation.segments) == 2
    assert looked_at == []
    assert [segment.text for segment in translation.segments] == ["a", "b"]
    assert looked_at == [0, 1]


def test_later_segments_are_a_list_to_everybody_else() -> None:
    segments, _ = later("a", "b")
    spelt = list(segments)
    assert segments == spelt
    assert spelt == segments
    assert segments[-1] == spelt[1]
    assert segments[:1] == spelt[:1]
    assert repr(segments) == repr(spelt)
    assert segments != spelt[:1]
    assert segments != 7
    assert Translation("x", "a b", segments) == Translation("x", "a b", spelt)


def test_a_copy_of_later_segments_has_no_tokenizer() -> None:
    segments, _ = later("a", "b")
    translation = Translation("x", "a b", segments)
    for copied in (pickle.loads(pickle.dumps(translation)), copy.deepcopy(translation)):
        assert copied == translation
        assert type(copied.segments) is list
