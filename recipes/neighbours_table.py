"""Put what `recipes/neighbours.sh` wrote into one table and one plot a device: quality, significance, speed, speedup.

    python recipes/neighbours_table.py FOLDER [MORE...] --out OUT [--paper iwslt16.en-de]

Reads report.md, speed-cuda.md and, where it is, speed-cpu.md of a folder. Of further folders (trained again, with the
same settings) only the systems that no earlier one has are taken, and named after the folder. Speedups are over AT beam
4 of the same file: by medians at batch 1, by sentences a second at batch 64. What the paper prints for a data set comes
last: other data, tokenised BLEU, other machines. Writes OUT/table.md, OUT/quality-speed-{cuda,cpu}.svg.
"""

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from recoversat.files.storage import write_text
from recoversat.measuring.quality.paper import published
from recoversat.measuring.reports.plots import quality_speed_chart

BASE, DEVICES = "AT beam 4", {"cuda": "GPU", "cpu": "one CPU core"}
QUALITY = {"BLEU": "BLEU", "vs baseline": "p", "chrF2++": "chrF2++", "TER": "TER", "Rep %": "Rep %", "Mis %": "Mis %"}
SPEED = {"1": "p50 ms", "64": "sentences/s"}  # by batch
STEPS = {"NAT": "1", "CTC": "1", "CMLM 4": "4", "CMLM 10": "10"}  # by what they are
Row = dict[str, str]


@dataclass(frozen=True)
class System:
    """A system's quality, and for each device its time, speedup, sentences a second, speedup."""

    name: str
    quality: list[str]
    speed: dict[str, list[str]]


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


def systems_of(folders: list[Path]) -> list[System]:
    """Return the systems of all folders, each once."""
    found: dict[str, System] = {}
    for folder in folders:
        timed = {device: speeds(folder / f"speed-{device}.md") for device in DEVICES}
        for row in rows_of(folder / "report.md", "vs baseline"):
            name = row["System"]
            if name not in found:
                quality = [row[column].rpartition("p = ")[2].strip(")–") for column in QUALITY]
                speed = {device: of.get(name, [""] * 4) for device, of in timed.items()}
                title = name if folder == folders[0] else f"{name} ({folder.name})"
                found[name] = System(title, [*quality, STEPS.get(name, "")], speed)
    return list(found.values())


def table(systems: list[System], paper: str | None) -> Iterator[str]:
    """Yield the table's lines."""
    speed = ["ms, batch 1", "speedup", "sentences/s, batch 64", "speedup"]
    heads = [*QUALITY.values(), "steps", *(f"{device}: {one}" for device in DEVICES.values() for one in speed)]
    yield "| | " + " | ".join(heads) + " |"
    yield "|---" * (len(heads) + 1) + "|"
    for one in systems:
        yield f"| {one.name} | " + " | ".join([*one.quality, *one.speed["cuda"], *one.speed["cpu"]]) + " |"
    for row in published(paper) if paper else []:
        cells = [row.bleu, *[""] * 7, row.speedup.strip("-"), *[""] * 6]
        yield f"| paper: {row.name} | " + " | ".join(cells) + " |"


def plot(systems: list[System], device: str, out: Path) -> None:
    """Draw BLEU over milliseconds; what differs in a number alone is one family."""
    families: dict[str, dict[str, tuple[float, float]]] = {}
    for one in systems:
        if ms := one.speed[device][0]:
            family = re.sub(r"(?<=SAT|MLM) \d+$", "", one.name)
            families.setdefault(family, {})[one.name] = float(ms), float(one.quality[0])
    name, x_label = f"quality-speed-{device}", f"milliseconds of a sentence, {DEVICES[device]}, batch 1"
    made = quality_speed_chart(name, "BLEU against latency", list(families.values()), x_label)
    write_text(out / f"{name}.svg", made.svg)


def main() -> None:
    """Write table and plots."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--paper", help="a data set of the paper, whose systems come last")
    args = parser.parse_args()
    systems = systems_of(args.folders)
    args.out.mkdir(parents=True, exist_ok=True)
    write_text(args.out / "table.md", "\n".join(table(systems, args.paper)) + "\n")
    for device in DEVICES:
        plot(systems, device, args.out)


if __name__ == "__main__":
    main()
