"""English and German write numbers, amounts of money and times in different ways; a model mixes them up."""

import re

from recoversat.inference.assembling import Draft
from recoversat.inference.repairing import Repair
from recoversat.text.numbers import in_24_hours, localized

_SEPARATED = re.compile(r"\d[.,:/]\d|[£$€¥]\s?\d|\d\s?[£$€¥]")


class LocalizeNumbers(Repair):
    """Let the model read the times of a day as German writes them; write all numbers as the reader does."""

    def prepare(self, text: str) -> str:
        return in_24_hours(text) if self._languages == ("en", "de") else text

    def mend(self, draft: Draft) -> Draft:
        if not _SEPARATED.search(draft.text):
            return draft
        text = localized(draft.source.text, draft.text, self._languages)
        return draft if text == draft.text else draft.saying(text)

    @property
    def _languages(self) -> tuple[str, str]:
        return self.translator.source[:2], self.translator.target[:2]
