"""Terms that are to be translated as somebody wishes: which of them a text has, and whether its translation obeys.

A glossary is a file of lines, columns parted by tabs: a term, its translation, and a rule if need be. Without a
translation, or with "=", a term stays as it is. Lines that begin with "#", and empty ones, say nothing.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from recoversat.errors import UserError
from recoversat.files.storage import lines_of

RULES = ("", "case", "exact")  # any case and inflected; as it is written, inflected; as it is written, whole
_ENDINGS = {
    "en": ("s", "es", "'s", "’s", "s'", "s’"),
    "de": ("e", "em", "en", "er", "ern", "es", "m", "n", "nen", "r", "s", "se", "sen"),
}
_UMLAUTS = {"a": "[aä]", "o": "[oö]", "u": "[uü]", "A": "[AÄ]", "O": "[OÖ]", "U": "[UÜ]"}
_SHORTEST = 3  # letters of a term that may be inflected
_IN_COMPOUNDS = 5  # letters of a German noun that is looked for in longer ones: "Zahl" is not in "Anzahl"
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Term:
    """A term and what it becomes; without a `target` it stays as it is."""

    source: str
    target: str = ""
    rule: str = ""

    @property
    def is_exact(self) -> bool:
        """Say whether neither side may be inflected; what stays as it is may not."""
        return self.rule == "exact" or not self.target


@dataclass(frozen=True)
class Wanted:
    """A term as it stands in a text: its place, and what its translation must hold."""

    start: int
    end: int
    target: str
    inflected: bool

    def find_in(self, translation: str, language: str, *, alone: bool = False) -> tuple[int, int] | None:
        """Find it in a translation; "Garten" is in "Gärten", and in German in "Vorgarten" and "Gartentür" too.

        >>> wanted = Wanted(0, 5, "Garten", inflected=True)
        >>> [wanted.find_in(text, "de") for text in ("Die Gärten.", "Der Vorgarten", "gartenlos")]
        [(4, 10), (7, 13), None]
        >>> wanted.find_in("Der Vorgarten", "de", alone=True) is None
        True
        """
        words = [_inflected(word, language) if self.inflected else re.escape(word) for word in self.target.split()]
        pattern = r"(?<!\w)" + r"\s+".join(words) + r"(?!\w)"
        if self.inflected and not alone and language == "de" and self._may_be_compound:
            pattern += rf"|(?<!\w){re.escape(self.target)}|(?<=\w){_inflected(self.target.lower(), language)}(?!\w)"
        found = re.search(pattern, translation)
        return found.span() if found else None

    @property
    def _may_be_compound(self) -> bool:
        return len(self.target) >= _IN_COMPOUNDS and self.target[0].isupper() and self.target.isalpha()


@dataclass(frozen=True)
class Glossary:
    """Terms, the first of two that are spelt alike."""

    terms: tuple[Term, ...]

    @classmethod
    def of(cls, given: "GlossaryLike") -> "Glossary":
        """Take a glossary, a file of one, or a mapping of terms to translations ("" or None: stays as it is)."""
        if isinstance(given, Glossary):
            return given
        if isinstance(given, str | Path):
            return cls.read(Path(given))
        if not isinstance(given, Mapping):
            raise UserError(f"glossary: expected a mapping of terms or a file, not {type(given).__name__}")
        for source, target in given.items():
            if not isinstance(source, str) or not isinstance(target, str | None):
                raise UserError(f"glossary, {source!r}: a term and its translation are text (str)")
        terms = [_term([source, target or ""], f"glossary, {source!r}") for source, target in given.items()]
        return cls(tuple(terms))

    @classmethod
    def read(cls, path: Path) -> "Glossary":
        """Read a file; what is wrong in it is named with its line."""
        if not path.is_file():
            raise UserError(f"{path}: {'a glossary is a plain file' if path.exists() else 'no such glossary'}")
        lines = enumerate(lines_of(path), 1)
        told = [(number, line) for number, line in lines if line.strip() and not line.startswith("#")]
        if told and not any("\t" in line for _, line in told):
            print(f"note: {path}: no line has a tab, so all its terms stay as they are", file=sys.stderr, flush=True)
        terms: dict[tuple[str, bool], Term] = {}
        for number, line in told:
            where = f"{path}, line {number}"
            term = _term(line.split("\t"), where)
            key = (term.source if term.rule else term.source.lower(), bool(term.rule))
            if (other := terms.setdefault(key, term)).target != term.target:
                raise UserError(f"{where}: {term.source!r} is already {other.target or '='!r}; keep one of the two")
        return cls(tuple(terms.values()))

    def over(self, other: "Glossary | None") -> "Glossary":
        """Add the terms of another one; where both have a term, this one's counts."""
        mine = {term.source.lower() for term in self.terms}
        return Glossary((*self.terms, *(t for t in other.terms if t.source.lower() not in mine))) if other else self

    def wanted(self, text: str, language: str) -> list[Wanted]:
        """Find the terms of a text, whole words only, the longest first; each once.

        >>> glossary = Glossary.of({"house": "Haus", "house boat": "Hausboot", "GNU": "="})
        >>> [(one.target, one.start) for one in glossary.wanted("GNU houses, a house boat, a houseboat", "en")]
        [('GNU', 0), ('Haus', 4), ('Hausboot', 14)]
        """
        found: list[Wanted] = []
        for word in _WORD.finditer(text):
            if found and word.start() < found[-1].end:
                continue
            small, endings = word[0].lower(), _ENDINGS.get(language, ())
            spellings = {small, *(small.removesuffix(ending) for ending in endings)}
            terms = [one for spelling in spellings for one in self._by_first_word.get(spelling, ())]
            places = (_place(term, text, word.start(), language) for term in terms)
            if longest := max((one for one in places if one), key=lambda one: one.end - one.start, default=None):
                found.append(longest)
        return list({one.target: one for one in reversed(found)}.values())[::-1]

    @cached_property
    def _by_first_word(self) -> dict[str, list[Term]]:
        index: dict[str, list[Term]] = {}
        for term in self.terms:
            index.setdefault(_first_word(term.source)[0].lower(), []).append(term)
        return index

    def __reduce__(self) -> tuple[Any, ...]:
        return Glossary, (self.terms,)  # the index is made again where it is needed


