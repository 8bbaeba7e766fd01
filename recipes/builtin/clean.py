"""Leave out the pairs that a teacher finds least likely.

    python recipes/builtin/clean.py OUT --worst 0.04

reads OUT/text.{en,de} and OUT/scores.{en-de,de-en}, writes OUT/clean.{en,de}. A pair is judged by its mean
log-probability a character, the worse of its two directions: a line that says less than its neighbour is unlikely from
one side only. Long and short lines differ in it, so each is compared with lines of like length.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_BINS = 20  # of like length, equally many lines each


def worst(scores: NDArray[np.float64], lengths: NDArray[np.int64], share: float) -> NDArray[np.bool_]:
    """Say which lines are the least likely of those of their length.

    >>> worst(np.array([-1.0, -9.0, -2.0, -1.5]), np.array([5, 5, 5, 5]), 0.25).tolist()
    [False, True, False, False]
    """
    dropped = np.zeros(len(scores), dtype=bool)
    bins = max(1, min(_BINS, int(share * len(lengths))))
    for lines in np.array_split(np.argsort(lengths, kind="stable"), bins):
        dropped[lines[np.argsort(scores[lines], kind="stable")[: int(share * len(lines))]]] = True
    return dropped


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--worst", type=float, default=0.04)
    args = parser.parse_args()
    text = {side: (args.out / f"text.{side}").read_text(encoding="utf-8").splitlines() for side in ("de", "en")}
    lengths = {side: np.array([len(line) for line in lines]) for side, lines in text.items()}
    means = [np.loadtxt(args.out / f"scores.{way}") / lengths[way[-2:]] for way in ("en-de", "de-en")]
    dropped = worst(np.minimum(*means), lengths["en"] + lengths["de"], args.worst)
    for side, lines in text.items():  # English last: it is what says that both are there
        kept = (f"{line}\n" for line, out in zip(lines, dropped, strict=True) if not out)
        (args.out / f"clean.{side}").write_text("".join(kept), encoding="utf-8")
    print(f"{int(dropped.sum()):,} of {len(dropped):,} pairs left out; for instance")
    for number in np.flatnonzero(dropped)[:: max(1, int(dropped.sum()) // 20)][:20]:
        print(f"  {text['en'][number]}  |  {text['de'][number]}")


if __name__ == "__main__":
    main()
