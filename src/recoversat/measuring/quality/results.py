"""All measures of several systems on several test sets: one `Result` each."""

from collections.abc import Sequence
from dataclasses import dataclass

from recoversat.errors import UserError
from recoversat.measuring.quality.confidence import Confidence, measure_confidence
from recoversat.measuring.quality.errors import ErrorRates, error_rates
from recoversat.measuring.quality.metrics import Compared, Comparison, Quality, compare, score_corpus, tokenised_bleu
from recoversat.measuring.quality.outputs import SystemOutput, TestSet
from recoversat.measuring.quality.segment_stats import (
    SegmentSummary,
    StepSummary,
    steps_of,
    summarise_segments,
    summarise_steps,
)


@dataclass(frozen=True)
class Result:
    """What there is to say about one system on one test set; None = not measured."""

    output: SystemOutput
    test_set_hash: str
    quality: Quality
    comparisons: list[Comparison]  # one a metric; empty for the baseline itself, or without one
    errors: ErrorRates | None
    steps: StepSummary | None
    segments: SegmentSummary | None
    confidence: Confidence | None


@dataclass(frozen=True)
class EvaluationPlan:
    """What to do: Rep and Mis relative to `at_system`, a bootstrap against `baseline`; None = neither."""

    at_system: str | None = None
    baseline: str | None = None
    n_samples: int = 1000
    tokenize: str | None = None  # sacreBLEU's tokenizer for BLEU; None = 13a
    tokenised: bool = False  # tokenised BLEU too


def evaluate(
    outputs: Sequence[SystemOutput], test_sets: Sequence[TestSet], plan: EvaluationPlan | None = None
) -> list[Result]:
    """Measure every output on its test set; results come test set by test set, systems in the order given."""
    plan = plan or EvaluationPlan()
    _check_names(outputs, test_sets)
    results: list[Result] = []
    for test_set in test_sets:
        here = {output.name: output for output in outputs if output.test_set == test_set.name}
        results += _evaluate_on(test_set, here, plan)
    return results


def _evaluate_on(test_set: TestSet, outputs: dict[str, SystemOutput], plan: EvaluationPlan) -> list[Result]:
    at_system = _named(outputs, plan.at_system, "AT system", test_set)
    baseline = _named(outputs, plan.baseline, "baseline", test_set)
    for output in outputs.values():
        _check_aligned(output, test_set)
    compared = Compared({}, {})
    others = {name: output.hypotheses for name, output in outputs.items() if output is not baseline}
    if baseline and others:
        compared = compare(
            (baseline.name, baseline.hypotheses),
            others,
            test_set.references,
            n_samples=plan.n_samples,
            tokenize=plan.tokenize,
        )
    return [
        Result(
            output=output,
            test_set_hash=test_set.fingerprint,
            quality=_quality(output, test_set, plan, compared.qualities.get(output.name)),
            comparisons=compared.comparisons.get(output.name, []),
            errors=_errors(output, test_set, at_system),
            steps=None if (steps := steps_of(output)) is None else summarise_steps(steps),
            segments=None if output.segments is None else summarise_segments(output.segments),
            confidence=_confidence(output, test_set),
        )
        for output in outputs.values()
    ]


def _quality(output: SystemOutput, test_set: TestSet, plan: EvaluationPlan, scored: Quality | None) -> Quality:
    quality = scored or score_corpus(output.hypotheses, test_set.references, tokenize=plan.tokenize)
    if not plan.tokenised:
        return quality
    if output.tokenised_hypotheses is None or test_set.tokenised_references is None:
        raise UserError(
            f"tokenised BLEU of {output.name!r} on {test_set.name!r}: there is no tokenised text;"
            " leave tokenised BLEU out, or use a model trained on tokenised data"
        )
    extra = tokenised_bleu(output.tokenised_hypotheses, test_set.tokenised_references)
    return Quality(quality.bleu, quality.chrf, quality.ter, extra)


def _errors(output: SystemOutput, test_set: TestSet, at_system: SystemOutput | None) -> ErrorRates | None:
    if at_system is None:
        return None
    if at_system.tokens is None:
        raise UserError(
            f"AT system {at_system.name!r} on {test_set.name!r}: its sub-word tokens are not known, so Rep and Mis"
            " cannot be relative to it; give the model itself, or the .jsonl that evaluate saved of it"
        )
    if output.tokens is None:
        return None
    return error_rates(output.tokens, at_system.name, at_system.tokens, test_set.reference_tokens)


def _confidence(output: SystemOutput, test_set: TestSet) -> Confidence | None:
    if output.scores is None:
        return None
    return measure_confidence(output.scores, output.hypotheses, test_set.references)


def _named(outputs: dict[str, SystemOutput], name: str | None, role: str, test_set: TestSet) -> SystemOutput | None:
    if name is None or not outputs:
        return None
    if name not in outputs:
        raise UserError(f"{role} {name!r} has no output on {test_set.name!r}; choose one of {', '.join(outputs)}")
    return outputs[name]


def _check_names(outputs: Sequence[SystemOutput], test_sets: Sequence[TestSet]) -> None:
    names = [test_set.name for test_set in test_sets]
    if not outputs or not names:
        raise UserError("nothing to evaluate: give at least one system and one test set")
    if len(set(names)) < len(names):
        raise UserError(f"two test sets share a name: {', '.join(names)}")
    seen: set[tuple[str, str]] = set()
    for output in outputs:
        if output.test_set not in names:
            raise UserError(f"{output.name!r} translates {output.test_set!r}, but no such test set is given")
        if (output.name, output.test_set) in seen:
            raise UserError(f"two outputs on {output.test_set!r} are named {output.name!r}; rename one of them")
        seen.add((output.name, output.test_set))


def _check_aligned(output: SystemOutput, test_set: TestSet) -> None:
    written, expected = len(output.hypotheses), len(test_set.references)
    if not expected:
        raise UserError(f"test set {test_set.name!r}, line 1: there is no sentence in it")
    if written != expected:
        raise UserError(
            f"{output.name!r} on {test_set.name!r}: {written} translations for {expected} references;"
            f" line {min(written, expected) + 1} has no partner"
        )
