"""Quotation marks: each language has its own, and a model has seen all of them in both."""

import re
from collections.abc import Sequence

from recoversat.inference.repairing import Repair

_PLAIN_STYLE = '""'
_STYLES = {"de": "„“", "en": _PLAIN_STYLE}
_PLAIN = str.maketrans("“”", '""')
_MARK = re.compile("[\"“”„«»]|''|``")
_OPENS = re.compile(r"[\s(\[{/–—-]|\A\Z")  # what may stand before a mark that opens
_CODE = re.compile(r"""[=<>{}\\;_]|\w\(|\d["″]""")  # quotes of programs, and inches


class OneQuoteStyle(Repair):
    """Let the model read plain quotation marks where the source is English; write those of the target language.

    Who types plain ones gets plain ones.
    """

    def prepare(self, text: str) -> str:
        curly = self.translator.source.startswith("en") and ("“" in text or "”" in text)
        return text.translate(_PLAIN) if curly else text

    def restore(self, translation: str, given: str) -> str:
        style = _STYLES.get(self.translator.target[:2])
        if style is None or not _MARK.search(translation) or self._prescribed():
            return translation
        return requoted(given, translation, _PLAIN_STYLE if is_plain(given) else style)

    def _prescribed(self) -> bool:
        """Say whether somebody has written marks into a glossary: they stand as they are."""
        terms = self.request.glossary.terms if self.request.glossary else ()
        return any(_MARK.search(term.target) for term in terms)


def is_plain(text: str) -> bool:
    """Say whether a text has quotation marks, none but those of typewriters.

    >>> is_plain('Say "yes".'), is_plain("Say “yes”."), is_plain("Say yes.")
    (True, False, False)
    """
    return set(_MARK.findall(text)) == {'"'}


def requoted(source: str, translation: str, style: str) -> str:
    """Give a translation quotation marks of one style; programs and what cannot be paired stay as they are.

    >>> requoted('Say "yes" or "no".', "Sag »Ja« oder „Nein”.", "„“"), requoted('x = "a"', 'x = "a"', "„“")
    ('Sag „Ja“ oder „Nein“.', 'x = "a"')
    """
    marks = list(_MARK.finditer(translation))
    paired = len(marks) % 2 == 0 and all(map(_OPENS.search, _before(translation, marks[::2])))
    glued = any(translation[mark.end() : mark.end() + 1].isalnum() for mark in marks[1::2])
    if not paired or glued or _CODE.search(source):
        return translation
    out, position = "", 0
    for number, mark in enumerate(marks):
        out += translation[position : mark.start()] + style[number % 2]
        position = mark.end()
    return out + translation[position:]


def _before(text: str, marks: Sequence[re.Match[str]]) -> list[str]:
    """Give the character before each mark, or nothing."""
    return [text[max(0, mark.start() - 1) : mark.start()] for mark in marks]
