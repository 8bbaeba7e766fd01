"""Read and write documents that strangers send; what is here runs in a process of its own (`process/fork_server.py`).

It knows no model and imports little, so that such a process starts fast.
"""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from recoversat.errors import UserError
from recoversat.files.storage import decoded
from recoversat.text.documents import FORMATS, Languages, parse
from recoversat.text.documents.block import Block, Document

_PART = 1000  # characters that are translated in one go, unless a line or a block has more
_BEGINNING = 1000  # characters that tell the language
MOST_TAGS = 3  # for each character that may be translated


@dataclass(frozen=True)
class Group:
    """Blocks that are translated in one go: what they say, and they themselves, packed for whoever translates them.

    The process that answers requests unpacks none of them: a page may have a hundred thousand.
    """

    text: str
    has_tags: bool
    packed: bytes

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> "Group":
        """Pack blocks."""
        text = "\n".join(block.text for block in blocks)
        return cls(text, any(block.tags for block in blocks), pickle.dumps(blocks))

    @property
    def blocks(self) -> list[Block]:
        """Unpack them."""
        blocks: list[Block] = pickle.loads(self.packed)
        return blocks


@dataclass(frozen=True)
class Reading:
    """What a document says: how much, its beginning, and all of it in groups of blocks."""

    size: int  # characters
    beginning: str
    groups: list[Group]


def import_readers() -> None:
    """Import what reads documents, so that processes made of this one need not."""
    for format in FORMATS.values():
        if format.is_available:
            import_module(f"recoversat.text.documents.{format.module}")


def read_document(source: bytes, format: str, languages: Languages, most: int) -> Reading:
    """Read a document; where it has more than `most` characters, only its size is told."""
    blocks = _parsed(source, format, languages).blocks
    size, tags = sum(len(block.text) for block in blocks), sum(len(block.tags) for block in blocks)
    if tags > MOST_TAGS * most:
        raise UserError(f"the file has {tags} tags in its text, at most {MOST_TAGS * most}")
    beginning = "\n".join(block.text for block in blocks[:100])[:_BEGINNING]
    return Reading(size, beginning, _groups(blocks) if size <= most else [])


def write_document(source: bytes, format: str, languages: Languages, translations: Sequence[str]) -> bytes:
    """Write a document again with the translations of all that was read, in their order."""
    document, left = _parsed(source, format, languages), iter(translations)
    whole = ["".join(next(left) for _ in _pieces(block)) or _untranslated(block) for block in document.blocks]
    written = document.in_language(document.put_back(whole), *languages)
    return written if isinstance(written, bytes) else written.encode()


def parts_of(text: str) -> list[str]:
    """Cut a long text behind some of its lines, so that others need not wait for all of it.

    >>> parts_of("one\\n" * 3 + "x" * 999 + "\\nend")  # doctest: +ELLIPSIS
    ['one\\none\\none\\n', 'xxx...xxx\\n', 'end']
    """
    if len(text) <= _PART:
        return [text]
    parts = [""]
    for line in text.splitlines(keepends=True):
        if parts[-1] and len(parts[-1]) + len(line) > _PART:
            parts.append("")
        parts[-1] += line
    return parts


def _parsed(source: bytes, format: str, languages: Languages) -> Document[Any]:
    if FORMATS[format].binary:
        return parse(source, format, languages)
    return parse(decoded(source, "the file"), format, languages)


def _pieces(block: Block) -> list[Block]:
    """Cut a long block of plain text behind some of its lines; others stay whole, and one that says nothing is none."""
    if not block.text.strip():
        return []
    if block.markup or block.tags:
        return [block]
    return [replace(block, text=part, raw=part) for part in parts_of(block.text)]


def _untranslated(block: Block) -> str:
    return block.source(0, len(block.text), slice(None))


def _groups(blocks: Sequence[Block]) -> list[Group]:
    """Group blocks, so that others need not wait for a whole file."""
    groups: list[list[Block]] = [[]]
    size = 0
    for piece in (piece for block in blocks for piece in _pieces(block)):
        if groups[-1] and size + len(piece.text) > _PART:
            groups.append([])
            size = 0
        groups[-1].append(piece)
        size += len(piece.text)
    return [Group.of(group) for group in groups if group]
