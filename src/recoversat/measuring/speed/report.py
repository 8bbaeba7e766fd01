"""What is told of a benchmark: tables, as Markdown that also reads as text or as LaTeX, and pictures."""

from typing import Any

from recoversat.measuring.reports.plots import Plot, line_chart, quality_speed_chart
from recoversat.measuring.reports.table import MISSING, Table, TableFormat, number, without_empty_columns, written
from recoversat.measuring.speed.results import BenchResult, GrowthPoint, Row, best_rows


def report_text(result: BenchResult, form: TableFormat = TableFormat.MARKDOWN) -> str:
    """Write all tables and the notes, which LaTeX gets as comments."""
    tables = [ratio_table(result), speed_table(result), system_table(result)]
    shown = [written(without_empty_columns(table), form) for table in tables if table.rows]
    mark = "%" if form == TableFormat.LATEX else "-"
    return "\n".join([*shown, *(f"{mark} {note}" for note in [*result.notes, *machine_lines(result)]), ""])


def ratio_table(result: BenchResult) -> Table:
    """How many times faster, each system at its best number of threads."""
    batches = sorted({ratio.batch for ratio in result.ratios})
    found = {(ratio.system, ratio.over, ratio.batch): ratio for ratio in result.ratios}
    rows = []
    for system, over in dict.fromkeys((ratio.system, ratio.over) for ratio in result.ratios):
        cells = [found.get((system, over, batch)) for batch in batches]
        rows.append(
            [system, over, *(f"{cell.times:.2f}x ({cell.times_at_best:.2f}x)" if cell else MISSING for cell in cells)]
        )
    heads = ["system", "is faster than", *(f"batch {batch}" for batch in batches)]
    note = (
        "By medians (in brackets: of each batch only its fastest round), each system at its own best number of threads."
    )
    return Table("How many times faster", heads, rows, n_labels=2, notes=[note])


def speed_table(result: BenchResult) -> Table:
    """A row for each system, batch size and number of threads; * marks a system's best number of threads."""
    best = best_rows(result.rows)
    rows = [
        [
            row.system, str(row.batch), str(row.threads) + ("*" if best[row.system, row.batch] is row else ""),
            number(row.p50_ms), number(row.p90_ms), number(row.p99_ms), number(row.sentences_per_s, 1),
            number(row.tokens_per_s, 0), number(row.peak_bytes / 1e6, 0),
            number(row.device_bytes / 1e6 if row.device_bytes else None, 0),
        ]
        for row in sorted(result.rows, key=lambda row: row.batch)
    ]  # fmt: skip
    heads = ["system", "batch", "threads", "p50 ms", "p90 ms", "p99 ms", "sentences/s", "tokens/s", "peak MB", "GPU MB"]
    return Table("Speed", heads, rows, n_labels=1, notes=["ms are those of a whole batch. * = best number of threads."])


def system_table(result: BenchResult) -> Table:
    """What each system is, and why one has no figures."""
    heads = ["system", "engine", "precision", "device", "K", "beam", "threads", "size MB", "start s", "BLEU", "failed"]
    rows = [
        [
            one.name, one.engine or MISSING, one.precision or MISSING, one.device or MISSING,
            str(one.segments or MISSING), str(one.beam), str(one.threads),
            number(one.bytes / 1e6 if one.engine else None, 1), number(one.start_s or None),
            number(result.bleu.get(one.name)), one.error or MISSING,
        ]
        for one in result.systems
    ]  # fmt: skip
    return Table("Systems", heads, rows, n_labels=4)


def machine_lines(result: BenchResult) -> list[str]:
    machine = result.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    memory = f", {machine['memory_bytes'] / 2**30:.0f} GiB"
    gpu = f"; {machine['gpu']}" if machine.get("gpu") else ""
    instructions = f" ({', '.join(machine['instructions'])})" if machine["instructions"] else ""
    return [
        f"{machine['processor']}{instructions}, {_cores(machine)}{memory}{gpu}; {machine['system']}",
        f"Python {machine['python']}, {versions}",
    ]


def _cores(machine: dict[str, Any]) -> str:
    """Say how many cores could be used, and whether that were all."""
    pinned = ", ".join(map(str, machine["pinned_to"]))
    if pinned:
        return f"{machine['cores']} of {machine['cores_there']} cores (pinned to {pinned})"
    return f"{machine['cores']} cores (not pinned)"


def speed_plots(result: BenchResult) -> list[Plot]:
    """Draw the time of a sentence over its length, and BLEU against it, each system at its best number of threads.

    BLEU is drawn against the time of a sentence by itself, and of one in the largest batches.
    """
    best = best_rows(result.rows)
    curves: dict[str, list[GrowthPoint]] = {}
    for point in sorted(result.growth, key=lambda point: point.length):
        row = best.get((point.system, 1))
        if row and row.threads == point.threads:
            curves.setdefault(point.system, []).append(point)
    plots = [_growth(curves, fixed="length" in result.settings)] if curves else []
    alone, largest = _of_batch(best, 1), max((batch for _, batch in best), default=1)
    latency = {name: row.p50_ms for name, row in alone.items()}
    plots += _quality(result, "latency", latency, "median ms a sentence at batch 1")
    if largest > 1:
        throughput = {name: 1000 / row.sentences_per_s for name, row in _of_batch(best, largest).items()}
        plots += _quality(
            result, "throughput", throughput, f"ms a sentence in batches of {largest} (1000 / sentences/s)"
        )
    return plots


def _of_batch(best: dict[tuple[str, int], Row], batch: int) -> dict[str, Row]:
    return {name: row for (name, size), row in best.items() if size == batch}


def _quality(result: BenchResult, what: str, ms: dict[str, float], x_label: str) -> list[Plot]:
    """Draw BLEU against milliseconds, if anything has both; what has a time alone is a vertical line."""
    families = [{name: (ms[name], bleu)} for name, bleu in result.bleu.items() if name in ms]
    unscored = {name: time for name, time in ms.items() if name not in result.bleu}
    if not families:
        return []
    return [quality_speed_chart(f"bleu-against-{what}", f"BLEU against {what}", families, x_label, unscored)]


def _growth(curves: dict[str, list[GrowthPoint]], fixed: bool) -> Plot:
    ends = {name: (points[0], points[-1]) for name, points in curves.items()}
    said = [f"{name}: {_point(a, ' tokens')}, {_point(b)}" for name, (a, b) in ends.items()]
    return line_chart(
        "latency-by-length",
        "Time of a sentence over its length, batch 1",
        "; ".join(said),
        {name: ([p.length for p in points], [p.ms for p in points]) for name, points in curves.items()},
        ("tokens written" if fixed else "source length in sub-words", "ms a sentence, batch 1"),
    )


def _point(point: GrowthPoint, unit: str = "") -> str:
    return f"{point.ms:.1f} ms at {point.length:.0f}{unit}"
