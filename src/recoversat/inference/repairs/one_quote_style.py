"""Quotation marks: each language has its own, and a model has seen all of them in both."""

import re

from recoversat.inference.assembling import Draft
from recoversat.inference.repairing import Repair

_STYLES = {"de": "„“", "en": '""'}
_PLAIN = str.maketrans("“”", '""')
_MARK = re.compile("[\"“”„«»]|''|``")
_CODE = re.compile(r"""[=<>{}\\;_]|\w\(|\d["″]""")  # quotes of programs, and inches


class OneQuoteStyle(Repair):
    """Let the model read plain quotation marks where the source is English; write those of the target language."""

    def prepare(self, text: str) -> str:
        curly = self.translator.source.startswith("en") and ("“" in text or "”" in text)
        return text.translate(_PLAIN) if curly else text

    def mend(self, draft: Draft) -> Draft:
        style = _STYLES.get(self.translator.target[:2])
        if style is None or not _MARK.search(draft.text):
            return draft
        text = requoted(draft.source.text, draft.text, style)
        return draft if text == draft.text else draft.saying(text)


def requoted(source: str, translation: str, style: str) -> str:
    """Give a translation quotation marks of one style; programs and what cannot be paired stay as they are.

    >>> requoted('Say "yes" or "no".', "Sag »Ja« oder „ Nein”.", "„“"), requoted('x = "a"', 'x = "a"', "„“")
    ('Sag „Ja“ oder „Nein“.', 'x = "a"')
    """
    marks = list(_MARK.finditer(translation))
    if len(marks) % 2 or _CODE.search(source):
        return translation
    out, position = "", 0
    for opens, mark in enumerate(marks, 1):
        between = translation[position : mark.start()]
        out += (between if opens % 2 else between.strip()) + style[1 - opens % 2]
        position = mark.end()
    return out + translation[position:]
