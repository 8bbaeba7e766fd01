"""What is protected, and that it comes through masking or piecewise translation unchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoversat.text.placeholders import (
    bare_words,
    hard_texts,
    has_words,
    mask,
    pieces,
    protected_spans,
    trim,
    unmask,
    without_protected,
)
from tests.growth import LINEAR, slowdown

HARD = [
    "{{name}}", "{{ user.name | upper }}", "{name}", "{0}", "{}", "{price:.2f}", "{% if x %}",
    "{n, plural, one {# file} other {# files}}", "${HOME}", "#{name}", "%{name}",
    "%s", "%d", "%1$s", "%2$d", "%(name)s", "%.2f", "%05d", "%ld", "%%", "%@",
    "https://example.org/a?b=1&c=%20d#e", "http://localhost:5000", "www.example.org/x", "ftp://a.b/c",
    "https://en.wikipedia.org/wiki/A_(b)", "https://x.org/{id}", "https://x.org/{{id}}/edit",
    "first.last+tag@sub.example.org", "mailto:a@b.de",
    "😀", "👩‍👩‍👧", "👍🏽", "🇩🇪", "5️⃣", "☕️", "→", "✓", "❤️",
    "\x00", "\ue123", "\ud800", "\uffff", "a" * 201, "/9j/4AAQ+" * 30 + "==", "ж" * 500,
]  # fmt: skip
NUMBERS = [
    "5",
    "1,500.75",
    "1.500,75",
    "2026-11-15",
    "15.11.2026",
    "14:30",
    "3/4",
    "v2.0.1",
    "COVID-19",
    "3rd",
    "10km",
]


@pytest.mark.parametrize("span", HARD + NUMBERS)
@pytest.mark.parametrize("frame", ["{}", "before {} after", "({}), and", "the end: {}.", "“{}”!"])
def test_it_is_one_span_whatever_stands_around(span: str, frame: str) -> None:
    before, after = frame.split("{}")
    text = before + span + after
    assert [(text[s.start : s.end], s.hard) for s in protected_spans(text)] == [(span, span in HARD)]


@pytest.mark.parametrize(
    "text",
    [
        "100%ige Sicherheit",
        "a" * 200,
        "_" * 300,
        "and so on " * 50,
        "日" * 300,
        "50% der Leute",
        "5% discount",
        "a { b } c",
        "100 %",
        "user@",
        "@name",
        "x % y",
        "http",
    ],
)
def test_it_is_ordinary_text(text: str) -> None:
    assert hard_texts(text) == []


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("{first} {last} left", ["{first} {last}"]),
        ("in %s/%s.txt", ["%s/%s"]),
        ("a {x}5 b", ["{x}5"]),
        ("5 {x}", ["5", "{x}"]),
        ("{a} and {b}", ["{a}", "{b}"]),
        ("访问https://x.org/a。谢谢", ["https://x.org/a"]),
        ("a word,https://x.org", ["https://x.org"]),
    ],
)
def test_neighbours_travel_together(text: str, spans: list[str]) -> None:
    assert [text[s.start : s.end] for s in protected_spans(text)] == spans


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Well done! 🎉", ("", "Well done!", " 🎉")),
        ("✓ Done", ("✓ ", "Done", "")),
        ("- item", ("- ", "item", "")),
        ("## A title", ("## ", "A title", "")),
        ("-5 degrees", ("", "-5 degrees", "")),
        ("see https://x.org/😀", ("", "see https://x.org/😀", "")),
        ("press 5️⃣", ("", "press 5️⃣", "")),
        ("{name} left", ("", "{name} left", "")),
        ("  ", ("  ", "", "")),
        ("", ("", "", "")),
    ],
)
def test_decoration_is_trimmed(text: str, expected: tuple[str, str, str]) -> None:
    assert trim(text) == expected


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("Hi {name}!", "Hallo 211!", "Hallo {name}!"),
        ("Hi {name}!", "HALLO 211!", "HALLO {name}!"),
        ("Hi {name}!", "Hallo!", None),
        ("Hi {name}!", "Hallo 211 211!", None),
        ("Hi {name}!", "Hallo 2111!", None),
        ("Hi {name}!", "Hallo 211 %s!", None),
        ("Hi there!", "Hallo %s!", "Hallo !"),
        ("{a} sees {b}", "224 sieht 211", "{b} sieht {a}"),  # names may change places
        ("%s of the %d", "224 der 211", None),  # but printf's arguments may not
        ("It costs 1,500.75 now", "Es kostet nun 1.500,75", "Es kostet nun 1.500,75"),
        ("On 2026-11-15", "Am 15.11.2026", "Am 15.11.2026"),
        ("On 2026-11-15", "Am 15.12.2026", None),
        ("We have 5", "Wir haben fünf", "Wir haben fünf"),
        ("We have 5", "Wir haben sechs", None),
        ("We have 5 and 5", "Wir haben 5", None),
        ("We have two of 5", "Wir haben 2 von 5", "Wir haben 2 von 5"),
        ("211 and {x}", "211 und 224", "211 und {x}"),  # a stand-in is no number of the text
        ("see https://x.org", "siehe 211er", None),  # the URL would grow
    ],
)
def test_unmask(source: str, translation: str, expected: str | None) -> None:
    masked = mask(source)
    assert masked is not None
    assert unmask(masked, translation) == expected


def test_more_spans_than_stand_ins_cannot_be_masked() -> None:
    assert mask(" x ".join(["{a}"] * 700)) is not None
    assert mask(" x ".join(["{a}"] * 800)) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello {name}, welcome!", [("Hello", True), (" {name}, ", False), ("welcome", True), ("!", False)]),
        ("{a}: 5 %", [("{a}: 5 %", False)]),
        ("at 5 pm.", [("at", True), (" 5 ", False), ("pm", True), (".", False)]),
        ("", []),
    ],
)
def test_pieces(text: str, expected: list[tuple[str, bool]]) -> None:
    assert pieces(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{name}", False),
        ("3.5 % – 😀", False),
        ("https://x.org", False),
        ("Hi", True),
        ("你好 {x}", True),
        ("", False),
    ],
)
def test_has_words(text: str, expected: bool) -> None:
    assert has_words(text) is expected


def test_invented_spans_are_removed() -> None:
    assert bare_words("Willkommen %s😀.") == "Willkommen"
    assert without_protected("a {{{x}x}} b") == "a  b"


tokens = st.sampled_from([*HARD, *NUMBERS, "word", "Wörter", "%", "{", "}", ".", "a", "1", "(", "'s"])
texts = st.lists(st.tuples(tokens, st.sampled_from(["", " ", ", "]))).map(lambda pairs: "".join(map("".join, pairs)))


@given(texts | st.text())
def test_masking_and_unmasking_is_the_identity(text: str) -> None:
    masked = mask(text)
    if masked is not None:
        assert unmask(masked, masked.text) == text


@given(texts | st.text())
def test_pieces_join_to_the_text_and_hold_nothing_protected(text: str) -> None:
    parts = pieces(text)
    assert "".join(part for part, _ in parts) == text
    assert not any(part.strip() != part or not part for part, translatable in parts if translatable)
    assert sum(part.count("{{name}}") for part, translatable in parts if translatable) == 0


@given(texts | st.text())
def test_trimming_loses_nothing(text: str) -> None:
    assert "".join(trim(text)) == text


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "{",
        "%",
        "www.",
        "1.",
        "a@",
        "😀",
        "https://(",
        "{a,plural",
        "-",
        "%1",
        "a-",
        "x  ",
        "{%",
        "https://{",
    ],
)
def test_hostile_text_takes_no_longer_than_its_length(unit: str) -> None:
    def work(size: int) -> None:
        text = "x" + unit * (size // len(unit)) + "x"
        protected_spans.cache_clear()
        pieces(text)
        trim(text)

    assert slowdown(work, 25_000) < LINEAR


def test_what_ends_a_line_ends_every_span() -> None:
    assert hard_texts("{,plural\x1e} {{ a\u2028b }}") == []
    assert hard_texts("{n, plural, one {a}}") == ["{n, plural, one {a}}"]


def test_a_keycap_is_no_part_of_a_number() -> None:
    assert hard_texts("b1\u20e3 12\ufe0f\u20e3 v2") == ["1\u20e3", "2\ufe0f\u20e3"]
