"""How well a translation's score (mean log-probability) tells good sentences from bad ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recoversat.measuring.quality.metrics import corpus_score, sentence_chrf

Values = Sequence[float]


@dataclass(frozen=True)
class Halves:
    """Corpus BLEU and chrF of the sentences the system is surer of, and of the others."""

    top_bleu: float
    bottom_bleu: float
    top_chrf: float
    bottom_chrf: float


@dataclass(frozen=True)
class Confidence:
    """Rank correlation of score and sentence chrF2++; None where either never varies."""

    spearman: float | None
    kendall: float | None
    halves: Halves | None


def ranks(values: Values) -> NDArray[np.float64]:
    """Rank from 1; equal values share the mean of their ranks.

    >>> ranks([0.3, 0.1, 0.3]).tolist()
    [2.5, 1.0, 2.5]
    """
    array = np.asarray(values, dtype=np.float64)
    _, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - (counts - 1) / 2
    return np.asarray(mean_rank[inverse], dtype=np.float64)


def spearman(left: Values, right: Values) -> float | None:
    """Correlate the ranks; None for fewer than two values or when one side is constant.

    >>> spearman([1, 2, 3], [10, 30, 20])
    0.5
    """
    a, b = ranks(left), ranks(right)
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])


def kendall(left: Values, right: Values) -> float | None:
    """Kendall's tau-b: concordant minus discordant pairs, corrected for ties; None as in `spearman`.

    >>> round(kendall([1, 2, 3], [10, 30, 20]), 4)
    0.3333
    """
    a, b = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
    agreement = untied_left = untied_right = 0
    for i in range(len(a) - 1):  # a row of pairs at a time: all pairs at once would need n * n memory
        sign_a, sign_b = np.sign(a[i + 1 :] - a[i]), np.sign(b[i + 1 :] - b[i])
        agreement += int(sign_a @ sign_b)
        untied_left += int(np.count_nonzero(sign_a))
        untied_right += int(np.count_nonzero(sign_b))
    if not untied_left or not untied_right:
        return None
    return float(agreement / np.sqrt(float(untied_left) * untied_right))


def split_by_score(scores: Values) -> tuple[list[int], list[int]]:
    """Give the sentence numbers of the surer half and of the rest; ties keep their order.

    >>> split_by_score([-3.0, -1.0, -2.0])
    ([1], [2, 0])
    """
    order = np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable").tolist()
    half = len(order) // 2
    return order[:half], order[half:]


def measure_confidence(scores: Values, hypotheses: Sequence[str], references: Sequence[str]) -> Confidence:
    """Say how well the scores rank the sentences of a test set."""
    quality = sentence_chrf(hypotheses, references)
    parts = [([hypotheses[i] for i in part], [references[i] for i in part]) for part in split_by_score(scores)]
    halves = (corpus_score(key, *part).value for key in ("bleu", "chrf") for part in parts)
    found = Halves(*halves) if len(scores) > 1 else None
    return Confidence(spearman(scores, quality), kendall(scores, quality), found)
