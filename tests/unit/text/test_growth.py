"""Time grows with the length of a text, never with its square: one request must not keep a server busy for minutes."""

import textwrap
import time
from collections.abc import Callable

import pytest

from recoversat.inference.repairs.cut_loops import without_loops
from recoversat.inference.repairs.join_overlaps import says_twice
from recoversat.inference.repairs.keep_spacing import columns, spaced_alike
from recoversat.inference.repairs.lower_capitals import is_all_caps, is_all_small, known_case, to_sentence_case
from recoversat.inference.repairs.one_quote_style import requoted
from recoversat.inference.repairs.split_sentences import sentences_of
from recoversat.text import numbers, parts, placeholders, sentences, wrapping
from recoversat.text.documents import attributes, block, elements, html
from recoversat.text.documents.translating import translate_documents
from recoversat.text.tokenizer import BpeTokenizer
from recoversat.vocab import SPECIAL_PIECES
from tests.growth import LINEAR, slowdown
from tests.nasty import REPEATED, stretched

SHORTEST = 1500  # characters; then 2, 4 and 8 times as many
NOISE = 0.008  # seconds: what takes less says nothing about growth
MOST = 3.0  # times as long for twice the length; a square would be 4


def shout(texts: list[str]) -> list[str]:
    return [text.upper() for text in texts]


def fits(part: str) -> bool:
    return len(part) <= 100


def tree_of(text: str) -> None:
    for part in html.blocks_of_html(text):
        if isinstance(part, block.Block):
            runs, marks = part.runs(0, len(part.text), part.tags_of(0, len(part.text)))
            elements.element_tree(runs, marks)


def unmasked(text: str) -> None:
    if masked := placeholders.mask(text):
        placeholders.unmask(masked, masked.text)


def rewrapped(text: str) -> None:
    """With spaces as line breaks, so that most of what is nasty is a paragraph too."""
    for lines in (text, text.replace(" ", "\n"), textwrap.fill(text, 60, break_long_words=False)):
        for part in wrapping.paragraphs(lines):
            if isinstance(part, wrapping.Wrapped):
                part.wrapped(part.text.upper())


FUNCTIONS: dict[str, Callable[[str], object]] = {
    "changed_numbers": lambda text: numbers.changed_numbers(text, text + "1"),
    "columns": columns,
    "has_protected": placeholders.has_protected,
    "in_24_hours": numbers.in_24_hours,
    "uniform_times": numbers.uniform_times,
    "in_language": lambda text: attributes.in_language(f"<p {text}>", "en", "de"),
    "invents_numbers": lambda text: numbers.invents_numbers(text, "1"),
    "keeps_hard": lambda text: placeholders.keeps_hard(text, text),
    "localized": lambda text: [numbers.localized(text, text, pair) for pair in (("en", "de"), ("de", "en"))],
    "lost_codes": lambda text: numbers.lost_codes(text, text),
    "paragraphs": rewrapped,
    "requoted": lambda text: requoted("", text, "„“"),
    "sentences_of": lambda text: sentences_of(text, "de"),
    "spaced_alike": lambda text: spaced_alike(text.replace(" ", "  "), text),
    "texts_of": lambda text: attributes.with_texts(
        f"<p title='{text}'>", dict.fromkeys(attributes.texts_of(iter([f"<p title='{text}'>", f"<p {text}>"])), "x")
    ),
    "bare_words": placeholders.bare_words,
    "blocks_of_html": lambda text: list(html.blocks_of_html(text)),
    "to_sentence_case": to_sentence_case,
    "element_tree": tree_of,
    "hard_texts": placeholders.hard_texts,
    "has_words": placeholders.has_words,
    "is_all_caps": is_all_caps,
    "is_all_small": is_all_small,
    "kept_elements": block.kept_elements,
    "known_case": lambda text: known_case(text, BpeTokenizer([*SPECIAL_PIECES, "a"])),
    "parts_of": lambda text: parts.parts_of(text, "en", fits),
    "pieces": placeholders.pieces,
    "places_of": lambda text: block.places_of("a", text),
    "protected_spans": placeholders.protected_spans,
    "says_twice": says_twice,
    "sentence_spans": lambda text: sentences.sentence_spans(text, "de"),
    "slash_and_name": block.slash_and_name,
    "split_to_fit": lambda text: sentences.split_to_fit(text, fits),
    "tags_in": block.tags_in,
    "subtitles": lambda text: translate_documents(
        [f"00:01,0 --> 00:02,0\n{text}\n00:03,0 --> 00:04,0\n" + text.replace(" ", "\n")],
        lambda texts: [f"{text} {text}" for text in texts],
        language="en",
        format="srt",
    ),
    "translate_documents as md": lambda text: translate_documents([text], shout, language="en", format="md"),
    "translate_documents as vtt": lambda text: translate_documents(
        [f"WEBVTT\n\n00:01.0 --> 00:02.0\n{text}"], shout, language="en", format="vtt"
    ),
    "translate_documents as html": lambda text: translate_documents(
        [text], shout, language="en", format="html", fits=fits
    ),
    "translate_documents as text": lambda text: translate_documents([text], shout, language="en", fits=fits),
    "trim": placeholders.trim,
    "unmask": unmasked,
    "without_loops": lambda text: without_loops(list(text.encode()), []),
    "without_protected": placeholders.without_protected,
    "wrong_numbers": lambda text: numbers.wrong_numbers(text, text),
}


