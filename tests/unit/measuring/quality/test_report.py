"""Markdown, JSON lines and HTML of one evaluation."""

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from recoversat.measuring.quality.outputs import SIGNATURE_KEYS, SystemOutput, TestSet
from recoversat.measuring.quality.plots import quality_plots
from recoversat.measuring.quality.report import report_markdown, to_jsonl, write_report
from recoversat.measuring.quality.results import EvaluationPlan, evaluate
from recoversat.measuring.quality.tables import comparison_table, confidence_table, results_table
from recoversat.measuring.reports.table import Table

PLAN = EvaluationPlan(at_system="AT", baseline="AT", n_samples=50)


@pytest.fixture(scope="module")
def results(toy, systems):
    return evaluate(systems, [toy], PLAN)


def test_one_table_for_several_test_sets(toy, systems):
    second = replace(toy, name="second")
    table = results_table(evaluate([*systems, replace(systems[0], test_set="second")], [toy, second], PLAN))
    assert [row[:2] for row in table.rows] == [
        ["toy", "AT"],
        ["toy", "K=2"],
        ["toy", "K=10"],
        ["second", "AT"],
    ]


def test_the_cells_are_the_results(results):
    table = results_table(results)
    row = dict(zip(table.columns, table.rows[2], strict=True))
    result = results[2]
    assert row["K"] == "10"
    assert row["BLEU"] == f"{result.quality['bleu'].value:.2f}"
    assert row["vs baseline"] == f"{result.comparisons[0].difference:+.2f} (p = {result.comparisons[0].p_value:.3f})"
    assert row["chrF2++"] == f"{result.quality['chrf'].value:.2f}"
    assert row["TER"] == f"{result.quality['ter'].value:.2f}"
    assert (row["Rep %"], row["Mis %"]) == (f"{result.errors.rep:.2f}", f"{result.errors.mis:.2f}")
    assert row["Step"] == f"{result.steps.mean:.2f}"
    assert (row["Deleted"], row["Cut off"], row["ms"]) == ("20.0 %", "0.0 %", "10.0")
    assert row["Speedup"] == "10.00x"
    assert "tokenised BLEU" not in row
    assert table.notes[0].startswith(
        "BLEU, chrF2++ and TER: sacreBLEU on detokenised text; of TER, Rep, Mis and Step, "
    )
    assert any("relative to AT" in note for note in table.notes)
    assert any("Speedup: over AT." in note for note in table.notes)


def test_no_speedup_over_a_system_that_was_not_timed(toy, systems):
    untimed = [replace(systems[0], latency_ms=None), *systems[1:]]
    table = results_table(evaluate(untimed, [toy], PLAN))
    assert "ms" in table.columns
    assert "Speedup" not in table.columns
    assert not any("Speedup" in note for note in table.notes)


def test_rep_relative_to_a_system_that_is_not_autoregressive_is_pointed_out(toy, systems, results):
    warning = "K=2 is not autoregressive"
    odd = evaluate(systems, [toy], EvaluationPlan(at_system="K=2"))
    assert any(warning in note for note in results_table(odd).notes)
    assert not any("not autoregressive" in note for note in results_table(results).notes)


def test_columns_nobody_fills_are_left_out(toy):
    table = results_table(evaluate([SystemOutput("plain", "toy", toy.references)], [toy]))
    assert table.columns == ["Test set", "System", "BLEU", "chrF2++", "TER"]
    assert comparison_table(evaluate([SystemOutput("plain", "toy", toy.references)], [toy])) is None


def test_equal_outputs_are_not_called_significantly_different(toy, systems):
    twin = replace(systems[0], name="twin")
    table = results_table(evaluate([systems[0], twin], [toy], PLAN))
    assert table.rows[1][table.columns.index("vs baseline")] == "+0.00 (p = –)"


def test_an_infinite_rep_is_shown_and_is_null_in_json():
    toy = TestSet("t", ["x"], ["a b"], [[10, 11]])
    at = SystemOutput("AT", "t", ["a b"], [[10, 11]])
    bad = SystemOutput("bad", "t", ["a a"], [[10, 10]])
    results = evaluate([at, bad], [toy], EvaluationPlan(at_system="AT"))
    assert results[1].errors.rep == math.inf
    assert "∞" in report_markdown(results)
    errors = json.loads(to_jsonl(results).splitlines()[1])["errors"]
    assert errors["rep"] is None
    assert (errors["repeated"], errors["at_repeated"]) == (0.5, 0.0)


