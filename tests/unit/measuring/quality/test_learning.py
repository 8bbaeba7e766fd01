"""Learning curves come from a run's log; examples stand side by side."""

import json
from pathlib import Path

import pytest

from recoversat.measuring.quality.outputs import SystemOutput, TestSet
from recoversat.measuring.quality.plots import learning_plots, read_learning_curve
from recoversat.measuring.quality.results import evaluate
from recoversat.measuring.quality.tables import examples_table
from recoversat.measuring.reports.table import to_html, to_markdown


def write_log(run: Path, n_updates: int, validate_every: int) -> Path:
    lines: list[dict[str, float]] = []
    for update in range(1, n_updates + 1):
        lines.append({"step": update, "loss": 10 / update})
        if update % validate_every == 0:
            lines.append({"step": update, "validation_bleu": update / 10})
    run.mkdir()
    (run / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


def test_a_long_log_becomes_few_means_and_all_scores(tmp_path: Path) -> None:
    curve = read_learning_curve(write_log(tmp_path / "run", 120, 50))
    steps, losses = curve.losses
    assert steps == [*map(float, range(3, 121, 3))]
    assert losses[0] == pytest.approx((10 + 5 + 10 / 3) / 3)
    assert curve.bleu == ([50.0, 100.0], [5.0, 10.0])


def test_a_short_log_is_drawn_as_it_is(tmp_path: Path) -> None:
    assert read_learning_curve(write_log(tmp_path / "run", 3, 9)).losses == ([1.0, 2.0, 3.0], [10.0, 5.0, 10 / 3])


def test_trainings_share_a_picture_and_what_nobody_measured_has_none(tmp_path: Path) -> None:
    curves = {name: read_learning_curve(write_log(tmp_path / name, 10, every)) for name, every in (("a", 5), ("b", 11))}
    loss, bleu = learning_plots(curves)
    assert (loss.name, bleu.name) == ("learning-loss", "learning-bleu")
    assert "a: 10.00 first, 1.00 at update 10; b: 10.00 first" in loss.alt
    assert "a: 0.50 first, 1.00 at update 10" in bleu.alt
    assert "b:" not in bleu.alt
    assert [plot.name for plot in learning_plots({"b": curves["b"]})] == ["learning-loss"]


def test_examples_come_from_all_over_the_test_set_and_belong_together() -> None:
    lines = [f"line {n}" for n in range(100)]
    test_set = TestSet("t", lines, [line.upper() for line in lines])
    outputs = [SystemOutput(name, "t", [f"{name} {line}" for line in lines]) for name in ("at", "k5", "k9")]
    results = evaluate(outputs, [test_set])
    table = examples_table(test_set, results, ["at", "k9"])
    assert table.columns == ["Line", "Source", "Reference", "at", "k9"]
    assert len(table.rows) == 20
    assert table.rows[3] == ["16", "line 15", "LINE 15", "at line 15", "k9 line 15"]
    assert len(examples_table(TestSet("t", lines[:3], lines[:3]), evaluate(
        [SystemOutput("at", "t", lines[:3])], [TestSet("t", lines[:3], lines[:3])]), ["at"]).rows) == 3  # fmt: skip
    assert '<table class="prose">' in to_html(table)
    assert "|-:|" not in to_markdown(table)
