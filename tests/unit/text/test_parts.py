"""Parts fit, and together they are the text."""

from hypothesis import given
from hypothesis import strategies as st

from recoversat.text.parts import parts_of

words = st.lists(st.sampled_from(["One", "two,", "three.", "Four!", "five", " ", "\u00a0six"]), max_size=30)


@given(words, st.integers(8, 30))
def test_parts_fit_and_join_to_the_text(chosen: list[str], room: int) -> None:
    text = " ".join(chosen)
    parts = parts_of(text, "en", lambda part: len(part) <= room)
    assert parts.joined(parts.texts) == text
    assert all(part == part.strip() and 0 < len(part) <= room for part in parts.texts)


def test_what_has_no_good_place_to_be_cut_is_cut_all_the_same() -> None:
    text = "One. e" + 90 * "\u0301" + " two"
    parts = parts_of(text, "en", lambda part: len(part) <= 20)
    assert max(map(len, parts.texts)) <= 20
    assert parts.joined(parts.texts) == text
