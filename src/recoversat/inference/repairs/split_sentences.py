"""Several sentences in one line melt into one another: segments are divided evenly, not where sentences end."""

import re

from recoversat.inference.repairing import Repair
from recoversat.text.parts import Parts
from recoversat.text.placeholders import protected_spans
from recoversat.text.sentences import sentence_spans

_END = re.compile(r"[.!?…。！？][\"'”’“»)\]]*\s|[。！？]\S")
_WORD = re.compile(r"[^\W\d_]{2}")
# "Herr Präsident! Ich ..." is one sentence in English: "Mr President, I ..."
_ADDRESS = re.compile(r"(?:Herr|Frau|Liebe|Meine|Sehr|[Vv]erehrte|Geehrte|Werte|Hohe|Kolleg)[^.!?]{,120}!\Z")


class SplitSentences(Repair):
    """Translate the sentences of a line by themselves."""

    def cut(self, text: str) -> Parts | None:
        return sentences_of(text, self.translator.source) if _END.search(text) else None


def sentences_of(text: str, language: str) -> Parts | None:
    """Cut a line after sentences; what has no word of two letters stays with its neighbour.

    >>> sentences_of("It rains. I stay with Dr. Who. 5.", "en").texts
    ['It rains.', 'I stay with Dr. Who. 5.']
    """
    if text.isupper():  # whether it is a shout is seen of all of it
        return None
    keep = [(span.start, span.end) for span in protected_spans(text)]
    spans: list[tuple[int, int]] = []
    for start, end in sentence_spans(text, language, keep=keep):
        has_words = _WORD.search(text, start, end)
        if spans and not (has_words and _WORD.search(text, *spans[-1]) and not _ADDRESS.match(text, *spans[-1])):
            start = spans.pop()[0]
        spans.append((start, end))
    return Parts.at(text, spans) if len(spans) > 1 else None
