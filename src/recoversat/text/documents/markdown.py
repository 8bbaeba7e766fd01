"""Markdown: prose is translated; code, addresses, front matter and the layout stay, character for character.

markdown-it finds the paragraphs, headings and cells, and the elements in them. It does not say where they stand in the
source, so its rules are watched while they read. Lines are broken again where the source was.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from markdown_it import MarkdownIt, rules_inline
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from recoversat.text.documents.block import Block, Document, slash_and_name
from recoversat.text.documents.breaking import LINE, cut_like
from recoversat.text.documents.html import UNTRANSLATED, blocks_of_html
from recoversat.text.documents.inline import Inline, pairs_of_tags

_FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\r?\n(?:.*\n)*?\1[ \t]*(?:\r?\n|\Z)")
_LONGEST = 100  # tokens that are kept together
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_NOTE = re.compile(r"\[\^[^\]\s]{1,40}\]:?|\A\[[ xX]\](?=\s)")  # footnotes and boxes to be ticked
_BEGINS_BLOCK = re.compile(r"[-+*#>=~`|:]|\d{1,9}[.)]|\s")  # what a line of a paragraph must not begin with
_ESCAPED = frozenset("\\`*_[]<")
_SPECIAL = _ESCAPED | frozenset("&>#~!|")
_CONTENT, _ENDS = "content", "ends"
_WATCHED = {
    "newline": rules_inline.newline, "escape": rules_inline.escape, "backticks": rules_inline.backtick,
    "link": rules_inline.link, "image": rules_inline.image, "autolink": rules_inline.autolink,
    "html_inline": rules_inline.html_inline,
}  # fmt: skip


@dataclass(eq=False)
class _Mark:
    """Source around text, or `alone` instead of it; a `hard_break` ends a line for good."""

    opening: str
    start: int = 0  # of what is in it, in the source
    closing: str = ""
    alone: bool = False
    hard_break: bool = False
    label: str = ""  # of a link that is named by its own text


@dataclass
class _Lines:
    """The lines between two hard breaks: their lengths, and what was written between them."""

    lengths: list[int] = field(default_factory=lambda: [0])
    breaks: list[str] = field(default_factory=list)


@dataclass
class _Prose:
    """A paragraph, heading or cell: where it stands in the source, and how its characters were spelt."""

    start: int
    source: str
    inline: Inline[_Mark] = field(default_factory=Inline)
    lines: list[_Lines] = field(default_factory=lambda: [_Lines()])
    spellings: dict[str, list[str]] = field(default_factory=dict)
    in_table: bool = False

    def say(self, text: str, spelt: str | None = None) -> None:
        """Add text; `spelt` is how it was written where that is something else."""
        self.inline.say(text)
        self.lines[-1].lengths[-1] += len(spelt or text)
        for n, character in enumerate(text):
            if spelt or character in _SPECIAL:
                written = (character if spelt is None else spelt) if n == 0 or spelt is None else ""
                self.spellings.setdefault(character, []).append(written)

    def open(self, mark: _Mark) -> None:
        """Begin an element, or add one that is all address."""
        self.inline.keep(mark) if mark.alone else self.inline.open(mark)
        self.lines[-1].lengths[-1] += len(mark.opening)

    def close(self, mark: _Mark, source: str) -> None:
        mark.closing = source
        self.inline.close()
        self.lines[-1].lengths[-1] += len(source)

    def add(self, mark: _Mark) -> None:
        """Add what belongs to a word."""
        self.inline.add(mark)
        self.lines[-1].lengths[-1] += len(mark.opening)

    def keep(self, mark: _Mark) -> None:
        """Add what stands there as a word does."""
        self.inline.keep(mark)
        self.lines[-1].lengths[-1] += len(mark.opening)

    def soft_break(self, source: str) -> None:
        """End a line where a space would do as well."""
        self.inline.say(" ")
        self.lines[-1].lengths.append(0)
        self.lines[-1].breaks.append(source)

    def hard_break(self, source: str) -> None:
        self.inline.part(_Mark(source, hard_break=True))
        self.lines.append(_Lines())

    def written(self, translation: str) -> str:
        if translation == self.inline.source:
            return self.source
        left = {character: iter(spelt) for character, spelt in self.spellings.items()}
        lines = iter(self.lines)
        out, chunk, spaces = "", "", list[tuple[int, int]]()
        begun: dict[_Mark, int] = {}
        for piece in self.inline.read(translation):
            mark = piece.thing
            if mark is None:
                for character in piece.text:
                    if character == " ":
                        spaces.append((len(chunk), len(chunk)))
                    chunk += next(left.get(character, iter(())), self._escaped(character))
            elif mark.hard_break:
                out += _broken(chunk, spaces, next(lines)) + mark.opening
                chunk, spaces = "", []
            elif piece.kind == "close":
                renamed = mark.label and chunk[begun.get(mark, 0) :] != mark.label
                chunk += f"][{mark.label}]" if renamed else mark.closing
            else:
                chunk += mark.opening
                begun[mark] = len(chunk)
        return out + _broken(chunk, spaces, next(lines))

    def _escaped(self, character: str) -> str:
        """Write a character that the source did not have, or not so often."""
        escaped = character in _ESCAPED or (self.in_table and character == "|")
        return f"\\{character}" if escaped else character


def _broken(text: str, spaces: Sequence[tuple[int, int]], lines: _Lines) -> str:
    """Break a text into lines, none of which looks like the beginning of a list or heading."""
    allowed = [space for space in spaces if not _BEGINS_BLOCK.match(text, space[0] + 1)]
    cut = cut_like(text, allowed, lines.lengths, len(text)) if lines.breaks else [text]
    return "".join(line + after for line, after in zip(cut, [*lines.breaks[: len(cut) - 1], ""], strict=True))


def parse(source: str) -> Document[str]:
    """Find the prose; all else is copied."""
    parts: list[str | Block | _Prose] = []
    position = 0
    for found in _found(source):
        start, end = (found.start, found.start + len(found.source)) if isinstance(found, _Prose) else found
        parts.append(source[position:start])
        parts += [found] if isinstance(found, _Prose) else list(blocks_of_html(source[start:end]))
        position = end
    parts.append(source[position:])

    def put_back(translations: Sequence[str]) -> str:
        left = iter(translations)
        return "".join(_put(part, left) for part in parts)

    blocks = [part.inline.block if isinstance(part, _Prose) else part for part in parts if not isinstance(part, str)]
    return Document(blocks, put_back)


def _put(part: str | Block | _Prose, translations: Iterator[str]) -> str:
    if isinstance(part, str):
        return part
    translation = next(translations)
    return part.written(translation) if isinstance(part, _Prose) else translation


def _found(source: str) -> Iterator[_Prose | tuple[int, int]]:
    """Yield the prose of a text, and where HTML stands between it."""
    front = _FRONT_MATTER.match(source)
    begin = front.end() if front else 0
    lines = [(begin + match.start(), match[0]) for match in LINE.finditer(source[begin:])]
    env: dict[str, Any] = {}
    tokens = _parser().parse(source[begin:], env)
    line, column = -1, 0  # up to where cells of a table have been found
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type == "html_block" and token.level == 0 and token.map:
            yield lines[token.map[0]][0], lines[token.map[1]][0] if token.map[1] < len(lines) else len(source)
        if token.type != "inline" or not token.content or not token.map or not before:
            continue
        column = column if line == token.map[0] else 0
        line = token.map[0]
        spans = _places(token, before, [lines[n] for n in range(*token.map)], column)
        prose = _read(source, spans, env) if spans else None
        if prose and spans:
            prose.in_table = before.type in ("td_open", "th_open")
            column = spans[-1][1] - lines[line][0]
            yield prose


def _places(token: Token, before: Token, lines: Sequence[tuple[int, str]], column: int) -> list[tuple[int, int]] | None:
    """Find where the lines of a token's content stand in the source; None where they do not stand there as they are."""
    spans = []
    content = token.content.split("\n")
    for n, ((start, line), said) in enumerate(zip(lines, content, strict=False)):
        bare, said = line.rstrip("\r\n"), said.lstrip(" \t")
        if before.type in ("td_open", "th_open"):
            at = max(bare.find(said, column), bare.find(said := said.replace("|", "\\|"), column))
        elif before.type == "heading_open" and before.markup.startswith("#"):
            hashes = re.search(rf"#{{{len(before.markup)}}}[ \t]+", bare)
            at = bare.find(said, hashes.end()) if hashes else -1
        else:
            bare = bare.rstrip(" \t") if n == len(content) - 1 else bare
            at = len(bare) - len(said) if bare.endswith(said) else -1
        if at < 0:
            return None
        spans.append((start + at, start + at + len(said)))
    return spans if len(spans) == len(content) else None


