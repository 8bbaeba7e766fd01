"""Messages of programs (.po, .pot): empty translations are filled in, every other line stays as it is.

Translations that are there stay, and so do fuzzy ones, which somebody has yet to look at. The plural forms are those
that the header names, or those of the target language. Tags of HTML in a message are elements of its sentences.
"""

import gettext
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from recoversat.errors import UserError
from recoversat.text.documents import Languages
from recoversat.text.documents.block import Block, Document, slash_and_name
from recoversat.text.documents.breaking import LINE
from recoversat.text.documents.html import INLINE, UNTRANSLATED
from recoversat.text.documents.inline import Inline, pairs_of_tags

_FIELD = re.compile(r'[ \t]*(msgctxt|msgid|msgid_plural|msgstr(?:\[(\d)\])?)[ \t]*(".*")[ \t]*')
_CONTINUED = re.compile(r'[ \t]*(".*")[ \t]*')
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*+)"')
_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_WRITTEN = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"} | {v: f"\\{k}" for k, v in _LETTERS.items()})
_PLURALS = re.compile(r"nplurals\s*=\s*(\d)\s*;\s*plural\s*=\s*([^;\n]+)")
_MOST_FORMS = 6
_TAG = re.compile(rf"</?(?:br|{'|'.join(sorted(INLINE))})(?:\s[^<>]*)?/?>", re.IGNORECASE)
# As gettext's manual has them; languages that are not there have a singular for one and a plural.
_TABLE = Path(__file__).with_name("plural_forms.tsv").read_text(encoding="utf-8").splitlines()
_FORMS = {code: rule for codes, rule in (line.split("\t") for line in _TABLE) for code in codes.split()}


@dataclass
class _Field:
    """The string of a keyword, in the lines from `start` to `end`."""

    said: list[str]  # line by line
    start: int
    end: int

    @property
    def text(self) -> str:
        return "".join(self.said)


@dataclass
class _Message:
    """The fields of a message; `forms` are those of its translation."""

    fields: dict[str, _Field] = field(default_factory=dict)

    @property
    def forms(self) -> list[_Field]:
        """What is there of a translation."""
        return [found for name, found in self.fields.items() if name.startswith("msgstr")]

    @property
    def is_header(self) -> bool:
        """Tell whether this is what a file says of itself."""
        return not self.fields["msgid"].text and "msgctxt" not in self.fields


@dataclass(frozen=True)
class _Gap:
    """A place for a translation: of which block, under which keyword, instead of which lines."""

    block: int
    keyword: str
    start: int
    end: int


def parse(source: str, languages: Languages) -> Document[str]:
    """Find the messages that have no translation."""
    lines = LINE.findall(source)
    messages = list(_messages(lines))
    header = next((message for message in messages if message.is_header), None)
    said = header.fields["msgstr"].text if header and "msgstr" in header.fields else ""
    rule = _plural_rule(said, languages.target)
    texts: dict[str, int] = {}  # what is to be translated -> its block
    gaps: list[_Gap] = []
    for message in messages:
        if message.fields["msgid"].text:
            gaps += _gaps(message, rule, texts)

    newline = "\r\n" if lines[0].endswith("\r\n") else "\n"
    filled = _filled_header(said, languages.target, rule)

    def put_back(translations: Sequence[str]) -> str:
        out = list(lines)
        read = [_untagged(one, text) for one, text in zip(tagged, translations, strict=True)]
        written = [(gap, read[gap.block]) for gap in gaps]
        if gaps and header and filled != said:
            place = header.fields["msgstr"]
            written.append((_Gap(0, "msgstr", place.start, place.end), filled))
        for gap, text in written:
            out[gap.start : gap.end] = [""] * (gap.end - gap.start)
            line = gap.end - 1  # of a form that has no lines yet: that of the form before it
            out[line] += newline if out[line] and not out[line].endswith("\n") else ""
            out[line] += _written(gap.keyword, text, newline)
        return "".join(out)

    tagged = [_tagged(text) if _TAG.search(text) else None for text in texts]
    blocks = [one.block if one else Block(text, text) for text, one in zip(texts, tagged, strict=True)]
    return Document(blocks, put_back)


@dataclass(frozen=True)
class _Tags:
    """A tag that stands alone, or the two around something."""

    opening: str
    closing: str = ""


def _tagged(text: str) -> Inline[_Tags]:
    """Read a message with tags; what is in <code> and the like is kept."""
    inline, found, position = Inline[_Tags](), list(_TAG.finditer(text)), 0
    pairs = pairs_of_tags([tag[0] for tag in found])
    closing = set(pairs.values())
    for n, tag in enumerate(found):
        if tag.start() < position:  # in what is kept
            continue
        inline.say(text[position : tag.start()])
        position, end = tag.end(), found[pairs[n]] if n in pairs else None
        name = slash_and_name(tag[0])[1]
        if end and name in UNTRANSLATED:
            position = end.end()
            inline.keep(_Tags(text[tag.start() : position]))
        elif end:
            inline.open(_Tags(tag[0], end[0]))
        elif n in closing:
            inline.close()
        else:
            inline.part(_Tags(tag[0])) if name == "br" else inline.add(_Tags(tag[0]))
    inline.say(text[position:])
    return inline


