"""Runs of blanks and tabs mean nothing to a model, which may write digits for them; they are columns, or a slip."""

import re

from recoversat.inference.repairing import Repair
from recoversat.text.parts import Parts

_RUN = re.compile(r"[ \xa0]{2,}")
_TAB = re.compile(r"\t\s*")
_COLUMN = re.compile(r"\t\s*|[ \xa0]{3,}")
_SENTENCE = re.compile(r"[.!?…][\"'”’“»)\]]*\s*\Z")
_NEAR = 4  # words from where a run of blanks is expected


class KeepSpacing(Repair):
    """Translate columns by themselves; let the model read single blanks, and put runs of them back."""

    def cut(self, text: str) -> Parts | None:
        return columns(text) if "\t" in text or "   " in text else None

    def prepare(self, text: str) -> str:
        return _RUN.sub(" ", text) if _has_runs(text) else text

    def restore(self, translation: str, given: str) -> str:
        return spaced_alike(given, translation) if _has_runs(given) else translation


def columns(text: str) -> Parts | None:
    r"""Cut a text at tabs, and at three blanks unless it is a sentence.

    >>> columns("Name\tPrice     Sum"), columns("The   end."), columns(" one\t")
    (Parts(texts=['Name', 'Price', 'Sum'], gaps=['', '\t', '     ', '']), None, None)
    """
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    gaps = list((_TAB if _SENTENCE.search(text[-20:]) else _COLUMN).finditer(text, start, end))
    edges = [start, *(edge for gap in gaps for edge in gap.span()), end]
    return Parts.at(text, list(zip(edges[::2], edges[1::2], strict=True))) if gaps else None


def spaced_alike(source: str, translation: str) -> str:
    """Put the runs of blanks of a source between words of its translation: about as far on, after the same mark.

    >>> spaced_alike("The   house is  big.", "Das Haus ist groß."), spaced_alike("No:  I am here", "Nein: hier bin ich")
    ('Das   Haus ist  groß.', 'Nein:  hier bin ich')
    """
    words, core = translation.split(" "), source.strip()
    n_words, places = len(core.split()), {}
    seen = position = 0
    for run in _RUN.finditer(core):
        seen += len(core[position : run.start()].split())
        position = run.end()
        places[_place(words, seen * len(words) / n_words, core[run.start() - 1])] = run[0]
    return "".join(places.get(at, " " if at else "") + word for at, word in enumerate(words))


def _place(words: list[str], wanted: float, mark: str) -> int:
    """Choose the word before which a run of blanks stands."""
    near = range(max(1, round(wanted) - _NEAR), min(len(words) - 1, round(wanted) + _NEAR) + 1) or [len(words)]
    return min(near, key=lambda at: (not mark.isalnum() and words[at - 1][-1:] != mark, abs(at - wanted)))


def _has_runs(text: str) -> bool:
    return "  " in text or ("\xa0" in text and _RUN.search(text) is not None)
