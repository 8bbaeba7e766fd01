"""The pictures: BLEU over length, BLEU against latency, steps, segment lengths, the annealed p.

matplotlib is imported when a plot is drawn, never before: reports without plots do not need it.
"""

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from recoversat.errors import UserError
from recoversat.files.storage import atomic_file, lines_of, write_text
from recoversat.measuring.quality.length_buckets import EDGES, bleu_by_length, source_lengths
from recoversat.measuring.quality.outputs import SystemOutput, TestSet
from recoversat.measuring.quality.results import Result

# Ink and paper are replaced when a plot is embedded in a page, which may be dark.
INK, PAPER = "#1b1f24", "#ffffff"
# Readable on white and on near-black; the markers tell the series apart without colour.
COLOURS = ("#2f7ed8", "#d9730d", "#2e9e5b", "#b84fa0", "#d64545", "#6b7f8f")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")  # one more than colours: no two of 42 series look the same
# Points of one quality/speed curve may differ in these: a student trained for each K has weights of its own.
_SAME_FAMILY = {"K", "weights", "updates"}
_CROWD = 6  # more names than this have no room in a picture
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: sharp, searchable, small
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#808080",
    "grid.alpha": 0.25,
    "legend.frameon": False,
}


@dataclass(frozen=True)
class Plot:
    """A finished picture; `alt` says in words what it shows."""

    name: str
    title: str
    alt: str
    svg: str
    png: bytes


def write_plot(folder: Path, plot: Plot) -> list[Path]:
    """Write the picture as SVG and as PNG and return the two paths."""
    svg, png = folder / f"{plot.name}.svg", folder / f"{plot.name}.png"
    write_text(svg, plot.svg)
    with atomic_file(png) as scratch:
        scratch.write_bytes(plot.png)
    return [svg, png]


def embeddable_svg(plot: Plot) -> str:
    """Turn the picture into an <svg> element that takes width, ink and background from the page around it."""
    svg = plot.svg[plot.svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg [^>]*?)\swidth="[^"]*"\s', r"\1 ", svg, count=1)
    svg = re.sub(r'(<svg [^>]*?)\sheight="[^"]*"\s', r"\1 ", svg, count=1)
    svg = svg.replace(INK, "currentColor").replace(PAPER, "none")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(plot.alt)}" ', 1)


def plot_bleu_by_length(outputs: Sequence[SystemOutput], test_set: TestSet, edges: Sequence[int] = EDGES) -> Plot:
    """Draw the paper's figure: BLEU of each system over ranges of source length."""
    buckets = bleu_by_length(outputs, test_set, edges)
    _, unit = source_lengths(test_set)
    with figure(f"bleu-by-length-{_slug(test_set.name)}") as canvas:
        for index, output in enumerate(outputs):
            heights = [bucket.bleu[output.name] for bucket in buckets]
            canvas.axes.plot(range(len(buckets)), heights, label=output.name, **series(index))
        canvas.axes.set_xticks(range(len(buckets)), [f"{b.label}\n(n = {b.n_sentences})" for b in buckets])
        canvas.axes.set_xlabel(f"source length in {unit}")
        canvas.axes.set_ylabel("BLEU")
        canvas.legend()
    names = ", ".join(output.name for output in outputs)
    title = f"BLEU over source length, {test_set.name}"
    return canvas.plot(title, f"Line chart of the BLEU of {names} in {len(buckets)} ranges of source length")


def plot_quality_speed(results: Sequence[Result], test_set: str) -> Plot:
    """Draw BLEU against latency; systems that differ in K alone are joined by a line."""
    timed = [r for r in results if r.output.test_set == test_set and r.output.latency_ms is not None]
    if not timed:
        raise UserError(f"BLEU against latency on {test_set!r}: no system has a latency; measure it first")
    with figure(f"quality-speed-{_slug(test_set)}") as canvas:
        draw_quality_speed(
            canvas,
            [
                {r.output.name: (r.output.latency_ms or 0.0, r.quality.bleu.value) for r in family}
                for family in _families(timed)
            ],
        )
        canvas.axes.set_xlabel("ms a sentence, logarithmic (left is faster)")
    said = "; ".join(f"{r.output.name}: {r.quality.bleu.value:.1f} BLEU at {r.output.latency_ms:.1f} ms" for r in timed)
    return canvas.plot(f"BLEU against latency, {test_set}", f"Scatter plot. {said}")


