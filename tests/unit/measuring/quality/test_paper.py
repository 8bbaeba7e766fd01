"""The paper's figures, and ours beside them."""

import pytest

from recoversat.errors import UserError
from recoversat.measuring.quality.paper import (
    DATA_SETS,
    DYNAMIC_TERMINATION,
    MAIN_RESULTS,
    SEGMENT_DELETION,
    ablation_table,
    check_data_set,
    figures_of,
    published,
    published_table,
    row_label,
)
from recoversat.measuring.quality.results import EvaluationPlan, evaluate

# Copied from the paper by hand: name, BLEU, speedup.
PRINTED = {
    "iwslt16.en-de": [("NAT-FT+NPD (n=100)", "28.16", "2.36x"), ("imitate-NAT+LPD (n=7)", "30.68", "9.70x")],
    "wmt14.en-de": [("FlowSeq-large+NPD (n=30)", "25.31", "<1.5x"), ("SAT (K=2)", "26.90", "1.51x")],
    "wmt14.de-en": [("ReorderNAT", "31.13", "-"), ("NART-DCRF+LPD (n=19)", "30.04", "4.39x")],
    "wmt16.en-ro": [("NAT-IR (iter=10)", "29.32", "2.15x"), ("CMLM-base (iter=10)", "33.08", "-")],
    "wmt16.ro-en": [("NAT-FS", "30.83", "3.70x"), ("RecoverSAT (K=2)", "33.19", "2.02x")],
}
# How many of the 35 rows of Table 6 have a BLEU score for the data set.
ROWS = {"iwslt16.en-de": 16, "wmt14.en-de": 35, "wmt14.de-en": 32, "wmt16.en-ro": 21, "wmt16.ro-en": 21}


@pytest.mark.parametrize("data_set", DATA_SETS)
def test_other_systems_figures_are_as_printed(data_set):
    rows = [(row.name, row.bleu, row.speedup) for row in published(data_set)]
    assert set(PRINTED[data_set]) <= set(rows)
    assert len(rows) == ROWS[data_set]
    assert rows[0][2] == "1.00x"


def test_the_fifteen_baselines_are_all_there():
    baselines = {"NAT-FT", "NAT-IR", "CMLM", "imitate-NAT", "NART", "FCL-NAT", "LV NAR", "FlowSeq", "NAT-REG", "SAT"}
    baselines |= {"SynST", "NAT-FS", "PNAT", "NART-DCRF", "ReorderNAT"}
    assert len(baselines) == 15
    names = [row.name for row in published("wmt14.en-de")]
    assert all(any(name.startswith(one) for name in names) for one in baselines)
    assert {row.name.partition("-")[0] for row in published("wmt14.en-de") if row.iterative} == {"NAT", "CMLM"}


def test_what_the_paper_prints_stands_below_ours_and_is_marked(toy, systems):
    results = evaluate(systems, [toy], EvaluationPlan(at_system="AT"))
    table = published_table("iwslt16.en-de", results, "AT")
    assert [row[:2] for row in table.rows[:3]] == [[f"ours: {one.name}", "toy"] for one in systems]
    assert table.rows[0][3] == "1.00x"
    assert table.rows[2][2:] == [f"{results[2].quality['bleu'].value:.2f}", "10.00x"]
    assert table.rows[3:] == [
        [
            f"{row.name}, iterative" if row.iterative else row.name,
            "IWSLT16 En-De",
            row.bleu,
            row.speedup.replace("-", "–"),
        ]
        for row in published("iwslt16.en-de")
    ]
    assert table.notes[0].startswith("All but ours are other data")
    with pytest.raises(UserError, match=r"there are: iwslt16\.en-de, wmt14\.en-de"):
        check_data_set("iwslt14")


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
