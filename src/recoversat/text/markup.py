"""HTML as blocks of running text with tags at offsets, so that tags stay by construction.

The lexer below is ours because it must give every character of the source back, tags in their own spelling:
`html.parser` does not tell how an end tag was written, and treats broken markup differently from one patch
release of Python to the next.
"""

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

_TOKEN = re.compile(
    r"""
      (?P<comment> <!--(?:-?>|.*?(?:--!?>|\Z)) )
    | (?P<other> <!\[CDATA\[.*?(?:\]\]>|\Z) | <[!?][^>]*(?:>|\Z) )
    | (?P<tag> <(?P<slash>/?)(?P<name>[A-Za-z][^\s/>]{0,100}+)
        (?P<attributes>(?: [^<>"'=]++ | =\s*+(?:"[^"]*+"|'[^']*+'|[^\s"'<>][^\s<>]*+)? | ["'] )*+) > )
    """,
    re.VERBOSE | re.DOTALL,
)
_ATTRIBUTE = re.compile(r"""([^\s=>"'/]++)(?:\s*+=\s*+("[^"]*+"|'[^']*+'|[^\s>]++))?""")
_ENTITY = re.compile(r"&(?:#[0-9]{1,64}+|#[xX][0-9a-fA-F]{1,64}+|[A-Za-z][A-Za-z0-9]{0,64}+);?|.", re.DOTALL)
_BREAKS = "\n\r\t\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # in HTML as good as a space
_FIRST_SLOT, _FIRST_PICTURE, _LAST_SLOT = 0xF0000, 0xF8000, 0xFFFFD

# Tags of a sentence; every other element, known or not, ends the running text.
# fmt: off
_INLINE = frozenset({
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font",
    "i", "img", "ins", "kbd", "label", "mark", "nobr", "q", "s", "samp", "small", "span", "strike", "strong",
    "sub", "sup", "time", "tt", "u", "var", "wbr",
})
_VOID = frozenset({
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track",
    "wbr",
})
_UNTRANSLATED = frozenset({
    "audio", "canvas", "code", "iframe", "kbd", "math", "object", "pre", "samp", "script", "style", "svg",
    "template", "textarea", "tt", "var", "video",
})
# fmt: on
_RAW_TEXT = frozenset({"iframe", "script", "style", "textarea"})  # a "<p>" in here is no tag


@dataclass(frozen=True)
class Block:
    """Running text with `tags` at offsets; `raw[i]` is how character i was written in the source.

    `slots` maps single characters of the text to the source of elements that stand there untranslated.
    Plain text is a block without tags, whose `raw` is the text itself.
    """

    text: str
    raw: Sequence[str]
    tags: Sequence[tuple[int, str]] = ()
    slots: Mapping[int, str] = field(default_factory=dict)
    markup: bool = False

    def source(self, start: int, end: int, tags: slice) -> str:
        """Give the source of the text from `start` to `end` with these of the tags."""
        out, position = [], start
        for offset, tag in self.tags[tags]:
            out += [*self.raw[position:offset], tag]
            position = offset
        return "".join(out) + "".join(self.raw[position:end])

    def written(self, text: str) -> str:
        """Write translated text as this block's format needs it."""
        return html.escape(text, quote=False).translate(self.slots) if self.markup else text

    def tags_of(self, start: int, end: int) -> slice:
        """Find the tags of a sentence: those strictly inside it, and at its ends those that make these pairs.

        >>> block = next(b for b in blocks_of_html("<i>My <b>end</b></i>") if isinstance(b, Block))
        >>> block.tags[block.tags_of(0, 6)]
        [(3, '<b>'), (6, '</b>')]
        """
        first = bisect_right(self.tags, start, key=itemgetter(0))
        last = bisect_left(self.tags, end, key=itemgetter(0))
        opened: list[str] = []
        unopened: list[str] = []
        for slash, name in (slash_and_name(tag) for _, tag in self.tags[first:last]):
            if slash and opened and opened[-1] == name:
                opened.pop()
            elif name and name not in _VOID:
                (unopened if slash else opened).append(name)
        while opened and self._tag_at(last, end) == ("/", opened[-1]):
            opened.pop()
            last += 1
        for name in unopened:
            if self._tag_at(first - 1, start) != ("", name):
                break
            first -= 1
        return slice(first, last)

    def without_pictures(self, start: int, end: int) -> tuple[int, int]:
        """Leave pictures at the ends of a sentence outside it: there they stay."""
        if not self.markup:
            return start, end
        while start < end and _is_beside(self.text[start]):
            start += 1
        while start < end and _is_beside(self.text[end - 1]):
            end -= 1
        return start, end

    def runs(self, start: int, end: int, tags: slice) -> tuple[list[str], list[str]]:
        """Cut the text of a sentence at its tags: n + 1 runs of text and n of tags.

        >>> block = next(b for b in blocks_of_html("Hi <b>big</b> one") if isinstance(b, Block))
        >>> block.runs(0, 10, slice(0, 2))
        (['Hi ', 'big', ' one'], ['<b>', '</b>'])
        """
        texts: list[str] = []
        marks: list[str] = []
        position = start
        for offset, tag in self.tags[tags]:
            if marks and offset == position:
                marks[-1] += tag
                continue
            texts.append(self._line(position, offset))
            marks.append(tag)
            position = offset
        return [*texts, self._line(position, end)], marks

    def _tag_at(self, index: int, offset: int) -> tuple[str, str] | None:
        in_place = 0 <= index < len(self.tags) and self.tags[index][0] == offset
        return slash_and_name(self.tags[index][1]) if in_place else None

    def _line(self, start: int, end: int) -> str:
        return re.sub(" +", " ", self.text[start:end]) if self.markup else self.text[start:end]


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
                if not character or _FIRST_SLOT <= ord(character) <= _LAST_SLOT:
                    tags.append((len(text), written))
                else:
                    text.append(" " if character in _BREAKS else character)
                    raw.append(written)
        elif kind.startswith("kept") and len(slots) < _FIRST_PICTURE - _FIRST_SLOT:
            slot = len(slots) + (_FIRST_PICTURE if kind == "kept picture" else _FIRST_SLOT)
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