def draw_quality_speed(canvas: "Canvas", families: Sequence[Mapping[str, tuple[float, float]]]) -> None:
    """Draw (ms, BLEU) by name, each family joined by a line; many names stand beside the picture, few in it."""
    names = [name for family in families for name in family]
    crowded = len(names) > _CROWD
    for index, family in enumerate(families):
        how = {"color": "#808080", "linewidth": 0.8} if crowded else series(index)
        canvas.axes.plot(*zip(*family.values(), strict=True), **how)
        for name, point in family.items():
            if crowded:
                how = {**series(names.index(name)), "linestyle": "none"}
                canvas.axes.plot([point[0]], [point[1]], label=name, **how)
            else:  # quality rises with time: to the lower right of a point is where no line passes
                canvas.axes.annotate(name, point, xytext=(6, -11), textcoords="offset points")
    canvas.axes.margins(x=0.1 if crowded else 0.25, y=0.15)  # room for the names
    canvas.axes.set_xscale("log")
    canvas.axes.xaxis.set_major_locator(_one_two_five())
    canvas.axes.xaxis.set_major_formatter("{x:g}")
    canvas.axes.minorticks_off()
    canvas.axes.set_ylabel("BLEU")
    if crowded:
        canvas.legend()


def plot_steps(counts: Mapping[str, Mapping[int, int]], test_set: str) -> Plot:
    """Draw how many decoding steps the sentences took; `counts` is StepSummary.counts by system."""
    title = f"Decoding steps a sentence, {test_set}"
    return _histograms(f"steps-{_slug(test_set)}", title, "decoding steps", "% of sentences", counts)


def plot_segment_lengths(counts: Mapping[str, Mapping[int, int]], test_set: str) -> Plot:
    """Draw how long the kept segments are; `counts` is SegmentSummary.length_counts by system."""
    title = f"Segment lengths, {test_set}"
    return _histograms(f"segment-lengths-{_slug(test_set)}", title, "tokens", "% of segments", counts)


def read_annealing(log: Path) -> dict[int, float]:
    """Read p by training step from a log.jsonl; a step logged twice (a resumed run) counts as logged last."""
    lines = list(lines_of(log))
    annealing: dict[int, float] = {}
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            if number == len(lines):  # a run in progress may be writing it now
                break
            raise UserError(f"{log}, line {number}: not JSON ({error})") from None
        if not isinstance(record, dict):
            continue
        step, p = record.get("step"), record.get("random_prob")
        if isinstance(step, int) and isinstance(p, int | float):  # other events are logged there too
            annealing[step] = float(p)
    if not annealing:
        raise UserError(f"{log}, line 1: no line has the fields step and random_prob; is it a training log?")
    return dict(sorted(annealing.items()))


def plot_annealing(annealing: Mapping[int, float], name: str = "annealing", system: str = "") -> Plot:
    """Draw p over the training of `system`, as `read_annealing` gives it."""
    with figure(name) as canvas:
        canvas.axes.plot(list(annealing), list(annealing.values()), color=COLOURS[0], linewidth=2)
        canvas.axes.set_ylim(-0.03, 1.03)
        canvas.axes.set_xlabel("optimizer updates")
        canvas.axes.set_ylabel("p (share of targets divided at random)")
    values = list(annealing.values())
    first, last = min(annealing), max(annealing)
    alt = f"Line chart of p, from {values[0]:.2f} at update {first} to {values[-1]:.2f} at update {last}"
    return canvas.plot("Annealed p over training" + (f", {system}" if system else ""), alt)


