"""Subtitles (.srt): numbers, times and tags stay; the lines of a subtitle are translated as one text and broken again.

A line is broken where the source was, measured in characters: a translation that changes nothing is broken in the same
places. A longer one gets more lines rather than longer ones.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recoversat.errors import UserError
from recoversat.text.documents.block import Block, Document
from recoversat.text.documents.breaking import LINE, cut_at, cut_like, spaces_of

_TIME = r"(?:\d+:)?\d+:\d+[,.]\d+"
_TIMES = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}.*")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|\{\\[^{}]*\}|<\d+:[\d:.]+>")  # <i>, <font color="red">, {\an8}, <00:01.000>
_SPEAKER = re.compile(rf"[ \t]*(?:(?:{_TAG.pattern}|[ \t])*[-–—♪][ \t]*)?")
_WIDEST = 42  # characters of a line, as broadcasters have it


def parse(source: str) -> Document[str]:
    """Find what is said; all else is copied."""
    if source.strip() and not any(map(_TIMES.match, LINE.findall(source))):
        raise UserError("these are no subtitles: no line such as 00:00:01,000 --> 00:00:04,000 is in them")
    return subtitles(source)


def subtitles(source: str) -> Document[str]:
    """Find what is said, if there is anything."""
    parts = list(_parts(source))

    def put_back(translations: Sequence[str]) -> str:
        left = iter(translations)
        return "".join(part if isinstance(part, str) else part.broken(next(left)) for part in parts)

    return Document([part.block for part in parts if isinstance(part, _Speech)], put_back)


@dataclass(frozen=True)
class _Speech:
    """Lines of a subtitle that are said in one go; `breaks[i]` was written between lines i and i + 1."""

    lines: list[str]
    breaks: list[str]
    newline: str

    @property
    def block(self) -> Block:
        """The lines as one text, its tags beside it."""
        text, tags = "", []
        joined, position = " ".join(self.lines), 0
        for match in _TAG.finditer(joined):
            text += joined[position : match.start()]
            tags.append((len(text), match[0]))
            position = match.end()
        text += joined[position:]
        return Block(text, text, tags)

    def broken(self, translation: str) -> str:
        lengths = [len(_TAG.sub("", line)) for line in self.lines]
        said, spaces, widest = len(_TAG.sub("", translation)), spaces_of(translation, _TAG), max(_WIDEST, *lengths)
        lines = cut_like(translation, spaces, lengths, said)
        for n in (said // widest + 1, said // widest + 2):  # words may not fill the first
            if n > len(self.lines) and max(len(_TAG.sub("", line)) for line in lines) > widest:
                lines = cut_at(translation, spaces, [said * i / n for i in range(1, n)])
        breaks = [*self.breaks, *[self.newline] * len(lines)]
        return "".join(line + after for line, after in zip(lines, [*breaks[: len(lines) - 1], ""], strict=True))


def _parts(source: str) -> Iterator[str | _Speech]:
    """Part a file into what is said and what is copied; whatever is not between times and an empty line is copied."""
    lines, at = LINE.findall(source), 0
    while at < len(lines):
        yield lines[at]
        at += 1
        if not _TIMES.match(lines[at - 1]):
            continue
        end = at
        while end < len(lines) and lines[end].strip() and not _begins(lines, end):
            end += 1
        yield from _said(lines[at:end], "\r\n" if lines[at - 1].endswith("\r\n") else "\n")
        at = end


def _begins(lines: Sequence[str], at: int) -> bool:
    """Tell whether a subtitle begins at a line, though no empty line is before it."""
    numbered = lines[at].strip().isdecimal() and at + 1 < len(lines) and _TIMES.match(lines[at + 1])
    return bool(numbered or _TIMES.match(lines[at]))


def _said(lines: Sequence[str], newline: str) -> Iterator[str | _Speech]:
    """Join the lines of a subtitle; a dash, or a note of music, begins another speech."""
    speech, after = _Speech([], [], ""), ""
    for line in lines:
        mark = _SPEAKER.match(line)
        before = mark[0] if mark else ""
        text = line[len(before) :].rstrip()
        if speech.lines and not before.strip():
            speech.breaks.append(after + before)
            speech.lines.append(text)
        else:
            yield from [speech] if speech.lines else []
            yield after + before
            speech = _Speech([text], [], newline)
        after = line[len(before) + len(text) :]
    yield from [speech] if speech.lines else []
    yield after
