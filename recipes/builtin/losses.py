"""Tables of recipes/builtin/trial.sh: the log-loss of every variant on every set, in nats a token.

    python recipes/builtin/losses.py OUT SET...

reads OUT/scores/VARIANT, what `recoversat score --jsonl` printed for all sets one after the other, OUT/held/lines, how
many lines each set has, and OUT/VARIANT/log.jsonl. Every variant has the same tokenizer, so its tokens are the same.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

VARIANTS = ("full", "no-weights", "no-phrases", "no-rough", "back")
WINDOW = 20  # updates in a row of the training's log

Scores = list[tuple[float, int]]  # of each line: nats, tokens
Row = dict[str, Any]


def loss(scores: Scores) -> float:
    """Return nats a token.

    >>> loss([(6.0, 2), (3.0, 1)])
    3.0
    """
    return sum(nats for nats, _ in scores) / sum(tokens for _, tokens in scores)


def change(scores: Scores, base: Scores) -> tuple[float, float]:
    """Return how much more than `base` that is, and its standard error over the lines.

    >>> change([(6.0, 2), (3.0, 1)], [(4.0, 2), (2.0, 1)])
    (1.0, 0.0)
    """
    more = loss(scores) - loss(base)
    apart = (one - other - more * tokens for (one, tokens), (other, _) in zip(scores, base, strict=True))
    return more, math.sqrt(sum(one**2 for one in apart)) / sum(tokens for _, tokens in base)


def in_capitals(row: Row) -> bool:
    """Say whether a line was copied in capitals.

    >>> in_capitals({"tokens": ["▁HÖR", "▁AUF", "!", "</s>"]}), in_capitals({"tokens": ["▁Hör", "▁auf", "</s>"]})
    (True, False)
    """
    return "".join(row["tokens"][:-1]).isupper()


def read(path: Path, sets: list[tuple[str, int]]) -> dict[str, Scores]:
    """Return the scores of each set of so many lines; rough copies in capitals, which are another matter, apart."""
    found: dict[str, Scores] = {}
    with path.open(encoding="utf-8") as stream:
        rows = map(json.loads, stream)
        for name, count in sets:
            for row in islice(rows, count):
                kind = "capitals" if name == "rough" and in_capitals(row) else name
                found.setdefault(kind, []).append((-row["log_prob"], len(row["tokens"])))
    return found


def table(head: list[str], rows: list[str], cell: Callable[[str, int], str]) -> Iterator[str]:
    """Yield the lines of a table; `cell` makes one from the name of its row and the number of its column."""
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for row in rows:
        yield f"| {row} | " + " | ".join(cell(row, column) for column in range(len(head) - 1)) + " |"


def curve(path: Path) -> list[float]:
    """Return the log-loss of a training, the mean of each so many updates."""
    steps = [json.loads(line) for line in path.read_text().splitlines()]
    nll = [row["nll"] for row in steps if "nll" in row]
    return [sum(nll[at : at + WINDOW]) / WINDOW for at in range(0, len(nll) - WINDOW + 1, WINDOW)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("sets", nargs="+")
    args = parser.parse_args()
    lines = [int(line) for line in (args.out / "held/lines").read_text().split()]
    sets = list(zip(args.sets, lines, strict=True))
    wanted = [name for one in VARIANTS for name in (one, f"{one}-2", f"{one}-other")]
    found = {name: read(path, sets) for name in wanted if (path := args.out / "scores" / name).is_file()}
    kinds = list(found["full"])

    def one(name: str, column: int) -> str:
        return f"{loss(found[name][kinds[column]]):.3f}"

    def more(name: str, column: int) -> str:
        seed = name.endswith("-2") and name != "full-2"
        base = found["full-2" if seed else "full"]
        return "{:+.3f} ± {:.3f}".format(*change(found[name][kinds[column]], base[kinds[column]]))

    heads = [f"{kind} ({len(found['full'][kind]):,})" for kind in kinds]
    print("\n".join(table(["nats a token", *heads], list(found), one)))
    print("\nMore than full of the same seed (full-2: than full), and the standard error over the lines:\n")
    print("\n".join(table(["", *kinds], [name for name in found if name != "full"], more)))
    trained = {name: curve(path) for name in found if (path := args.out / name / "log.jsonl").is_file()}
    print("\nIn training, each on its own text:\n")
    ends = [str(WINDOW * (at + 1)) for at in range(min(map(len, trained.values())))]
    print(
        "\n".join(
            table(
                ["updates", *trained], ends, lambda end, at: f"{list(trained.values())[at][int(end) // WINDOW - 1]:.3f}"
            )
        )
    )


if __name__ == "__main__":
    main()
