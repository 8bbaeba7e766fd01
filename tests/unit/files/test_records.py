"""JSON lines: what goes out is JSON again, and tells of this run only."""

import json

import pytest

from recoversat.files.records import Record


def test_an_old_error_is_dropped_where_the_text_is_translated() -> None:
    again = Record.parse(b'{"id": 1, "error": "not UTF-8", "text": "Hello"}')
    assert json.loads(again.answered("Hallo")) == {"id": 1, "text": "Hello", "translation": "Hallo"}
    still = Record.parse(b'{"id": 1, "error": "old", "text": 7}')
    assert json.loads(still.answered("")) == {"id": 1, "text": 7, "error": '"text" is no text'}


def test_nothing_of_an_earlier_translation_stays() -> None:
    old = '"id": 1, "translation": "Alt", "confidence": 0.1, "doubtful": true'
    again = Record.parse(f'{{{old}, "text": "Hello"}}'.encode())
    assert json.loads(again.answered("Hallo")) == {"id": 1, "text": "Hello", "translation": "Hallo"}
    assert json.loads(again.answered("Hallo", 0.9)) == {
        "id": 1, "text": "Hello", "translation": "Hallo", "confidence": 0.9,
    }  # fmt: skip
    damaged = Record.parse(f'{{{old}, "text": 7}}'.encode())
    assert json.loads(damaged.answered("")) == {"id": 1, "text": 7, "error": '"text" is no text'}


def test_who_was_never_translated_keeps_what_we_would_have_told() -> None:
    heard = {"text": "Hello", "confidence": 0.7, "doubtful": "perhaps"}
    record = Record.parse(json.dumps(heard).encode())
    assert json.loads(record.answered("Hallo")) == heard | {"translation": "Hallo"}
    assert json.loads(record.answered("Hallo", 0.9)) == {"text": "Hello", "translation": "Hallo", "confidence": 0.9}


@pytest.mark.parametrize("number", ["1e400", "-1e400", "Infinity", "-Infinity", "NaN"])
def test_a_number_that_could_not_be_written_is_an_error(number: str) -> None:
    line = f'{{"text": "Hello", "more": [{{"score": {number}}}]}}'
    record = Record.parse(f"{line}\n".encode())
    assert number in record.error
    assert record.text == ""
    written = record.answered("")
    assert json.loads(written, parse_constant=pytest.fail) == {"input": line, "error": record.error}


@pytest.mark.parametrize("number", ["1e308", "-0.5", "1E-400", "12345678901234567890"])
def test_other_numbers_are_kept(number: str) -> None:
    record = Record.parse(f'{{"text": "Hello", "score": {number}}}'.encode())
    assert json.loads(record.answered("Hallo"))["score"] == json.loads(number)
