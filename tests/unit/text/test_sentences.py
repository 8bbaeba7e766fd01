"""Sentence ends in English and German, and the cutting of over-long sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoversat.text.sentences import sentence_spans, split_to_fit
from tests.growth import LINEAR, slowdown


def sentences(text: str, language: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text, language)]


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", ["Dr. Smith lives in the U.S. and works.", "He is happy."]),
        ("en", ["I live in the U.S.", "He lives in the U.K. too."]),
        ("en", ["It costs 3.50 dollars, e.g. at Smith & Co. in London.", "Cheap!"]),
        ("en", ["See fig. 3 and p. 12.", "Mr. J. R. Smith agreed."]),
        ("en", ["It begins at 9 a.m. Monday in Berlin.", "We met at 9 p.m. CET.", "I came at 9 p.m.", "He was there."]),
        ("en", ["“Are you sure?” she asked.", "“Yes.”"]),
        ("en", ["Visit www.example.com.", "Or mail a.b@c.org.", "Thanks!"]),
        ("en", ["We met at 5 p.m. on Friday.", "It rained."]),
        ("de", ["Das gilt z. B. für Dr. Müller.", "Er kommt am 3. Oktober 2024 an."]),
        ("de", ["Das gilt z.B. für Katzen, d. h. Tiere usw. und so weiter.", "Ende."]),
        ("de", ["Ludwig XIV. regierte lange.", "Am 1. Mai ist frei."]),
        ("de", ["„Komm her!“, rief sie.", "Er kam nicht."]),
        ("de", ["Die Müller GmbH & Co. KG hat ca. 1.500 Mitarbeiter.", "Sie wächst."]),
        ("de", ["Sie wohnt in der Hauptstr. 5 im 2. Stock.", "Er auch."]),
        ("de", ["Der 2. Weltkrieg endete 1945.", "Das war gut."]),
        ("de-AT", ["Er kommt am 3. Mai.", "Sie auch."]),
        ("xx", ["One here.", "Two here."]),
        ("en", ["See https://a.org/b.(Then) more.", "End."]),
    ],
)
def test_sentences_end_where_they_end(language: str, expected: list[str]) -> None:
    assert sentences(" ".join(expected), language) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \t\r\n ", []),
        ("One line\nTwo lines", ["One line", "Two lines"]),
        ("  One.  Two. \r\n\r\n\tThree", ["One.", "Two.", "Three"]),
        ("name\tvalue", ["name", "value"]),
        ("a\u2028b\x85c\x0bd", ["a", "b", "c", "d"]),
        ("B\u00a0. Then", ["B\u00a0.", "Then"]),  # makes the library panic if it sees the no-break space
        ("Bad \ud800 one. Two.", ["Bad \ud800 one.", "Two."]),
    ],
)
def test_line_breaks_and_tabs_end_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text, "en") == expected


@pytest.mark.parametrize("text", ["one.(Two", "A file.Name is", "really?!“Yes"])
def test_without_white_space_no_sentence_ends(text: str) -> None:
    assert sentences(text, "en") == [text]


def test_chinese_needs_no_space() -> None:
    assert sentences("你好。世界！", "zh") == ["你好。", "世界！"]


def test_nothing_is_cut_inside_a_kept_span() -> None:
    text = "See {{ a. B }} now. Then go."
    assert [text[a:b] for a, b in sentence_spans(text, "en", keep=[(4, 14)])] == [
        "See {{ a. B }} now.",
        "Then go.",
    ]


def test_a_failing_splitter_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):  # the name pyo3 gives it
        pass

    def panic(language: str, text: str) -> list[str]:
        raise PanicException

    monkeypatch.setattr("recoversat.text.sentences.sentencex.segment", panic)
    assert sentences("One. Two.", "en") == ["One. Two."]

    def interrupt(language: str, text: str) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr("recoversat.text.sentences.sentencex.segment", interrupt)
    with pytest.raises(KeyboardInterrupt):
        sentences("One. Two.", "en")


@given(st.text(), st.sampled_from(["en", "de"]))
def test_only_white_space_is_outside_sentences(text: str, language: str) -> None:
    position = 0
    for start, end in [*sentence_spans(text, language), (len(text), len(text))]:
        assert position <= start
        assert not text[position:start].strip()
        assert text[start:end] == text[start:end].strip()
        assert len(text[start:end].splitlines()) <= 1
        position = end


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("short", ["short"]),
        ("one two, three four", ["one two, ", "three four"]),
        ("one two three four", ["one two ", "three four"]),
        ("a, b, c, d, e, f", ["a, b, c, ", "d, e, f"]),
        ("abcdefghijklmno", ["abcdefghij", "klmno"]),
        ("ab cdefghijklmnop", ["ab ", "cdefghijkl", "mnop"]),
        ("abcdefghie\u0301xyz", ["abcdefghi", "e\u0301xyz"]),
    ],
)
def test_long_sentences_are_cut_at_the_best_place(text: str, expected: list[str]) -> None:
    assert split_to_fit(text, lambda part: len(part) <= 10) == expected


def test_a_kept_span_is_not_torn_even_if_it_does_not_fit() -> None:
    assert split_to_fit("see {{ a long name }} ok", lambda part: len(part) <= 5, keep=[(4, 21)]) == [
        "see ",
        "{{ a long name }}",
        " ok",
    ]


@given(st.text(alphabet="ab ,.;\u0301😀"), st.integers(1, 12))
def test_parts_join_to_the_text_and_fit(text: str, limit: int) -> None:
    parts = split_to_fit(text, lambda part: len(part) <= limit)
    assert "".join(parts) == text
    # Only a letter with its accents may be longer than the limit: it cannot be cut.
    assert all(len(part) <= limit or set(part[1:]) == {"\u0301"} for part in parts)


def test_a_megabyte_without_a_space_is_cut_in_linear_time() -> None:
    def cut(size: int) -> None:
        assert len(split_to_fit("x" * size, lambda part: len(part) <= 500)) == size // 500

    assert slowdown(cut, 250_000) < LINEAR
