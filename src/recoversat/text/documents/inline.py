"""Blocks of formats whose tags are not HTML's: numbered tags stand for what is in them.

`<x3>` and `</x3>` are around text, `<!--4-->` stands alone. What they stand for is up to the format.
"""

import html
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Generic, Literal, NamedTuple, TypeVar

from recoversat.text.documents.block import FIRST_PICTURE, FIRST_SLOT, LAST_SLOT, VOID, Block, slash_and_name

T = TypeVar("T")
_DEEPEST = 30  # tags in each other that are looked at
_MARK = re.compile(r"<(/?)x(\d+)>|<!--(\d+)-->")


class Piece(NamedTuple, Generic[T]):
    """Text, or what a tag stands for."""

    kind: Literal["text", "open", "close", "alone"]
    text: str = ""
    thing: T | None = None


class Inline(Generic[T]):
    """A block in the making, and what its tags stand for."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._raw: list[str] = []
        self._tags: list[tuple[int, str]] = []
        self._slots: dict[int, str] = {}
        self._things: list[T | str] = []
        self._opened: list[int] = []

    @cached_property
    def block(self) -> Block:
        """All that has been said."""
        return Block("".join(self._text), self._raw, self._moved_tags(), self._slots, markup=True, keeps_spaces=True)

    @property
    def source(self) -> str:
        """The block as it is when nothing is translated."""
        return self.block.source(0, len(self.block.text), slice(0, len(self.block.tags)))

    def say(self, text: str) -> None:
        """Add text to be translated."""
        for character in text:
            if FIRST_SLOT <= ord(character) <= LAST_SLOT:  # ours, whoever else may use it
                self.add(character)
            else:
                self._text.append(character)
                self._raw.append(html.escape(character, quote=False))

    def open(self, thing: T) -> None:
        self._opened.append(self._number(thing))
        self._tags.append((len(self._text), f"<x{self._opened[-1]}>"))

    def close(self) -> None:
        """End the element begun last."""
        self._tags.append((len(self._text), f"</x{self._opened.pop()}>"))

    def add(self, thing: T | str) -> None:
        """Add what belongs to the word it stands at, such as a footnote; or a character that stays as it is."""
        self._tags.append((len(self._text), f"<!--{self._number(thing)}-->"))

    def keep(self, thing: T) -> None:
        """Add what stands in the text as a word does, but is not translated, such as code."""
        if len(self._slots) >= FIRST_PICTURE - FIRST_SLOT:
            self.add(thing)
            return
        slot, mark = FIRST_SLOT + len(self._slots), f"<!--{self._number(thing)}-->"
        self._slots[slot] = mark
        self._text.append(chr(slot))
        self._raw.append(mark)

    def part(self, thing: T) -> None:
        """Add what ends a sentence, such as a line break or a tab."""
        self._text.append("\n")
        self._raw.append(f"<!--{self._number(thing)}-->")

    def read(self, translation: str) -> Iterator[Piece[T]]:
        """Take a translation of the block apart."""
        position = 0
        for match in _MARK.finditer(translation):
            if match.start() > position:
                yield Piece("text", html.unescape(translation[position : match.start()]))
            position = match.end()
            thing = self._things[int(match[2] or match[3])]
            if isinstance(thing, str):
                yield Piece("text", thing)
            else:
                yield Piece("alone" if match[3] else "close" if match[1] else "open", thing=thing)
        if position < len(translation):
            yield Piece("text", html.unescape(translation[position:]))

    def _moved_tags(self) -> list[tuple[int, str]]:
        """Put what stands alone between a space and no word, such as a bookmark before a quote, behind the word before.

        There it needs no space of its own.
        """
        text, tags = "".join(self._text), list[tuple[int, str]]()
        seen = word_end = 0
        for offset, tag in self._tags:
            word_end = seen + len(text[seen:offset].rstrip(" ")) if text[seen:offset].strip(" ") else word_end
            seen = offset
            between = text[offset - 1 : offset] == " " and not text[offset : offset + 1].isalnum()
            behind = text[word_end - 1 : word_end].isalnum() and (not tags or tags[-1][0] <= word_end)
            tags.append((word_end if tag.startswith("<!") and between and behind else offset, tag))
        return tags

    def _number(self, thing: T | str) -> int:
        self._things.append(thing)
        return len(self._things) - 1


def pairs_of_tags(tags: Sequence[str]) -> dict[int, int]:
    """Find tags of HTML that are around something: the number of each opening one, and that of its end.

    "(" and ")" are where an element of the format itself begins and ends, which no pair may cross.

    >>> pairs_of_tags(["<b>", "<br>", "</b>", "<i>", "(", "</i>", ")", "</u>"])
    {0: 2}
    """
    pairs: dict[int, int] = {}
    opened: list[tuple[int, str]] = []  # numbers and names
    for n, tag in enumerate(tags):
        slash, name = slash_and_name(tag)
        if tag == ")":
            while opened.pop()[1] != "(":
                pass
        elif slash:
            last = range(len(opened) - 1, max(len(opened) - _DEEPEST, 0) - 1, -1)
            at = next((i for i in last if opened[i][1] in (name, "(")), -1)
            if at >= 0 and opened[at][1] == name:
                pairs[opened[at][0]] = n
                del opened[at:]
        elif tag == "(" or (name and name not in VOID and not tag.endswith("/>")):
            opened.append((n, name or tag))
    return pairs
