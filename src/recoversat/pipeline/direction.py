"""From which language into which: where the user leaves it open, the text decides."""

import sys
from functools import cached_property
from typing import TYPE_CHECKING

from recoversat.config import DataConfig
from recoversat.errors import UserError
from recoversat.text.directions import choose_direction
from recoversat.text.languages import LanguageDetector, language_name

if TYPE_CHECKING:
    from recoversat.translator import Translator

AUTO = "auto"  # as `--from` and clients of the server write it
Pair = tuple[str, str]


class Directions:
    """Chooses among the directions of a model by the language of the text, where `--from` and `--to` do not.

    A text in a language that the model does not read is refused; one that tells too little takes the direction of the
    text before it, at first the model's own. At a terminal a direction that was not named is said.
    """

    def __init__(self, data: DataConfig, source: str | None, target: str | None) -> None:
        self._now = choose_direction(data, None if source == AUTO else source, target)
        into = self._now[1] if target else None
        self._pairs = [pair for pair in data.directions if into in (None, pair[1])]
        self._is_open = source == AUTO or (source is None and target is None)
        self._may_refuse = source == AUTO or len(self._pairs) > 1
        self._is_named = source not in (None, AUTO) and target is not None
        self._said = ""
        self._noted: set[str] = set()

    def choose(self, text: str, name: str, *, alone: bool = False) -> Pair:
        """Return the direction for a text, by its beginning; a line that stands `alone` is never refused."""
        if self._is_open and any(map(str.isalpha, text)):
            self._follow(text, name, alone)
        if not self._is_named and self._said != (said := " -> ".join(self._now)) and sys.stderr.isatty():
            self._said = said
            print(said, file=sys.stderr, flush=True)
        return self._now

    @cached_property
    def _detector(self) -> LanguageDetector:
        return LanguageDetector(list(dict.fromkeys(code for pair in self._pairs for code in pair)))

    def _follow(self, text: str, name: str, alone: bool) -> None:
        """Turn to the language of a text, or say why not."""
        guess = self._detector.guess(text)
        if found := next((pair for pair in self._pairs if pair[0] == guess.language), None):
            self._now = found
            return
        source, target = self._now
        if seen := guess.language or guess.other:
            looks, known = language_name(seen), ", ".join(map(" -> ".join, self._pairs))
            if self._may_refuse and not alone:
                raise UserError(
                    f"{name}: this looks like {looks}, which is not translated here (only {known}); "
                    f"--from {source} takes it for {language_name(source)}"
                )
            self._note(f"{name} looks like {looks}; translated {source} -> {target} all the same")
        elif len(self._pairs) > 1 and self._detector.knows_any:
            others = " or ".join(f"--from {one}" for one, _ in self._pairs if one != source)
            self._note(f"{name}: too little text to tell its language; {source} -> {target} ({others} turns it)")

    def _note(self, note: str) -> None:
        if note not in self._noted:
            self._noted.add(note)
            print(f"note: {note}", file=sys.stderr, flush=True)


def turned(translator: "Translator", direction: Pair) -> "Translator":
    """Return the translator of a direction, of the same model."""
    return translator if translator.target == direction[1] else translator.into(direction[1])
