"""Several systems and test sets in one call; every result is what its own module computes."""

from dataclasses import replace

import pytest

from recoversat.errors import UserError
from recoversat.measuring.quality.confidence import measure_confidence
from recoversat.measuring.quality.errors import error_rates
from recoversat.measuring.quality.metrics import chosen_metrics, corpus_score
from recoversat.measuring.quality.outputs import SystemOutput, TestSet
from recoversat.measuring.quality.results import EvaluationPlan, evaluate
from tests import oracles

PLAN = EvaluationPlan(at_system="AT", baseline="AT", n_samples=50)


def test_each_result_is_that_of_its_system_and_test_set(toy, systems):
    other = TestSet("other", ["X"], ["the small house"], [[10, 11, 12]])
    extra = SystemOutput("AT", "other", ["the small house"], [[10, 11, 12]])
    results = evaluate([extra, *systems], [toy, other], PLAN)
    named = [(r.output.test_set, r.output.name) for r in results]
    assert named == [("toy", "AT"), ("toy", "K=2"), ("toy", "K=10"), ("other", "AT")]
    for result, output in zip(results, systems, strict=False):
        wanted = {key: corpus_score(key, output.hypotheses, toy.references) for key in chosen_metrics([])}
        assert result.quality == wanted
        assert result.errors == error_rates(output.tokens, "AT", systems[0].tokens, toy.reference_tokens)
        assert result.confidence == measure_confidence(output.scores, output.hypotheses, toy.references)
        assert result.segments.total == len(output.hypotheses) * output.settings["K"]
    assert results[0].test_set_hash == toy.fingerprint != results[3].test_set_hash


@pytest.mark.parametrize("baseline", [None, "AT", "K=2", "K=10"])
@pytest.mark.parametrize("at", [0, 2])
def test_rep_and_mis_are_relative_to_the_at_system_whatever_the_baseline(toy, systems, at, baseline):
    at_system, references = systems[at], toy.reference_tokens
    plan = EvaluationPlan(at_system=at_system.name, baseline=baseline, n_samples=2)
    for result, output in zip(evaluate(systems, [toy], plan), systems, strict=True):
        repeated = oracles.repeated_ratio(output.tokens), oracles.repeated_ratio(at_system.tokens)
        missing = (oracles.missing_ratio(one, references) for one in (output.tokens, at_system.tokens))
        assert result.errors.relative_to == at_system.name
        assert result.errors.rep == pytest.approx(float(oracles.relative_increment(*repeated)))
        assert result.errors.mis == pytest.approx(float(oracles.relative_increment(*missing)))
        compared = {comparison.baseline for comparison in result.comparisons}
        assert compared == ({baseline} if baseline and baseline != output.name else set())


def test_the_baseline_is_not_compared_with_itself(toy, systems):
    results = evaluate(systems, [toy], PLAN)
    assert [[c.metric for c in r.comparisons] for r in results] == [[], *[["BLEU", "chrF2++", "TER"]] * 2]
    bleu = [r.quality["bleu"].value for r in results]
    assert results[2].comparisons[0].difference == pytest.approx(bleu[2] - bleu[0])


def test_a_thousand_resamples_unless_told_otherwise(toy, systems):
    compared = evaluate(systems[:2], [toy], EvaluationPlan(baseline="AT"))[1].comparisons
    assert all("|bs:1000|" in comparison.signature for comparison in compared)


def test_what_a_system_does_not_tell_is_not_measured(toy):
    (result,) = evaluate([SystemOutput("plain", "toy", toy.references)], [toy])
    assert result.quality["bleu"].value == pytest.approx(100)
    assert result.comparisons == []
    assert [result.errors, result.steps, result.segments, result.confidence] == [None] * 4


def test_more_metrics_only_when_asked_for(toy, systems):
    assert "tokenised_bleu" not in evaluate(systems[:1], [toy])[0].quality
    (result,) = evaluate(systems[:1], [toy], EvaluationPlan(more_metrics=["tokenised_bleu"]))
    assert result.quality["tokenised_bleu"] == corpus_score("tokenised_bleu", systems[0].hypotheses, toy.references)


def test_rep_and_mis_need_the_tokens_of_the_at_system(toy, systems):
    silent = replace(systems[0], tokens=None)
    with pytest.raises(UserError, match="AT system 'AT' on 'toy': its sub-word tokens are not known"):
        evaluate([silent, systems[1]], [toy], EvaluationPlan(at_system="AT"))
