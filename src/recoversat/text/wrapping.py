"""Hard-wrapped paragraphs: which lines of a text belong together, and how to wrap them again.

Lines were wrapped where no first word of a next line would have fitted into the longest one. Lists, headings, verse,
tables and code break their lines elsewhere, and stay as they are.
"""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recoversat.text.placeholders import protected_spans

_INDENT = re.compile(r" {0,3}(?=\S)")
_MARKED = re.compile(r" *(?:[-*•·‣–—#>+|=~:]|\(?(?:\d{1,3}|[A-Za-z])[.)]\s|```|//|<)")
_NARROWEST, _WIDEST = 40, 130
_OTHER_BREAKS = re.compile(r"[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_UNUSED = [chr(code) for code in range(0xF0000, 0xFFFFE)]  # one of them is in no text
_COLUMNS = re.compile(r"\t|\S {3,}\S")
_SENTENCE_END = re.compile(r"[.!?…:;][\"'”’“»)\]]*\Z")


@dataclass(frozen=True)
class Wrapped:
    """The lines of a paragraph, without their breaks."""

    lines: list[str]
    newline: str

    @property
    def source(self) -> str:
        """The paragraph as it was, without its last break."""
        return self.newline.join(self.lines)

    @property
    def text(self) -> str:
        """The paragraph in one line, its indentation left out."""
        stripped = [line.strip() for line in self.lines]
        return "".join(line if line.endswith("-") else line + " " for line in stripped[:-1]) + stripped[-1]

    def wrapped(self, text: str) -> str:
        """Wrap another text like this one; the same text gives the same lines."""
        if text == self.text:
            return self.source
        first, *_, last = (line[: len(line) - len(line.lstrip())] for line in self.lines)
        width, blank = max(map(len, self.lines)), next(sign for sign in _UNUSED if sign not in text)
        for span in protected_spans(text):  # no line ends inside of a placeholder
            text = text[: span.start] + text[span.start : span.end].replace(" ", blank) + text[span.end :]
        lines = textwrap.wrap(
            text, width, initial_indent=first, subsequent_indent=last, break_long_words=False, break_on_hyphens=False
        )
        return self.newline.join(lines).replace(blank, " ")


def paragraphs(text: str) -> Iterator[str | Wrapped]:
    r"""Part a text into wrapped paragraphs and what lies between them.

    >>> long = "This is a line of a text that was wrapped"
    >>> [part if isinstance(part, str) else part.text for part in paragraphs(f"# One\n\n{long}\nwhere it was full.\n")]
    ['# One\n\n', 'This is a line of a text that was wrapped where it was full.', '\n']
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    lines, position, between = text.split(newline), 0, list[str]()
    while position < len(lines):
        end = next((at for at in range(position, len(lines)) if not lines[at].strip()), len(lines))
        if is_wrapped(lines[position:end]):
            yield "".join(between)
            yield Wrapped(lines[position:end], newline)
            between = []
        else:
            between.append(newline.join(lines[position:end]))
        if end < len(lines):  # the empty line itself
            between += [newline if end > position else "", lines[end], newline if end + 1 < len(lines) else ""]
        position = end + 1
    yield "".join(between)


def is_wrapped(lines: Sequence[str]) -> bool:
    """Say whether lines are one paragraph that was wrapped."""
    width = max(map(len, lines), default=0)
    if len(lines) < 2 or not _NARROWEST <= width <= _WIDEST or _OTHER_BREAKS.search("".join(lines)):
        return False
    if len({len(line) - len(line.lstrip()) for line in lines[1:]}) > 1 or not all(map(_INDENT.match, lines)):
        return False
    if any(_MARKED.match(line) or _COLUMNS.search(line) for line in lines):
        return False
    nexts = [line.split(None, 1)[0] for line in lines[1:]]
    if any(len(line.rstrip()) + 1 + len(word) <= width for line, word in zip(lines, nexts, strict=False)):
        return False
    goes_on = sum(word[0].islower() for word in nexts)
    open_ends = sum(not _SENTENCE_END.search(line.rstrip()) for line in lines[:-1])
    return 3 * goes_on >= len(nexts) and 2 * open_ends > len(nexts)
