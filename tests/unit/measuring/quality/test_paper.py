"""The paper's figures, and ours beside them."""

import pytest

from recoversat.measuring.quality.paper import (
    DYNAMIC_TERMINATION,
    MAIN_RESULTS,
    SEGMENT_DELETION,
    ablation_table,
    figures_of,
    row_label,
)
from recoversat.measuring.quality.results import EvaluationPlan, evaluate


def test_the_ablations_share_the_papers_default_row():
    """p = 1 -> 0 with q = 0.5 is one model: both tables and the main one must agree on it."""
    termination, deletion = DYNAMIC_TERMINATION.rows["1->0"], SEGMENT_DELETION.rows["0.5"]
    assert [termination[c] for c in ("BLEU", "Rep", "Step")] == [deletion[c] for c in ("BLEU", "Rep", "Step")]
    assert MAIN_RESULTS["iwslt16.en-de"].rows["10"]["BLEU"] == termination["BLEU"] == 29.90
    assert DYNAMIC_TERMINATION.rows["NAT"]["Rep"] == SEGMENT_DELETION.rows["NAT"]["Rep"] == 50.09


def test_the_table_of_p_has_ours_beside_the_papers():
    ours = {
        0.0: {"BLEU": 20.5, "Rep": 30.0, "Mis": 8.0, "Step": 4.04},
        "1→0": {"BLEU": 25.0},
        0.25: {"BLEU": 1.0},
    }
    table = ablation_table(DYNAMIC_TERMINATION, ours)
    assert table.columns[:3] == ["p", "BLEU", "BLEU (paper)"]
    rows = {row[0]: row[1:] for row in table.rows}
    assert list(rows) == ["NAT", "0", "0.5", "1", "1->0", "0.25"]
    assert rows["0"] == ["20.50", "27.09", "30.00", "22.05", "8.00", "6.95", "4.0", "4.2"]
    assert rows["1->0"][:4] == ["25.00", "29.90", "–", "7.09"]
    assert rows["0.25"][:2] == ["1.00", "–"]
    assert rows["NAT"] == ["–", "24.57", "–", "50.09", "–", "9.09", "–", "1.0"]


def test_the_table_of_q_lists_the_papers_seven_values():
    labels = [row[0] for row in ablation_table(SEGMENT_DELETION, {}).rows]
    assert labels == ["NAT", "0", "0.1", "0.3", "0.5", "0.7", "0.9", "1"]


@pytest.mark.parametrize(("value", "label"), [(0, "0"), (1.0, "1"), (".3", "0.3"), ("1 -> 0", "1->0"), ("AT", "AT")])
def test_settings_are_spelt_in_one_way(value, label):
    assert row_label(value) == label


def test_figures_are_taken_from_a_result(toy, systems):
    result = evaluate(systems, [toy], EvaluationPlan(at_system="AT"))[2]
    figures = figures_of(result, at_latency_ms=100.0)
    assert figures == {
        "BLEU": result.quality["bleu"].value,
        "Rep": result.errors.rep,
        "Mis": result.errors.mis,
        "Step": result.steps.mean,
        "Speedup": pytest.approx(10.0),
    }
    assert figures_of(result)["Speedup"] is None
    (row,) = [r for r in ablation_table(MAIN_RESULTS["iwslt16.en-de"], {10: figures}).rows if r[0] == "10"]
    assert row[2:] == ["29.90", "10.00", "4.68"]
