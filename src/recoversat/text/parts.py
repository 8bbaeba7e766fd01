"""Texts longer than a model has ever seen, cut into sentences and, where that is not enough, at clauses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from recoversat.text.sentences import sentence_spans, split_to_fit


@dataclass(frozen=True)
class Parts:
    """The parts of a text and the white space around them."""

    texts: list[str]
    gaps: list[str]  # before the first part, between two, after the last

    def joined(self, translations: Sequence[str]) -> str:
        """Put translations where the parts were."""
        return self.gaps[0] + "".join(text + gap for text, gap in zip(translations, self.gaps[1:], strict=True))

    @classmethod
    def at(cls, text: str, spans: Sequence[tuple[int, int]]) -> "Parts":
        """Cut a text at spans that lie side by side.

        >>> Parts.at(" a  b", [(1, 2), (4, 5)])
        Parts(texts=['a', 'b'], gaps=[' ', '  ', ''])
        """
        edges = [0, *(edge for span in spans for edge in span), len(text)]
        gaps = [text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]
        return cls([text[start:end] for start, end in spans], gaps)

    def cut_further(self, cut: Callable[[str], "Parts | None"]) -> "Parts":
        """Cut parts into parts of their own, where `cut` gives some."""
        cuts = [cut(text) for text in self.texts]
        if not any(cuts):
            return self
        texts, gaps = [], [self.gaps[0]]
        for text, found, gap in zip(self.texts, cuts, self.gaps[1:], strict=True):
            inner = found or Parts([text], ["", ""])
            gaps[-1] += inner.gaps[0]
            texts += inner.texts
            gaps += inner.gaps[1:]
            gaps[-1] += gap
        return Parts(texts, gaps)


def parts_of(text: str, language: str, fits: Callable[[str], bool]) -> Parts:
    """Cut a text so that every part fits.

    >>> parts_of("One two.  Three four five.", "en", lambda part: len(part) < 12)
    Parts(texts=['One two.', 'Three four', 'five.'], gaps=['', '  ', ' ', ''])
    """
    texts, gaps, position = [], [""], 0
    for start, end in sentence_spans(text, language):
        gaps[-1] += text[position:start]
        for piece in [cut for part in split_to_fit(text[start:end], fits) for cut in _cut_to_fit(part, fits)]:
            inside = piece.strip()
            before, after = piece.split(inside, 1) if inside else (piece, "")
            gaps[-1] += before
            if inside:
                texts.append(inside)
                gaps.append(after)
        position = end
    gaps[-1] += text[position:]
    return Parts(texts, gaps)


def _cut_to_fit(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Cut what has no good place to be cut, such as a letter with a thousand accents, in halves until each fits.

    >>> _cut_to_fit("a" * 5, lambda part: len(part) <= 3)
    ['aa', 'aaa']
    """
    if len(text) < 2 or fits(text):
        return [text]
    middle = len(text) // 2
    return _cut_to_fit(text[:middle], fits) + _cut_to_fit(text[middle:], fits)
