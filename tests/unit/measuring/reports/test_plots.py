"""Plots: files that are whole, data that is drawn, and nothing imported before it is needed."""

import itertools
import re
import struct
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from recoversat.errors import UserError
from recoversat.measuring.reports import plots

HISTOGRAM = "steps-x", "Steps", "decoding steps", "% of sentences", {"AT": {20: 1, 30: 1}, "K=10": {4: 3, 8: 1}}
SVG = "{http://www.w3.org/2000/svg}"


def test_matplotlib_and_torch_are_not_imported_with_these_modules():
    modules = "quality.run quality.paper speed.run speed.worker quality.report"
    imports = "".join(f"import recoversat.measuring.{name}\n" for name in modules.split())
    code = f"{imports}import sys\nprint([name for name in ('matplotlib', 'torch') if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert shown.stdout.strip() == "[]"


def test_without_matplotlib_the_fix_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r"pip install 'recoversat\[train\]'"):
        plots.histograms(*HISTOGRAM)


def test_both_files_are_written_whole(tmp_path):
    plot = plots.histograms(*HISTOGRAM)
    plots.write_plot(tmp_path / "plots", plot)
    svg, png = tmp_path / "plots" / "steps-x.svg", tmp_path / "plots" / "steps-x.png"
    assert ElementTree.parse(svg).getroot().tag == f"{SVG}svg"
    assert png.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png.read_bytes()[16:24])
    assert min(width, height) > 500
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == ["steps-x.png", "steps-x.svg"]


def test_the_same_data_gives_the_same_file():
    assert plots.histograms(*HISTOGRAM) == plots.histograms(*HISTOGRAM)


def places(plot, names):
    """Where names stand: (left, top) in points."""
    found = {}
    for node in ElementTree.fromstring(plot.svg).iter(f"{SVG}text"):
        if node.text in names:
            moved = re.search(r"translate\(([\d.]+)[ ,]+([\d.]+)\)", node.get("transform", ""))
            at = moved.groups() if moved else (node.get("x"), node.get("y"))
            found[node.text] = (float(at[0]), float(at[1]))
    return found


def test_many_names_stand_beside_the_picture_and_none_on_another():
    names = [f"system {letter}" for letter in "abcdefghijklmnopqrs"]
    crowd = plots.quality_speed_chart("crowd", "", [{name: (5.0, 30.0)} for name in names], "ms")  # all in one place
    lines = plots.line_chart("lines", "", "", {name: ([1, 2], [3, 4]) for name in names}, ("x", "y"))
    for plot in (crowd, lines):
        found = places(plot, names)
        assert len(found) == 19
        width, height = (float(ElementTree.fromstring(plot.svg).get(side).rstrip("pt")) for side in ("width", "height"))
        assert min(left for left, _ in found.values()) > 0.8 * width
        tops = sorted(top for _, top in found.values())
        assert min(after - before for before, after in itertools.pairwise(tops)) > 8
        assert tops[-1] < height
    looks = {tuple(sorted(plots.series(n).items())) for n in range(42)}
    assert len(looks) == 42


def test_of_many_names_what_begins_alike_looks_alike_and_stands_once_beside_the_picture():
    names = {"K 1": 9.0, "K 2": 5.0, "K 10": 2.0, "K best of 2": 7.0, "CTC": 3.0, "NAT": 1.0, "NAT + LPD": 8.0}
    names |= {"words 5": 6.0, "words 10": 4.0, "words too 5": 5.0, "words too 10": 3.0, "AT beam 4": 9.5}
    names |= dict.fromkeys("abcd", 4.0)
    plot = plots.quality_speed_chart("groups", "", [{name: (ms, 30.0 - ms)} for name, ms in names.items()], "ms")
    beside, within = ["K", "CTC", "NAT", "words", "words too", "AT beam 4"], ["best of 2", "+ LPD"]
    found = places(plot, [*beside, *within, "AT", "AT beam"])
    assert [*found] == [*within, *beside]
    assert min(found[name][0] for name in beside) > max(found[name][0] for name in within)
    assert "K best of 2: 23.0 BLEU at 7.00 ms" in plot.alt


def test_what_has_a_time_alone_is_a_vertical_line_with_its_name():
    families, names = [{"fast": (8.0, 30.0)}, {"slow": (31.0, 31.2)}], ["fast", "Marian", "slow"]
    plot = plots.quality_speed_chart("few", "", families, "ms", {"Marian": 14.0})
    assert plot.alt.endswith("slow: 31.2 BLEU at 31.0 ms; Marian: 14.0 ms, without BLEU")
    found = places(plot, names)
    assert sorted(found, key=lambda name: found[name][0]) == names  # from left to right
    crowd = [{f"system {letter}": (5.0, 30.0)} for letter in "abcdef"]
    beside = plots.quality_speed_chart("crowd", "", crowd, "ms", {"Marian": 500.0})
    [(left, _)] = places(beside, ["Marian"]).values()
    assert left > 0.8 * float(ElementTree.fromstring(beside.svg).get("width").rstrip("pt"))
    assert places(beside, ["200"])  # the axis goes as far as the line


def test_histograms_say_their_means():
    assert plots.histograms(*HISTOGRAM).alt == "Histogram of decoding steps. AT: mean 25.0; K=10: mean 5.0"


def test_an_embedded_plot_takes_ink_and_size_from_the_page():
    plot = plots.histograms(*HISTOGRAM)
    assert plots.INK in plot.svg
    assert plots.PAPER in plot.svg
    root = ElementTree.fromstring(plots.embeddable_svg(plot))
    assert (root.get("role"), root.get("aria-label")) == ("img", plot.alt)
    assert root.get("viewBox")
    assert root.get("width") is root.get("height") is None
    embedded = plots.embeddable_svg(plot)
    assert "currentColor" in embedded
    assert plots.INK not in embedded
    assert plots.PAPER not in embedded
    assert "DOCTYPE" not in embedded
    assert "<metadata" not in embedded


def test_plots_in_one_page_do_not_share_ids():
    def ids(plot):
        nodes = ElementTree.fromstring(plot.svg).iter(
            f"{SVG}clipPath",
        )
        return {node.get("id") for node in nodes}

    one, two = plots.histograms(*HISTOGRAM), plots.histograms("steps-y", *HISTOGRAM[1:])
    assert ids(one)
    assert ids(one).isdisjoint(ids(two))
