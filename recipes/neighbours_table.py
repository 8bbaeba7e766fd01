"""Put what `recipes/neighbours.sh` wrote into one table and plots of each device: quality, significance, steps, speed.

    python recipes/neighbours_table.py FOLDER [MORE...] --out OUT [--paper iwslt16.en-de]
        [--steps results.jsonl] [--called "RecoverSAT=one model"]

Reads report.md, speed-cuda.md and, where it is, speed-cpu.md of a folder. Of further folders (trained again, with the
same settings) only the systems that no earlier one has are taken, and named after the folder; and times of a device
that no earlier one has, in cells that name the folder. Speedups are over AT beam 4 of the same file: by medians at
batch 1, by sentences a second at batch 64. Steps are those that `evaluate` counted in another run, if it has the same
BLEU for a system of that name, which may be another name there. What the paper prints for a data set comes last: other
data, tokenised BLEU, other machines. Writes OUT/table.md, OUT/quality-speed-{cuda,cpu}.svg (a sentence by itself) and
OUT/quality-speed-{cuda,cpu}-64.svg (in batches of 64).
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from recoversat.files.storage import write_text
from recoversat.measuring.quality.paper import published
from recoversat.measuring.reports.plots import quality_speed_chart

BASE, DEVICES = "AT beam 4", {"cuda": "GPU", "cpu": "one CPU core"}
QUALITY = {"BLEU": "BLEU", "vs baseline": "p", "chrF2++": "chrF2++", "TER": "TER", "Rep %": "Rep %", "Mis %": "Mis %"}
SPEED = {"1": "p50 ms", "64": "sentences/s"}  # by batch
STEPS = {"NAT": "1", "CTC": "1", "CMLM 4": "4", "CMLM 10": "10"}  # by what they are
KEPT = " kept"  # ends names of what was evaluated with nothing repaired, as all is here, where other rows are repaired
SAME_BLEU = 0.1  # of what two engines write with one model
Row = dict[str, str]
Cells = dict[str, list[str]]  # of a device: time, speedup, sentences a second, speedup


@dataclass(frozen=True)
class System:
    """A system's quality, and its speed; times of another folder are apart."""

    name: str
    quality: list[str]
    steps: str
    speed: Cells
    elsewhere: Cells = field(default_factory=dict)


@dataclass(frozen=True)
class Counted:
    """What `evaluate` found in another run."""

    test_set: str
    bleu: float
    steps: float


def rows_of(path: Path, head: str) -> Iterator[Row]:
    """Yield the rows of the first Markdown table whose head has that column."""
    names: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if names and not cells:
            return
        if names and not cells[0].startswith(":"):
            yield dict(zip(names, cells, strict=True))
        elif head in cells:
            names = cells


def counted_steps(path: Path, called: str) -> dict[str, list[Counted]]:
    """Return what a results.jsonl counted, by names as they are here; `called` is HERE=THERE, how names begin."""
    here, _, there = called.partition("=")
    found: dict[str, list[Counted]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        name = re.sub(rf"^{re.escape(there)}\b", here, row["system"]) if there else row["system"]
        if row["steps"]:
            one = Counted(row["test_set"], row["bleu"]["value"], row["steps"]["mean"])
            found.setdefault(name.removesuffix(KEPT), []).append(one)
    return found


def steps_of(row: Row, counted: Iterable[Counted]) -> str:
    """Return a system's steps, if any were counted of the same test set and the same BLEU."""
    name, bleu = row["System"], float(row["BLEU"])
    here = [one for one in counted if one.test_set == row["Test set"]]
    same = [one for one in here if abs(one.bleu - bleu) <= SAME_BLEU]
    if here and not same:
        others = ", ".join(f"{one.bleu:.2f}" for one in here)
        print(f"{name}: no steps, as BLEU is {bleu} here and {others} there", file=sys.stderr)
    return f"{same[0].steps:.1f}" if same else STEPS.get(name, "")


def speeds(path: Path) -> dict[str, list[str]]:
    """Return milliseconds and sentences a second of each system, each with its speedup."""
    found = {(row["system"], row["batch"]): row for row in rows_of(path, "p50 ms")}
    table: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for name, _ in found):
        for batch, column in SPEED.items():
            one, base = (found.get((who, batch), {}).get(column, "") for who in (name, BASE))
            ratio = float(one) / float(base) if one and base else 0.0
            table.setdefault(name, []).extend([one, f"{ratio if batch == '64' else 1 / ratio:.1f}x" if ratio else ""])
    return table


