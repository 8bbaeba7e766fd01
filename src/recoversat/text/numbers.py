"""Numbers in two texts that say the same: which got lost, and how another language writes them.

English and German write numbers in opposite ways: `1,249.50` is `1.249,50`, `£9.99` is `9,99 £`.
"""

import re
from collections import Counter
from collections.abc import Iterator

_DIGITS = re.compile(r"\d+")
_WORD = re.compile(r"[^\W\d_]+")
# Numbers as words: they excuse a number and never ask for one, because some mean other things too ("acht").
# "ein" is missing: nearly every sentence has one.
_ENGLISH = "zero one two three four five six seven eight nine ten eleven twelve"
_GERMAN = "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf"
_WORDS = {word: str(number) for words in (_ENGLISH, _GERMAN) for number, word in enumerate(words.split())}
# Words, or parts of them, that may become a number: "the twentieth century", "halb vier", "a dozen", "Juni".
_NUMEROUS = re.compile(
    r"one|once|two|twi[cn]|three|thr|four|fif|five|six|seven|eigh|nine|ninth|ten\b|tenth|eleven|twel|twen|teen|ty\b|ties\b"
    r"|hundred|thousand|illi|first|second|third|half|halves|dozen|double|tripl|quarter|score|centur|noon|midnight"
    r"|null|ein|zwei|drei|dritt|vier|fünf|sechs|sech|sieb|acht|neun|zehn|elf|zwölf|zwanzig|ßig|zig|hundert|tausend"
    r"|erst|halb|hälfte|dutzend|doppel|doppelt|zwo|jan|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|o[ck]t|nov|de[cz]",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"\b(0?[1-9]|1[0-2])(?:[:.]([0-5]\d))?[ \xa0]?([ap])(?:\.[ \xa0]?m\.|m\b)", re.IGNORECASE)
_FROM_TO = re.compile(r"(?<=[ap]\.m\.)[ \xa0]?[-–][ \xa0]?(?=\d\d?(?::\d\d)? [ap]\.?m)")
_FULL_HOUR = re.compile(r"(?<![\d:.,])(\d\d?)(?::00(?![\d:])|\.00(?=[ \xa0]?Uhr\b))")
_DECADE = re.compile(r"(?<!\d)19(\d0)(?=['’]?s\b|-?ern?\b|iger)")
_SENTENCE_END = re.compile(r"\s*(?:\Z|[\"”’)]*\s+[A-ZÄÖÜ])")
# All in capitals, with two digits at least: INV-2024, ABC-1234/X, A380
_CODE = re.compile(r"(?<![\w/.-])(?=[A-Z\d/_.-]*[A-Z])(?=(?:[A-Z/_.-]*\d){2})[A-Z\d]++(?:[-/_.][A-Z\d]++)*+(?![\w/-])")

_SEPARATED = re.compile(r"(?<!\d)\d++(?:[.,:/]\d++)++")
_SIGNS = "£$€¥"
_AMOUNT = re.compile(rf"[{_SIGNS}]\s?\Z")
_OF_AMOUNT = re.compile(rf"\s?(?:[%{_SIGNS}]|per\s?cent\b|[mb]illion\b)")
_NAMED = re.compile(
    r"(?:\bversion|\brelease|\bv|\bsections?|\bchapters?|\bnumber|\bno\.|\babschnitt\w*|\bkapitel\w*|\bnummer|\bnr\.|§)\s*\Z",
    re.IGNORECASE,
)
_DATE = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4}|\d{2})\Z")
_BEFORE, _BEHIND = (
    re.compile(
        r"(?<!\w)([£€¥]|\$(?=\d{2}|\d[.,]))\s?(\d++(?:[.,]\d++)*+)(?!\w|\s?(?:Mio|Mrd|Mill|Bill|[Tt]ausend|k\b))"
    ),
    re.compile(rf"(?<![\w.,])(\d++(?:[.,]\d++)*+)\s?([{_SIGNS}])(?!\w)"),
)
_SEPARATORS = {"en": (",", "."), "de": (".", ",")}  # between thousands, before a fraction


def has_digits(text: str) -> bool:
    """Say whether there is any digit in a text."""
    return _DIGITS.search(text) is not None


