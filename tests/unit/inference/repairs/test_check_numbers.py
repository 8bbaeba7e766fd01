"""Numbers that a translation has lost or invented."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoversat.inference.translation import Translation
from recoversat.text.numbers import has_digits, in_24_hours, lost_codes, wrong_numbers
from recoversat.text.tokenizer import BpeTokenizer
from recoversat.vocab import EOS
from tests.unit.inference.by_count import NUMBERS, numbers, writes


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


@pytest.mark.parametrize(
    ("source", "translation", "wrong"),
    [
        ("um 20 Uhr", "at 8 p.m.", 0),
        ("um 20.00 Uhr", "at 8 p.m.", 0),
        ("from 10 a.m. to 6:00 p.m.", "von 10 bis 18 Uhr", 0),
        ("at 9:00 am from platform 7", "um 9 Uhr von Gleis 7", 0),
        ("um 20 Uhr", "at 9 p.m.", 2),
        ("um 20.30 Uhr", "at 8 p.m.", 1),
        ("It is 5.00", "Es kostet 5", 1),  # no hour
        ("from 1:00:30 on", "ab 1:30", 1),
    ],
)
def test_a_full_hour_needs_no_minutes(source: str, translation: str, wrong: int) -> None:
    assert wrong_numbers(source, translation) == wrong


@pytest.mark.parametrize("segments", ["auto", 1, 2])
def test_numbers_are_checked_at_every_k(segments) -> None:
    assert [t.text for t in numbers(check=True).translate(["no 7 8"], segments=segments)] == ["7 8"]
    assert [t.text for t in numbers(check=True).translate(["no 7 7"], segments=segments)] == ["number 7 7"]


def test_a_number_that_was_made_up_is_left_out() -> None:
    scripts = {("no", 1): ["number 7 EOS"], ("number", 1): ["7 EOS"]}
    invented, nothing_else = writes(scripts, check_numbers=True).translate(["no", "number"])
    assert (invented.text, invented.repairs) == ("number", ("check_numbers",))
    assert nothing_else.text == "7"  # better than nothing


def test_numbers_travel_as_others_that_are_easier_to_copy() -> None:
    def engine_like_a_model(ids, k):
        return [[*ids[1:], EOS]]  # drops the first word, copies the rest

    translator = writes(NUMBERS, check_numbers=True)
    translator.tokenizer = BpeTokenizer([*translator.tokenizer.pieces(range(10)), "211", "224"])
    translator.engine._script = lambda ids, k: engine_like_a_model(ids, k) if max(ids) > 9 else [[5, EOS]]
    assert translator.translate(["no 8 7"])[0].text == "8 7"


def test_times_that_came_out_wrong_are_read_in_24_hours() -> None:
    translator = writes(NUMBERS, check_numbers=True)
    translator.tokenizer = BpeTokenizer([*translator.tokenizer.pieces(range(10)), "p.m.", "19:00."])
    translator.engine._script = lambda ids, k: [[11 if 11 in ids else 5, EOS]]  # "7" unless 19:00 is to be copied
    (written,) = translator.translate(["no 7 p.m."])
    assert (written.text, written.repairs) == ("19:00.", ("check_numbers",))


def test_numbers_are_not_checked_where_nobody_asked() -> None:
    assert [t.text for t in numbers(check=False).translate(["no 7 8"])] == ["7 7"]


def test_text_without_letters_is_copied_where_numbers_are_looked_after() -> None:
    texts = ["----------", "1000000000", "* * * * *", "2024-11-15"]
    copied = numbers(check=True).translate(texts)
    assert [t.text for t in copied] == texts
    assert {(t.repairs, t.steps) for t in copied} == {(("check_numbers",), 0)}


_WITHOUT_DIGITS = st.text("ap.m: AB-one٣7", max_size=12).filter(lambda text: not has_digits(text))


@given(_WITHOUT_DIGITS, _WITHOUT_DIGITS)
def test_without_digits_no_number_is_wrong(source: str, translation: str) -> None:
    assert wrong_numbers(source, translation) == lost_codes(source, translation) == 0
    assert in_24_hours(source) == source
