"""English and German write numbers, amounts of money and times in different ways; a model mixes them up."""

import re

from recoversat.inference.assembling import Draft
from recoversat.inference.repairing import Repair
from recoversat.text.numbers import localized, uniform_times

_SEPARATED = re.compile(r"\d[.,:/]\d|[£$€¥]\s?\d|\d\s?[£$€¥]|\d ?[ap]\.?m\b")


class LocalizeNumbers(Repair):
    """Let the model read the times of a day in one English way; write all numbers as the reader does."""

    def prepare(self, text: str) -> str:
        return uniform_times(text) if self._languages[0] == "en" else text

    def mend(self, draft: Draft) -> Draft:
        if not _SEPARATED.search(draft.text):
            return draft
        text = localized(draft.source.text, draft.text, self._languages)
        return draft if text == draft.text else draft.saying(text)

    @property
    def _languages(self) -> tuple[str, str]:
        return self.translator.source[:2], self.translator.target[:2]
