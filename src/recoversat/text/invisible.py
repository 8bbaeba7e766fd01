"""Characters that nobody sees: hints for line breaks and directions of writing, which cut words apart for a model."""

from recoversat.text.tokenizer import Tokenizer

# soft hyphen, zero-width space, direction marks and their ends, word joiner, byte order mark; joiners of letters stay
_INVISIBLE = "\xad\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"


def unreadable(tokenizer: Tokenizer) -> dict[int, None]:
    """List those that a tokenizer has no piece for, so that `str.translate` leaves them out."""
    pieces = map(tokenizer.pieces, tokenizer.encode(list(_INVISIBLE)))
    return {ord(mark): None for mark, known in zip(_INVISIBLE, pieces, strict=True) if mark not in "".join(known)}
