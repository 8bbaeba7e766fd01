"""From which language into which: a model of both directions reads it off a tag before the source."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from recoversat.config import DataConfig
from recoversat.errors import UserError
from recoversat.text.tokenizer import Tokenizer

T = TypeVar("T")
Directed = tuple[str, str]  # the language to translate into, and a text


def choose_direction(data: DataConfig, source: str | None, target: str | None) -> tuple[str, str]:
    """Return the languages to translate from and into; unless named, those the model was prepared for."""
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
    return direction_tag(target) if data.tagged else ""


def directed(texts: Sequence[str], data: DataConfig, target: str) -> list[Directed]:
    """Return each text with the language to translate it into: `target`, or what its tag says.

    Only text prepared for validation brings tags along, and then every line does; whatever else begins with a tag
    is text that somebody wrote.
    """
    tags = {direction_tag(into): into for _, into in data.directions} if data.tagged else {}
    own = [next((tag for tag in tags if text.startswith(tag)), "") for text in texts]
    if not all(own):
        return [(target, text) for text in texts]
    return [(tags[tag], text[len(tag) :]) for tag, text in zip(own, texts, strict=True)]


def encode_directed(each: Iterable[Directed], tokenizer: Tokenizer, data: DataConfig) -> list[list[int]]:
    """Turn texts into ids, each after the tag of its direction."""
    return [tokenizer.encode([text], prefix_of(data, into))[0] for into, text in each]


def translate_directed(each: Sequence[Directed], translate: Callable[[str, list[str]], list[T]]) -> list[T]:
    """Translate texts in their directions: `translate` gets a language and all that is to be translated into it."""
    done: dict[int, T] = {}
    for into in dict.fromkeys(into for into, _ in each):
        mine = [i for i, one in enumerate(each) if one[0] == into]
        done |= zip(mine, translate(into, [each[i][1] for i in mine]), strict=True)
    return [done[i] for i in range(len(each))]