def wrong_numbers(source: str, translation: str) -> int:
    """Count the runs of digits that stand in one text and not in the other, neither in digits nor as a word.

    >>> wrong_numbers("from 9:30 to 10", "von 9.30 bis 10 Uhr"), wrong_numbers("on 2024-11-15", "am 2024-111-15")
    (0, 2)
    >>> wrong_numbers("two dogs", "2 Hunde"), wrong_numbers("2 dogs", "zwei Hunde"), wrong_numbers("2 cats", "Katzen")
    (0, 0, 1)
    >>> wrong_numbers("um 16.30 Uhr", "at 4:30 p.m."), wrong_numbers("um 20 Uhr", "at 8:00 p.m.")
    (0, 0)
    >>> wrong_numbers("in den 80er Jahren", "in the 1980s"), wrong_numbers("in den 80er Jahren", "in 1980")
    (0, 2)
    >>> wrong_numbers("the 1980's", "die 1980er Jahre"), wrong_numbers("the 1980s", "die 1880er Jahre")
    (0, 2)
    """
    lost, invented = _differences(source, translation)
    return (lost + invented).total()


def changed_numbers(source: str, translation: str) -> int:
    """Count the runs of digits of a text that its translation has less or more often; further ones may be words.

    >>> changed_numbers("two of 5", "2 von 5"), changed_numbers("5 dogs", "5 Hunde, 5"), changed_numbers("5", "6")
    (0, 1, 1)
    """
    lost, invented = _differences(source, translation)
    known = set(_DIGITS.findall(source)) if invented else ()
    return lost.total() + sum(times for run, times in invented.items() if run in known)


def invents_numbers(source: str, translation: str) -> bool:
    """Say whether a translation has digits, and nothing in its source can have become a number.

    >>> invents_numbers("eer של", "Eer 2."), invents_numbers("the twentieth century", "das 20. Jahrhundert")
    (True, False)
    """
    return has_digits(translation) and not has_digits(source) and not _NUMEROUS.search(source)


def lost_codes(source: str, translation: str) -> int:
    """Count the codes of a text that its translation spells otherwise.

    >>> lost_codes("Order ABC-1234/X of 5 May", "Bestellung ABC-1234/Y vom 5. Mai"), lost_codes("the A380", "der A380")
    (1, 0)
    """
    codes = _CODE.findall(source)
    return sum(code not in translation for code in codes) if codes else 0


def in_24_hours(text: str) -> str:
    """Write the times of an English text as German does.

    >>> in_24_hours("from 9 a.m. to 4:30 pm"), in_24_hours("It ends at 12:15 a.m.")
    ('from 9:00 to 16:30', 'It ends at 0:15.')
    """
    if not has_digits(text):
        return text

    def hours(match: re.Match[str]) -> str:
        ended = match[0].endswith(".") and _SENTENCE_END.match(text, match.end())
        return f"{_hour(match)}:{match[2] or '00'}{'.' if ended else ''}"

    return _CLOCK.sub(hours, text)


def _hour(clock: re.Match[str]) -> int:
    """Count from 0 to 23 the hour of a time that `_CLOCK` found."""
    return int(clock[1]) % 12 + (12 if clock[3] in "pP" else 0)


def uniform_times(text: str) -> str:
    """Write the times of an English text in one way, the one that models have read most often.

    >>> uniform_times("from 9AM to 4:30 pm, or at 7 PM."), uniform_times("9am-5pm"), uniform_times("at 7PM")
    ('from 9 a.m. to 4:30 p.m., or at 7 p.m.', '9 a.m. to 5 pm', 'at 7 pm')
    """
    if not has_digits(text):
        return text

    def dotted(match: re.Match[str]) -> str:
        after, half = text[match.end() :], match[3].lower()
        if match[0].endswith("."):
            half += ".m."
        else:  # no full stop is put at the end of a text that has none
            half += "m" if not after.strip() else ".m" if after.startswith(".") else ".m."
        return f"{match[1]}{':' if match[2] else ''}{match[2] or ''} {half}"

    return _FROM_TO.sub(" to ", _CLOCK.sub(dotted, text))


