"""Where sentences begin and end, and where to cut one that is too long; offsets only, no text is changed."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence

import sentencex  # type: ignore[import-untyped]

Range = tuple[int, int]

# A line break or a tab ends a sentence: what stands on two lines, or in two columns, stays on two.
_LINE = re.compile(r"[^\n\r\t\v\f\x1c-\x1e\x85\u2028\u2029]+")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
# The splitter knows the months ("am 3. Oktober") but not "der 2. Weltkrieg" or "im 2. Stock".
_GERMAN_ORDINAL = re.compile(
    r"\b(?:de[rmns]|die|das|am|im|vom|zum|zur|beim|ins|ans|jede[rmns]?|[mds]?eine[rmns]?|unsere[rmns]?)"
    r" +\d{1,3}\. *\Z",
    re.IGNORECASE,
)
# Nor does it always see that these go on: "Dr. Who", "z. B. Äpfel".
_ABBREVIATION = re.compile(
    r"\b(?:Dr|Mrs?|Ms|Prof|St|Hr|Fr|Nr|vs|Fig|Abb|Art|Abs|bzw|ca|z\. ?B|d\. ?h|u\. ?a|e\. ?g|i\. ?e)\. *\Z"
)
# Nor after a time of the day, if a day follows: "at 9 a.m. Monday".
_TIME = re.compile(r"\d ?[ap]\.m\. *\Z")
_DAY = re.compile(r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?\b|(?:CES?T|[EP][SD]T|GMT|UTC|BST)\b")
# After a clause, after a word, anywhere: the ways to cut, best first.
_CLAUSE_END = re.compile(r"(?<=[,;:!?…)\]])\s++|(?<!\s)\s++(?=[–—(\[])|(?<=[，、；：。！？])")
_SPACE = re.compile(r"\s+")
_WINDOW = 1000  # characters the splitter library is given at a time


def sentence_spans(text: str, language: str, *, keep: Sequence[Range] = ()) -> list[Range]:
    r"""Find the sentences of `text`; between them, before and after there is only white space.

    A line break or a tab always ends a sentence; nothing ever ends one inside a `keep` span,
    nor where such a span is glued to other text.

    >>> sentence_spans("Hi, Dr. Smith. Bye.\r\n\r\n End", "en")
    [(0, 14), (15, 19), (24, 27)]
    """
    spans = []
    for start, end in (match.span() for match in _LINE.finditer(text)):
        ends = _sentence_ends(text[start:end], language, start)
        cuts = [cut for cut in ends if not (_tears(text, cut, keep) or _is_glued(text, cut))]
        for left, right in zip([start, *cuts], [*cuts, end], strict=True):
            sentence = text[left:right]
            if core := sentence.strip():
                left += len(sentence) - len(sentence.lstrip())
                spans.append((left, left + len(core)))
    return spans


def split_to_fit(text: str, fits: Callable[[str], bool], keep: Sequence[Range] = ()) -> list[str]:
    """Cut `text` into parts that fit: after clauses if possible, else at spaces, else anywhere but in `keep`.

    The parts joined are the text. A single character or a `keep` span that does not fit is a part even so.

    >>> split_to_fit("one two, three four", lambda part: len(part) <= 10)
    ['one two, ', 'three four']
    """
    if fits(text):
        return [text]
    anywhere = _allowed_cuts(text, range(1, len(text)), keep)
    found = ((match.end() for match in pattern.finditer(text)) for pattern in (_CLAUSE_END, _SPACE))
    better = [_allowed_cuts(text, cuts, keep) for cuts in found]
    parts, start = [], 0
    while start < len(text):
        reach = _reach(text, start, anywhere, fits)
        within = (cuts[bisect_right(cuts, start) : bisect_right(cuts, reach)] for cuts in better)
        choices = (cut for cuts in within for cut in reversed(cuts))
        end = reach if reach == len(text) else next(filter(lambda cut: fits(text[start:cut]), choices), reach)
        parts.append(text[start:end])
        start = end
    return parts


def _sentence_ends(line: str, language: str, offset: int) -> Iterator[int]:
    """Yield where a sentence ends and another begins, counted from `offset`."""
    german = language.lower().startswith("de")
    position = 0
    for sentence in _segment(line, language)[:-1]:
        position += len(sentence)
        start = max(0, position - 40)
        goes_on = german and _GERMAN_ORDINAL.search(line, start, position)
        goes_on = goes_on or (_TIME.search(line, start, position) and _DAY.match(line, position))
        if not (goes_on or _ABBREVIATION.search(line, start, position)):
            yield offset + position


def _segment(line: str, language: str) -> list[str]:
    """Cut `line` with the splitter library, or not at all where that library fails."""
    # sentencex 1.0 takes white space to be one byte long and panics on "B\u00a0."; surrogates are not UTF-8.
    plain = _SURROGATE.sub("\ufffd", _SPACE.sub(lambda match: " " * len(match[0]), line))
    code, sentences, start = re.split("[-_]", language)[0].lower(), [""], 0
    while start < len(plain):
        # A window at a time: its time grows with the square where letters are no ASCII. The last sentence may go on.
        found = _segment_window(code, sentences.pop() + plain[start : start + _WINDOW])
        sentences += found
        start += _WINDOW
    return sentences


def _segment_window(language: str, plain: str) -> list[str]:
    if len(plain) > 3 * _WINDOW:  # nothing has ended for so long: what comes now begins anew
        return [plain[:-_WINDOW], *_segment_window(language, plain[-_WINDOW:])]
    try:
        sentences: list[str] = sentencex.segment(language, plain)
    except BaseException as error:  # a Rust panic is no Exception, and no reason to fail a request
        if type(error).__name__ != "PanicException":
            raise
        return [plain]
    return sentences if "".join(sentences) == plain else [plain]


def _tears(text: str, cut: int, keep: Sequence[Range]) -> bool:
    """Tell whether `cut` falls into one of the sorted spans, or parts one from what is glued to it."""
    before = bisect_right(keep, (cut, len(text))) - 1
    if before < 0:
        return False
    start, end = keep[before]
    return start < cut < end or (cut in (start, end) and not _is_spaced(text, cut))


def _is_spaced(text: str, cut: int) -> bool:
    return text[cut - 1].isspace() or text[cut].isspace()


def _is_glued(text: str, cut: int) -> bool:
    """Tell whether a sentence would end without white space, where the script needs some ("a.(b", not "。")."""
    return not (_is_spaced(text, cut) or unicodedata.east_asian_width(text[cut - 1]) in "WF")


def _allowed_cuts(text: str, cuts: Iterable[int], keep: Sequence[Range]) -> list[int]:
    """Keep the cuts that tear neither a `keep` span nor an accent from its letter; the end is always one."""
    inner = (cut for cut in cuts if 0 < cut < len(text) and not unicodedata.combining(text[cut]))
    return [*(cut for cut in inner if not _tears(text, cut, keep)), len(text)]


def _reach(text: str, start: int, cuts: list[int], fits: Callable[[str], bool]) -> int:
    """Find the last cut up to which the text fits (the first cut if none), measuring few and short candidates."""
    low = bisect_right(cuts, start)
    step = 1
    while low + step < len(cuts) and fits(text[start : cuts[low + step]]):
        low += step
        step *= 2
    while step > 1:
        step //= 2
        if low + step < len(cuts) and fits(text[start : cuts[low + step]]):
            low += step
    return cuts[low]
