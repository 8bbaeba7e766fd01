"""Two pictures: how time grows with length, and quality against time."""

from collections.abc import Sequence

from recoversat.measuring.reports.plots import Plot, draw_quality_speed, figure, series
from recoversat.measuring.speed.results import BenchResult, GrowthPoint, best_rows


def plot_growth(result: BenchResult) -> Plot | None:
    """Draw the time of a sentence over its length, each system at its best number of threads."""
    best = best_rows(result.rows)
    curves: dict[str, list[GrowthPoint]] = {}
    for point in sorted(result.growth, key=lambda point: point.length):
        row = best.get((point.system, 1))
        if row and row.threads == point.threads:
            curves.setdefault(point.system, []).append(point)
    if not curves:
        return None
    with figure("latency-by-length") as canvas:
        for index, (name, points) in enumerate(curves.items()):
            canvas.axes.plot([p.length for p in points], [p.ms for p in points], label=name, **series(index))
        canvas.axes.set_ylim(bottom=0)
        fixed = result.settings.get("length")
        canvas.axes.set_xlabel("tokens written" if fixed else "source length in sub-words")
        canvas.axes.set_ylabel("ms a sentence, batch 1")
        canvas.legend()
    said = "; ".join(f"{name}: {_ends(points)}" for name, points in curves.items())
    return canvas.plot("Time of a sentence over its length, batch 1", f"Line chart. {said}")


def plot_quality(result: BenchResult) -> Plot | None:
    """Draw BLEU against the median time of a sentence at batch 1."""
    best = best_rows(result.rows)
    points = {name: (best[name, 1].p50_ms, bleu) for name, bleu in result.bleu.items() if (name, 1) in best}
    if not points:
        return None
    with figure("bleu-against-latency") as canvas:
        draw_quality_speed(canvas, [{name: point} for name, point in points.items()])
        canvas.axes.set_xlabel("median ms a sentence at batch 1, logarithmic (left is faster)")
    said = "; ".join(f"{name}: {bleu:.1f} BLEU at {ms:.1f} ms" for name, (ms, bleu) in points.items())
    return canvas.plot("BLEU against latency", f"Scatter plot. {said}")


def _ends(points: Sequence[GrowthPoint]) -> str:
    first, last = points[0], points[-1]
    return f"{first.ms:.1f} ms at {first.length:.0f} tokens, {last.ms:.1f} ms at {last.length:.0f}"
