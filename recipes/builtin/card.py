"""Tables of the built-in model's card.

    python recipes/builtin/card.py scores REPORT/en-de REPORT/de-en      what `recoversat evaluate` measured
    python recipes/builtin/card.py list first.tsv [--wrong FILE]         a list of sentences, translated both ways
    python recipes/builtin/card.py check en de < sources                 what came out empty, in loops or not translated

With --wrong, a file of numbers such as "en-de 7", one a line and each with what is wrong if one likes, those sentences
are marked, and the others counted as right: a reader decides.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

from recoversat import Translator
from recoversat.inference.repairs.cut_loops import most_repeats


def scores(reports: list[Path]) -> Iterator[str]:
    """Print BLEU, chrF and steps of every system on every test set, a row for each set and direction, and mean BLEU."""
    found = {report.name: [json.loads(line) for line in (report / "results.jsonl").open()] for report in reports}
    systems = list(dict.fromkeys(row["system"] for rows in found.values() for row in rows))
    tests = list(dict.fromkeys(row["test_set"] for rows in found.values() for row in rows))
    yield "| test set | | " + " | ".join(systems) + " |"
    yield "|---" * (2 + len(systems)) + "|"
    for test in tests:
        for way, rows in found.items():
            by_system = {row["system"]: row for row in rows if row["test_set"] == test}
            cells = [
                f"{row['bleu']['value']:.1f} / {row['chrf']['value']:.1f}"
                + (f" / {row['steps']['mean']:.1f}" if row["steps"] else "")  # none of a text that was given
                if row
                else ""
                for row in map(by_system.get, systems)
            ]
            for row in list(by_system.values())[:1]:
                yield f"| {test} ({row['sentences']:,}) | {way} | " + " | ".join(cells) + " |"
    every = [row for rows in found.values() for row in rows]
    scored = [[row["bleu"]["value"] for row in every if row["system"] == system] for system in systems]
    most = max(map(len, scored))  # who was not asked everything has no mean to compare
    yield "| mean | | " + " | ".join(f"{mean(one):.2f}" if len(one) == most else "" for one in scored) + " |"


def judged(path: Path, model: str | None, wrong: Path | None) -> Iterator[str]:
    """Print a list of sentences with their translations, both ways, and how many a reader found right."""
    lines = path.read_text(encoding="utf-8").splitlines()
    pairs = [line.split("\t") for line in lines if line and not line.startswith("#")]
    bad = (
        {tuple(line.split()[:2]) for line in wrong.read_text(encoding="utf-8").splitlines() if line.strip()}
        if wrong
        else set()
    )
    for source, target in (("en", "de"), ("de", "en")):
        way = f"{source}-{target}"
        texts = [pair[source == "de"] for pair in pairs]
        translator = Translator(model, source=source, target=target)
        right = f": {len(texts) - sum(one == way for one, _ in bad)} of {len(texts)} right" if wrong else ""
        yield f"\n## {way}{right}\n\n| | {source} | {target} | |\n|---|---|---|---|"
        for number, one in enumerate(translator.translate(texts), start=1):
            yield f"| {number} | {one.source} | {one.text} | {'wrong' if (way, str(number)) in bad else ''} |"


def fault(source: str, translation: str) -> str | None:
    """Name what a glance sees to be wrong.

    >>> fault("Where is the old house?", "Wo ist the old house?"), fault("I see.", ""), fault("Hi Anna", "Hallo Anna")
    ('half translated', 'empty', None)
    >>> fault("It rains.", "Es regnet regnet regnet regnet.")
    'loop'
    """
    said, words = (re.findall(r"[^\W\d_]+", text) for text in (source, translation))
    if said and not translation.strip():
        return "empty"
    if most_repeats([hash(word) for word in words]) > max(3, most_repeats([hash(word) for word in said])):
        return "loop"
    if len(said) > 7 and len(words) < 0.35 * len(said):
        return "half lost"
    small = [word for word in said if word.islower() and len(word) > 2]  # names stay as they are
    kept = sum(word in words for word in small)
    return "half translated" if len(small) > 1 and kept > 0.5 * len(small) else None


def checked(source: str, target: str, model: str | None) -> Iterator[str]:
    """Print what of the lines of standard input came out wrong at a glance, and how many there are."""
    texts = sys.stdin.read().splitlines()
    found = Translator(model, source=source, target=target, intra_threads=1).translate(texts)
    bad = [(fault(one.source, one.text), one) for one in found]
    for name, one in bad:
        if name:
            yield f"{name}: {one.source} -> {one.text}"
    names = [name for name, _ in bad if name]
    told = ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names)) or "nothing to see"
    yield f"{source}-{target}: {len(texts):,} lines: {told}"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("scores").add_argument("reports", type=Path, nargs="+")
    of_list = commands.add_parser("list")
    of_list.add_argument("path", type=Path)
    of_list.add_argument("--model")
    of_list.add_argument("--wrong", type=Path)
    of_check = commands.add_parser("check")
    of_check.add_argument("source")
    of_check.add_argument("target")
    of_check.add_argument("--model")
    args = parser.parse_args()
    if args.command == "scores":
        rows = scores(args.reports)
    elif args.command == "list":
        rows = judged(args.path, args.model, args.wrong)
    else:
        rows = checked(args.source, args.target, args.model)
    print("\n".join(rows))


if __name__ == "__main__":
    main()
