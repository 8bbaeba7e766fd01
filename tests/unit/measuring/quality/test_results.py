"""Several systems and test sets in one call; every result is what its own module computes."""

from dataclasses import replace

import pytest

from recoversat.errors import UserError
from recoversat.measuring.quality.confidence import measure_confidence
from recoversat.measuring.quality.errors import error_rates
from recoversat.measuring.quality.metrics import score_corpus, tokenised_bleu
from recoversat.measuring.quality.outputs import SystemOutput, TestSet
from recoversat.measuring.quality.results import EvaluationPlan, evaluate

PLAN = EvaluationPlan(at_system="AT", baseline="AT", n_samples=50)


def test_each_result_is_that_of_its_system_and_test_set(toy, systems):
    other = TestSet("other", ["X"], ["the small house"], [[10, 11, 12]])
    extra = SystemOutput("AT", "other", ["the small house"], [[10, 11, 12]])
    results = evaluate([extra, *systems], [toy, other], PLAN)
    named = [(r.output.test_set, r.output.name) for r in results]
    assert named == [("toy", "AT"), ("toy", "K=2"), ("toy", "K=10"), ("other", "AT")]
    for result, output in zip(results, systems, strict=False):
        assert result.quality == score_corpus(output.hypotheses, toy.references)
        assert result.errors == error_rates(output.tokens, "AT", systems[0].tokens, toy.reference_tokens)
        assert result.confidence == measure_confidence(output.scores, output.hypotheses, toy.references)
        assert result.segments.total == len(output.hypotheses) * output.n_segments
    assert results[0].test_set_hash == toy.fingerprint != results[3].test_set_hash


def test_the_baseline_is_not_compared_with_itself(toy, systems):
    results = evaluate(systems, [toy], PLAN)
    assert [[c.metric for c in r.comparisons] for r in results] == [[], *[["BLEU", "chrF2++", "TER"]] * 2]
    bleu = [r.quality.bleu.value for r in results]
    assert results[2].comparisons[0].difference == pytest.approx(bleu[2] - bleu[0])


def test_a_thousand_resamples_unless_told_otherwise(toy, systems):
    compared = evaluate(systems[:2], [toy], EvaluationPlan(baseline="AT"))[1].comparisons
    assert all("|bs:1000|" in comparison.signature for comparison in compared)


def test_what_a_system_does_not_tell_is_not_measured(toy):
    (result,) = evaluate([SystemOutput("plain", "toy", toy.references)], [toy])
    assert result.quality.bleu.value == pytest.approx(100)
    assert result.comparisons == []
    assert [result.errors, result.steps, result.segments, result.confidence] == [None] * 4


def test_tokenised_bleu_only_when_asked_for(toy, systems):
    assert evaluate(systems[:1], [toy])[0].quality.tokenised_bleu is None
    plan = EvaluationPlan(tokenised=True)
    with pytest.raises(UserError, match="tokenised BLEU of 'AT' on 'toy': there is no tokenised text"):
        evaluate(systems[:1], [toy], plan)
    split = [line.replace(".", " .") for line in toy.references]
    output = replace(systems[0], tokenised_hypotheses=systems[0].hypotheses)
    (result,) = evaluate([output], [replace(toy, tokenised_references=split)], plan)
    assert result.quality.tokenised_bleu == tokenised_bleu(output.hypotheses, split)


def test_mistakes_are_named(toy, systems):
    with pytest.raises(UserError, match="AT system 'nobody' has no output on 'toy'; choose one of AT, K=2, K=10"):
        evaluate(systems, [toy], EvaluationPlan(at_system="nobody"))
    with pytest.raises(UserError, match="baseline 'nobody'"):
        evaluate(systems, [toy], EvaluationPlan(baseline="nobody"))
    with pytest.raises(UserError, match="'AT' translates 'toy', but no such test set"):
        evaluate(systems, [replace(toy, name="other")])
    with pytest.raises(UserError, match="two outputs on 'toy' are named 'AT'"):
        evaluate([systems[0], systems[0]], [toy])
    with pytest.raises(UserError, match="two test sets share a name"):
        evaluate(systems, [toy, toy])
    with pytest.raises(UserError, match="nothing to evaluate"):
        evaluate([], [toy])
    with pytest.raises(UserError, match="'s' on 'toy': 1 translations for 60 references; line 2 has no partner"):
        evaluate([SystemOutput("s", "toy", ["x"])], [toy])
    with pytest.raises(UserError, match="test set 'none', line 1: there is no sentence"):
        evaluate([SystemOutput("s", "none", [])], [TestSet("none", [], [])])
    silent = replace(systems[0], tokens=None)
    with pytest.raises(UserError, match="AT system 'AT' on 'toy': its sub-word tokens are not known"):
        evaluate([silent, systems[1]], [toy], EvaluationPlan(at_system="AT"))
