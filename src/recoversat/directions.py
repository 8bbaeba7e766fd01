"""From which language into which: a model of both directions reads it off a tag before the source."""

from collections.abc import Sequence

from recoversat.config import DataConfig
from recoversat.errors import UserError
from recoversat.text.tokenizer import Tokenizer


def choose_direction(data: DataConfig, source: str | None, target: str | None) -> tuple[str, str]:
    """Return the languages to translate from and into; without a wish those the model was prepared for."""
    for pair in data.directions:
        if source in (None, pair[0]) and target in (None, pair[1]):
            return pair
    known = ", ".join(f"{one} into {other}" for one, other in data.directions)
    raise UserError(f"this model does not translate {source or 'anything'} into {target or 'anything'}: only {known}")


def direction_tag(language: str) -> str:
    """Return what stands before a source in a model of both directions: the language to translate into.

    >>> direction_tag("de")
    '<2de>'
    """
    return f"<2{language}>"


def prefix_of(data: DataConfig, target: str) -> str:
    """Return what stands before every source when a model translates into `target`: nothing, where it has no choice."""
    return direction_tag(target) if data.both_directions else ""


def split_tag(text: str, tokenizer: Tokenizer, prefix: str) -> tuple[str, str]:
    """Return the direction of a text, the tag it brings along (as validation text does) or `prefix`, and the text.

    Without a prefix, that is with a model of one direction, everything is text.
    """
    own = next((tag for tag in tokenizer.tags if text.startswith(tag)), "") if prefix else ""
    return own or prefix, text[len(own) :]


def encode_tagged(texts: Sequence[str], tokenizer: Tokenizer, prefix: str) -> list[list[int]]:
    """Turn texts into ids, each with its direction before it."""
    return tokenizer.encode(["".join(split_tag(text, tokenizer, prefix)) for text in texts] if prefix else texts)