def places_of(content: str, translation: str) -> list[tuple[int, int]]:
    """Find where something stands in a translation, as whole words.

    >>> places_of(" große ", "Hallo, große Welt."), places_of("große", "große, größte, große Welt")
    ([(7, 12)], [(0, 5), (16, 21)])
    """
    content = content.strip()
    found = re.finditer(rf"(?<!\w){re.escape(content)}(?!\w)", translation) if content else []
    return [match.span() for match in found]


def kept_elements(text: str) -> list[str]:
    """List the characters of a block's text that stand for untranslated elements."""
    return [character for character in text if _FIRST_SLOT <= ord(character) <= _LAST_SLOT]


def tags_in(source: str) -> list[str]:
    """List the tags and comments of a piece of HTML."""
    return [match[0] for match in _TOKEN.finditer(source)]


def is_void(name: str) -> bool:
    """Tell whether elements of this name have no content and no end tag."""
    return name in _VOID


def _is_beside(character: str) -> bool:
    """Tell a picture, or the space beside it, from words and other kept elements."""
    return character == " " or _FIRST_PICTURE <= ord(character) <= _LAST_SLOT


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
    while match := _TOKEN.search(source, position):
        if match.start() > position:
            yield "text", source[position : match.start()]
        position = match.end()
        name = (match["name"] or "").lower()
        inline = bool(match["comment"]) or name in _INLINE
        if _opens_untranslated(match, name):
            position = _element_end(source, position, name)
            yield "kept" if inline else "block", source[match.start() : position]
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
    if not name or match["slash"] or name in _VOID or match["attributes"].endswith("/"):
        return False
    if name in _UNTRANSLATED:
        return True
    attributes = {key.lower(): value.strip("\"'") for key, value in _ATTRIBUTE.findall(match["attributes"])}
    return attributes.get("translate", "").lower() == "no" or "notranslate" in attributes.get("class", "").split()


def _picture_end(match: re.Match[str], name: str, source: str) -> int | None:
    """Find the end of an image, or of an empty element, which is one more often than not (`<i class="icon"></i>`)."""
    if match["slash"] or name in _VOID:
        return match.end() if name == "img" else None
    closing = _TOKEN.match(source, match.end())
    empty = name and closing and closing["slash"] and (closing["name"] or "").lower() == name
    return closing.end() if closing and empty else None


def _element_end(source: str, position: int, name: str) -> int:
    """Find the end of the element `name` whose content begins at `position`; an open one runs to the end."""
    if name in _RAW_TEXT:
        closing = re.compile(rf"</{name}(?=[\s/>])[^>]*(?:>|\Z)", re.IGNORECASE).search(source, position)
        return closing.end() if closing else len(source)
    depth = 1
    for match in _TOKEN.finditer(source, position):
        if (match["name"] or "").lower() == name and not match["attributes"].endswith("/"):
            depth += -1 if match["slash"] else 1
            if depth == 0:
                return match.end()
    return len(source)


def slash_and_name(tag: str) -> tuple[str, str]:
    """Tell "/" from "" and the name of the element; both are empty for a comment."""
    match = _TOKEN.match(tag)
    return (match["slash"] or "", (match["name"] or "").lower()) if match else ("", "")
