r"""What must come through a translation unchanged, and how it does.

Protected, character for character: `{{name}}`, `{name}`, `{% tag %}`, `${VAR}`, `%s`, `%1$s`, `%(name)s`, ICU
plurals, URLs, e-mail addresses, emoji, characters no model can write (control, private use, surrogates), and what is
longer than any word, such as base64.
They travel through the model as three-digit numbers, because numbers are what translation models copy best.

Numbers travel as they are. Their digits must come back as often as they left, whatever stands between them: another
language writes `1,500.75` as `1.500,75`. A number the model adds for a word ("two" -> "2") is a translation, not a
change. Signs, currencies and units are ordinary text.

When a check fails, the text between the protected spans is translated alone: nothing can be lost that way.
"""

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from recoversat.text.numbers import changed_numbers

_EMOJI = (
    "\u203c\u2049\u2139\u2190-\u21ff\u231a-\u23ff\u2460-\u27ea\u27f0-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_EMOJI_TAIL = "\ufe0f\u200d\U000e0020-\U000e007f"
_UNWRITABLE = "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff\ue000-\uf8ff\ufffc-\uffff\U00100000-\U0010ffff"
_PLANE_15 = "\U000f0000-\U000fffff"  # private use; here `markup` puts elements that are not to be translated
# "*+" and "++" take all they can and give nothing back: the time stays proportional to the length of the text.
_CONVERSION = r"%(?:\d++\$|\([\w.-]++\))?+[-+#0]*+\d*+(?:\.\d++)?+(?:hh|h|ll|l|q|j|z|t|L)?+[sdiufFeEgGxXocCpa@]"
_NO_URL = r"\s(){}<>\"“”„«»。，、！？；"
_URL_GROUP = rf"\([^{_NO_URL}]*\)|\{{+[^{{}}\s]*\}}+"
# No word has so many letters: of Latin, Greek and Cyrillic, as other scripts may have no blanks between words.
_LETTER, _JOINT = r"0-9A-Za-z\u00c0-\u024f\u0370-\u052f", r"+/=_-"
_DATA = rf"(?<![{_LETTER}{_JOINT}])[{_JOINT}]?[{_LETTER}][{_LETTER}{_JOINT}]{{200,}}+"
# What ends a line ends a sentence, and every span with it.
_BREAK = r"\n\r\t\v\f\x1c-\x1e\x85\u2028\u2029"
_HARD = rf"""
      \{{\{{[^{{}}{_BREAK}]*\}}\}}                                # {{{{ name }}}}
    | \{{%[^{{}}{_BREAK}]*?%\}}                                 # {{% tag %}}
    | \{{\w*+,[^\S{_BREAK}]*+(?:plural|select|selectordinal|number|date|time)\b
      (?:[^{{}}{_BREAK}]|\{{[^{{}}{_BREAK}]*\}})*\}}
    | [$\#%]?\{{[^{{}}\s]*\}}                                   # {{name}} ${{NAME}} #{{name}} %{{name}}
    | %%
    | (?<!\d){_CONVERSION} | {_CONVERSION}(?![A-Za-z])        # but "100%ige" is a percentage
    | (?:(?:https?|ftps?|sftp|file|ssh|git|wss?|s3)://|(?<![A-Za-z\d])www\.)
      (?:{_URL_GROUP}|[^{_NO_URL}])*(?:{_URL_GROUP}|[^{_NO_URL}.,;:!?'’\]…])
    | (?<![\w.+-])(?:mailto:)?[\w.+-]{{1,64}}+@[\w-]++(?:\.[\w-]++)++
    | [0-9\#*]\ufe0f?\u20e3 | [©®™]\ufe0f
    | [{_EMOJI}](?:[\U0001f3fb-\U0001f3ff{_EMOJI_TAIL}\u20e3]|(?<=\u200d)[{_EMOJI}])*
    | [{_EMOJI_TAIL}\u20e3{_UNWRITABLE}{_PLANE_15}]
    | {_DATA}
"""
_DIGIT = r"\d(?!\ufe0f?\u20e3)"  # that of a keycap is no number
_GROUP = rf"{_DIGIT}(?:[A-Za-z]|{_DIGIT})*"
_NUMBER = rf"(?:[A-Za-z]{{0,12}}+-)?+[A-Za-z]{{0,12}}+{_GROUP}(?:[.,:/'’-]{_GROUP})*"  # COVID-19 too
_TOKEN = re.compile(rf"(?P<hard>{_HARD}) | (?P<number>{_NUMBER})", re.VERBOSE)
_DIGITS = re.compile(r"\d+(?:[.,:/'’-]\d+)*")
_POSITIONAL = re.compile(rf"\{{\}}|%(?!%|\d+\$|\()|[{_PLANE_15}]")
# Two spans with only this between them travel as one.
_BETWEEN_HARD = re.compile(r"[.,:;/@|&+*=~_'’–—-]{0,2}\s?[.,:;/@|&+*=~_'’–—-]{0,2}\s?")
_MOST_BETWEEN = 6
_BESIDE_NUMBER = re.compile(r"[.,:;/@|&+*=~_'’–—-]{0,2}")
# Bullets, headings and emoji around a sentence mean nothing to the model, so it never sees them.
_DECORATION = re.compile(rf"[{_EMOJI}{_EMOJI_TAIL}{_UNWRITABLE}\u200b\u2060\ufeff\s]")
_LEADING = re.compile(rf"(?:{_DECORATION.pattern}|[-*•·‣–—#>+|]++\s++)*+")
_MOST_NESTED = 8  # hard spans in hard spans; of what is nested deeper only the words are kept
# What every hard span has one of, to be found fast.
_SIGN = re.compile(rf"[{{%@©®™{_EMOJI}{_EMOJI_TAIL}\u20e3{_UNWRITABLE}{_PLANE_15}]|://|www\.|{_DATA}")
_DIGIT_OR_SIGN = re.compile(rf"\d|{_SIGN.pattern}")
_REMEMBERED = 256  # texts: on its way through the program a text is asked about several times
# Numbers a text is unlikely to contain, too short for a thousands separator: 211, 224 ... 991, 215, 228 ...
_STAND_INS = [str(211 + 13 * n % 789) for n in range(789)]
_LONG = 40  # characters of an address that leave no place for the sentence it stands in
_TIME = re.compile(r"\d{1,2}[:.]\d\d\Z")
_TIMES = ["9:30", "8:30", "7:30", "10:30", "6:30", "5:30"]


class Span(NamedTuple):
    """A stretch of text to be kept: a number, which the model sees, or `hard`, which it does not see."""

    start: int
    end: int
    hard: bool


@dataclass(frozen=True)
class Masked:
    """A text as the model sees it, and what each stand-in in it stands for."""

    source: str
    text: str
    stand_ins: dict[str, str]


@lru_cache(_REMEMBERED)
def protected_spans(text: str) -> tuple[Span, ...]:
    """Find what must survive; neighbours such as `{first} {last}` are one span.

    >>> [text[s.start : s.end] for text in ["Pay {sum} by 3.10. to a@b.org!"] for s in protected_spans(text)]
    ['{sum}', '3.10', 'a@b.org']
    """
    spans: list[Span] = []
    for span in _tokens(text):
        spans.append(span)
        while len(spans) > 1 and _belong_together(text, *spans[-2:]):
            spans[-2:] = [Span(spans[-2].start, spans[-1].end, True)]
    return tuple(spans)


@lru_cache(_REMEMBERED)
def _tokens(text: str) -> tuple[Span, ...]:
    """Find numbers and what is hard, one by one."""
    found = _TOKEN.finditer(text) if _DIGIT_OR_SIGN.search(text) else ()
    return tuple(Span(*match.span(), match.lastgroup == "hard") for match in found)


def hard_texts(text: str) -> list[str]:
    """List the hard spans of a text one by one.

    >>> hard_texts("{first} {last} paid 5 %s")
    ['{first}', '{last}', '%s']
    """
    return [text[start:end] for start, end, hard in _tokens(text) if hard]


def has_words(text: str) -> bool:
    """Tell whether anything is left to translate once the protected spans are gone.

    >>> has_words("{user}: 3.5 %"), has_words("Hello {user}")
    (False, True)
    """
    return any(translatable for _, translatable in pieces(text))


def trim(text: str) -> tuple[str, str, str]:
    """Part a sentence from the white space, bullets and emoji around it.

    >>> trim("- Well done! 🎉")
    ('- ', 'Well done!', ' 🎉')
    """
    leading = _LEADING.match(text)
    start, end = leading.end() if leading else 0, len(text)
    while end > start and _DECORATION.match(text, end - 1):
        end -= 1
    for token in _tokens(text):  # an emoji may be the end of a URL
        start = token.start if token.start < start < token.end else start
        end = token.end if token.start < end < token.end else end
    return text[:start], text[start:end], text[end:]


def has_protected(text: str) -> bool:
    """Tell fast whether there may be hard spans in a text."""
    return _SIGN.search(text) is not None


def mask(text: str, what: Literal["hard", "long", "all"] = "hard") -> Masked | None:
    """Put a number in the place of each hard span; None where there are more spans than numbers.

    Or only of long ones; or of numbers too, times for times: what a model fails to copy may be too long for it.

    >>> mask("Dear {name}, see https://x.org/y.").text, mask("14:45 on 1.10.2025", "all").text
    ('Dear 211, see 224.', '9:30 on 211')
    """
    taken = set(_DIGITS.findall(text))
    free, times = ((number for number in pool if number not in taken) for pool in (_STAND_INS, _TIMES))
    stand_ins: dict[str, str] = {}
    out, position = [], 0
    for span in protected_spans(text):
        kept = text[span.start : span.end]
        if what == "all" or (span.hard and (what == "hard" or len(kept) > _LONG)):
            if (number := next(times if _TIME.match(kept) else free, None)) is None:
                return None
            stand_ins[number] = kept
            out += [text[position : span.start], number]
            position = span.end
    return Masked(text, "".join(out) + text[position:], stand_ins)


def put_back(masked: Masked, translation: str) -> str | None:
    """Put what was masked in the place of its stand-ins; None unless all that is hard comes back as it was.

    >>> put_back(mask("Pay {sum} to {name}"), "224 bekommt 211"), put_back(mask("Pay {sum}"), "211 oder 211")
    ('{name} bekommt {sum}', None)
    """
    found = [match[0] for match in _DIGITS.finditer(translation) if match[0] in masked.stand_ins]
    if len(found) != len(masked.stand_ins) or len(set(found)) != len(found):
        return None
    result = filled(masked, translation)
    return result if keeps_hard(masked.source, result) else None


def keeps_hard(source: str, translation: str) -> bool:
    """Say whether a translation has all that is hard in its source, and nothing else that is.

    printf fills its arguments from left to right, and elements keep their order: no changing places.

    >>> keeps_hard("{a} sees {b}", "{b} sieht {a}"), keeps_hard("%s of %d", "%d: %s")
    (True, False)
    """
    here, there = hard_texts(source), hard_texts(translation)
    first, second = ([span for span in spans if _POSITIONAL.search(span)] for spans in (here, there))
    return first == second and Counter(here) == Counter(there)


def filled(masked: Masked, translation: str) -> str:
    """Put what was masked wherever one of its stand-ins is."""
    return _DIGITS.sub(lambda match: masked.stand_ins.get(match[0], match[0]), translation)


def unmask(masked: Masked, translation: str) -> str | None:
    """Put the protected spans back into the translation of `masked.text`; None where that cannot be right.

    >>> unmask(mask("Pay {sum} to 12 people"), "Zahle 211 an 12 Personen")
    'Zahle {sum} an 12 Personen'
    >>> unmask(mask("Pay {sum} to 12 people"), "Zahle 211 an Personen") is None
    True
    """
    if not masked.stand_ins and hard_texts(translation):
        translation = without_protected(translation).strip()
    return None if changed_numbers(masked.text, translation) else put_back(masked, translation)


def pieces(text: str) -> list[tuple[str, bool]]:
    """Cut `text` into pieces to keep (False) and pieces to translate (True), which begin and end in a word.

    >>> pieces("Hello {name}, welcome!")
    [('Hello', True), (' {name}, ', False), ('welcome', True), ('!', False)]
    """
    out: list[tuple[str, bool]] = []
    kept, position = "", 0
    for span in [*protected_spans(text), Span(len(text), len(text), True)]:
        between = text[position : span.start]
        start, end = _word_range(between)
        if any(character.isalpha() for character in between[start:end]):
            out += [(kept + between[:start], False)] if kept + between[:start] else []
            out.append((between[start:end], True))
            kept = between[end:]
        else:
            kept += between
        kept += text[span.start : span.end]
        position = span.end
    return [*out, (kept, False)] if kept else out


def bare_words(text: str) -> str:
    """Strip from the translation of a piece what no piece holds: protected spans, punctuation at its ends.

    >>> bare_words("Willkommen %s.")
    'Willkommen'
    """
    text = without_protected(text)
    start, end = _word_range(text)
    return text[start:end]


def without_protected(text: str) -> str:
    """Remove hard spans a model invented.

    >>> without_protected("Hallo {{x}}Welt")
    'Hallo Welt'
    """
    for _ in range(_MOST_NESTED):  # what is left may grow together into a new one
        if not hard_texts(text):
            return text
        text = _TOKEN.sub(lambda match: "" if match.lastgroup == "hard" else match[0], text)
    return "".join(letter for letter in text if _is_of_word(letter) or letter.isspace())


def _belong_together(text: str, left: Span, right: Span) -> bool:
    if not (left.hard or right.hard) or right.start - left.end > _MOST_BETWEEN:
        return False
    between = _BETWEEN_HARD if left.hard and right.hard else _BESIDE_NUMBER
    return left.end == right.start or bool(between.fullmatch(text, left.end, right.start))


def _word_range(text: str) -> tuple[int, int]:
    """Find the first and the end of the last letter, digit or accent."""
    places = range(len(text))
    start = next((place for place in places if _is_of_word(text[place])), 0)
    end = next((place + 1 for place in reversed(places) if _is_of_word(text[place])), 0)
    return start, end


def _is_of_word(letter: str) -> bool:
    return letter.isalnum() or unicodedata.category(letter).startswith("M")  # an accent
