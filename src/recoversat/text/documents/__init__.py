"""Documents as people have them: one module a format.

A format is a module of this folder with a function `parse(source) -> Document` (see `block.py`): the blocks of text to
be translated, and how to put their translations back. A new one costs that module and a line below.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from recoversat.errors import UserError

if TYPE_CHECKING:
    from recoversat.text.documents.block import Document

# What a user calls a format: its module, and what it does, in words.
FORMATS = {
    "text": ("plain", "split into sentences"),
    "html": ("html", "tags kept"),
    "srt": ("srt", "subtitles, numbers and times kept"),
}


def parse(source: str, format: str) -> "Document":
    """Read a document in one of the formats."""
    if format not in FORMATS:
        raise UserError(f"format {format!r} is not known; there are: {', '.join(FORMATS)}")
    document: Document = import_module(f"{__name__}.{FORMATS[format][0]}").parse(source)
    return document