def systems_of(folders: list[Path], counted: dict[str, list[Counted]]) -> list[System]:
    """Return the systems of all folders, each once."""
    found: dict[str, System] = {}
    for folder in folders:
        mark = "" if folder == folders[0] else f" ({folder.name})"
        timed = {device: speeds(folder / f"speed-{device}.md") for device in DEVICES}
        for row in rows_of(folder / "report.md", "vs baseline"):
            name = row["System"]
            speed = {device: of[name] for device, of in timed.items() if name in of}
            if name not in found:
                quality = [row[column].rpartition("p = ")[2].strip(")–") for column in QUALITY]
                found[name] = System(name + mark, quality, steps_of(row, counted.get(name, [])), speed)
            for device in speed.keys() - found[name].speed.keys() - found[name].elsewhere.keys():
                found[name].elsewhere[device] = [cell and cell + mark for cell in speed[device]]
    return list(found.values())


def table(systems: list[System], paper: str | None) -> Iterator[str]:
    """Yield the table's lines."""
    empty = dict.fromkeys(DEVICES, [""] * 4)
    speed = ["ms, batch 1", "speedup", "sentences/s, batch 64", "speedup"]
    heads = [*QUALITY.values(), "steps", *(f"{device}: {one}" for device in DEVICES.values() for one in speed)]
    yield "| | " + " | ".join(heads) + " |"
    yield "|---" * (len(heads) + 1) + "|"
    for one in systems:
        told = empty | one.elsewhere | one.speed
        yield f"| {one.name} | " + " | ".join([*one.quality, one.steps, *told["cuda"], *told["cpu"]]) + " |"
    for row in published(paper) if paper else []:
        cells = [row.bleu, *[""] * 7, row.speedup.strip("-"), *[""] * 6]
        yield f"| paper: {row.name} | " + " | ".join(cells) + " |"


def notes(folders: list[Path], steps: Path | None) -> Iterator[str]:
    """Say below the table where its cells come from."""
    if steps:
        yield (
            f"Steps: of NAT, CTC and CMLM by what they are; of others as {steps} counts them, if the same system has"
            f" the same BLEU to {SAME_BLEU} there (of `tolerant`: calls of the model)."
        )
    for folder in folders[1:]:
        yield (
            f"({folder.name}): trained a second time with the same settings and timed in a run of its own; speedups are"
            f" over {BASE} of that run. A cell with that mark stands beside the quality of the first training."
        )


def plot(systems: list[System], device: str, batch: str, out: Path) -> None:
    """Draw BLEU over milliseconds of a sentence; what differs in a number alone is one family."""
    families: dict[str, dict[str, tuple[float, float]]] = {}
    for one in systems:
        alone, _, a_second, _ = one.speed.get(device, [""] * 4)
        if alone if batch == "1" else a_second:
            ms = float(alone) if batch == "1" else 1000 / float(a_second)
            family = re.sub(r"(?<=SAT|MLM) \d+$", "", one.name)
            families.setdefault(family, {})[one.name] = ms, float(one.quality[0])
    name = f"quality-speed-{device}" + (f"-{batch}" if batch != "1" else "")
    x_label = f"milliseconds of a sentence, {DEVICES[device]}, batch {batch}"
    made = quality_speed_chart(name, "BLEU against time", list(families.values()), x_label)
    write_text(out / f"{name}.svg", made.svg)


def main() -> None:
    """Write table and plots."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--paper", help="a data set of the paper, whose systems come last")
    parser.add_argument("--steps", type=Path, help="results.jsonl of `evaluate`, which counted them")
    parser.add_argument("--called", default="", help="how names of systems begin, HERE=THERE in that file")
    args = parser.parse_args()
    systems = systems_of(args.folders, counted_steps(args.steps, args.called) if args.steps else {})
    args.out.mkdir(parents=True, exist_ok=True)
    below = [f"\n{note}" for note in notes(args.folders, args.steps)]
    write_text(args.out / "table.md", "\n".join([*table(systems, args.paper), *below]) + "\n")
    for device in DEVICES:
        for batch in SPEED:
            plot(systems, device, batch, args.out)


if __name__ == "__main__":
    main()
