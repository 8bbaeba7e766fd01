r"""What must come through a translation unchanged, and how it does.

Protected, character for character: `{{name}}`, `{name}`, `{% tag %}`, `${VAR}`, `%s`, `%1$s`, `%(name)s`, ICU
plurals, URLs, e-mail addresses, emoji, and characters no model can write (control, private use, surrogates).
They travel through the model as three-digit numbers, because numbers are what translation models copy best.

Numbers travel as they are. Their digits must come back as often as they left; the separators are then put
back as they were, so `1,500.75` stays `1,500.75` where the model makes it `1.500,75`. A number the model adds
for a word ("two" -> "2") is a translation, not a change. Signs, currencies and units are ordinary text.

When a check fails, the text between the protected spans is translated alone: nothing can be lost that way.
"""

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass

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
    | (?<![\w.+-])(?:mailto:)?[\w.+-]{{1,64}}@[\w-]++(?:\.[\w-]++)++
    | [0-9\#*]\ufe0f?\u20e3 | [©®™]\ufe0f
    | [{_EMOJI}](?:[\U0001f3fb-\U0001f3ff{_EMOJI_TAIL}\u20e3]|(?<=\u200d)[{_EMOJI}])*
    | [{_EMOJI_TAIL}\u20e3{_UNWRITABLE}{_PLANE_15}]
"""
_DIGIT = r"\d(?!\ufe0f?\u20e3)"  # that of a keycap is no number
_GROUP = rf"{_DIGIT}(?:[A-Za-z]|{_DIGIT})*"
_NUMBER = rf"(?:[A-Za-z]{{0,12}}-)?[A-Za-z]{{0,12}}{_GROUP}(?:[.,:/'’-]{_GROUP})*"  # COVID-19 too
_TOKEN = re.compile(rf"(?P<hard>{_HARD}) | (?P<number>{_NUMBER})", re.VERBOSE)
_DIGITS = re.compile(r"\d+(?:[.,:/'’-]\d+)*")
_POSITIONAL = re.compile(rf"\{{\}}|%(?!%|\d+\$|\()|[{_PLANE_15}]")
# Two spans with only this between them travel as one.
_BETWEEN_HARD = re.compile(r"[.,:;/@|&+*=~_'’–—-]{0,2}\s?[.,:;/@|&+*=~_'’–—-]{0,2}\s?")
_BESIDE_NUMBER = re.compile(r"[.,:;/@|&+*=~_'’–—-]{0,2}")
# Bullets, headings and emoji around a sentence mean nothing to the model, so it never sees them.
_DECORATION = re.compile(rf"[{_EMOJI}{_EMOJI_TAIL}{_UNWRITABLE}\u200b\u2060\ufeff\s]")
_LEADING = re.compile(rf"(?:{_DECORATION.pattern}|[-*•·‣–—#>+|]++\s++)*+")
_MOST_NESTED = 8  # hard spans in hard spans; of what is nested deeper only the words are kept
# Numbers a text is unlikely to contain, too short for a thousands separator.
_STAND_INS = [str(number) for number in range(211, 1000, 13)]


@dataclass(frozen=True)
class Span:
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


def protected_spans(text: str) -> list[Span]:
    """Find what must survive; neighbours such as `{first} {last}` are one span.

    >>> [text[s.start : s.end] for text in ["Pay {sum} by 3.10. to a@b.org!"] for s in protected_spans(text)]
    ['{sum}', '3.10', 'a@b.org']
    """
    spans: list[Span] = []
    for match in _TOKEN.finditer(text):
        spans.append(Span(match.start(), match.end(), match.lastgroup == "hard"))
        while len(spans) > 1 and _belong_together(text, *spans[-2:]):
            spans[-2:] = [Span(spans[-2].start, spans[-1].end, True)]
    return spans


def hard_texts(text: str) -> list[str]:
    """List the hard spans of a text one by one.

    >>> hard_texts("{first} {last} paid 5 %s")
    ['{first}', '{last}', '%s']
    """
    return [match[0] for match in _TOKEN.finditer(text) if match.lastgroup == "hard"]


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
    for match in _TOKEN.finditer(text):  # an emoji may be the end of a URL
        start = match.start() if match.start() < start < match.end() else start
        end = match.end() if match.start() < end < match.end() else end
    return text[:start], text[start:end], text[end:]


def mask(text: str) -> Masked | None:
    """Put a number in the place of each hard span; None where there are more spans than numbers.

    >>> mask("Dear {name}, see https://x.org/y.").text
    'Dear 211, see 224.'
    """
    taken = {_key(match[0]) for match in _DIGITS.finditer(text)}
    free = (number for number in _STAND_INS if number not in taken)
    stand_ins: dict[str, str] = {}
    out, position = [], 0
    for span in protected_spans(text):
        if span.hard:
            if (number := next(free, None)) is None:
                return None
            stand_ins[number] = text[span.start : span.end]
            out += [text[position : span.start], number]
            position = span.end
    return Masked(text, "".join(out) + text[position:], stand_ins)


def unmask(masked: Masked, translation: str) -> str | None:
    """Put the protected spans back into the translation of `masked.text`; None where that cannot be right.

    >>> unmask(mask("Pay {sum} to 12 people"), "Zahle 211 an 12 Personen")
    'Zahle {sum} an 12 Personen'
    >>> unmask(mask("Pay {sum} to 12 people"), "Zahle an 12 Personen") is None
    True
    """
    if not masked.stand_ins and hard_texts(translation):
        translation = without_protected(translation).strip()
    spellings: dict[str, list[str]] = {}
    for match in _DIGITS.finditer(masked.text):
        spellings.setdefault(_key(match[0]), []).append(masked.stand_ins.get(match[0], match[0]))
    found = [match for match in _DIGITS.finditer(translation) if _key(match[0]) in spellings]
    if Counter(_key(match[0]) for match in found) != {key: len(all_) for key, all_ in spellings.items()}:
        return None
    out, position, order = [], 0, []
    for match in found:
        spelling = spellings[_key(match[0])].pop(0)
        out += [translation[position : match.start()], spelling]
        order.append(spelling)
        position = match.end()
    result = "".join(out) + translation[position:]
    # printf fills its arguments from left to right, and elements keep their order: no changing places.
    positional = [span for span in masked.stand_ins.values() if _POSITIONAL.search(span)]
    if positional != [span for span in order if span in positional]:
        return None
    return result if Counter(hard_texts(result)) == Counter(hard_texts(masked.source)) else None


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
    return "".join(letter for letter in text if letter.isalnum() or letter.isspace() or _is_accent(letter))


def _belong_together(text: str, left: Span, right: Span) -> bool:
    if left.hard and right.hard:
        return bool(_BETWEEN_HARD.fullmatch(text, left.end, right.start))
    return (left.hard or right.hard) and bool(_BESIDE_NUMBER.fullmatch(text, left.end, right.start))


def _key(number: str) -> str:
    return re.sub(r"\D", "", number)


def _word_range(text: str) -> tuple[int, int]:
    """Find the first and the end of the last letter, digit or accent."""
    inner = [index for index, letter in enumerate(text) if letter.isalnum() or _is_accent(letter)]
    return (inner[0], inner[-1] + 1) if inner else (0, 0)


def _is_accent(letter: str) -> bool:
    return unicodedata.category(letter).startswith("M")
