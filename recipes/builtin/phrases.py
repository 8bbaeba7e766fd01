"""Make short pairs of every day: greetings, letters, names, places, times, dates and prices, English and German.

    python recipes/builtin/phrases.py OUT --lines 150000        writes OUT/phrases.{en,de}

The sentences of phrases.tsv are repeated; the rest is put together from words.yaml and the words of nouns.tsv, all of
it written for this project. No sentence of first.tsv, second.tsv and third.tsv is among them: a model is
judged with those.
"""

import argparse
import random
import re
from collections.abc import Callable
from pathlib import Path

import yaml

HERE = Path(__file__).parent
WRITTEN, NOUNS = 0.4, 0.35  # of the lines: taken from phrases.tsv, made with a word of nouns.tsv

Pair = tuple[str, str]

WORDS = yaml.safe_load((HERE / "words.yaml").read_text(encoding="utf-8"))
ARTICLES = {"der": ("den", "dem"), "die": ("die", "der"), "das": ("das", "dem")}  # accusative and dative
ENDINGS = {"der": ("", "en", "em"), "die": ("e", "e", "er"), "das": ("", "", "em")}  # of "ein", in the three cases
AFTER_THE = {"der": ("e", "en", "en"), "die": ("e", "e", "en"), "das": ("e", "e", "en")}  # of an adjective
AFTER_A = {"der": ("er", "en", "en"), "die": ("e", "e", "en"), "das": ("es", "es", "en")}


def drawn(name: str, rng: random.Random) -> Pair:
    """Draw from one of the lists."""
    pair: Pair = rng.choice(list(WORDS[name].items()))
    return pair


def one_of(name: str, rng: random.Random) -> str:
    """Draw from a list of what is the same in both languages."""
    word: str = rng.choice(WORDS[name])
    return word


def clock(rng: random.Random) -> Pair:
    """Draw a time of day, as English and German people write it."""
    hour, minute = rng.randrange(24), rng.choice([0, 0, 15, 30, 45, rng.randrange(60)])
    half = rng.choice([("a.m.", "p.m."), (" am", " pm")])[hour >= 12].strip()
    english = f"{(hour + 11) % 12 + 1}" + (f":{minute:02}" if minute or rng.random() < 0.3 else "") + f" {half}"
    if rng.random() < 0.2:
        return f"{hour}:{minute:02}", f"{hour}:{minute:02} Uhr"
    german = f"{hour} Uhr" if not minute else rng.choice([f"{hour}:{minute:02} Uhr", f"{hour}.{minute:02} Uhr"])
    return english, german


def spoken(rng: random.Random) -> Pair:
    """Draw a time of day in words: "half past three" is "halb vier"."""
    hours = list(WORDS["hours"].items())
    at = rng.randrange(12)
    (hour, stunde), (after, danach) = hours[at], hours[(at + 1) % 12]
    minutes, minuten = drawn("minutes", rng)
    return rng.choice(
        [
            (f"{hour} o'clock", "ein Uhr" if at == 0 else f"{stunde} Uhr"),
            (f"half past {hour}", f"halb {danach}"),
            (f"half past {hour}", f"halb {danach}"),
            (f"{minutes} past {hour}", f"{minuten} nach {stunde}"),
            (f"{minutes} to {after}", f"{minuten} vor {danach}"),
        ]
    )


def opening_hours(rng: random.Random) -> Pair:
    """Draw hours of the morning and the evening: "from 10 a.m. to 6 p.m." is "von 10 bis 18 Uhr"."""
    first, last = rng.randrange(5, 12), rng.randrange(13, 23)
    am, pm = rng.choice([(" a.m.", " p.m."), (" am", " pm"), ("am", "pm")])
    return rng.choice(
        [
            (f"from {first}{am} to {last - 12}{pm}", f"von {first} bis {last} Uhr"),
            (f"between {first}{am} and {last - 12}{pm}", f"zwischen {first} und {last} Uhr"),
        ]
    )


def price(rng: random.Random) -> Pair:
    """Draw a sum of money: "€1,249.50", "1.249,50 €"."""
    sign, amount = rng.choice("€$£"), rng.choice([rng.randrange(1, 100), rng.randrange(100, 20_000)])
    cents = rng.choice([None, rng.randrange(100), 99, 50])
    english = f"{sign}{amount:,}" + ("" if cents is None else f".{cents:02}")
    german = f"{amount:,}".replace(",", ".") + ("" if cents is None else f",{cents:02}") + f" {sign}"
    return english, german


def date(rng: random.Random, year: bool) -> Pair:
    """Draw a date, "March 3, 2025" and "3. März 2025"."""
    (english, german), day, when = drawn("month", rng), rng.randrange(1, 29), rng.randrange(1920, 2035)
    british = rng.random() < 0.3
    first = f"{day} {english}" if british else f"{english} {day}"
    return (
        (f"{first}{' ' if british else ', '}{when}", f"{day}. {german} {when}") if year else (first, f"{day}. {german}")
    )


def same(text: str) -> Pair:
    return text, text


def grouped(number: int) -> Pair:
    return f"{number:,}", f"{number:,}".replace(",", ".")


def percent(rng: random.Random) -> Pair:
    number = round(rng.uniform(0.1, 20), 1)
    return f"{number}", f"{number}".replace(".", ",")


