"""A question must stay one: the mark at the end of a sentence is written by a segment that knows little of the rest."""

from recoversat.inference.assembling import Draft
from recoversat.inference.repairing import Repair

_MARKS, _BEHIND = ".?!…", " \"'”’“»«)]"


class KeepEnding(Repair):
    """End a translation with the mark that its source ends with."""

    def mend(self, draft: Draft) -> Draft:
        text = ended_alike(draft.source.text, draft.text)
        return draft if text == draft.text else draft.saying(text)


def ended_alike(source: str, translation: str) -> str:
    """Give a translation the last mark of its source; what has none leaves it alone, it may be an abbreviation's.

    >>> ended_alike("Who?", "Wer."), ended_alike("“Who?”", "„Wer“"), ended_alike("Dogs, cats", "Hunde usw.")
    ('Wer?', '„Wer?“', 'Hunde usw.')
    """
    _, wanted, _ = _parted(source)
    words, mark, behind = _parted(translation)
    is_same = wanted.replace("...", "…") == mark.replace("...", "…")
    return words + wanted + behind if wanted and words.strip() and not is_same else translation


def _parted(text: str) -> tuple[str, str, str]:
    """Part a text into its words, its last mark and the quotes and spaces behind it.

    >>> _parted("(Who?) ")
    ('(Who', '?', ') ')
    """
    words = text.rstrip(_BEHIND)
    behind = text[len(words) :]
    core = words.rstrip(_MARKS)
    return core, words[len(core) :], behind
