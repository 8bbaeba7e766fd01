"""The pictures of an evaluation: what is drawn, and of which results."""

from dataclasses import replace
from xml.etree import ElementTree

from recoversat.measuring.quality.outputs import SystemOutput
from recoversat.measuring.quality.plots import _families, quality_plots
from recoversat.measuring.quality.results import evaluate


def texts(plot):
    return [node.text for node in ElementTree.fromstring(plot.svg).iter("{http://www.w3.org/2000/svg}text")]


def test_the_plots_of_an_evaluation_say_what_they_show(toy, systems):
    results = evaluate(systems, [toy])
    by_length, speed, steps, lengths = quality_plots(results, [toy])
    assert {"AT", "K=2", "K=10", "BLEU", "source length in words"} <= set(texts(by_length))
    assert any(text.startswith("11–20") for text in texts(by_length))
    assert by_length.name == "bleu-by-length-toy"
    assert "AT, K=2, K=10" in by_length.alt
    assert {"AT", "K=2", "K=10"} <= set(texts(speed))
    assert f"K=10: {results[2].quality['bleu'].value:.1f} BLEU at 10.0 ms" in speed.alt
    assert f"K=10: mean {results[2].steps.mean:.1f}" in steps.alt
    assert lengths.name == "segment-lengths-toy"


def test_plots_that_nobody_has_figures_for_are_left_out(toy):
    bare = SystemOutput("s", "a/b test", toy.references)
    named = replace(toy, name="a/b test")
    assert [plot.name for plot in quality_plots(evaluate([bare], [named]), [named])] == ["bleu-by-length-a-b-test"]


def test_quality_against_speed_joins_what_differs_in_k_alone(toy, systems):
    results = evaluate(systems, [toy])
    names = [[r.output.name for r in family] for family in _families(results)]
    assert names == [["AT"], ["K=2", "K=10"]]
    assert [[r.output.name for r in family] for family in _families(results[::-1])] == names[::-1]
