"""Plots: files that are whole, data that is drawn, and nothing imported before it is needed."""

import itertools
import json
import re
import struct
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from recoversat.errors import UserError
from recoversat.measuring.quality.outputs import SystemOutput
from recoversat.measuring.quality.results import evaluate
from recoversat.measuring.reports import plots

SVG = "{http://www.w3.org/2000/svg}"


def texts(plot):
    return [node.text for node in ElementTree.fromstring(plot.svg).iter(f"{SVG}text")]


def test_matplotlib_and_torch_are_not_imported_with_these_modules():
    modules = "quality.run quality.paper speed.run speed.worker reports.html_page"
    imports = "".join(f"import recoversat.measuring.{name}\n" for name in modules.split())
    code = f"{imports}import sys\nprint([name for name in ('matplotlib', 'torch') if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert shown.stdout.strip() == "[]"


def test_without_matplotlib_the_fix_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r"pip install 'recoversat\[train\]'"):
        plots.plot_annealing({0: 1.0})


def test_both_files_are_written_whole(tmp_path):
    plot = plots.plot_annealing({0: 1.0, 100: 0.0})
    svg, png = plots.write_plot(tmp_path / "plots", plot)
    assert (svg.name, png.name) == ("annealing.svg", "annealing.png")
    assert ElementTree.parse(svg).getroot().tag == f"{SVG}svg"
    assert png.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png.read_bytes()[16:24])
    assert min(width, height) > 500
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == ["annealing.png", "annealing.svg"]


def test_the_same_data_gives_the_same_file():
    assert plots.plot_annealing({0: 1.0, 9: 0.1}) == plots.plot_annealing({0: 1.0, 9: 0.1})


def test_bleu_by_length_names_systems_and_ranges(toy, systems):
    plot = plots.plot_bleu_by_length(systems, toy, [10, 20])
    shown = texts(plot)
    assert {"AT", "K=2", "K=10", "BLEU", "source length in words"} <= set(shown)
    assert any(text.startswith("11–20") for text in shown)
    assert plot.name == "bleu-by-length-toy"
    assert "AT, K=2, K=10" in plot.alt


def test_quality_against_speed_joins_what_differs_in_k_alone(toy, systems):
    results = evaluate(systems, [toy])
    assert [[r.output.name for r in family] for family in plots._families(results)] == [
        ["AT"],
        ["K=2", "K=10"],
    ]
    assert [[r.output.name for r in family] for family in plots._families(results[::-1])] == [
        ["K=2", "K=10"],
        ["AT"],
    ]
    plot = plots.plot_quality_speed(results, "toy")
    assert {"AT", "K=2", "K=10"} <= set(texts(plot))
    assert f"K=10: {results[2].quality.bleu.value:.1f} BLEU at 10.0 ms" in plot.alt
    untimed = evaluate([SystemOutput("s", "toy", toy.references)], [toy])
    with pytest.raises(UserError, match="no system has a latency"):
        plots.plot_quality_speed(untimed, "toy")


def places(plot, names):
    """Where names stand: (left, top) in points."""
    found = {}
    for node in ElementTree.fromstring(plot.svg).iter(f"{SVG}text"):
        if node.text in names:
            moved = re.search(r"translate\(([\d.]+)[ ,]+([\d.]+)\)", node.get("transform", ""))
            at = moved.groups() if moved else (node.get("x"), node.get("y"))
            found[node.text] = (float(at[0]), float(at[1]))
    return found


def test_many_names_stand_beside_the_picture_and_none_on_another(toy):
    names = [f"system {n}" for n in range(19)]
    with plots.figure("crowd") as canvas:
        plots.draw_quality_speed(canvas, [{name: (5.0, 30.0)} for name in names])  # all in one place
    crowd = canvas.plot("", "")
    lines = plots.plot_bleu_by_length([SystemOutput(name, "toy", toy.references) for name in names], toy, [10, 20])
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


def test_histograms_say_their_means():
    plot = plots.plot_steps({"AT": {20: 1, 30: 1}, "K=10": {4: 3, 8: 1}}, "a/b test")
    assert plot.name == "steps-a-b-test"
    assert plot.alt == "Histogram of decoding steps. AT: mean 25.0; K=10: mean 5.0"
    assert plots.plot_segment_lengths({"s": {3: 1}}, "x").name == "segment-lengths-x"
    with pytest.raises(UserError, match="nothing to count"):
        plots.plot_steps({"AT": {}}, "toy")


def test_annealing_is_read_from_the_training_log(tmp_path):
    log = tmp_path / "log.jsonl"
    records = [
        {"step": 0, "random_prob": 1.0, "loss": 9},
        {"step": 50, "bleu": 3.0},
        {"step": 100, "random_prob": 0.9},
        {"step": 50, "random_prob": 0.5},  # resumed from step 50: logged again
        {"step": 150, "random_prob": None},
    ]
    log.write_text("".join(json.dumps(record) + "\n" for record in records) + '{"step": 200, "rand')
    assert list(plots.read_annealing(log).items()) == [(0, 1.0), (50, 0.5), (100, 0.9)]


def test_a_log_without_p_or_with_a_broken_line_is_named(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text('{"step": 1, "random_prob": 1}\n{"st\n{"step": 2, "random_prob": 1}\n')
    with pytest.raises(UserError, match=r"log.jsonl, line 2: not JSON"):
        plots.read_annealing(log)
    for text in ("", '{"step": 1, "loss": 2}\n'):
        log.write_text(text)
        with pytest.raises(UserError, match=r"log.jsonl, line 1: no line has the fields step and random_prob"):
            plots.read_annealing(log)
    with pytest.raises(UserError, match="no such file"):
        plots.read_annealing(tmp_path / "nowhere")


def test_an_embedded_plot_takes_ink_and_size_from_the_page():
    plot = plots.plot_annealing({0: 1.0, 100: 0.0})
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

    one, two = plots.plot_steps({"a": {1: 1}}, "x"), plots.plot_steps({"a": {1: 1}}, "y")
    assert ids(one)
    assert ids(one).isdisjoint(ids(two))
