"""Two pictures: how time grows with length, and quality against time."""

from recoversat.measuring.reports.plots import Plot, line_chart, quality_speed_chart
from recoversat.measuring.speed.results import BenchResult, GrowthPoint, best_rows


def speed_plots(result: BenchResult) -> list[Plot]:
    """Draw the time of a sentence over its length, and BLEU against it, each system at its best number of threads."""
    best = best_rows(result.rows)
    curves: dict[str, list[GrowthPoint]] = {}
    for point in sorted(result.growth, key=lambda point: point.length):
        row = best.get((point.system, 1))
        if row and row.threads == point.threads:
            curves.setdefault(point.system, []).append(point)
    plots = [_growth(curves, fixed="length" in result.settings)] if curves else []
    points = {name: (best[name, 1].p50_ms, bleu) for name, bleu in result.bleu.items() if (name, 1) in best}
    if points:
        families = [{name: point} for name, point in points.items()]
        x_label = "median ms a sentence at batch 1"
        plots.append(quality_speed_chart("bleu-against-latency", "BLEU against latency", families, x_label))
    return plots


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
