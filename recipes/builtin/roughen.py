"""Copy some pairs as people really type them: in capitals, without capitals, unfinished, two to a line, with slips.

    python recipes/builtin/roughen.py OUT NAME --share 0.12     reads OUT/NAME.{en,de}, appends to them

Each pair serves both directions, so most changes are made on both sides alike. Slips of the keyboard are made on one
side; they are few, and a teacher's translations, from which the student learns, have none.
"""

import argparse
import random
import re
from collections.abc import Callable
from pathlib import Path

Pair = tuple[str, str]
_SLIPS = 0.06  # of the rough pairs: with slips on one side


def capitals(pair: Pair, rng: random.Random) -> Pair:
    """Write both sides in capitals.

    >>> capitals(("Stop it!", "Hör auf!"), random.Random(0))
    ('STOP IT!', 'HÖR AUF!')
    """
    return pair[0].upper(), pair[1].upper()


def small(pair: Pair, rng: random.Random) -> Pair:
    """Leave out capitals at the beginning: what a person types in a chat.

    >>> small(("Where is she?", "Wo ist sie?"), random.Random(0))
    ('where is she?', 'wo ist sie?')
    """
    return tuple(side[:1].lower() + side[1:] for side in pair)  # type: ignore[return-value]


def unfinished(pair: Pair, rng: random.Random) -> Pair:
    """Leave out what ends the sentence.

    >>> unfinished(("Where is she?", "Wo ist sie?"), random.Random(0))
    ('Where is she', 'Wo ist sie')
    """
    if any(side[-2:-1] in {".", "m"} and side.endswith(".") for side in pair):  # "9 a.m." is no end
        return pair
    return tuple(side.rstrip(".!?") if side[-1:] in ".!?" else side for side in pair)  # type: ignore[return-value]


def quoted(pair: Pair, rng: random.Random) -> Pair:
    """Put both sides into quotation marks, each in the style of its language.

    >>> quoted(("Yes.", "Ja."), random.Random(0))
    ("'Yes.'", '„Ja.“')
    """
    english = rng.choice(['""', '""', "“”", "''"])
    return f"{english[0]}{pair[0]}{english[1]}", f"„{pair[1]}“"


def slipped(pair: Pair, rng: random.Random) -> Pair:
    """Make a slip of the keyboard in one word of one side."""
    side = rng.randrange(2)
    words = pair[side].split(" ")
    long = [number for number, word in enumerate(words) if len(word) > 4 and word.isalpha()]
    if not long:
        return pair
    at = rng.choice(long)
    words[at] = rng.choice([_swapped, _dropped, _doubled])(words[at], rng.randrange(1, len(words[at]) - 2))
    changed = " ".join(words)
    return (changed, pair[1]) if side == 0 else (pair[0], changed)


def _swapped(word: str, at: int) -> str:
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


def _dropped(word: str, at: int) -> str:
    return word[:at] + word[at + 1 :]


def _doubled(word: str, at: int) -> str:
    return word[:at] + word[at] + word[at:]


_WHOLE = re.compile(r"[A-ZÄÖÜ].*[.!?]", re.S)


def is_sentence(pair: Pair) -> bool:
    """Say whether both sides begin and end as a sentence does."""
    return all(_WHOLE.fullmatch(side) and len(side) < 140 for side in pair)


CHANGES: list[tuple[float, Callable[[Pair, random.Random], Pair]]] = [
    (0.14, capitals), (0.2, small), (0.2, unfinished), (0.1, quoted), (_SLIPS, slipped),
]  # fmt: skip
TOGETHER = 1 - sum(share for share, _ in CHANGES)  # two or three sentences in a line


def rough(pairs: list[Pair], share: float, seed: int = 1) -> list[Pair]:
    """Return changed copies of a share of the pairs."""
    rng = random.Random(seed)
    sentences = [pair for pair in pairs if is_sentence(pair)]
    copies = []
    for pair in pairs:
        if rng.random() >= share:
            continue
        kind = rng.random()
        for size, change in CHANGES:
            if (kind := kind - size) < 0:
                copies.append(change(pair, rng))
                break
        else:
            several = [rng.choice(sentences) for _ in range(rng.choice([2, 2, 3]))]
            copies.append((" ".join(one[0] for one in several), " ".join(one[1] for one in several)))
    known = set(pairs)
    return [pair for pair in copies if pair not in known]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("name")
    parser.add_argument("--share", type=float, default=0.12)
    args = parser.parse_args()
    paths = [args.out / f"{args.name}.{side}" for side in ("en", "de")]
    sides = [path.read_text(encoding="utf-8").splitlines() for path in paths]
    copies = rough(list(zip(*sides, strict=True)), args.share)
    for side, path in enumerate(paths):
        with open(path, "a", encoding="utf-8") as stream:
            stream.writelines(f"{pair[side]}\n" for pair in copies)
    print(f"{len(copies):,} rough copies of {len(sides[0]):,} pairs")


if __name__ == "__main__":
    main()
