"""Plain text: a line break or a tab ends a sentence, but in paragraphs that were wrapped, which are wrapped again."""

from collections.abc import Sequence

from recoversat.text.documents.block import Block, Document
from recoversat.text.wrapping import Wrapped, paragraphs


def parse(source: str) -> Document[str]:
    """Find wrapped paragraphs; each of them, and all that stands between two, is a block."""
    parts = list(paragraphs(source))

    def put_back(translations: Sequence[str]) -> str:
        pairs = zip(parts, translations, strict=True)
        return "".join(part.wrapped(text) if isinstance(part, Wrapped) else text for part, text in pairs)

    texts = [part.text if isinstance(part, Wrapped) else part for part in parts]
    return Document([Block(text, text) for text in texts], put_back)