def _untagged(inline: Inline[_Tags] | None, translation: str) -> str:
    """Write the tags of a translation as the message has them."""
    if not inline:
        return translation
    pieces = ((piece.kind, piece.text, piece.thing) for piece in inline.read(translation))
    return "".join(
        text if tag is None else tag.closing if kind == "close" else tag.opening for kind, text, tag in pieces
    )


def _messages(lines: Sequence[str]) -> Iterator[_Message]:
    message = _Message()
    last: _Field | None = None
    for number, line in enumerate(lines):
        bare = line.rstrip("\r\n")
        if match := _FIELD.fullmatch(bare):
            keyword = match[1]
            if keyword in ("msgctxt", "msgid") and message.forms:
                yield _complete(message)
                message = _Message()
            if keyword in message.fields:
                raise UserError(f"line {number + 1}: a second {keyword} of one message")
            last = message.fields[keyword] = _Field([_unquoted(match[3], number)], number, number + 1)
        elif (match := _CONTINUED.fullmatch(bare)) and last and last.end == number:
            last.said.append(_unquoted(match[1], number))
            last.end = number + 1
        elif bare.strip() and not bare.lstrip().startswith("#"):
            raise UserError(f"line {number + 1}: no line of a .po file: {bare.strip()[:40]}")
    if message.fields:
        yield _complete(message)


def _complete(message: _Message) -> _Message:
    if "msgid" not in message.fields or not message.forms:
        first = min(found.start for found in message.fields.values())
        raise UserError(f"line {first + 1}: a message needs a msgid and a msgstr")
    return message


def _gaps(message: _Message, rule: str, texts: dict[str, int]) -> Iterator[_Gap]:
    """Find the empty translations of a message; those of plurals may have no lines yet."""
    one = message.fields["msgid"].text
    many = message.fields.get("msgid_plural")
    if not many:
        empty = message.fields.get("msgstr")
        if empty and not empty.text:
            yield _Gap(texts.setdefault(one, len(texts)), "msgstr", empty.start, empty.end)
        return
    count, of_one = _forms(rule)
    end = max(found.end for found in message.forms)
    for n in range(count):
        keyword = f"msgstr[{n}]"
        place = message.fields.get(keyword)
        if place is None or not place.text:
            text = one if n == of_one and count > 1 else many.text
            start, stop = (place.start, place.end) if place else (end, end)
            yield _Gap(texts.setdefault(text, len(texts)), keyword, start, stop)


def _plural_rule(header: str, target: str) -> str:
    """Give what the header says of plural forms, or what is true of the target language."""
    if said := _PLURALS.search(header):
        return f"{said[0]};"
    return f"nplurals={_FORMS.get(re.split('[-_]', target)[0].lower(), '2; plural=(n != 1)')};"


@lru_cache(16)  # it is asked for every message
def _forms(rule: str) -> tuple[int, int]:
    """Tell how many forms there are, and which is that of one.

    >>> _forms("nplurals=2; plural=(n != 1);")
    (2, 0)
    """
    match = _PLURALS.search(rule)
    count = int(match[1]) if match else 0
    try:
        of_one = gettext.c2py(match[2])(1) if match else 0
    except (ValueError, ZeroDivisionError):
        raise UserError(f"Plural-Forms: {rule[:80]!r} is no rule of plurals") from None
    if not 1 <= count <= _MOST_FORMS:
        raise UserError(f"Plural-Forms: nplurals is 1 to {_MOST_FORMS}")
    return count, int(of_one)


def _filled_header(header: str, target: str, rule: str) -> str:
    """Fill in what a template leaves to the translator and a program needs: language, plural forms, encoding."""
    header = header.replace("charset=CHARSET", "charset=UTF-8")
    wanted = {"Language": target.replace("-", "_"), "Plural-Forms": rule}
    for name, value in wanted.items():
        empty = re.compile(rf"^{name}:[ \t]*(?:nplurals=INTEGER; plural=EXPRESSION;)?$", re.MULTILINE)
        if value and (place := empty.search(header)):
            header = f"{header[: place.start()]}{name}: {value}{header[place.end() :]}"
    return header


def _unquoted(quoted: str, number: int) -> str:
    match = _QUOTED.fullmatch(quoted)
    if not match:
        raise UserError(f'line {number + 1}: quotes within a string are written \\"')
    return _ESCAPE.sub(_unescaped, match[1])


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "01234567":
        return chr(int(code, 8))
    return chr(int(code[1:], 16)) if code[0] == "x" and len(code) > 1 else _LETTERS.get(code, code)


def _written(keyword: str, text: str, newline: str) -> str:
    r"""Write a field, each line of its text on a line of its own.

    >>> print(_written("msgstr", 'Say "hi"\nand go', "\n"), end="")
    msgstr ""
    "Say \"hi\"\n"
    "and go"
    """
    lines = [line.translate(_WRITTEN) for line in re.findall(r"[^\n]*\n|[^\n]+", text)] or [""]
    lines = ["", *lines] if len(lines) > 1 else lines
    return f"{keyword} " + "".join(f'"{line}"{newline}' for line in lines)
