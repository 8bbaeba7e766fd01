"""Numbers that a translation has lost or invented."""

import pytest

from recoversat.inference.repairs.check_numbers import wrong_numbers
from recoversat.inference.translation import Translation
from tests.unit.inference.by_count import numbers, writes


def spelt(translation: Translation) -> str:
    return numbers(check=True).tokenizer.decode(translation.ids)


def test_wrong_numbers_are_written_again_as_one_segment() -> None:
    better, none = numbers(check=True).translate(["no 7 8", "no number"])
    assert (better.text, better.steps) == ("7 8", 2 + 3)  # "7 7" at first
    assert (none.text, none.steps, none.repairs) == ("no number", 2, ())
    assert (better.repairs, spelt(better)) == (("check_numbers",), "7 8")


def test_where_numbers_stay_wrong_the_words_around_them_are_translated_alone() -> None:
    first, other = numbers(check=True).translate(["no 7 7", "no 8 8"])
    assert (first.text, first.steps) == ("number 7 7", 2 + 2)  # "7" as two segments, "8" as one
    assert (other.text, other.steps) == ("number 8 8", 2 + 2)
    assert [segment.text for segment in first.segments] == ["7", ""]  # as they were written
    assert [segment.text for segment in other.segments] == ["7", ""]  # as one segment it was no better
    assert (first.repairs, spelt(first)) == (("check_numbers",), "number 7 7")


def test_what_is_no_better_written_again_stays_as_it_was() -> None:
    scripts = {("no 7 8", 2): ["7 EOS", "EOS"], ("no 7 8", 1): ["8 no EOS"], ("no", 1): ["7 EOS"]}
    (same,) = writes(scripts, check_numbers=True).translate(["no 7 8"])  # "7 7 8" around the numbers
    assert (same.text, len(same.segments), same.repairs, same.steps) == ("7", 2, (), 2 + 3)


def test_words_around_numbers_are_taken_only_where_all_numbers_are_right() -> None:
    scripts = {("no 7 8", 2): ["no EOS", "EOS"], ("no 7 8", 1): ["7 EOS"], ("no", 1): ["7 EOS"]}
    (better,) = writes(scripts, check_numbers=True).translate(["no 7 8"])  # "7 7 8" around the numbers
    assert (better.text, better.repairs) == ("7", ("check_numbers",))


def test_numbers_are_not_written_again_where_words_are_forced() -> None:
    translator = numbers(check=True)
    seven, eight = translator.tokenizer.encode(["7 8"])[0]
    assert translator.translate(["no 7 8"], forced=[{(1, 0): eight}])[0].text == "7 8"
    assert translator.translate(["no 7 8"], forced=[{(1, 0): seven}])[0].text == "7 7"


@pytest.mark.parametrize(
    ("source", "translation", "wrong"),
    [
        ("two dogs", "2 Hunde", 0),
        ("2 dogs", "zwei Hunde", 0),
        ("Zwölf Hunde", "12 dogs", 0),
        ("two dogs and 2 cats", "2 Hunde und 2 Katzen", 0),
        ("two dogs", "2 Hunde und 2 Katzen", 1),  # a word excuses one number
        ("two dogs", "3 Hunde", 1),
        ("two dogs", "Hunde", 0),  # and asks for none
        ("the 1 January", "ein Januar", 1),  # an article is no number
    ],
)
def test_a_number_may_be_written_as_a_word(source: str, translation: str, wrong: int) -> None:
    assert wrong_numbers(source, translation) == wrong


def test_numbers_are_not_checked_where_k_was_named_or_nobody_asked() -> None:
    assert [t.text for t in numbers(check=True).translate(["no 7 8"], segments=2)] == ["7 7"]
    assert [t.text for t in numbers(check=False).translate(["no 7 8"])] == ["7 7"]


def test_text_without_letters_is_copied_where_numbers_are_looked_after() -> None:
    texts = ["----------", "1000000000", "* * * * *", "2024-11-15"]
    copied = numbers(check=True).translate(texts)
    assert [t.text for t in copied] == texts
    assert {(t.repairs, t.steps) for t in copied} == {(("check_numbers",), 0)}
