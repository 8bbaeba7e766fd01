"""Subtitles of the web (.vtt): what .srt keeps stays, and so do settings, styles, notes and the times within a line."""

import html
import re
from collections.abc import Sequence

from recoversat.errors import UserError
from recoversat.text.documents import srt
from recoversat.text.documents.block import Block, Document

_CHARACTER = re.compile(r"&[A-Za-z0-9]{1,32}+;|.", re.DOTALL)
_TIME = re.compile(r"<(\d+:[\d:.]+)>")
_HIDDEN_TIME = re.compile(r"<!--(\d+:[\d:.]+)-->")  # a tag that belongs to the word it stands at


def parse(source: str) -> Document[str]:
    """Find what is said; all else is copied."""
    if source.strip() and not source.startswith("WEBVTT"):
        raise UserError("these are no subtitles of the web: the first line does not begin with WEBVTT")
    written = srt.subtitles(source)
    blocks = [_unescaped(block) for block in written.blocks]

    def put_back(translations: Sequence[str]) -> str:
        return written.put_back(
            [_spelt_like(said, block.text) for said, block in zip(translations, written.blocks, strict=True)]
        )

    return Document(blocks, put_back)


def _unescaped(block: Block) -> Block:
    """Give a block as it is seen; its raw text is what translations of it are written like.

    >>> _unescaped(Block("R&amp;D", "R&amp;D", [(7, "<00:01.000>")]))
    Block(text='R&D', raw=['R', '&amp;', 'D'], tags=[(3, '<!--00:01.000-->')], slots={}, markup=True, keeps_spaces=True)
    """
    text, places = "", {}
    for match in _CHARACTER.finditer(block.text):
        places[match.start()] = len(text)
        text += html.unescape(match[0])
    places[len(block.text)] = len(text)
    raw = [html.escape(character, quote=False) for character in text]
    tags = [(places[offset], _TIME.sub(r"<!--\1-->", tag)) for offset, tag in block.tags]
    return Block(text, raw, tags, markup=True, keeps_spaces=True)


def _spelt_like(translation: str, source: str) -> str:
    """Write a translation with the escapes its source has; `<` and `&` always need theirs."""
    translation = _HIDDEN_TIME.sub(r"<\1>", translation)
    if "&gt;" not in source:
        translation = translation.replace("&gt;", ">")
    for escape in {found for found in _CHARACTER.findall(source) if len(found) > 1}:
        if len(character := html.unescape(escape)) == 1 and character not in "&<>":
            translation = translation.replace(character, escape)
    return translation
