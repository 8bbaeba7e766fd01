"""Pairs of text files named on the command line."""

from pathlib import Path
from typing import TYPE_CHECKING

from recoversat.errors import UserError

if TYPE_CHECKING:
    from recoversat.data.prepare import TextPairs


def text_pairs(src: Path | None, tgt: Path | None, tsv: Path | None = None) -> "TextPairs":
    """Read two files, or one with two columns."""
    from recoversat.data.prepare import TextPairs

    if tsv and not (src or tgt):
        return TextPairs(tsv)
    if src and tgt and not tsv:
        return TextPairs(src, tgt)
    raise UserError("give either --src and --tgt, or --tsv")


def optional_pairs(src: Path | None, tgt: Path | None, name: str) -> "TextPairs | None":
    """Read two files that come together or not at all."""
    if bool(src) != bool(tgt):
        raise UserError(f"give {name}-src and {name}-tgt together")
    return text_pairs(src, tgt) if src and tgt else None
