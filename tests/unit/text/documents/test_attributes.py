"""Attributes that people read, and the language that a page says it is in."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoversat.text.documents.translating import translate_documents


def shout(texts: list[str]) -> list[str]:
    return [text.upper() for text in texts]


def translated(page: str, target: str | None = None, translate=shout) -> str:
    return translate_documents([page], translate, language="en", target=target, format="html")[0].text


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<img src="a" alt="A red car">', '<img src="a" alt="A RED CAR">'),
        ("<p>See <img alt='my car' src=a> now.</p>", "<p>SEE <img alt='MY CAR' src=a> NOW.</p>"),
        ('<a href="x" title="One. Two.">go</a>', '<a href="x" title="ONE. TWO.">GO</a>'),
        ("<input placeholder=Name type=text>", '<input placeholder="NAME" type=text>'),
        (
            '<textarea placeholder="Your text">a <b> b</textarea>',
            '<textarea placeholder="YOUR TEXT">a <b> b</textarea>',
        ),
        ('<button aria-label="Close &amp; go">x</button>', '<button aria-label="CLOSE &amp; GO">X</button>'),
        ('<meta name="description" content="Old cars">', '<meta name="description" content="OLD CARS">'),
        ("<meta property='og:title' content='Old cars'>", "<meta property='og:title' content='OLD CARS'>"),
        ('<meta name="viewport" content="width=device">', '<meta name="viewport" content="width=device">'),
        ('<input type="submit" value="Send">', '<input type="submit" value="SEND">'),
        ('<input type="text" value="Send">', '<input type="text" value="Send">'),
        ('<img alt="12" title="{name}">', '<img alt="12" title="{name}">'),
        ('<p translate="no"><img alt="car"></p>', '<p translate="no"><img alt="car"></p>'),
        ('<img class="notranslate" alt="car">', '<img class="notranslate" alt="car">'),
        ("<script>\"<img alt='car'>\"</script>", "<script>\"<img alt='car'>\"</script>"),
        ('<!-- <img alt="car"> -->a', '<!-- <img alt="car"> -->A'),
        ('<img alt="{name} is here">', '<img alt="{name} IS HERE">'),
    ],
)
def test_what_is_read_is_translated(page: str, expected: str) -> None:
    assert translated(page) == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<html lang=en><p>a", '<html lang="de"><p>A'),
        ("<html dir=ltr LANG='en-GB'>", '<html dir=ltr LANG="de">'),
        ('<html lang="en" xml:lang="en">', '<html lang="de" xml:lang="de">'),
        ('<p lang="fr">a</p>', '<p lang="fr">A</p>'),
        ('<a hreflang="en" data-lang="en">a</a>', '<a hreflang="en" data-lang="en">A</a>'),
        ("<p>lang=en</p>", "<p>LANG=EN</p>"),
    ],
)
def test_a_page_says_which_language_it_is_in(page: str, expected: str) -> None:
    assert translated(page, "de") == expected
    assert 'lang="de"' not in translated(page)


values = st.text(alphabet="ab <>&'\"=/{}1.\n", max_size=12)


@given(value=values.filter(lambda value: '"' not in value), answer=values)
def test_no_translation_breaks_a_tag(value: str, answer: str) -> None:
    page = f'<p>x <img alt="{value}" src="s"> y</p>'
    result = translated(page, translate=lambda texts: [answer for _ in texts])
    assert len(re.findall(r'<img alt="[^"]*" src="s">', result)) == 1
    same = translated(page, translate=list)
    assert same == page
