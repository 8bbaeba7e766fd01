"""Make short pairs of the dictionary Ding: words, plurals, phrases, examples, and sentences around them.

    python recipes/builtin/dictionary.py OUT [--ding /usr/share/trans/de-en] [--without TEST...]

Ding is Debian's package trans-de-en (Frank Richter, GPL-2 or later; `apt-get install trans-de-en`). It is read from the
system and is no part of this project. FreeDict's deu-eng and eng-deu are imported from Ding, so they are not read.

An entry has German and English parts: the headword, then its plural, phrases and examples. A part lists synonyms. The
first usual synonym is the target; every synonym is a source. So there are two lists, OUT/from-en.{en,de} and
OUT/from-de.{en,de}, each for one direction. A source keeps the three targets whose words are most frequent in
OUT/pairs.{en,de}. Nouns, verbs and adjectives are also put into the sentences of dictionary.yaml, for both directions.
What is a line of a TEST file, or of the lists that a model is judged with, is left out.
"""

import argparse
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from pairs import is_in_language
from phrases import HERE, WORDS, Pair, forms, judged_words, made, words_of

from recoversat.errors import UserError

DING = Path("/usr/share/trans/de-en")
SETTINGS = yaml.safe_load((HERE / "dictionary.yaml").read_text(encoding="utf-8"))
UNUSUAL, SPECIALIST = frozenset(SETTINGS["unusual"]), frozenset(SETTINGS["specialist"])
MOST_SOURCES, MOST_TARGETS = 6, 3
RARER = 50  # a target whose words are that many times rarer than those of the most frequent one is left out
MOST_WORDS = 30

