"""The pictures of an evaluation: BLEU over length, BLEU against latency, steps, segment lengths, learning curves."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from recoversat.files.storage import lines_of
from recoversat.measuring.quality.length_buckets import EDGES, bleu_by_length, source_lengths
from recoversat.measuring.quality.outputs import SystemOutput, TestSet
from recoversat.measuring.quality.results import Result
from recoversat.measuring.reports.plots import Plot, histograms, line_chart, quality_speed_chart

# Points of one quality/speed curve may differ in these: a student trained for each K has weights of its own.
_SAME_FAMILY = {"K", "weights", "updates"}
_POINTS = 50  # of a learning curve: a loss for each update would be a thick noisy band


def quality_plots(results: Sequence[Result], test_sets: Sequence[TestSet]) -> Iterator[Plot]:
    """Draw for each test set whatever the results allow."""
    for test_set in test_sets:
        name, slug = test_set.name, re.sub(r"[^\w.-]+", "-", test_set.name).strip("-.") or "plot"
        here = [result for result in results if result.output.test_set == name]
        yield _bleu_by_length([result.output for result in here], test_set, slug)
        if timed := [result for result in here if result.output.latency_ms is not None]:
            families = [
                {one.output.name: (one.output.latency_ms or 0.0, one.quality["bleu"].value) for one in family}
                for family in _families(timed)
            ]
            yield quality_speed_chart(
                f"quality-speed-{slug}", f"BLEU against latency, {name}", families, "ms a sentence"
            )
        if steps := {one.output.name: one.steps.counts for one in here if one.steps}:
            yield histograms(
                f"steps-{slug}", f"Decoding steps a sentence, {name}", "decoding steps", "% of sentences", steps
            )
        lengths = {one.output.name: one.segments.length_counts for one in here if one.segments}
        if lengths := {who: counts for who, counts in lengths.items() if counts}:
            yield histograms(f"segment-lengths-{slug}", f"Segment lengths, {name}", "tokens", "% of segments", lengths)


def _bleu_by_length(outputs: Sequence[SystemOutput], test_set: TestSet, slug: str) -> Plot:
    """Draw the paper's figure: BLEU of each system over ranges of source length."""
    buckets = bleu_by_length(outputs, test_set, EDGES)
    names = [output.name for output in outputs]
    return line_chart(
        f"bleu-by-length-{slug}",
        f"BLEU over source length, {test_set.name}",
        f"BLEU of {', '.join(names)} in {len(buckets)} ranges of source length",
        {name: (range(len(buckets)), [bucket.bleu[name] for bucket in buckets]) for name in names},
        (f"source length in {source_lengths(test_set)[1]}", "BLEU"),
        [f"{bucket.label}\n(n = {bucket.n_sentences})" for bucket in buckets],
    )


def _families(results: Sequence[Result]) -> list[list[Result]]:
    """Group results that differ in nothing but K, each group in order of K."""
    families: dict[str, list[Result]] = {}
    for result in results:
        k = result.output.signature["K"]
        rest = {key: value for key, value in result.output.settings.items() if key not in _SAME_FAMILY}
        segmented = isinstance(k, int) and k > 1
        key = json.dumps(rest, sort_keys=True) if segmented else f"alone {result.output.name}"
        families.setdefault(key, []).append(result)
    return [sorted(family, key=lambda r: str(r.output.signature["K"]).zfill(9)) for family in families.values()]


class LearningCurve(NamedTuple):
    """Updates and losses, updates and BLEU."""

    losses: tuple[list[float], list[float]]
    bleu: tuple[list[float], list[float]]


def read_learning_curve(run: Path) -> LearningCurve:
    """Read the log of a training run; losses are means over stretches of updates, drawn at the end of each."""
    lines = [json.loads(line) for line in lines_of(run / "log.jsonl")]
    losses = [(line["step"], line["loss"]) for line in lines if "loss" in line]
    scores = [(line["step"], line["validation_bleu"]) for line in lines if "validation_bleu" in line]
    size = max(-(-len(losses) // _POINTS), 1)
    stretches = [losses[start : start + size] for start in range(0, len(losses), size)]
    means = [sum(loss for _, loss in stretch) / len(stretch) for stretch in stretches]
    return LearningCurve(
        ([float(stretch[-1][0]) for stretch in stretches], means),
        ([float(step) for step, _ in scores], [score for _, score in scores]),
    )


def learning_plots(curves: Mapping[str, LearningCurve]) -> Iterator[Plot]:
    """Draw the losses of several trainings in one picture, and their BLEU in another."""
    for name, what, pick in (("loss", "training loss", 0), ("bleu", "validation BLEU", 1)):
        drawn = {who: curve[pick] for who, curve in curves.items() if curve[pick][0]}
        if drawn:
            ends = "; ".join(
                f"{who}: {y[0]:.2f} first, {y[-1]:.2f} at update {x[-1]:.0f}" for who, (x, y) in drawn.items()
            )
            yield line_chart(f"learning-{name}", f"Learning: {what} over updates", ends, drawn, ("update", what))
