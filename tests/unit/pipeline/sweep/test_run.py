"""Ablation tables: our figures under the right label, the paper's beside them."""

from recoversat.measuring.quality.outputs import SegmentStat, SystemOutput, TestSet
from recoversat.measuring.quality.paper import studies
from recoversat.measuring.quality.results import EvaluationPlan, evaluate
from recoversat.pipeline.sweep.run import AT, ablation_tables
from recoversat.pipeline.sweep.variants import Variant

TOY = TestSet("toy", ["x"] * 4, ["a b c d e"] * 4, [[10, 11, 12, 13, 14]] * 4)


def output(name, line, tokens, length, latency, test_set="toy"):
    segments, steps = [[SegmentStat(length, "eos")]] * 4, [length + 1] * 4
    return SystemOutput(name, test_set, [line] * 4, [tokens] * 4, steps, segments, latency_ms=latency)


def test_each_axis_has_its_table_with_shared_runs_under_both_labels():
    outputs = [
        output(AT, "a b c d e", [10, 11, 12, 13, 10], 5, 30.0),
        output("p=1to0", "a b c d e", [10, 11, 12, 13, 10], 2, 10.0),
        output("K=2", "a b c d d", [10, 11, 12, 13, 13, 13], 3, 15.0),
        output("NAT", "a a c d d", [10, 10, 12, 13, 13], 1, 5.0),
    ]
    results = evaluate(outputs, [TOY], EvaluationPlan(at_system=AT))
    falling, half = Variant("p", "1->0", ()), Variant("q", "0.5", ())
    ten, two, missing = Variant("K", "10", ()), Variant("K", "2", ()), Variant("p", "0", ())
    word = Variant("cut_at", "token", ())
    run_of = {falling: "p=1to0", half: "p=1to0", ten: "p=1to0", two: "K=2", missing: "p=0", word: "p=1to0"}
    p, q, k, cut = ablation_tables(list(run_of), run_of, results, studies("iwslt16", "en", "de"))
    assert p.rows[-1] == ["1->0", "100.00", "29.90", "0.00", "7.09", "0.00", "3.56", "3.0", "5.1"]
    assert p.caption.startswith("Table 3: ")
    assert [row[0] for row in p.rows] == ["NAT", "0", "0.5", "1", "1->0"]
    assert [p.rows[0][i] for i in (2, 3, 4)] == ["24.57", "100.00", "50.09"]  # two of five repeated, AT's one of five
    assert p.rows[1][:3] == ["0", "–", "27.09"]  # not trained, or failed
    assert next(row for row in q.rows if row[0] == "0.5")[:5] == ["0.5", "100.00", "29.90", "0.00", "7.09"]
    by_k = {row[0]: row[3:] for row in k.rows}
    assert by_k["AT"] == ["1.00", "1.00"]
    assert by_k["10"] == ["3.00", "4.68"]
    assert by_k["2"] == ["2.00", "2.06"]
    assert cut.columns == ["cut_at", "BLEU", "Rep", "Mis", "Step"]
    assert cut.rows == [["token", "100.00", "0.00", "0.00", "3.0"]]
    assert all(table.caption.endswith("; ours on toy") for table in (p, q, k, cut))


def test_several_test_sets_have_a_table_each():
    other = TestSet("other", TOY.sources, TOY.references)
    outputs = [output("q=0", "a b c d e", [10], 2, None, name) for name in ("toy", "other")]
    variant = Variant("q", "0", ())
    tables = ablation_tables([variant], {variant: "q=0"}, evaluate(outputs, [TOY, other]), studies("iwslt16", "", ""))
    assert [table.caption.split("; ")[1] for table in tables] == ["ours on toy", "ours on other"]
    assert tables[0].rows[1] == ["0", "100.00", "28.56", "–", "26.24", "3.0", "4.4"]


def test_the_papers_figures_are_those_of_the_preset():
    results = evaluate([output("K=10", "a b c d e", [10], 2, None)], [TOY])
    variant = Variant("K", "10", ())

    def bleu(preset, src, tgt):
        (table,) = ablation_tables([variant], {variant: "K=10"}, results, studies(preset, src, tgt))
        return next(row for row in table.rows if row[0] == "10")[1:3]

    assert bleu("iwslt16", "en", "de") == ["100.00", "29.90"]
    assert bleu("wmt14", "en", "de") == ["100.00", "26.32"]
    assert bleu("wmt14", "de", "en") == ["100.00", "30.46"]
    assert bleu("wmt16", "ro", "en") == ["100.00", "32.29"]
    assert bleu("small", "en", "de") == ["100.00", "3.0"]  # no figures of the paper: BLEU and Step of ours
    assert bleu(None, "en", "de") == ["100.00", "3.0"]
    assert "p" not in studies("wmt14", "en", "de")  # the paper has its ablations on IWSLT16 alone