def seconds(function: Callable[[str], object], text: str) -> float:
    placeholders.protected_spans.cache_clear()
    placeholders._tokens.cache_clear()
    start = time.thread_time()  # not what others on this machine take
    function(text)
    return time.thread_time() - start


def growth(function: Callable[[str], object], nasty: tuple[str, str, str]) -> float:
    """Return how many times longer twice the length takes, at most; 1 where all of it is too fast to tell."""
    before, worst = NOISE, 1.0
    for times in (1, 2, 4, 8):
        text = stretched(*nasty, SHORTEST * times)
        took = seconds(function, text)
        if took > MOST * before:  # once more before anybody is blamed
            took = min(took, seconds(function, text), seconds(function, text))
        worst = max(worst, took / before) if times > 1 else worst
        if worst > MOST or took * (8 / times) ** 2 < MOST * NOISE:
            break  # longer ones would take minutes; or not even a square would be seen
        before = max(took, NOISE)
    return worst


@pytest.mark.parametrize("name", FUNCTIONS)
def test_twice_the_length_takes_at_most_three_times_as_long(name: str) -> None:
    function = FUNCTIONS[name]
    suspects = [nasty for nasty in REPEATED if growth(function, nasty) > MOST]
    guilty = [nasty for nasty in suspects if growth(function, nasty) > MOST and growth(function, nasty) > MOST]
    assert not guilty


def test_the_measure_finds_a_square() -> None:
    def square(text: str) -> None:
        for _ in text:
            text.replace("a", "b")

    assert growth(square, ("", "a", "")) > MOST


def test_braces_in_braces_are_unpacked_in_bounded_time() -> None:
    def unpack(depth: int) -> None:
        placeholders.protected_spans.cache_clear()
        text = placeholders.without_protected("a " + depth * "{" + "b" + depth * "}")
        assert not placeholders.hard_texts(text)
        assert text.startswith("a ")

    assert slowdown(unpack, 1250) < LINEAR


def test_a_number_of_five_thousand_digits_is_no_entity() -> None:
    text = f"&#{'1' * 5000}; is no character"
    assert translate_documents([text], shout, language="en", format="html")[0].text.endswith("IS NO CHARACTER")


def test_an_odd_tag_name_is_a_tag_as_in_a_browser() -> None:
    assert block.tags_in("x <a<> y <b<i>") == ["<a<>", "<b<i>"]