GlossaryLike = Glossary | str | Path | Mapping[str, str | None]


def _term(columns: list[str], where: str) -> Term:
    source, target, rule = (*(column.strip() for column in columns), "", "")[:3]
    if len(columns) > 3:
        raise UserError(f"{where}: {len(columns)} columns; write a term, its translation and perhaps a rule")
    if not _WORD.search(source):
        raise UserError(f"{where}: there is no term; write it first, then a tab and its translation")
    if target not in ("", "=") and not _WORD.search(target):
        raise UserError(f"{where}: {target!r} is no translation; leave it empty where the term stays as it is")
    if rule not in RULES:
        raise UserError(f"{where}: no rule {rule!r}; there are 'case' and 'exact', or none")
    return Term(source, "" if target == "=" else target, rule)


def _first_word(text: str) -> re.Match[str]:
    found = _WORD.search(text)
    assert found  # every term has one
    return found


def _place(term: Term, text: str, at: int, language: str) -> Wanted | None:
    """Look whether a term stands where its first word begins."""
    start = at - _first_word(term.source).start()
    end = start + len(term.source)
    here = text[max(start, 0) : end]
    if start < 0 or (here != term.source if term.rule or not term.target else here.lower() != term.source.lower()):
        return None
    if not term.is_exact and len(term.source) >= _SHORTEST:
        end += max((len(e) for e in _ENDINGS.get(language, ()) if _ends_word(text, end, e)), default=0)
    if not _ends_word(text, end, ""):
        return None
    return Wanted(start, end, term.target or term.source, inflected=not term.is_exact)


def _ends_word(text: str, at: int, ending: str) -> bool:
    end = at + len(ending)
    after = text[end : end + 1]
    return text.startswith(ending, at) and not (after.isalnum() or after == "_")


def _inflected(word: str, language: str) -> str:
    """Write a word as a pattern of all its forms; at the beginning of a sentence it may have a capital."""
    endings = _ENDINGS.get(language, ())
    is_long = len(word) >= _SHORTEST
    letters = [_UMLAUTS.get(c, re.escape(c)) if is_long and language == "de" else re.escape(c) for c in word]
    first = letters[0] if word[0].isupper() else rf"(?i:{letters[0]})"
    return first + "".join(letters[1:]) + (rf"(?:{'|'.join(endings)})?" if endings and is_long else "")
