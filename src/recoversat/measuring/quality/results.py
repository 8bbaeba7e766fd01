"""All measures of several systems on several test sets: one `Result` each."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from recoversat.errors import UserError
from recoversat.measuring.quality.confidence import Confidence, measure_confidence
from recoversat.measuring.quality.errors import ErrorRates, error_rates
from recoversat.measuring.quality.metrics import Comparison, Score, chosen_metrics, score_systems
from recoversat.measuring.quality.outputs import SegmentStat, SystemOutput, TestSet


@dataclass(frozen=True)
class StepSummary:
    """Step of the paper: the mean over sentences, and how many sentences took how many steps."""

    mean: float
    counts: dict[int, int]


@dataclass(frozen=True)
class SegmentSummary:
    """Shares are of all segments; the lengths are of the segments that stayed, empty ones included."""

    total: int
    deleted_share: float
    cut_share: float
    length_counts: dict[int, int]


@dataclass(frozen=True)
class Result:
    """What there is to say about one system on one test set; None = not measured."""

    output: SystemOutput
    test_set_hash: str
    quality: dict[str, Score]  # by the metric's key: "bleu", "chrf", ...
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
    more_metrics: Sequence[str] = ()  # keys of METRICS, beside those that are always there


def evaluate(
    outputs: Sequence[SystemOutput], test_sets: Sequence[TestSet], plan: EvaluationPlan | None = None
) -> list[Result]:
    """Measure every output on its test set; results come test set by test set, systems in the order given."""
    results: list[Result] = []
    for test_set in test_sets:
        here = {output.name: output for output in outputs if output.test_set == test_set.name}
        results += _evaluate_on(test_set, here, plan or EvaluationPlan())
    return results


def _evaluate_on(test_set: TestSet, outputs: dict[str, SystemOutput], plan: EvaluationPlan) -> list[Result]:
    lines = {name: output.hypotheses for name, output in outputs.items()}
    scored = {
        key: score_systems(
            key, lines, test_set.references, baseline=plan.baseline, n_samples=plan.n_samples, tokenize=plan.tokenize
        )
        for key in chosen_metrics(plan.more_metrics, plan.tokenize)
    }
    at_system = outputs[plan.at_system] if plan.at_system else None
    return [
        Result(
            output=output,
            test_set_hash=test_set.fingerprint,
            quality={key: scores[name] for key, (scores, _) in scored.items()},
            comparisons=[compared[name] for _, compared in scored.values() if name in compared],
            errors=_errors(output, test_set, at_system),
            steps=None if output.steps is None else summarise_steps(output.steps),
            segments=None if output.segments is None else summarise_segments(output.segments),
            confidence=None
            if output.scores is None
            else measure_confidence(output.scores, output.hypotheses, test_set.references),
        )
        for name, output in outputs.items()
    ]


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


def summarise_steps(steps: Sequence[int]) -> StepSummary:
    """Average the steps of a test set and count them.

    >>> summarise_steps([4, 5, 4, 7])
    StepSummary(mean=5.0, counts={4: 2, 5: 1, 7: 1})
    """
    return StepSummary(sum(steps) / len(steps) if steps else 0.0, _counted(steps))


def summarise_segments(sentences: Sequence[Sequence[SegmentStat]]) -> SegmentSummary:
    """Pool the segments of all sentences."""
    pooled = [segment for segments in sentences for segment in segments]
    endings = Counter(segment.ending for segment in pooled)
    deleted, cut = (endings[ending] / len(pooled) if pooled else 0.0 for ending in ("del", "cut"))
    return SegmentSummary(len(pooled), deleted, cut, _counted(one.length for one in pooled if one.ending != "del"))


def _counted(values: Iterable[int]) -> dict[int, int]:
    return dict(sorted(Counter(values).items()))
