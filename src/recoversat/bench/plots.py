"""Two pictures: how time grows with length, and quality against time."""

from collections.abc import Sequence

from recoversat.bench.results import BenchResult, GrowthPoint, best_rows
from recoversat.evaluation.plots import Plot, figure, one_two_five, series


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
        canvas.axes.legend(fontsize=8)
    said = "; ".join(f"{name}: {_ends(points)}" for name, points in curves.items())
    return canvas.plot("Time of a sentence over its length, batch 1", f"Line chart. {said}")


def plot_quality(result: BenchResult) -> Plot | None:
    """Draw BLEU against the median time of a sentence at batch 1."""
    best = best_rows(result.rows)
    points = {name: (best[name, 1].p50_ms, bleu) for name, bleu in result.bleu.items() if (name, 1) in best}
    if not points:
        return None
    with figure("bleu-against-latency") as canvas:
        for index, (name, point) in enumerate(points.items()):
            canvas.axes.plot([point[0]], [point[1]], **series(index))
            canvas.axes.annotate(name, point, xytext=(6, -11), textcoords="offset points")
        canvas.axes.margins(x=0.25, y=0.15)  # room for the names
        canvas.axes.set_xscale("log")
        canvas.axes.xaxis.set_major_locator(one_two_five())
        canvas.axes.xaxis.set_major_formatter("{x:g}")
        canvas.axes.minorticks_off()
        canvas.axes.set_xlabel("median ms a sentence at batch 1, logarithmic (left is faster)")
        canvas.axes.set_ylabel("BLEU")
    said = "; ".join(f"{name}: {bleu:.1f} BLEU at {ms:.1f} ms" for name, (ms, bleu) in points.items())
    return canvas.plot("BLEU against latency", f"Scatter plot. {said}")


def _ends(points: Sequence[GrowthPoint]) -> str:
    first, last = points[0], points[-1]
    return f"{first.ms:.1f} ms at {first.length:.0f} tokens, {last.ms:.1f} ms at {last.length:.0f}"
