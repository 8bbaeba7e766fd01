"""Running text with tags at offsets, whatever the format it comes from, so that tags stay by construction.

Tags are spelt as in HTML. Formats that write them otherwise put tags of their own making into a block.
"""

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import AnyStr, Generic

TOKEN = re.compile(
    r"""
      (?P<comment> <!--(?:-?>|.*?(?:--!?>|\Z)) )
    | (?P<other> <!\[CDATA\[.*?(?:\]\]>|\Z) | <[!?][^>]*(?:>|\Z) )
    | (?P<tag> <(?P<slash>/?)(?P<name>[A-Za-z][^\s/>]{0,100}+)
        (?P<attributes>(?: [^<>"'=]++ | =\s*+(?:"[^"]*+"|'[^']*+'|[^\s"'<>][^\s<>]*+)? | ["'] )*+) > )
    """,
    re.VERBOSE | re.DOTALL,
)
FIRST_SLOT, FIRST_PICTURE, LAST_SLOT = 0xF0000, 0xF8000, 0xFFFFD
# fmt: off
VOID = frozenset({  # elements that have no content and no end tag
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
})
# fmt: on


@dataclass(frozen=True)
class Document(Generic[AnyStr]):
    """What is to be translated of a document, and how to write it again with one translation for each block.

    `in_language(text, source, target)` has a text that was put back say which language it is in now.
    """

    blocks: Sequence["Block"]
    put_back: Callable[[Sequence[str]], AnyStr]
    in_language: Callable[[AnyStr, str, str], AnyStr] = lambda text, source, target: text


@dataclass(frozen=True)
class Block:
    """Running text with `tags` at offsets; `raw[i]` is how character i was written in the source.

    `slots` maps single characters of the text to the source of elements that stand there untranslated.
    Plain text is a block without tags, whose `raw` is the text itself. In `markup` translated text is escaped, and
    several spaces are as good as one unless it `keeps_spaces`.
    """

    text: str
    raw: Sequence[str]
    tags: Sequence[tuple[int, str]] = ()
    slots: Mapping[int, str] = field(default_factory=dict)
    markup: bool = False
    keeps_spaces: bool = False

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

        >>> from recoversat.text.documents.html import parse
        >>> block = parse("<i>My <b>end</b></i>").blocks[0]
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
            elif name and name not in VOID:
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

        >>> from recoversat.text.documents.html import parse
        >>> block = parse("Hi <b>big</b> one").blocks[0]
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
        text = self.text[start:end]
        return re.sub(" +", " ", text) if self.markup and not self.keeps_spaces else text


def tags_in(source: str) -> list[str]:
    """List the tags and comments of a piece of HTML."""
    return [match[0] for match in TOKEN.finditer(source)]


def slash_and_name(tag: str) -> tuple[str, str]:
    """Tell "/" from "" and the name of the element; both are empty for a comment."""
    match = TOKEN.match(tag)
    return (match["slash"] or "", (match["name"] or "").lower()) if match else ("", "")


def places_of(content: str, translation: str) -> list[tuple[int, int]]:
    """Find where something stands in a translation, as whole words.

    >>> places_of(" große ", "Hallo, große Welt."), places_of("große", "große, größte, große Welt")
    ([(7, 12)], [(0, 5), (15, 20)])
    """
    content = content.strip()
    found = re.finditer(rf"(?<!\w){re.escape(content)}(?!\w)", translation) if content else []
    return [match.span() for match in found]


def kept_elements(text: str) -> list[str]:
    """List the characters of a block's text that stand for untranslated elements."""
    return [character for character in text if FIRST_SLOT <= ord(character) <= LAST_SLOT]


def _is_beside(character: str) -> bool:
    """Tell a picture, or the space beside it, from words and other kept elements."""
    return character == " " or FIRST_PICTURE <= ord(character) <= LAST_SLOT