def _read(source: str, spans: Sequence[tuple[int, int]], env: dict[str, Any]) -> _Prose | None:
    """Read the elements of some lines; None where they cannot be found again."""
    content = "\n".join(source[start:end] for start, end in spans)
    origin = [place for start, end in spans for place in range(start, end + 1)]  # of each character; a break is one
    ends: dict[int, int] = {}
    tokens = _parser().inline.parse(content, _parser(), env | {_CONTENT: content, _ENDS: ends}, [])
    prose = _Prose(spans[0][0], source[spans[0][0] : spans[-1][1]])
    opened: list[tuple[_Mark, int]] = []  # what is open, and where it ends if that is known
    pairs = pairs_of_tags([_tag(token) for token in tokens])
    closing, kept = set(pairs.values()), _kept(tokens, pairs)
    position, kept_from, kept_to = 0, 0, -1
    for n, token in enumerate(tokens):
        start, known = position, opened[-1][1] if opened else 0
        if opened and opened[-1][0].alone:  # the address in <...> is all there is in it
            opened = opened[:-1] if token.type == "link_close" else opened
            continue
        position = _end_of(token, content, start, ends, known)
        if position < start:
            return None
        raw = source[origin[start] : origin[position]]
        if n in kept:
            kept_from, kept_to = start, kept[n]
        if n == kept_to:
            prose.keep(_Mark(source[origin[kept_from] : origin[position]]))
        elif n < kept_to:
            continue
        elif token.type == "text":
            _say(prose, raw)
        elif token.type == "text_special":
            prose.say(token.content, raw if raw != token.content else None)
        elif token.type == "softbreak":
            prose.soft_break(raw)
        elif token.type == "hardbreak":
            prose.hard_break(raw)
        elif token.nesting == 1 or n in pairs:
            opened.append((_Mark(raw, origin[position], alone=token.markup == "autolink"), ends.get(start, 0)))
            prose.open(opened[-1][0])
        elif token.nesting == -1 or n in closing:
            mark, _ = opened.pop()
            mark.label = source[mark.start : origin[start]] if raw in ("]", "][]") else ""
            prose.close(mark, raw)
        elif token.type == "html_inline":
            prose.hard_break(raw) if _BREAK.fullmatch(raw) else prose.add(_Mark(raw))
        else:
            prose.keep(_Mark(raw))
    return prose if position == len(content) else None


