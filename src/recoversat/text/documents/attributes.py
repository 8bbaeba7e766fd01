"""Attributes of HTML that people read or hear: found in a page, and put back into it once it is translated.

Tags come through a translation as they are, so the tags of the translated page say where each text belongs.
"""

import html
import re
from collections.abc import Callable, Iterator, Mapping

from recoversat.text.documents.block import TOKEN
from recoversat.text.placeholders import has_words

ATTRIBUTE = re.compile(r"""([^\s=>"'/]++)(?:\s*+=\s*+("[^"]*+"|'[^']*+'|[^\s>]++))?""")
_READ = frozenset({"alt", "title", "placeholder", "aria-label", "aria-description"})
_META = frozenset({"description", "og:title", "og:description", "twitter:title", "twitter:description"})
_BUTTONS = frozenset({"submit", "reset", "button"})


def texts_of(tags: Iterator[str]) -> list[str]:
    """List the different texts that stand in the attributes of tags.

    >>> texts_of(iter(['<img alt="A car">', '<meta name="description" content="Old cars">', '<a href="x" title="5">']))
    ['A car', 'Old cars']
    """
    return list(dict.fromkeys(_text(value) for tag in tags for _, value in _read_attributes(tag)))


def with_texts(tag: str, texts: Mapping[str, str]) -> str:
    """Write the texts of a tag's attributes anew; those that stay the same stay as they were written.

    >>> with_texts("<img src=a alt='A car'>", {"A car": "Ein Auto, 'alt'"})
    "<img src=a alt='Ein Auto, &#x27;alt&#x27;'>"
    """
    out, position = "", 0
    for start, value in _read_attributes(tag):
        text = texts.get(_text(value), _text(value))
        if text != _text(value):
            quote = value[0] if value[0] in "\"'" else '"'
            out += tag[position:start] + quote + html.escape(text) + quote
            position = start + len(value)
    return out + tag[position:]


def in_language(tag: str, source: str, target: str) -> str:
    """Say in a tag that its content is now in another language, if it was in that of the source.

    >>> in_language('<html lang="en-US">', "en", "de"), in_language("<i lang=fr>", "en", "de")
    ('<html lang="de">', '<i lang=fr>')
    """

    def renamed(match: re.Match[str]) -> str:
        name, value = match[1], match[2] or ""
        same = re.split("[-_]", value.strip("\"'").lower())[0] == re.split("[-_]", source.lower())[0]
        is_named = name.lower() in ("lang", "xml:lang") and same
        return f'{match[0][: len(match[0]) - len(value)]}"{target}"' if is_named else match[0]

    opening = TOKEN.match(tag)
    if not opening or not opening["name"] or opening["slash"] or "lang" not in tag.lower():
        return tag
    start, end = opening.span("attributes")
    return tag[:start] + ATTRIBUTE.sub(renamed, tag[start:end]) + tag[end:]


def rewritten(page: Iterator[tuple[str, str]], change: Callable[[str], str]) -> str:
    """Write a page of (kind, source) anew, its tags changed."""
    return "".join(content if kind == "text" else change(content) for kind, content in page)


def is_untranslated(attributes: str) -> bool:
    """Tell from its attributes whether an element is to be left alone."""
    if "translate" not in attributes.lower():
        return False
    values = {key.lower(): value.strip("\"'") for key, value in ATTRIBUTE.findall(attributes)}
    return values.get("translate", "").lower() == "no" or "notranslate" in values.get("class", "").split()


def _read_attributes(tag: str) -> Iterator[tuple[int, str]]:
    """Yield where values stand that are read, and the values with their quotes."""
    opening = TOKEN.match(tag)
    if not opening or not opening["name"] or opening["slash"] or "=" not in opening["attributes"]:
        return
    if is_untranslated(opening["attributes"]):
        return
    found = list(ATTRIBUTE.finditer(tag, *opening.span("attributes")))
    values = {match[1].lower(): (match[2] or "").strip("\"'").lower() for match in found}
    name, read = opening["name"].lower(), set(_READ)
    if name == "meta" and _META.intersection((values.get("name"), values.get("property"))):
        read.add("content")
    if name == "input" and values.get("type") in _BUTTONS:
        read.add("value")
    for match in found:
        if match[1].lower() in read and match[2] and has_words(_text(match[2])):
            yield match.start(2), match[2]


def _text(value: str) -> str:
    return html.unescape(value[1:-1] if value[0] in "\"'" else value)