def test_json_has_one_line_a_system_with_the_full_signature(results, toy):
    records = [json.loads(line) for line in to_jsonl(results).splitlines()]
    assert [(r["test_set"], r["system"]) for r in records] == [("toy", "AT"), ("toy", "K=2"), ("toy", "K=10")]
    for record, result in zip(records, results, strict=True):
        assert set(SIGNATURE_KEYS) <= record["signature"].keys()
        assert record["bleu"]["value"] == result.quality["bleu"].value
        assert record["bleu"]["signature"].startswith("nrefs:1|")
        assert (record["test_set_hash"], record["sentences"]) == (toy.fingerprint, len(toy.sources))
        assert sum(record["steps"]["counts"].values()) == len(toy.sources)
        assert record["confidence"]["halves"]["top_bleu"] == result.confidence.halves.top_bleu
    assert records[2]["signature"]["K"] == 10
    assert records[2]["comparisons"][0]["baseline"] == "AT"


def test_the_bootstrap_of_all_three_metrics_is_shown(results):
    table = comparison_table(results)
    assert table.columns[2:] == ["BLEU", "Δ BLEU", "p", "chrF2++", "Δ chrF2++", "p", "TER", "Δ TER", "p"]
    assert [row[1] for row in table.rows] == ["K=2", "K=10"]
    ter = results[2].comparisons[2]
    assert table.rows[1][8:] == [
        f"{ter.mean:.2f} ± {ter.interval:.2f}",
        f"{ter.difference:+.2f}",
        f"{ter.p_value:.3f}",
    ]


def test_confidence_shows_correlations_and_halves(results):
    table = confidence_table(results)
    assert table.rows[0][2] == f"{results[0].confidence.spearman:.3f}"
    assert results[0].confidence.spearman > 0.5  # the made-up scores fall with the errors
    halves = results[0].confidence.halves
    assert table.rows[0][4] == f"{halves.top_bleu:.2f} / {halves.bottom_bleu:.2f}"
    assert len(table.rows) == 3


def test_markdown_has_tables_and_signatures(results):
    text = report_markdown(results, [Table("My own", ["a"], [["1"]])])
    assert "| Test set | System |" in text
    assert "**My own**" in text
    assert f"- BLEU: `{results[0].quality['bleu'].signature}`" in text
    assert "- K=10: `version:0.1.0|data:feed|K:10|p:1->0|engine:torch`" in text
    assert "bs:50" in text


class Links(HTMLParser):
    """Collect everything in a page that could make a browser ask for something."""

    def __init__(self):
        super().__init__()
        self.found = []
        self.tags = []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        asking = {"src", "href", "srcset", "data", "action", "poster", "xlink:href"}
        self.found += [value for name, value in attributes if name in asking]


def test_the_page_is_self_contained(tmp_path, results, toy):
    page = write_report(tmp_path, results, plots=list(quality_plots(results, [toy])))
    text = page.read_text(encoding="utf-8")
    links = Links()
    links.feed(text)
    assert all(value.startswith(("#", "data:")) for value in links.found), links.found
    assert "script" not in links.tags
    assert "@import" not in text
    assert not re.findall(r"url\((?!#)", text)
    assert text.count("<svg ") == 4


def test_all_files_are_written_and_nothing_else(tmp_path, results, toy):
    page = write_report(tmp_path / "deep" / "er", results, plots=list(quality_plots(results, [toy])), title="T & Co")
    written = sorted(
        str(path.relative_to(tmp_path / "deep" / "er")) for path in (tmp_path / "deep" / "er").rglob("*.*")
    )
    names = ["bleu-by-length-toy", "quality-speed-toy", "segment-lengths-toy", "steps-toy"]
    plots = [f"plots/{name}.{ending}" for name in names for ending in ("png", "svg")]
    assert written == [*plots, "report.html", "report.md", "results.jsonl"]
    assert "<title>T &amp; Co</title>" in page.read_text(encoding="utf-8")
    assert page.with_name("report.md").read_text(encoding="utf-8").startswith("# T & Co\n")


def test_a_failure_leaves_the_old_report_whole(tmp_path, results, monkeypatch):
    page = write_report(tmp_path, results, title="old")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def disk_full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("recoversat.files.storage.os.replace", disk_full)
    with pytest.raises(OSError, match="No space"):
        write_report(tmp_path, results[:1], title="new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert page.name in before
