"""Put what `recipes/neighbours.sh` wrote into one table and plots of each device: quality, significance, steps, speed.

    python recipes/neighbours_table.py FOLDER --out OUT [--paper iwslt16.en-de]

Reads report.md and, where they are, speed-cuda.md, speed-cpu.md and speed-native.md (the bench.md of each). Speedups
are over AT beam 4 of the same file: by medians at batch 1, by sentences a second in batches of 64. What the paper
prints for a data set comes last: other data, tokenised BLEU, other machines. Writes OUT/table.md, and for each device
OUT/quality-speed-DEVICE.svg (a sentence by itself) and OUT/quality-speed-DEVICE-64.svg (in batches of 64).
"""

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from recoversat.files.storage import write_text
from recoversat.measuring.quality.paper import published
from recoversat.measuring.reports.plots import quality_speed_chart

BASE, DEVICES = "AT beam 4", {"cuda": "GPU", "cpu": "one CPU core", "native": "one CPU core, C++"}
QUALITY = {
    "BLEU": "BLEU", "vs baseline": "p", "chrF2++": "chrF2++", "TER": "TER", "Rep %": "Rep %", "Mis %": "Mis %",
    "Step": "steps",
}  # fmt: skip
SPEED = {"1": "p50 ms", "64": "sentences/s"}  # by batch
Row = dict[str, str]
Cells = dict[str, list[str]]  # of a device: time, speedup, sentences a second, speedup


@dataclass(frozen=True)
class System:
    """A system's quality and speed."""

    name: str
    quality: list[str]
    speed: Cells


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


def systems_of(folder: Path) -> list[System]:
    """Return the systems of a folder, as they do on its first test set."""
    timed = {device: speeds(folder / f"speed-{device}.md") for device in DEVICES}
    rows = list(rows_of(folder / "report.md", "vs baseline"))
    return [
        System(
            row["System"],
            [row[column].rpartition("p = ")[2].strip(")–") for column in QUALITY],
            {device: of[row["System"]] for device, of in timed.items() if row["System"] in of},
        )
        for row in rows
        if row["Test set"] == rows[0]["Test set"]
    ]


def table(systems: list[System], paper: str | None) -> Iterator[str]:
    """Yield the table's lines."""
    devices = [device for device in DEVICES if any(device in one.speed for one in systems)]
    empty = dict.fromkeys(devices, [""] * 4)
    speed = ["ms, batch 1", "speedup", "sentences/s, batch 64", "speedup"]
    heads = [*QUALITY.values(), *(f"{device}: {one}" for device in map(DEVICES.get, devices) for one in speed)]
    yield "| | " + " | ".join(heads) + " |"
    yield "|---" * (len(heads) + 1) + "|"
    for one in systems:
        told = empty | one.speed
        yield (
            f"| {one.name} | "
            + " | ".join([*one.quality, *(cell for device in devices for cell in told[device])])
            + " |"
        )
    for row in published(paper) if paper else []:
        cells = [row.bleu, *[""] * 7, row.speedup.strip("-"), *[""] * (4 * len(devices) - 2)]
        yield f"| paper: {row.name} | " + " | ".join(cells) + " |"


def plot(systems: list[System], device: str, batch: str, out: Path) -> None:
    """Draw BLEU over milliseconds of a sentence; what differs in a number alone is one family, `exact` is K = 1."""
    families: dict[str, dict[str, tuple[float, float]]] = {}
    for one in systems:
        alone, _, a_second, _ = one.speed.get(device, [""] * 4)
        if (alone if batch == "1" else a_second) and not one.name.endswith(" exact"):
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
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--paper", help="a data set of the paper, whose systems come last")
    args = parser.parse_args()
    systems = systems_of(args.folder)
    if not systems:
        parser.error(
            f"{args.folder / 'report.md'}: no table of systems; `recipes/neighbours.sh DATA OUT report` writes it"
        )
    args.out.mkdir(parents=True, exist_ok=True)
    write_text(args.out / "table.md", "\n".join(table(systems, args.paper)) + "\n")
    for device in dict.fromkeys(device for one in systems for device in one.speed):
        for batch in SPEED:
            plot(systems, device, batch, args.out)


if __name__ == "__main__":
    main()
