"""Choose the pairs the built-in model learns from: open licences only, prose, each origin as often as is good.

    python recipes/builtin/pairs.py OUT DATA/ende DATA/ende2 recipes/builtin/written

reads train.{en,de,origin}.{gz,xz} of each folder, or its tables (*.tsv: English, German), whose origin is "written".
Writes OUT/pairs.{en,de}.
`weights.yaml` says which origins, and how often. Old German spelling (Europarl, the Bible, books) is brought up to date
where a word list says how. Which pairs are taken depends on their words alone, not on their order. Lines that are, or
have among their sentences, one of first.tsv, second.tsv and third.tsv, with which a model is judged, are left out.
"""

import argparse
import gzip
import hashlib
import lzma
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import yaml
from phrases import HERE, judged_words, pairs_of, words_of

OLD_SPELLING = {"europarl", "europarl2", "bible", "books_pg"}
# words of one language that the other does not have; they say whether a line is in the language it should be in
_ENGLISH = frozenset(re.findall(r"\w+", "the of and to is that it for with as are this be by from you not have or but"))
_GERMAN = frozenset(
    re.findall(r"\w+", "der die das und den ist nicht mit ein eine sich auf für von dem zu des auch wird")
)
# stems whose "ß" became "ss" in 1996; the first letter may be a capital
_STEMS = (
    "daß|muß(?!e)|müß(?!ig)|läß|laß|wuß|gewuß|bewuß|wiß|gewiß|ausschuß|beschluß|schluß|anschluß|abschluß|entschluß|fluß|einfluß|"
    "überfluß|prozeß|kongreß|kompromiß|verläß|zuläß|erlaß|anlaß|haß|paß|nuß|rußland|schloß|beschloß|genoß|goß|"
    "verdruß|genuß|mißbrauch|mißver|miß|riß|biß|vergiß|iß|mißtrau|umfaß|befaß|erfaß|friedensprozeß|ratschluß|verfaß|gefaß|faß|preßt|gepreßt|küß|kuß|naß"
)
_END = re.compile(r"(?<=[.!?]) +")  # of a sentence
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


def is_in_language(english: str, german: str) -> bool:
    """Say whether neither side is plainly in the other's language.

    >>> is_in_language("The door is open.", "Die Tür ist offen.")
    True
    >>> is_in_language("The door is open.", "The door of the house")
    False
    """
    sides = [set(side.lower().split()) for side in (english, german)]
    return all(
        len(words & own) >= len(words & other)
        for words, own, other in zip(sides, (_ENGLISH, _GERMAN), (_GERMAN, _ENGLISH), strict=True)
    )


def opened(path: Path) -> IO[str]:
    """Open a file that is compressed in one of two ways."""
    packed = path.with_name(path.name + ".gz")
    return gzip.open(packed, "rt") if packed.exists() else lzma.open(path.with_name(path.name + ".xz"), "rt")


def pairs_in(data: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (English, German, origin) of every line of a corpus, or of a folder's tables."""
    if tables := sorted(data.glob("*.tsv")):
        yield from ((english, german, "written") for table in tables for english, german in pairs_of(table))
        return
    with opened(data / "train.en") as en, opened(data / "train.de") as de, opened(data / "train.origin") as origins:
        yield from zip(map(str.strip, en), map(str.strip, de), map(str.strip, origins), strict=True)


def copies(key: bytes, weight: float) -> int:
    """Return how often a pair is taken: the weight on average, decided by the pair itself.

    >>> copies(b"a pair", 2), sum(copies(str(n).encode(), 0.5) for n in range(1000)) in range(450, 550)
    (2, True)
    """
    draw = int.from_bytes(hashlib.blake2b(key, digest_size=4).digest()) / 2**32
    return int(weight) + (draw < weight % 1)


def chosen(folders: list[Path], weights: dict[str, float]) -> Iterator[tuple[str, str, str]]:
    """Yield the pairs worth learning from, each as often as its origin's weight says."""
    seen = set()
    judged = judged_words()
    for english, german, origin in (line for folder in folders for line in pairs_in(folder)):
        key = hashlib.blake2b(f"{english}\t{german}".encode(), digest_size=10).digest()
        if origin not in weights or key in seen:
            continue
        seen.add(key)
        target = modern(german) if origin in OLD_SPELLING else german
        sentences = [one for side in (english, target) for one in _END.split(side)]
        if judged & words_of([(english, target), *zip(sentences, sentences, strict=True)]):
            continue
        if english != german and is_prose(english) and is_prose(german) and is_in_language(english, german):
            yield from [(english, target, origin)] * copies(key, weights[origin])


def main() -> None:
    """Write the chosen pairs and say how many came from where."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--weights", type=Path, default=HERE / "weights.yaml")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    with open(args.out / "pairs.en", "w") as en, open(args.out / "pairs.de", "w") as de:
        for english, german, origin in chosen(args.data, yaml.safe_load(args.weights.read_text())):
            counts[origin] += 1
            en.write(english + "\n")
            de.write(german + "\n")
    for origin, count in counts.most_common():
        print(f"{origin:12} {count:>9,} {100 * count / counts.total():5.1f} %")
    print(f"{'all':12} {counts.total():>9,}")


if __name__ == "__main__":
    main()
