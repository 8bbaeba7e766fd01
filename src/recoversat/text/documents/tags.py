"""Tags set into the translation of a whole sentence, around what has become of their content.

An element whose content, translated alone, stands in the translation goes there. Of the others `locate` is asked,
within bounds. Elements in elements are looked for in what their parent has become, and change places as words do.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from recoversat.text.alignment import Part, Range
from recoversat.text.documents.block import kept_elements, places_of
from recoversat.text.documents.elements import Element
from recoversat.text.placeholders import hard_texts, has_words

Locate = Callable[[list[Part]], list[Range | None]]

# Words looked through for the places of tags: so many, or so many times what was written; none of a longer text.
_FREE_WORDS, _MOST_TIMES, _LONGEST = 600, 3, 80


@dataclass(frozen=True)
class Tagged:
    """The elements of a sentence, its translation, and how translated text is written in its document."""

    tree: Element
    translation: str
    written: Callable[[str], str]


def set_tags(sentences: Sequence[Tagged], alone: Callable[[str], str], locate: Locate | None) -> list[str | None]:
    """Write translations with their tags; None where a place is not known.

    `alone` gives the translation of what stands in an element, by itself.
    """
    texts = {sentence.tree: sentence.translation for sentence in sentences}
    places: dict[Element, Range] = {}
    level = list(texts)
    while level:
        pairs = [(parent, child) for parent in level for child in parent.children]
        found = [place for parent in level for place in _sure_places(parent, texts[parent], alone)]
        doubts = [i for i, place in enumerate(found) if place is None and has_words(pairs[i][1].text)]
        asked = _affordable([texts[pairs[i][0]] for i in doubts], list(texts.values())) if locate else []
        if locate and asked:
            located = locate([_part(*pairs[doubts[n]], texts[pairs[doubts[n]][0]]) for n in asked])
            for n, place in zip(asked, located, strict=True):
                found[doubts[n]] = place
        level = []
        for (parent, child), place in zip(pairs, found, strict=True):
            if place and _is_safe(child, texts[parent], place):
                places[child], texts[child] = place, texts[parent][slice(*place)]
                level.append(child)
    return [_woven(sentence.tree, texts, places, sentence.written) for sentence in sentences]


def _sure_places(parent: Element, text: str, alone: Callable[[str], str]) -> list[Range | None]:
    """Find the children that are all there is, or whose translation alone stands in `text` as often as they do."""
    contents = [alone(child.text).strip() for child in parent.children]
    found: list[Range | None] = []
    for at, (child, content, is_whole) in enumerate(zip(parent.children, contents, _whole_words(parent), strict=True)):
        places = places_of(content, text) if is_whole else []
        if child.text.strip() == parent.text.strip():
            found.append((0, len(text)))
        elif len(places) == contents.count(content):
            found.append(places[contents[:at].count(content)])  # equal ones in their order
        else:
            found.append(None)
    return found


def _whole_words(parent: Element) -> list[bool]:
    """Say of each child whether words begin and end with it: what is a part of one stands nowhere as it is."""
    found, end = [], 0
    for part in parent.content:
        start, end = end, end + len(part if isinstance(part, str) else part.text)
        if isinstance(part, Element):
            found.append(not any(at and re.match(r"\w\w", parent.text[at - 1 : at + 1]) for at in (start, end)))
    return found


def _affordable(doubtful: list[str], translations: list[str]) -> list[int]:
    """Choose which elements to locate in their translations, those of short ones first.

    Each costs as much as writing its translation anew; all together may cost a few times what was written, no more.
    """
    left = max(_FREE_WORDS, _MOST_TIMES * sum(len(text.split()) for text in translations))
    chosen = []
    for text, times in sorted(Counter(doubtful).items(), key=lambda item: len(item[0])):
        cost = 2 * times * len(text.split())
        if cost <= left and len(text.split()) <= _LONGEST:
            chosen += [i for i, other in enumerate(doubtful) if other == text]
            left -= cost
    return chosen


def _part(parent: Element, child: Element, text: str) -> Part:
    around = Element("", "", [part for part in parent.content if part is not child])
    return Part(parent.text.strip(), child.text.strip(), " ".join(around.text.split()), text)


def _is_safe(child: Element, text: str, place: Range) -> bool:
    """Tell whether tags may stand there: within no URL, and around the untranslated elements they were around."""
    start, end = place
    cut = [text[:start], text[start:end], text[end:]]
    unhurt = [hard for piece in cut for hard in hard_texts(piece)] == hard_texts(text)
    words = any(map(str.isalpha, cut[1])) or not any(map(str.isalpha, child.text))
    return start < end and unhurt and words and kept_elements(cut[1]) == kept_elements(child.text)


def _woven(
    element: Element, texts: dict[Element, str], places: dict[Element, Range], written: Callable[[str], str]
) -> str | None:
    """Put tags and texts together; None where a place is unknown or taken."""
    text, out, position = texts[element], "", 0
    for child in sorted(element.children, key=lambda child: places.get(child, (0, 0))):
        start, end = places.get(child, (-1, -1))
        inside = _woven(child, texts, places, written) if start >= position else None
        if inside is None:
            return None
        out += written(text[position:start]) + child.opening + inside + child.closing
        position = end
    return out + written(text[position:])
