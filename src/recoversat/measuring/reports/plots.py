"""Pictures that evaluate and bench draw: lines, quality against time, histograms.

matplotlib is imported when a plot is drawn, never before: reports without plots do not need it.
"""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from recoversat.errors import UserError
from recoversat.files.storage import atomic_file, write_text

# Ink and paper, as plots.mplstyle has them, are replaced when a plot is embedded in a page, which may be dark.
INK, PAPER = "#1b1f24", "#ffffff"
# Readable on white and on near-black; the markers tell the series apart without colour.
COLOURS = ("#2f7ed8", "#d9730d", "#2e9e5b", "#b84fa0", "#d64545", "#6b7f8f")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")  # one more than colours: no two of 42 series look the same
_CROWD = 6  # more names than this have no room in a picture


@dataclass(frozen=True)
class Plot:
    """A finished picture; `alt` says in words what it shows."""

    name: str
    title: str
    alt: str
    svg: str
    png: bytes


def write_plot(folder: Path, plot: Plot) -> None:
    """Write the picture as SVG and as PNG."""
    write_text(folder / f"{plot.name}.svg", plot.svg)
    with atomic_file(folder / f"{plot.name}.png") as scratch:
        scratch.write_bytes(plot.png)


def embeddable_svg(plot: Plot) -> str:
    """Turn the picture into an <svg> element that takes width, ink and background from the page around it."""
    svg = plot.svg[plot.svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg [^>]*?)\swidth="[^"]*"\s', r"\1 ", svg, count=1)
    svg = re.sub(r'(<svg [^>]*?)\sheight="[^"]*"\s', r"\1 ", svg, count=1)
    svg = svg.replace(INK, "currentColor").replace(PAPER, "none")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(plot.alt)}" ', 1)


def line_chart(
    name: str,
    title: str,
    alt: str,
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    labels: tuple[str, str],
    ticks: Sequence[str] | None = None,
) -> Plot:
    """Draw a line for each name from its x and y; `ticks` names x = 0, 1, ..."""
    with _figure(name) as canvas:
        for index, (curve, (x, y)) in enumerate(curves.items()):
            canvas.axes.plot(x, y, label=curve, **series(index))
        if ticks is None:
            canvas.axes.set_ylim(bottom=0)
        else:
            canvas.axes.set_xticks(range(len(ticks)), ticks)
        canvas.axes.set_xlabel(labels[0])
        canvas.axes.set_ylabel(labels[1])
        canvas.legend()
    return canvas.plot(title, f"Line chart. {alt}")


def quality_speed_chart(
    name: str, title: str, families: Sequence[Mapping[str, tuple[float, float]]], x_label: str
) -> Plot:
    """Draw (ms, BLEU) by name, each family joined by a line; many names stand beside the picture, few in it."""
    points = {who: point for family in families for who, point in family.items()}
    crowded = len(points) > _CROWD
    with _figure(name) as canvas:
        for index, family in enumerate(families):
            how = {"color": "#808080", "linewidth": 0.8} if crowded else series(index)
            canvas.axes.plot(*zip(*family.values(), strict=True), **how)
            for who, point in family.items():
                if crowded:
                    how = {**series(list(points).index(who)), "linestyle": "none"}
                    canvas.axes.plot([point[0]], [point[1]], label=who, **how)
                else:  # quality rises with time: to the lower right of a point is where no line passes
                    canvas.axes.annotate(who, point, xytext=(6, -11), textcoords="offset points")
        canvas.axes.margins(x=0.1 if crowded else 0.25, y=0.15)  # room for the names
        _logarithmic(canvas.axes)
        canvas.axes.set_xlabel(f"{x_label}, logarithmic (left is faster)")
        canvas.axes.set_ylabel("BLEU")
        if crowded:
            canvas.legend()
    said = "; ".join(f"{who}: {bleu:.1f} BLEU at {ms:.1f} ms" for who, (ms, bleu) in points.items())
    return canvas.plot(title, f"Scatter plot. {said}")


def histograms(name: str, title: str, x_label: str, y_label: str, counts: Mapping[str, Mapping[int, int]]) -> Plot:
    """Draw a panel for each system, one above the other: bars side by side would be as thin as hairs."""
    means = {
        system: sum(value * count for value, count in values.items()) / sum(values.values())
        for system, values in counts.items()
    }
    with _figure(name) as canvas:
        canvas.figure.set_figheight(max(3.8, 1.2 + 0.9 * len(counts)))
        panels = canvas.figure.subplots(len(counts), 1, sharex=True, squeeze=False)[:, 0]
        for index, (panel, (system, values)) in enumerate(zip(panels, counts.items(), strict=True)):
            shares = [100 * count / sum(values.values()) for count in values.values()]
            panel.bar(list(values), shares, 0.85, color=COLOURS[index % len(COLOURS)])
            panel.set_title(f"{system}, mean {means[system]:.1f}", loc="right", fontsize=9, pad=2)
            panel.grid(axis="x", visible=False)
        panels[-1].xaxis.get_major_locator().set_params(integer=True)
        panels[-1].set_xlabel(x_label)
        canvas.figure.supylabel(y_label, fontsize=10)
    said = "; ".join(f"{system}: mean {mean:.1f}" for system, mean in means.items())
    return canvas.plot(title, f"Histogram of {x_label}. {said}")


def series(index: int) -> dict[str, Any]:
    return {
        "color": COLOURS[index % len(COLOURS)],
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": ("-", "--", "-.", ":")[index % 4],
        "linewidth": 1.8,
        "markersize": 6,
    }


class _Canvas:
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
def _figure(name: str) -> Iterator[_Canvas]:
    try:
        from matplotlib import style
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("plots need matplotlib: pip install 'recoversat[train]'") from None
    # The salt makes ids inside the SVG repeatable, and different from those of other plots in one page.
    with style.context([Path(__file__).with_name("plots.mplstyle"), {"svg.hashsalt": name}]):
        figure = Figure(figsize=(6.4, 3.8), layout="constrained")
        FigureCanvasAgg(figure)
        canvas = _Canvas(name, figure)
        yield canvas
        svg, png = io.StringIO(), io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None})
        figure.savefig(png, format="png", dpi=150)
    canvas.svg, canvas.png = svg.getvalue(), png.getvalue()


def _logarithmic(axes: Any) -> None:
    from matplotlib.ticker import LogLocator

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
