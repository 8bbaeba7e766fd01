"""Choose the pairs the built-in model learns from: open licences only, without lines that are no prose.

    python recipes/open_pairs.py DATA/ende OUT        reads train.{en,de,origin}.gz, writes OUT/open.{en,de}

Old German spelling (Europarl, the Bible) is brought up to date where a word list says how.
"""

import argparse
import gzip
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

OPEN = {"tatoeba", "europarl", "wiki", "bible", "doc", "man", "lohelp", "ddtp", "game", "src", "mo", "chat"}
OLD_SPELLING = {"europarl", "bible"}
# stems whose "ß" became "ss" in 1996; the first letter may be a capital
_STEMS = (
    "daß|muß(?!e)|müß(?!ig)|läß|laß|wuß|gewuß|bewuß|wiß|gewiß|ausschuß|beschluß|schluß|anschluß|abschluß|entschluß|fluß|einfluß|"
    "überfluß|prozeß|kongreß|kompromiß|verläß|zuläß|erlaß|anlaß|haß|paß|nuß|rußland|schloß|beschloß|genoß|goß|"
    "verdruß|genuß|mißbrauch|mißver|miß|riß|biß|vergiß|iß|mißtrau|umfaß|befaß|erfaß|friedensprozeß|ratschluß|verfaß|gefaß|faß|preßt|gepreßt|küß|kuß|naß"
)
_WORD = re.compile(rf"\b({_STEMS})(\w*)", re.I)


def modern(text: str) -> str:
    """Write old spelling in the new one, where the list knows it.

    >>> modern("Ich weiß, daß er es wissen muß.")
    'Ich weiß, dass er es wissen muss.'
    """
    return _WORD.sub(lambda match: match[1].replace("ß", "ss") + match[2], text)


def is_prose(text: str) -> bool:
    """Say whether a line is mostly words: not a table, a pattern, a list of options or a key."""
    letters = sum(character.isalpha() for character in text)
    return letters >= 2 and letters >= 0.6 * sum(not character.isspace() for character in text)


def open_pairs(data: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (English, German, origin) of every line worth learning from."""
    names = [data / f"train.{part}.gz" for part in ("en", "de", "origin")]
    with gzip.open(names[0], "rt") as en, gzip.open(names[1], "rt") as de, gzip.open(names[2], "rt") as origins:
        for english, german, origin in zip(
            map(str.strip, en), map(str.strip, de), map(str.strip, origins), strict=True
        ):
            if origin in OPEN and english != german and is_prose(english) and is_prose(german):
                yield english, modern(german) if origin in OLD_SPELLING else german, origin


def main() -> None:
    """Write the chosen pairs and say how many came from where."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    with open(args.out / "open.en", "w") as en, open(args.out / "open.de", "w") as de:
        for english, german, origin in open_pairs(args.data):
            counts[origin] += 1
            en.write(english + "\n")
            de.write(german + "\n")
    for origin, count in counts.most_common():
        print(f"{origin:10} {count:>8,}")


if __name__ == "__main__":
    main()
