"""HTML as blocks of running text with tags at offsets, so that tags stay by construction.

The lexer below is ours because it must give every character of the source back, tags in their own spelling:
`html.parser` does not tell how an end tag was written, and treats broken markup differently from one patch
release of Python to the next.
"""

import html
import re
from collections.abc import Iterator, Sequence

from recoversat.text.documents.attributes import in_language, is_untranslated, rewritten, texts_of, with_texts
from recoversat.text.documents.block import FIRST_PICTURE, FIRST_SLOT, LAST_SLOT, TOKEN, VOID, Block, Document

_ENTITY = re.compile(r"&(?:#[0-9]{1,64}+|#[xX][0-9a-fA-F]{1,64}+|[A-Za-z][A-Za-z0-9]{0,64}+);?|.", re.DOTALL)
_BREAKS = "\n\r\t\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # in HTML as good as a space

# Tags of a sentence; every other element, known or not, ends the running text.
# fmt: off
INLINE = frozenset({
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font",
    "i", "img", "ins", "kbd", "label", "mark", "nobr", "q", "s", "samp", "small", "span", "strike", "strong",
    "sub", "sup", "time", "tt", "u", "var", "wbr",
})
UNTRANSLATED = frozenset({
    "audio", "canvas", "code", "iframe", "kbd", "math", "object", "pre", "samp", "script", "style", "svg",
    "template", "textarea", "tt", "var", "video",
})
# fmt: on
_RAW_TEXT = frozenset({"iframe", "script", "style", "textarea"})  # a "<p>" in here is no tag


def parse(source: str) -> Document[str]:
    """Find the running text of a page; all else is copied."""
    parts = list(blocks_of_html(source))
    read = texts_of(content for kind, content in _lex(source) if kind != "text")

    def put_back(translations: Sequence[str]) -> str:
        left = iter(translations)
        page = "".join(part if isinstance(part, str) else next(left) for part in parts)
        texts = dict(zip(read, left, strict=True))
        return rewritten(_lex(page), lambda tag: with_texts(tag, texts)) if texts else page

    def in_other_language(page: str, source: str, target: str) -> str:
        return rewritten(_lex(page), lambda tag: in_language(tag, source, target)) if "lang" in page.lower() else page

    blocks = [part for part in parts if isinstance(part, Block)]
    return Document([*blocks, *(Block(text, text) for text in read)], put_back, in_other_language)


def blocks_of_html(source: str) -> Iterator[str | Block]:
    """Part HTML into blocks of running text and source to be copied.

    >>> [b if isinstance(b, str) else b.text for b in blocks_of_html("<p>A &amp; <i>B</i></p><pre>x</pre>")]
    ['<p>', 'A & B', '</p>', '<pre>x</pre>']
    """
    text: list[str] = []
    raw: list[str] = []
    tags: list[tuple[int, str]] = []
    slots: dict[int, str] = {}
    tokens = [*_lex(source), ("block", "")]
    following = _following_characters(tokens)
    for at, (kind, content) in enumerate(tokens):
        if kind == "picture":  # between spaces it is a word; at a word, or at an end, as much as a tag
            alone = bool(text) and text[-1].isspace() and following[at].isspace()
            kind = "kept picture" if alone else "tag"
        if kind == "text":
            for character, written in _characters(content):
                # What decodes to nothing, or to a character of our private plane, is kept as a tag is.
                if not character or FIRST_SLOT <= ord(character) <= LAST_SLOT:
                    tags.append((len(text), written))
                else:
                    text.append(" " if character in _BREAKS else character)
                    raw.append(written)
        elif kind.startswith("kept") and len(slots) < FIRST_PICTURE - FIRST_SLOT:
            slot = len(slots) + (FIRST_PICTURE if kind == "kept picture" else FIRST_SLOT)
            text.append(chr(slot))
            raw.append(content)
            slots[slot] = content
        elif kind != "block":
            tags.append((len(text), content))
        else:
            if text or tags:
                yield Block("".join(text), raw, tags, slots, markup=True)
                text, raw, tags, slots = [], [], [], {}
            if content:
                yield content


def _following_characters(tokens: Sequence[tuple[str, str]]) -> list[str]:
    """Give for each token the first character of text behind it, in its block; "" where there is none."""
    following, character = [""] * len(tokens), ""
    for at in range(len(tokens) - 1, -1, -1):
        following[at] = character
        kind, content = tokens[at]
        if kind == "block":
            character = ""
        elif kind in ("text", "kept"):
            character = next((decoded for decoded, _ in _characters(content[:32]) if decoded), character)
    return following


def _lex(source: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, source): "text", a "tag", a "picture" or a "kept" element within a text, a "block" between texts."""
    position = 0
    while match := TOKEN.search(source, position):
        if match.start() > position:
            yield "text", source[position : match.start()]
        position = match.end()
        name = (match["name"] or "").lower()
        # What has no end takes in all that follows: nothing may be put behind it.
        inline = name in INLINE or (match["comment"] or "").endswith(("-->", "--!>"))
        if _opens_untranslated(match, name):
            end = _element_end(source, position, name)
            position = end or len(source)
            yield "kept" if inline and end else "block", source[match.start() : position]
        elif inline and (end := _picture_end(match, name, source)):
            position = end
            yield "picture", source[match.start() : position]
        else:
            yield "tag" if inline else "block", match[0]
    if position < len(source):
        yield "text", source[position:]


def _characters(source: str) -> Iterator[tuple[str, str]]:
    """Yield each character of a text with the way it is written.

    >>> list(_characters("a&lt;"))
    [('a', 'a'), ('<', '&lt;')]
    """
    for written in _ENTITY.findall(source):
        decoded = html.unescape(written)
        if decoded == written:
            yield from zip(decoded, written, strict=True)
        else:
            yield decoded[:1], written
            yield from ((character, "") for character in decoded[1:])


def _opens_untranslated(match: re.Match[str], name: str) -> bool:
    if not name or match["slash"] or name in VOID or match["attributes"].endswith("/"):
        return False
    return name in UNTRANSLATED or is_untranslated(match["attributes"])


def _picture_end(match: re.Match[str], name: str, source: str) -> int | None:
    """Find the end of an image, or of an empty element, which is one more often than not (`<i class="icon"></i>`)."""
    if match["slash"] or name in VOID:
        return match.end() if name == "img" else None
    closing = TOKEN.match(source, match.end())
    empty = name and closing and closing["slash"] and (closing["name"] or "").lower() == name
    return closing.end() if closing and empty else None


def _element_end(source: str, position: int, name: str) -> int | None:
    """Find the end of the element `name` whose content begins at `position`; None where it has none."""
    if name in _RAW_TEXT:
        closing = re.compile(rf"</{name}(?=[\s/>])[^>]*(?:>|\Z)", re.IGNORECASE).search(source, position)
        return closing.end() if closing else None
    depth = 1
    for match in TOKEN.finditer(source, position):
        if (match["name"] or "").lower() == name and not match["attributes"].endswith("/"):
            depth += -1 if match["slash"] else 1
            if depth == 0:
                return match.end()
    return None
