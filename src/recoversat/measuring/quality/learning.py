"""Learning curves of a training: its loss and its validation BLEU over the updates, from log.jsonl."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from recoversat.files.storage import lines_of
from recoversat.measuring.reports.plots import Plot, line_chart

_POINTS = 50  # of a curve: a loss for each update would be a thick noisy band


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