_MARK = re.compile(r"\{[^{}]*\}|\[[^\[\]]*\]|\([^()]*\)")
_ABBREVIATION = re.compile(r"(?<!\S)/[^/]*/(?!\S)")
_PERSON = {
    "jdn.": "jemanden",
    "jdm.": "jemandem",
    "jds.": "jemandes",
    "jd.": "jemand",
    "jmd.": "jemand",
    "sb.": "someone",
}
_PLACE = _PERSON | {"etw.": "etwas", "sth.": "something"}
_PLACES = re.compile("|".join(rf"\b{re.escape(one)}" for one in _PLACE))
_EITHER = re.compile(rf"(?:{_PLACES.pattern})(?:/(?:{_PLACES.pattern}))+")  # "jdn./etw."
_FIRST = [  # of "er/sie geht" and "he/she goes"
    (re.compile(r"\b(?:ich/)?er/sie(?:/es)?\b"), "er"),
    (re.compile(r"\bwir/sie\b"), "wir"),
    (re.compile(r"\b(?:I/)?he/she(?:/it)?\b"), "he"),
    (re.compile(r"\bwe/they\b"), "we"),
    (re.compile(r"\b(ist|hat|has)/(?:war|hatte|had)\b"), r"\1"),
]
_CLEAN = re.compile(r"[A-Za-zÀ-ž0-9 ,.;:!?'\"„“‚‘%&–-]+")
_ARTICLES = {"m": "der", "f": "die", "n": "das"}
_SAME = [("jemand", "someone"), ("etwas", "something")]  # on both sides or on none
_WEAK = re.compile(  # masculine nouns whose accusative may differ from their nominative
    r".*(e|ist|ent|ant|and|at|oge|graf|nom|soph|arch|mensch|herr|nachbar|bauer|bär|held|fürst|prinz|narr)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Term:
    """One synonym without its marks, and the marks: grammar, field, region, style."""

    text: str
    marks: frozenset[str]

    @property
    def is_usual(self) -> bool:
        """Say whether the synonym can be a target."""
        return not self.marks & UNUSUAL


@dataclass(frozen=True)
class Part:
    """A word, phrase or example in both languages."""

    german: list[Term]
    english: list[Term]

    @property
    def marks(self) -> frozenset[str]:
        """Return the marks of all synonyms."""
        return frozenset().union(*(term.marks for term in [*self.german, *self.english]))

    @property
    def usual(self) -> tuple[Term | None, Term | None]:
        """Return the targets, German and English."""
        german, english = (next((one for one in side if one.is_usual), None) for side in (self.german, self.english))
        return german, english


def term_of(text: str) -> Term:
    """Separate a synonym from its marks, and write placeholders as words.

    >>> term_of("(allein) im Haus bleiben /i.H./ [ugs.]").text, term_of("to curse sb./sth. {cursed; cursed}").text
    ('im Haus bleiben', 'to curse someone')
    >>> term = term_of("Rechnung {f} (über einen Betrag) [econ.] [Ös.]")
    >>> term.text, sorted(term.marks), term.is_usual
    ('Rechnung', ['econ.', 'f', 'Ös.'], False)
    """
    marks = [mark for found in re.findall(r"[\[{]([^\[\]{}]*)[\]}]", text) for mark in re.split(r"\s*,\s*", found)]
    bare = _ABBREVIATION.sub("", _MARK.sub("", _MARK.sub("", text))).replace("’", "'")  # twice: (a (b))
    bare = _EITHER.sub(_person, bare)
    for pattern, first in _FIRST:
        bare = pattern.sub(first, bare)
    bare = _PLACES.sub(lambda found: _PLACE[found[0]], bare)
    return Term(re.sub(r" +([.,;:!?])", r"\1", " ".join(bare.split())), frozenset(marks))


def _person(either: re.Match[str]) -> str:
    """Choose the person where a placeholder is a person or a thing, as the other language will."""
    places: list[str] = _PLACES.findall(either[0])
    return next((place for place in places if place in _PERSON), places[0])


def synonyms(text: str) -> list[Term]:
    """Split a part at the semicolons outside of brackets.

    >>> [term.text for term in synonyms("to go {went; gone}; to walk (slowly; on foot)")]
    ['to go', 'to walk']
    """
    whole = _MARK.sub(lambda mark: mark[0].replace(";", ","), text)
    return [term for term in map(term_of, whole.split(";")) if term.text]


def entry(line: str) -> list[Part]:
    """Return the parts of an entry; none if both sides do not have equally many.

    >>> parts = entry("Uhr {f} | Uhren {pl} :: clock; watch | clocks")
    >>> [[term.text for term in part.german + part.english] for part in parts]
    [['Uhr', 'clock', 'watch'], ['Uhren', 'clocks']]
    """
    german, _, english = line.partition(" :: ")
    sides = german.split(" | "), english.split(" | ")
    if len(sides[0]) != len(sides[1]):
        return []
    return [Part(synonyms(one), synonyms(other)) for one, other in zip(*sides, strict=True)]


def is_pair(english: str, german: str) -> bool:
    """Say whether two terms are clean and can be translations of each other.

    >>> is_pair("house", "Haus"), is_pair("to bill sb.'s tab/account", "anschreiben"), is_pair("It rains.", "es regnet")
    (True, False, False)
    >>> is_pair("to see someone", "sehen"), is_pair("2 times 3", "3 mal 4")
    (False, False)
    """
    longer, shorter = max(len(english), len(german)), min(len(english), len(german))
    return (
        all(_CLEAN.fullmatch(side) and re.search(r"[^\W\d_]{2}", side) for side in (english, german))
        and not any(side.startswith("-") or side.endswith(("-", ",")) for side in (english, german))
        and english != german
        and (english[-1] in ".!?") == (german[-1] in ".!?")
        and re.findall(r"\d+", english) == re.findall(r"\d+", german)
        and all((one in german) == (other in english) for one, other in _SAME)
        and longer <= 12 + 2.5 * shorter
        and len(english.split()) <= MOST_WORDS
        and is_in_language(english, german)
    )


class Frequencies:
    """How often words occur in a text of each language."""

    def __init__(self, english: Iterable[str], german: Iterable[str]) -> None:
        self.counts = [Counter(word for line in lines for word in _words(line)) for lines in (english, german)]

    def rarest(self, text: str, german: int) -> int:
        """Return the count of the rarest word of a text."""
        return min((self.counts[german][word] for word in _words(text)), default=0)


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", text.lower())


def directed(parts: Iterable[Part], frequencies: Frequencies, german_source: int) -> Iterator[Pair]:
    """Yield the (English, German) pairs of one direction: every source with its most frequent targets."""
    targets: dict[str, dict[str, int]] = defaultdict(dict)
    for part in parts:
        best = part.usual[german_source]
        if best is None:
            continue
        specialist = bool(part.marks & SPECIALIST)
        for source in (part.german if german_source else part.english)[:MOST_SOURCES]:
            pair = (best.text, source.text) if german_source else (source.text, best.text)
            seen = [frequencies.rarest(side, german) for german, side in enumerate(pair)]
            if is_pair(*pair) and (min(seen) or not specialist):
                targets[source.text][best.text] = seen[not german_source]
    for text, counts in targets.items():
        frequent = [target for target, count in counts.items() if count * RARER >= max(counts.values())]
        for target in sorted(frequent, key=lambda one: -counts[one])[:MOST_TARGETS]:
            yield (target, text) if german_source else (text, target)


def sentences(parts: list[Part], frequencies: Frequencies, rng: random.Random) -> Iterator[Pair]:
    """Put the headword of an entry into sentences: a noun in singular and plural, a verb or an adjective in one.

    >>> clock = entry("Uhr {f} | Uhren {pl} :: clock | clocks")
    >>> list(sentences(clock, Frequencies(["a clock"], []), random.Random(1)))
    [('Is that the clock?', 'Ist das die Uhr?'), ('Such clocks are rare.', 'Solche Uhren sind selten.')]
    """
    german, english = parts[0].usual
    if german is None or english is None or not is_pair(english.text, german.text):
        return
    if parts[0].marks & SPECIALIST or not frequencies.rarest(english.text, german=0):  # compounds are new in German
        return
    word, marks = german.text, parts[0].marks
    if len(gender := german.marks & {"m", "f", "n"}) == 1 and re.fullmatch(r"[A-ZÄÖÜ][a-zäöüß-]+", word):
        yield from _noun_sentences(parts, english.text, f"{_ARTICLES[min(gender)]} {word}", rng)
    elif marks & {"vt", "vi", "vr", "v"} and _is_infinitive(english.text, word):
        kinds = ["person"] if re.search(r"\bsich\b", word) else ["verb", "person"] if " " in word else ["verb", "bare"]
        yield _filled(rng.choice(SETTINGS[rng.choice(kinds)]), "v", english.text.removeprefix("to "), word)
    elif "adj" in marks and re.fullmatch(r"[a-zäöüß]{3,}", word) and re.fullmatch(r"[a-z-]+( [a-z-]+)?", english.text):
        yield _filled(rng.choice(SETTINGS["adjective"]), "a", english.text, word)


def _noun_sentences(parts: list[Part], english: str, german: str, rng: random.Random) -> Iterator[Pair]:
    """Yield a sentence with the singular and one with the plural; what has no plural may not be counted."""
    some_german, some = (one.text if one else "" for one in parts[1].usual) if len(parts) > 1 else ("", "")
    is_plural = any("pl" in term.marks for part in parts[1:2] for term in part.german)
    if not is_plural or not is_pair(some, some_german) or " " in some_german:
        return
    if not all(re.fullmatch(r"[a-z-]+( [a-z-]+){0,2}", side) for side in (english, some)):
        return
    if not (german.startswith("der ") and _WEAK.fullmatch(german)):
        yield made(rng.choice(WORDS["noun_templates"]), rng, forms(english, german))
    yield _filled(rng.choice(SETTINGS["plural"]), "n", some, some_german)


def _is_infinitive(english: str, german: str) -> bool:
    """Say whether a verb can follow another one as it is.

    >>> _is_infinitive("to wash one's hair", "sich die Haare waschen"), _is_infinitive("to go home", "nach Hause gehen")
    (False, True)
    """
    theirs = re.search(r"\b(one's|oneself|your|yourself|his|her)\b", english)
    return (
        english.startswith("to ") and not theirs and bool(re.fullmatch(r"([a-zäöüßA-ZÄÖÜ]+ ){0,4}[a-zäöüß]+n", german))
    )


def _filled(template: list[str], slot: str, english: str, german: str) -> Pair:
    """Fill a template; the slot in capitals begins a sentence."""
    words = [{slot: one, slot.upper(): one[:1].upper() + one[1:]} for one in (english, german)]
    return template[0].format(**words[0]), template[1].format(**words[1])


def read(ding: Path) -> list[list[Part]]:
    """Read the entries."""
    if not ding.is_file():
        raise UserError(f"{ding}: no dictionary here; `apt-get install trans-de-en`, or name its file with --ding")
    lines = ding.read_text(encoding="utf-8").splitlines()
    return [parts for line in lines if not line.startswith("#") and (parts := entry(line))]


def main() -> None:
    """Write both lists and say how long they are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ding", type=Path, default=DING)
    parser.add_argument("--without", type=Path, nargs="*", default=[])
    args = parser.parse_args()
    entries, rng = read(args.ding), random.Random(1)
    tests = [line for path in args.without for line in path.read_text(encoding="utf-8").splitlines()]
    left_out = judged_words() | words_of([(line, line) for line in tests])
    with open(args.out / "pairs.en", encoding="utf-8") as en, open(args.out / "pairs.de", encoding="utf-8") as de:
        frequencies = Frequencies(en, de)
    around = [pair for parts in entries for pair in sentences(parts, frequencies, rng)]
    print(f"{len(entries):,} entries")
    for german_source, name in enumerate(("from-en", "from-de")):
        found = [*directed((part for parts in entries for part in parts), frequencies, german_source), *around]
        found = [pair for pair in dict.fromkeys(found) if not left_out & words_of([pair])]
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in found)
            (args.out / f"{name}.{language}").write_text(text, encoding="utf-8")
        print(f"{name} {len(found):,} pairs, {len(around):,} of them sentences around words")


if __name__ == "__main__":
    main()
