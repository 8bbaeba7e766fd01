"""Put what `recipes/paper.sh` wrote into tables beside the paper's figures: one OUT for each seed.

    python recipes/paper_table.py OUT [OUT...] --out FOLDER [--paper iwslt16.en-de]

Reads of each OUT paper/results.jsonl, paper-*/log.jsonl and, where it is there, speed-gpu/bench.json. Several seeds
give the mean and, in brackets, the range. Losses and speedups are those of each seed against its own teacher.
Writes FOLDER/tables.md (Table 2 for each test set, best against last checkpoint, validation BLEU as p falls) and
FOLDER/validation.jsonl.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from recoversat.files.storage import write_text
from recoversat.measuring.quality.paper import DATA_SETS, DYNAMIC_TERMINATION, MAIN_RESULTS, Figures
from recoversat.measuring.reports.table import MISSING, Table, to_markdown, without_empty_columns

BEAM, GREEDY = "AT beam 4", "AT greedy"
STUDENTS = {f"RecoverSAT {k}": f"paper-k{k}" for k in (2, 5, 10)}
PAPERS = {BEAM: "AT", **{name: name.split()[-1] for name in STUDENTS}}  # our names, and those of the paper's tables

Record = dict[str, Any]


@dataclass(frozen=True)
class Seed:
    """What one OUT holds: results by test set and system, milliseconds by system, validations by training."""

    results: dict[tuple[str, str], Record]
    ms: dict[str, float] = field(default_factory=dict)
    curves: dict[str, dict[int, tuple[float, float]]] = field(default_factory=dict)  # update: p, BLEU

    def bleu(self, test_set: str, name: str) -> float | None:
        result = self.results.get((test_set, name))
        return result["bleu"]["value"] if result else None

    def loss(self, test_set: str, name: str) -> float | None:
        """Return what a system loses against beam search, in percent of its BLEU."""
        own, base = self.bleu(test_set, name), self.bleu(test_set, BEAM)
        return 100 * (own / base - 1) if own is not None and base else None

    def part(self, test_set: str, name: str, group: str, key: str) -> float | None:
        """Return one figure of a result: Rep, Mis or steps."""
        return ((self.results.get((test_set, name)) or {}).get(group) or {}).get(key)

    def updates(self, test_set: str, name: str) -> int | None:
        return self.part(test_set, name, "signature", "updates")  # type: ignore[return-value]

    def speedup(self, name: str, base: str) -> float | None:
        return self.ms[base] / self.ms[name] if {name, base} <= self.ms.keys() else None


def read_jsonl(path: Path) -> Iterator[Record]:
    """Yield the records of a file; a half-written last line of a stopped training is left out."""
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            return


def curve_of(log: Path) -> dict[int, tuple[float, float]]:
    """Return p and BLEU at each validation of a training."""
    p, found = 0.0, {}
    for line in read_jsonl(log):
        p = line.get("random_prob", p)
        if "validation_bleu" in line:
            found[int(line["step"])] = p, line["validation_bleu"]
    return found


def read_seed(out: Path) -> Seed:
    """Read the reports of one OUT."""
    results = {(one["test_set"], one["system"]): one for one in read_jsonl(out / "paper" / "results.jsonl")}
    bench = out / "speed-gpu" / "bench.json"
    rows = json.loads(bench.read_text(encoding="utf-8"))["rows"] if bench.is_file() else []
    runs = {log.parent.name: curve_of(log) for log in sorted(out.glob("*/log.jsonl"))}
    return Seed(results, {row["system"]: row["p50_ms"] for row in rows if row["batch"] == 1}, runs)


def spread(values: Sequence[float | None], digits: int, sign: str = "") -> str:
    """Print a figure of several seeds: its mean and, in brackets, its range.

    >>> spread([30.0], 2), spread([30.0, 31.0, None], 1), spread([None], 1), spread([-1.26, -1.34], 1, "+")
    ('30.00', '30.5 (30.0 to 31.0)', '–', '-1.3 (-1.3 to -1.3)')
    """
    known = [value for value in values if value is not None]
    if not known:
        return MISSING
    texts = [f"{value:{sign}.{digits}f}" for value in (fmean(known), min(known), max(known))]
    return texts[0] if len(known) == 1 else f"{texts[0]} ({texts[1]} to {texts[2]})"


def main_table(seeds: Sequence[Seed], test_set: str, data_set: str) -> Table:
    """Set the systems' quality and speed beside what the paper prints: Table 2.

    Sentences of the first test set are what was timed, so the others' tables are without times.
    """
    if test_set != next(iter(seeds[0].results))[0]:
        seeds = [replace(seed, ms={}) for seed in seeds]
    names = list(dict.fromkeys(name for seed in seeds for where, name in seed.results if where == test_set))
    heads = ["BLEU", "against beam 4, %", "Rep %", "Mis %", "Step", "ms", "over beam 4", "over greedy", "updates"]
    papers = [f"paper: {head}" for head in ("BLEU", "against AT, %", "speedup")]
    rows = [[name, *own_cells(seeds, test_set, name), *paper_cells(name, data_set)] for name in names]
    notes = [f"The paper's figures: {DATA_SETS[data_set]}, other data, tokenised BLEU, a P40."]
    table = Table(f"Table 2, {test_set}, seeds: {len(seeds)}", ["System", *heads, *papers], rows, notes=notes)
    return without_empty_columns(table)


def own_cells(seeds: Sequence[Seed], test_set: str, name: str) -> list[str]:
    def cell(figure: Callable[[Seed], float | None], digits: int, sign: str = "") -> str:
        return spread([figure(seed) for seed in seeds], digits, sign)

    return [
        cell(lambda seed: seed.bleu(test_set, name), 2),
        cell(lambda seed: seed.loss(test_set, name), 1, "+"),
        cell(lambda seed: seed.part(test_set, name, "errors", "rep"), 1),
        cell(lambda seed: seed.part(test_set, name, "errors", "mis"), 1),
        cell(lambda seed: seed.part(test_set, name, "steps", "mean"), 1),
        cell(lambda seed: seed.ms.get(name), 2),
        cell(lambda seed: seed.speedup(name, BEAM), 2),
        cell(lambda seed: seed.speedup(name, GREEDY), 2),
        cell(lambda seed: seed.updates(test_set, name), 0),
    ]


def paper_cells(name: str, data_set: str) -> list[str]:
    rows = MAIN_RESULTS[data_set].rows
    of_nat: dict[str, Figures] = {"NAT": DYNAMIC_TERMINATION.rows.get("NAT", {})} if "iwslt" in data_set else {}
    figures = {**rows, **of_nat}.get(PAPERS.get(name, name), {})
    bleu, base = figures.get("BLEU"), rows["AT"]["BLEU"]
    loss = 100 * (bleu / base - 1) if bleu and base else None
    return [spread([bleu], 2), spread([loss], 1, "+"), spread([figures.get("Speedup")], 2)]


def checkpoint_table(seeds: Sequence[Seed], test_set: str) -> Table:
    """Compare the best checkpoint of each student with its last one."""
    rows = []
    for name, run in STUDENTS.items():
        for label, system in (("best", name), ("last", f"{name} last")):
            there = [(seed, seed.updates(test_set, system)) for seed in seeds if (test_set, system) in seed.results]
            at = [seed.curves.get(run, {}).get(update or 0, (None, None)) for seed, update in there]
            if there:
                rows.append([
                    name, label, spread([update for _, update in there], 0), spread([p for p, _ in at], 2),
                    spread([bleu for _, bleu in at], 2), spread([seed.bleu(test_set, system) for seed, _ in there], 2),
                    spread([seed.loss(test_set, system) for seed, _ in there], 1, "+"),
                ])  # fmt: skip
    heads = ["System", "checkpoint", "updates", "p", "validation BLEU", f"{test_set} BLEU", "against beam 4, %"]
    return Table("Best and last checkpoint", heads, rows, n_labels=2)


def curve_table(seeds: Sequence[Seed]) -> Table:
    """Show validation BLEU while p falls."""
    runs = [run for run in (*STUDENTS.values(), "paper-nat") if any(run in seed.curves for seed in seeds)]
    students = [run for run in runs if run in STUDENTS.values()]
    rows = []
    for update in sorted({update for seed in seeds for run in runs for update in seed.curves.get(run, {})}):
        at = {run: [seed.curves[run][update] for seed in seeds if update in seed.curves.get(run, {})] for run in runs}
        p = spread([p for run in students for p, _ in at[run]][:1], 2)
        rows.append([str(update), p, *(spread([bleu for _, bleu in at[run]], 2) for run in runs)])
    return Table("Validation BLEU", ["update", "p", *runs], rows, n_labels=2)


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("outs", type=Path, nargs="+", metavar="OUT")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--paper", default="iwslt16.en-de", choices=DATA_SETS)
    args = parser.parse_args()
    for out in args.outs:
        if not (out / "paper" / "results.jsonl").is_file():
            parser.error(f"{out / 'paper/results.jsonl'} is missing; `recipes/paper.sh DATA {out} report` writes it")
    seeds = [read_seed(out) for out in args.outs]
    test_sets = list(dict.fromkeys(test_set for seed in seeds for test_set, _ in seed.results))
    tables = [main_table(seeds, test_set, args.paper) for test_set in test_sets]
    tables += [checkpoint_table(seeds, test_sets[0]), curve_table(seeds)]
    args.out.mkdir(parents=True, exist_ok=True)
    write_text(args.out / "tables.md", "\n".join(map(to_markdown, tables)))
    lines = [
        {"seed": number, "run": run, "step": update, "p": p, "validation_bleu": bleu}
        for number, seed in enumerate(seeds, 1)
        for run, curve in seed.curves.items()
        for update, (p, bleu) in curve.items()
    ]
    write_text(args.out / "validation.jsonl", "".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
