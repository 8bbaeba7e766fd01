"""Characters that nobody sees, and other spaces than the usual one: they cut words apart for a model, or join them."""

from recoversat.text.tokenizer import Tokenizer

# control characters (but those that white space and the tokenizer have a use for), soft hyphen, zero-width space,
# direction marks and their ends, word joiner, byte order mark; joiners of letters stay
_INVISIBLE = [
    *map(chr, [*range(0x09), *range(0x0E, 0x1A), 0x1B, *range(0x7F, 0x85), *range(0x86, 0xA0)]),
    *"\xad\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff",
]
_SPACES = "\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"


def unreadable(tokenizer: Tokenizer) -> dict[int, str]:
    """Say what to put for those that a tokenizer has no piece for, as `str.translate` wants it."""
    instead = dict.fromkeys(_INVISIBLE, "") | dict.fromkeys(_SPACES, " ")
    pieces = map(tokenizer.pieces, tokenizer.encode(list(instead)))
    return {ord(mark): instead[mark] for mark, known in zip(instead, pieces, strict=True) if mark not in "".join(known)}
