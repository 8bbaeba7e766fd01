"""From which language into which: a model of both directions reads it off a tag before the source."""

import re
from collections.abc import Sequence

from recoversat.config import DataConfig
from recoversat.errors import UserError
from recoversat.text.tokenizer import Tokenizer


def choose_direction(data: DataConfig, source: str | None, target: str | None) -> tuple[str, str]:
    """Return the languages to translate from and into; without a wish those the model was prepared for."""
    if found := find_direction(data.directions, source, target):
        return found
    known = ", ".join(f"{one} into {other}" for one, other in data.directions)
    raise UserError(f"this model does not translate {source or 'anything'} into {target or 'anything'}: only {known}")


def find_direction(
    directions: Sequence[tuple[str, str]], source: str | None, target: str | None
) -> tuple[str, str] | None:
    """Return the first direction between two languages; None stands for any."""
    known = [code for pair in directions for code in pair]
    one, other = (code and known_language(code, known) for code in (source, target))
    return next((pair for pair in directions if one in (None, pair[0]) and other in (None, pair[1])), None)


def known_language(code: str, known: Sequence[str]) -> str:
    """Return the known language a code means: itself, in whatever case, or without its region; else the code.

    >>> [known_language(code, ["en", "de"]) for code in ("en", "EN", "de-AT", "en_US", "fr-CA")]
    ['en', 'en', 'de', 'en', 'fr-CA']
    """
    forms = {_plain(language): language for language in known} | {language: language for language in known}
    found = (forms.get(form) for form in (code, _plain(code), re.split("[-_]", code.lower())[0]))
    return next(filter(None, found), code)


def _plain(code: str) -> str:
    return code.lower().replace("_", "-")


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