# What may stand in a template, and how it is drawn.
SLOTS: dict[str, Callable[[random.Random], Pair]] = {
    "city": lambda rng: drawn("city", rng),
    "country": lambda rng: drawn("country", rng),
    "first": lambda rng: same(one_of("first", rng)),
    "last": lambda rng: same(one_of("last", rng)),
    "day": lambda rng: drawn("day", rng),
    "thing": lambda rng: drawn("thing", rng),
    "time": clock,
    "spoken": spoken,
    "hours": opening_hours,
    "date": lambda rng: date(rng, year=False),
    "fulldate": lambda rng: date(rng, year=True),
    "price": price,
    "count": lambda rng: grouped(rng.randrange(1000, 3_000_000)),
    "percent": percent,
    "small": lambda rng: same(str(rng.randrange(2, 100))),
    "phone": lambda rng: same(f"0{rng.randrange(30, 999)} {rng.randrange(10_000, 9_999_999)}"),
    "url": lambda rng: same(f"www.{one_of('last', rng).lower()}{rng.randrange(99)}.{rng.choice(['de', 'com'])}"),
    "mail": lambda rng: same(f"{one_of('first', rng).lower()}@{rng.choice(['example.org', 'beispiel.de'])}"),
}


def forms(english: str, german: str, weak: str | None = None, adjective: Pair = ("", "")) -> dict[str, Pair]:
    """Return a noun in each form that templates name; `weak`: the accusative, where more than the article changes.

    >>> forms("neighbour", "der Nachbar", "den Nachbarn")["dative"], forms("cat", "die Katze")["The"]
    (('the neighbour', 'dem Nachbarn'), ('The cat', 'Die Katze'))
    >>> old = forms("house", "das Haus", adjective=("old", "alt"))
    >>> old["noun"], old["the"], old["a"], old["a dative"]
    (('old house', 'altes Haus'), ('the old house', 'das alte Haus'), ('an old house', 'ein altes Haus'), \
('an old house', 'einem alten Haus'))
    """
    article, bare = german.split(" ", 1)
    nouns = [bare, *[weak.split(" ", 1)[1] if weak else bare] * 2]
    words, stem = f"{adjective[0]} {english}".strip(), adjective[1]

    def cases(articles: list[str], endings: tuple[str, ...]) -> list[str]:
        rows = zip(articles, endings, nouns, strict=True)
        return [" ".join(filter(None, (one, stem and stem + ending, noun))) for one, ending, noun in rows]

    the = cases([article, *ARTICLES[article]], AFTER_THE[article])
    a, my = (cases([f"{one}{end}" for end in ENDINGS[article]], AFTER_A[article]) for one in ("ein", "mein"))
    alone = cases(["", "", ""], AFTER_A[article])[0]
    an = "an" if re.match(r"[ai]|o(?!ne\b)|e(?!u)|u(?!ni|se)|hon|hour", words.lower()) else "a"
    made = {"noun": (words, alone)}
    for name, german_forms in ((f"the {words}", the), (f"{an} {words}", a), (f"my {words}", my)):
        key = name.split()[0].replace("an", "a")
        nominative, accusative, dative = german_forms
        made |= {key: (name, nominative), key.title(): (name[:1].upper() + name[1:], _capital(nominative))}
        prefix = "" if key == "the" else f"{key} "
        made |= {f"{prefix}accusative": (name, accusative), f"{prefix}dative": (name, dative)}
    return made


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def noun(row: list[str], rng: random.Random) -> dict[str, Pair]:
    """Return a noun in each form, every other time with an adjective; what may be a plural goes without."""
    plain = rng.random() < 0.5 or (row[0].endswith("s") and not row[0].endswith("ss"))
    return forms(*row) if plain else forms(*row, adjective=drawn("adjective", rng))


def rows_of(path: Path) -> list[list[str]]:
    """Read a table; lines that begin with # are remarks."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


def pairs_of(path: Path) -> list[Pair]:
    """Read a table of pairs."""
    return [(english, german) for english, german in rows_of(path)]


def words_of(pairs: list[Pair]) -> set[str]:
    """Return all sides without their marks and capitals.

    >>> words_of([("Be careful!", "Sei vorsichtig.")]) == {"be careful", "sei vorsichtig"}
    True
    """
    return {" ".join(re.findall(r"\w+", side.lower())) for pair in pairs for side in pair}


def judged_words() -> set[str]:
    """Return what the model is judged with, without marks and capitals."""
    return words_of([pair for name in ("first", "second", "third") for pair in pairs_of(HERE / f"{name}.tsv")])


def made(template: Pair, rng: random.Random, word: dict[str, Pair] | None = None) -> Pair:
    """Fill a template."""
    filled = {name: draw(rng) for name, draw in SLOTS.items() if f"{{{name}}}" in template[0]} | (word or {})
    english, german = ({name: pair[side] for name, pair in filled.items()} for side in (0, 1))
    # a sentence does not end in two full stops: "It is 9 a.m.", not "9 a.m.."
    return template[0].format(**english).replace("m..", "m."), template[1].format(**german)


def phrases(lines: int, seed: int = 1) -> list[Pair]:
    """Return so many pairs; the same ones for the same seed."""
    rng = random.Random(seed)
    written = pairs_of(HERE / "phrases.tsv")
    judged = judged_words()
    nouns = rows_of(HERE / "nouns.tsv")

    def one() -> Pair:
        kind = rng.random()
        if kind < WRITTEN:
            return rng.choice(written)
        if kind < WRITTEN + NOUNS:
            return made(rng.choice(WORDS["noun_templates"]), rng, noun(rng.choice(nouns), rng))
        return made(rng.choice(WORDS["templates"]), rng)

    lot = (one() for _ in range(2 * lines))
    return [pair for pair in lot if not judged & words_of([pair])][:lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--lines", type=int, default=150_000)
    args = parser.parse_args()
    chosen = phrases(args.lines)
    for side, name in enumerate(("en", "de")):
        (args.out / f"phrases.{name}").write_text("".join(f"{pair[side]}\n" for pair in chosen), encoding="utf-8")


if __name__ == "__main__":
    main()
