"""The elements of a sentence: what stands between its tags, and beside those that hold nothing.

A tag that holds no text (a comment, <wbr>, an icon right beside a word) belongs to the word it stands at, and goes
where that word goes. Images and icons between words are none of these: `markup` has put them into the text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from recoversat.text.documents.block import VOID, slash_and_name, tags_in

_DEEPEST, _MOST = 30, 120  # elements in elements, tags in a sentence
_WORD = r"\w++(?:['’-]\w++)*+"
_NEXT_WORD = re.compile(rf"(\s*)({_WORD})")
_LAST_WORD = re.compile(rf"(?<!\w)(?<!\w['’-])({_WORD})(\s*)\Z")


@dataclass(frozen=True, eq=False)
class Element:
    """What stands between two tags: text and further elements. Those of a sentence stand between empty ones."""

    opening: str
    closing: str
    content: Sequence["str | Element"]

    @cached_property
    def text(self) -> str:
        """The text in it, without tags."""
        return "".join(part if isinstance(part, str) else part.text for part in self.content)

    @property
    def children(self) -> list["Element"]:
        """The elements that stand in it side by side."""
        return [part for part in self.content if isinstance(part, Element)]

    def descendants(self) -> Iterator["Element"]:
        for child in self.children:
            yield child
            yield from child.descendants()


@dataclass(frozen=True)
class _Loose:
    """Tags that hold no text."""

    source: str


_Content = list["str | Element | _Loose"]


def element_tree(runs: Sequence[str], marks: Sequence[str]) -> Element | None:
    """Nest the tags between runs of text; None where one has no partner, or holds nothing and stands at no word.

    >>> tree = element_tree(["My ", "very ", "old", " friend"], ["<a>", "<b>", "</b></a>"])
    >>> [element.text for element in tree.descendants()]
    ['very old', 'old']
    """
    if sum(mark.count("<") for mark in marks) > _MOST:  # a list of links: each is translated by itself
        return None
    opened: list[tuple[str, str, _Content]] = [("", "", [])]  # tag, name, content
    for run, mark in zip(runs, [*marks, ""], strict=True):
        opened[-1][2].extend([run] if run else [])
        tags = tags_in(mark)
        if "".join(tags) != mark:
            return None
        for tag in tags:
            slash, name = slash_and_name(tag)
            if not name or name in VOID:
                opened[-1][2].append(_Loose(tag))
            elif not slash and len(opened) <= _DEEPEST:
                opened.append((tag, name, []))
            elif not slash or opened[-1][1] != name:
                return None
            else:
                opening, _, content = opened.pop()
                closed = _closed(opening, content, tag)
                if not closed:
                    return None
                opened[-1][2].append(closed)
    settled = _settled(opened[0][2]) if len(opened) == 1 else None
    return Element("", "", settled) if settled else None


def _closed(opening: str, content: _Content, closing: str) -> Element | _Loose | None:
    """Make an element of what stood between two tags; without any text it is as loose as a tag that holds nothing."""
    sources = [part.source for part in content if isinstance(part, _Loose)]
    if len(sources) == len(content):
        return _Loose(opening + "".join(sources) + closing)
    settled = _settled(content)
    return Element(opening, closing, settled) if settled else None


def _settled(content: _Content) -> list[str | Element] | None:
    """Give loose tags to the words and elements beside them: the next one, unless they stand right behind one."""
    out: list[str | Element] = []
    waiting = ""
    for part in _out_of_words(content):
        if isinstance(part, _Loose):
            waiting += part.source
            continue
        if waiting and _ends_here(out):
            _give_to_last(out, waiting)
            waiting = ""
        if not waiting:
            out.append(part)
        elif isinstance(part, Element):
            out.append(Element(waiting + part.opening, part.closing, part.content))
            waiting = ""
        elif not part.strip():
            waiting += part
        elif word := _NEXT_WORD.match(part):
            spaced = not out or str(out[-1])[-1:].isspace()  # on both sides of the tags
            out += [word[1]] if word[1] and not spaced else []
            out.append(Element(waiting + (word[1] if spaced else ""), "", [word[2]]))
            out += [part[word.end() :]] if word.end() < len(part) else []
            waiting = ""
        elif _give_to_last(out, waiting):
            out.append(part)
            waiting = ""
        else:
            return None
    return out if not waiting or _give_to_last(out, waiting) else None


def _out_of_words(content: _Content) -> _Content:
    """Put loose tags that stand within a word, such as <wbr>, behind it."""
    out: _Content = []
    for part in content:
        at = len(out)
        while at and isinstance(out[at - 1], _Loose):
            at -= 1
        before = out[at - 1] if 0 < at < len(out) else None
        if isinstance(before, str) and isinstance(part, str) and re.search(r"\w\Z", before):
            tail = part[: len(part) - len(re.sub(r"\A\w+", "", part))]
            out[at - 1], part = before + tail, part[len(tail) :]
        out += [part] if part else []
    return out


def _ends_here(out: Sequence[str | Element]) -> bool:
    """Tell whether a word or an element has just ended, with no space behind it."""
    return bool(out) and (isinstance(out[-1], Element) or bool(re.search(r"\w\Z", out[-1])))


def _give_to_last(out: list[str | Element], tags: str) -> bool:
    """Put tags behind the last word or element; tell whether there is one."""
    last = out[-1] if out else ""
    if isinstance(last, Element):
        out[-1] = Element(last.opening, last.closing + tags, last.content)
        return True
    word = _LAST_WORD.search(last)
    if word:
        out[-1:] = [*([last[: word.start()]] if word.start() else []), Element("", word[2] + tags, [word[1]])]
    return bool(word)