class Canvas:
    """The axes to draw on and, once the block has ended, the rendered picture."""

    def __init__(self, name: str, figure: Any) -> None:
        self.name, self.figure = name, figure
        self.svg, self.png = "", b""

    @cached_property
    def axes(self) -> Any:
        return self.figure.add_subplot()

    def legend(self) -> None:
        """Name what was drawn: within the picture, or beside it where there are many names."""
        handles, labels = self.axes.get_legend_handles_labels()
        if len(labels) <= _CROWD:
            self.axes.legend(fontsize=8)
            return
        self.figure.set_size_inches(8.2, max(3.8, 0.4 + 0.19 * len(labels)))
        self.figure.legend(handles, labels, loc="outside right upper", fontsize=8)

    def plot(self, title: str, alt: str) -> Plot:
        return Plot(self.name, title, alt, self.svg, self.png)


@contextmanager
def figure(name: str) -> Iterator[Canvas]:
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("plots need matplotlib: pip install 'recoversat[train]'") from None
    # The salt makes ids inside the SVG repeatable, and different from those of other plots in one page.
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(6.4, 3.8), layout="constrained")
        FigureCanvasAgg(figure)
        canvas = Canvas(name, figure)
        yield canvas
        svg, png = io.StringIO(), io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None})
        figure.savefig(png, format="png", dpi=150)
    canvas.svg, canvas.png = svg.getvalue(), png.getvalue()


def _histograms(name: str, title: str, x_label: str, y_label: str, counts: Mapping[str, Mapping[int, int]]) -> Plot:
    """Draw a panel for each system, one above the other: bars side by side would be as thin as hairs."""
    filled = {system: values for system, values in counts.items() if sum(values.values())}
    if not filled:
        raise UserError(f"{title}: there is nothing to count; no system reported it")
    means = {
        system: sum(value * count for value, count in values.items()) / sum(values.values())
        for system, values in filled.items()
    }
    with figure(name) as canvas:
        canvas.figure.set_figheight(max(3.8, 1.2 + 0.9 * len(filled)))
        panels = canvas.figure.subplots(len(filled), 1, sharex=True, squeeze=False)[:, 0]
        for index, (panel, (system, values)) in enumerate(zip(panels, filled.items(), strict=True)):
            shares = [100 * count / sum(values.values()) for count in values.values()]
            panel.bar(list(values), shares, 0.85, color=COLOURS[index % len(COLOURS)])
            panel.set_title(f"{system}, mean {means[system]:.1f}", loc="right", fontsize=9, pad=2)
            panel.grid(axis="x", visible=False)
        panels[-1].xaxis.get_major_locator().set_params(integer=True)
        panels[-1].set_xlabel(x_label)
        canvas.figure.supylabel(y_label, fontsize=10)
    said = "; ".join(f"{system}: mean {mean:.1f}" for system, mean in means.items())
    return canvas.plot(title, f"Histogram of {x_label}. {said}")


def _one_two_five() -> Any:
    from matplotlib.ticker import LogLocator

    return LogLocator(base=10, subs=(1, 2, 5))


def _families(results: Sequence[Result]) -> list[list[Result]]:
    """Group results that differ in nothing but K, each group in order of K."""
    families: dict[str, list[Result]] = {}
    for result in results:
        k = result.output.signature["K"]
        rest = {key: value for key, value in result.output.settings.items() if key not in _SAME_FAMILY}
        segmented = isinstance(k, int) and k > 1
        key = json.dumps(rest, sort_keys=True) if segmented else f"alone {result.output.name}"
        families.setdefault(key, []).append(result)
    return [sorted(family, key=lambda r: str(r.output.signature["K"]).zfill(9)) for family in families.values()]


def series(index: int) -> dict[str, Any]:
    return {
        "color": COLOURS[index % len(COLOURS)],
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": ("-", "--", "-.", ":")[index % 4],
        "linewidth": 1.8,
        "markersize": 6,
    }


def _slug(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "plot"
