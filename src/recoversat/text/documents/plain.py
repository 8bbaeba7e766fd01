"""Plain text: one block, in which a line break or a tab ends a sentence."""

from recoversat.text.documents.block import Block, Document


def parse(source: str) -> Document[str]:
    """Take the whole text for one block."""
    return Document([Block(source, source)], "".join)