def _tag(token: Token) -> str:
    """Give the tag of HTML that a token is, or where an element of Markdown begins and ends."""
    return token.content if token.type == "html_inline" else {1: "(", -1: ")"}.get(token.nesting, "")


def _kept(tokens: Sequence[Token], pairs: dict[int, int]) -> dict[int, int]:
    """Choose the pairs that hold what is not translated, such as <code>; not where lines or elements are in it."""
    kept, last = dict[int, int](), -1
    for start, end in sorted(pairs.items()):
        is_code = slash_and_name(tokens[start].content)[1] in UNTRANSLATED
        if start < last or end - start > _LONGEST or not is_code:
            continue
        if all(token.nesting == 0 and not token.type.endswith("break") for token in tokens[start:end]):
            kept[start] = last = end
    return kept


def _end_of(token: Token, content: str, start: int, ends: dict[int, int], known: int) -> int:
    """Find where a token ends that begins at `start`; -1 where it is not there."""
    if token.type in ("softbreak", "hardbreak"):
        spaces = re.compile(" *").match(content, start)
        return ends.get(spaces.end() if spaces else start, -1)
    if token.type == "link_open" and token.markup != "autolink":
        return start + 1 if start in ends else -1
    if token.type == "link_close":
        return known
    if token.type in ("link_open", "code_inline", "image", "html_inline"):
        return ends.get(start, -1)
    spelt = token.content if token.type == "text" else token.markup
    return start + len(spelt) if content.startswith(spelt, start) else -1


def _say(prose: _Prose, text: str) -> None:
    """Add text; footnotes belong to the word they stand at."""
    position = 0
    for match in _NOTE.finditer(text):
        prose.say(text[position : match.start()])
        prose.add(_Mark(match[0]))
        position = match.end()
    prose.say(text[position:])


@cache
def _parser() -> MarkdownIt:
    """Make a parser that leaves the content of blocks to `_read`, and tells it where elements end."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable(["inline", "text_join"])
    for name, rule in _WATCHED.items():
        parser.inline.ruler.at(name, _watched(rule))
    return parser


def _watched(rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    def watch(state: StateInline, silent: bool) -> bool:
        start = state.pos
        found = rule(state, silent)
        if found and not silent and state.src is state.env[_CONTENT]:  # not what an image says instead
            state.env[_ENDS][start] = state.pos
        return found

    return watch