def localized(source: str, translation: str, languages: tuple[str, str]) -> str:
    """Write the numbers of a translation as its language does, where its source leaves no doubt.

    What is wrong in both ways is written as in the source. Dates that may be read in two ways stay as they are.

    >>> localized("It is $1,249.50 for 2.5.0", "Es ist $1.249.50 für 2,5.0", ("en", "de"))
    'Es ist 1.249,50 $ für 2.5.0'
    >>> localized("at 11:20 p.m.", "um 11:20 p.m.", ("en", "de"))
    'um 23:20 Uhr'
    >>> localized("Am 03.04.2025 1.249,50 €", "On 03,04,2025 1.249,50 €", ("de", "en"))
    'On 03.04.2025 €1,249.50'
    """
    if set(languages) != set(_SEPARATORS):
        return translation
    allowed = dict(_forms(source, languages[0]))
    if languages[1] == "de" and (times := list(_CLOCK.finditer(source))):
        translation = _CLOCK.sub(lambda match: f"{_hour(match)}:{match[2] or '00'} Uhr", translation)
        allowed |= {(str(_hour(time)), time[2]): (f"{_hour(time)}:{time[2]}",) for time in times if time[2]}

    def rewritten(match: re.Match[str]) -> str:
        forms = allowed.get(tuple(_DIGITS.findall(match[0])), (match[0],))
        return match[0] if match[0] in forms else forms[0]

    text = _SEPARATED.sub(rewritten, translation) if allowed else translation
    if not any(sign in source for sign in _SIGNS):
        return text
    return _BEFORE.sub(r"\2 \1", text) if languages[1] == "de" else _BEHIND.sub(r"\2\1", text)


_SWAPPED = str.maketrans(".,", ",.")


def _forms(source: str, language: str) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield the runs of digits of each number that has separators, and how it may be written, the best first."""
    for match in _SEPARATED.finditer(source):
        number, runs = match[0], tuple(_DIGITS.findall(match[0]))
        before, after = source[max(0, match.start() - 12) : match.start()], source[match.end() : match.end() + 12]
        if date := _DATE.match(number):
            form = _german_date(date) if language == "en" else None
            yield runs, (form or number,)
            yield (runs[1], runs[0], runs[2]), (form or number,)
        elif language == "de" and after.startswith(" Uhr") and number.count(".") == 1:
            yield runs, (number.replace(".", ":"),)
        elif not _is_quantity(number, language):
            yield runs, (number,)
        else:
            swapped, verse = number.translate(_SWAPPED), ":".join(runs)  # "Mt 5,3" is "Mt 5:3"
            yield runs, (swapped, verse) if _is_sure(number, before, after, language) else (number, swapped, verse)


def _is_quantity(number: str, language: str) -> bool:
    """Say whether a number looks like one with thousands or a fraction, and not like a date or an address."""
    thousands, point = _SEPARATORS[language]
    whole, *fraction = number.split(point)
    first, *groups = whole.split(thousands)
    is_address = len(groups) == 3 and not fraction and max(map(len, (first, *groups))) < 4 and int(first) < 256
    is_grouped = len(first) < 4 and all(len(group) == 3 for group in groups) and not is_address
    return len(fraction) < 2 and "".join((first, *groups, *fraction)).isdigit() and (not groups or is_grouped)


def _is_sure(number: str, before: str, after: str, language: str) -> bool:
    """Say whether what looks like a quantity is one, and no version or section."""
    if _NAMED.search(before) or before[-1:].isalpha():
        return False
    is_amount = bool(_AMOUNT.search(before) or _OF_AMOUNT.match(after))
    return language == "de" or _SEPARATORS["en"][0] in number or is_amount


def _german_date(date: re.Match[str]) -> str | None:
    """Write a date in German order if it can be read in one way only."""
    first, second, year = date.groups()
    if int(first) > 12 >= int(second):
        return f"{first}.{second}.{year}"
    return f"{second}.{first}.{year}" if int(second) > 12 >= int(first) else None


def _differences(source: str, translation: str) -> tuple[Counter[str], Counter[str]]:
    """Count what is lost and what is invented; the 1980s may be die 80er."""
    found = _missing(_full_hours(source), _full_hours(translation))
    if not any(found) or not (_DECADE.search(source) or _DECADE.search(translation)):
        return found
    short = _missing(*(_DECADE.sub(r"\1", _full_hours(text)) for text in (source, translation)))
    return min(found, short, key=lambda each: sum(map(Counter.total, each)))


def _missing(source: str, translation: str) -> tuple[Counter[str], Counter[str]]:
    """Count the runs of digits that only one of two texts has, neither in digits nor as a word."""
    here, there = (Counter(_DIGITS.findall(text)) for text in (source, translation))
    if here == there:
        return Counter(), Counter()
    return here - there - _in_words(translation), there - here - _in_words(source)


def _full_hours(text: str) -> str:
    """Leave out minutes that one language writes and another need not: 8:00 p.m. is 20 Uhr."""
    return _FULL_HOUR.sub(r"\1", in_24_hours(text))


def _in_words(text: str) -> Counter[str]:
    return Counter(_WORDS[word] for word in _WORD.findall(text.lower()) if word in _WORDS)
