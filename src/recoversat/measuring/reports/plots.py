"""Pictures that evaluate and bench draw: lines, quality against time, histograms.

matplotlib is imported when a plot is drawn, never before: reports without plots do not need it.
"""

import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
    write_text(folder / f"{plot.name}.svg", plot.svg)
    with atomic_file(folder / f"{plot.name}.png") as scratch:
        scratch.write_bytes(plot.png)


def embeddable_svg(plot: Plot) -> str:
    """Turn the picture into an <svg> element that takes width, ink and background from the page around it."""
    svg = plot.svg[plot.svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    opening, rest = svg.split(">", 1)
    svg = re.sub(r'\s(width|height)="[^"]*"(?=\s)', "", opening) + ">" + rest
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
    with _figure(name) as figure:
        axes = figure.add_subplot()
        for index, (curve, (x, y)) in enumerate(curves.items()):
            axes.plot(x, y, label=curve, **series(index))
        if ticks is None:
            axes.set_ylim(bottom=0)
        else:
            axes.set_xticks(range(len(ticks)), ticks)
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
        _legend(figure, axes)
        return _plot(figure, name, title, f"Line chart. {alt}")


def quality_speed_chart(
    name: str,
    title: str,
    families: Sequence[Mapping[str, tuple[float, float]]],
    x_label: str,
    unscored: Mapping[str, float] | None = None,
) -> Plot:
    """Draw (ms, BLEU) by name, each family joined by a line; many names stand beside the picture, few in it.

    Of many, those whose names begin alike look alike, and what they do not share stands beside their points. What is
    `unscored` has a time alone, and is a vertical line there.
    """
    points = {who: point for family in families for who, point in family.items()}
    times = unscored or {}
    crowded = len(points) + len(times) > _CROWD
    looks = _groups(points) if crowded else {}
    ranks = sorted(looks, key=lambda group: -max(bleu for _, bleu in looks[group].values()))
    with _figure(name) as figure:
        axes = figure.add_subplot()
        for index, family in enumerate(families):
            how = {"color": "#808080", "linewidth": 0.8, "zorder": 1} if crowded else series(index)
            axes.plot(*zip(*family.values(), strict=True), **how)
            for who, point in family.items() if not crowded else ():
                # quality rises with time: to the lower right of a point is where no line passes
                axes.annotate(who, point, xytext=(6, -11), textcoords="offset points")
        for index, (group, members) in enumerate(looks.items()):
            how = {**series(index), "linestyle": "none"}
            axes.plot(*zip(*members.values(), strict=True), label=group, **how)
            for rest, point in members.items():
                place = (4, -9 if ranks.index(group) % 2 else 3)  # below and above by turns: groups lie close together
                axes.annotate(rest, point, xytext=place, textcoords="offset points", fontsize=7, color=how["color"])
        for index, (who, ms) in enumerate(times.items(), len(looks)):
            _vertical_line(axes, who, ms, index if crowded else None)
        axes.margins(x=0.1 if crowded else 0.25, y=0.15)  # room for the names
        axes.set_xscale("log", subs=[])
        axes.xaxis.get_major_locator().set_params(subs=(1, 2, 5))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel(f"{x_label}, logarithmic (left is faster)")
        axes.set_ylabel("BLEU")
        if crowded:
            _legend(figure, axes)
            figure.set_figheight(max(figure.get_figheight(), 5))
        said = [f"{who}: {bleu:.1f} BLEU at {_short(ms)} ms" for who, (ms, bleu) in points.items()]
        said += [f"{who}: {_short(ms)} ms, without BLEU" for who, ms in times.items()]
        return _plot(figure, name, title, f"Scatter plot. {'; '.join(said)}")


def _groups(points: Mapping[str, tuple[float, float]]) -> dict[str, dict[str, tuple[float, float]]]:
    """Group what begins with the name of something else, or with all words but the number of several.

    >>> _groups({"AT": (9.0, 31.0), "AT beam 4": (19.0, 32.0), "SAT 2": (5.0, 30.0), "SAT 4": (3.0, 29.0)})
    {'AT': {'': (9.0, 31.0), 'beam 4': (19.0, 32.0)}, 'SAT': {'2': (5.0, 30.0), '4': (3.0, 29.0)}}
    """
    numbered = Counter(who.rpartition(" ")[0] for who in points if re.search(r" \d+$", who))
    heads = {*points, *(head for head, members in numbered.items() if members > 1)}
    groups: dict[str, dict[str, tuple[float, float]]] = {}
    for who, point in points.items():
        begins = [one for one in heads if f"{who} ".startswith(f"{one} ") and one != who]
        head = max(begins, key=len, default=who)
        groups.setdefault(head, {})[who[len(head) :].strip()] = point
    return groups


def _vertical_line(axes: Any, who: str, ms: float, index: int | None) -> None:
    """Draw what has a time alone, with its name beside it, or in the legend with the look of series `index`."""
    if index is not None:
        axes.axvline(ms, label=who, **{**series(index), "marker": "", "linewidth": 1.2})
        return
    axes.axvline(ms, color="#808080", linestyle="--", linewidth=1.2)
    place = {"xycoords": axes.get_xaxis_transform(), "textcoords": "offset points", "rotation": 90}
    axes.annotate(who, (ms, 1), xytext=(-4, -4), ha="right", va="top", **place)


def _short(ms: float) -> str:
    """Print milliseconds, those of a sentence in a large batch too.

    >>> _short(45), _short(0.142)
    ('45.0', '0.14')
    """
    return f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"


def histograms(name: str, title: str, x_label: str, y_label: str, counts: Mapping[str, Mapping[int, int]]) -> Plot:
    """Draw a panel for each system, one above the other: bars side by side would be as thin as hairs."""
    means = {
        system: sum(value * count for value, count in values.items()) / sum(values.values())
        for system, values in counts.items()
    }
    with _figure(name) as figure:
        figure.set_figheight(max(3.8, 1.2 + 0.9 * len(counts)))
        panels = figure.subplots(len(counts), 1, sharex=True, squeeze=False)[:, 0]
        for index, (panel, (system, values)) in enumerate(zip(panels, counts.items(), strict=True)):
            shares = [100 * count / sum(values.values()) for count in values.values()]
            panel.bar(list(values), shares, 0.85, color=COLOURS[index % len(COLOURS)])
            panel.set_title(f"{system}, mean {means[system]:.1f}", loc="right", fontsize=9, pad=2)
            panel.grid(axis="x", visible=False)
        panels[-1].xaxis.get_major_locator().set_params(integer=True)
        panels[-1].set_xlabel(x_label)
        figure.supylabel(y_label, fontsize=10)
        said = "; ".join(f"{system}: mean {mean:.1f}" for system, mean in means.items())
        return _plot(figure, name, title, f"Histogram of {x_label}. {said}")


def series(index: int) -> dict[str, Any]:
    return {
        "color": COLOURS[index % len(COLOURS)],
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": ("-", "--", "-.", ":")[index % 4],
        "linewidth": 1.8,
        "markersize": 6,
    }


def _legend(figure: Any, axes: Any) -> None:
    """Name what was drawn: within the picture, or beside it where there are many names."""
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) <= _CROWD:
        axes.legend(fontsize=8)
        return
    figure.set_size_inches(8.2, max(3.8, 0.4 + 0.19 * len(labels)))
    figure.legend(handles, labels, loc="outside right upper", fontsize=8)


@contextmanager
def _figure(name: str) -> Iterator[Any]:
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
        yield figure


def _plot(figure: Any, name: str, title: str, alt: str) -> Plot:
    svg, png = io.StringIO(), io.BytesIO()
    figure.savefig(svg, format="svg", metadata={"Date": None})
    figure.set_layout_engine("none")  # it is laid out, and need not be again: that takes most of the time
    figure.savefig(png, format="png", dpi=150)
    return Plot(name, title, alt, svg.getvalue(), png.getvalue())
