"""What a confidence means: a curve from what K = 1 says of a translation to the probability that it is a good one.

Fitted to sentences with references that the model has not seen; a translation is good that reaches so much chrF2++.
"""

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recoversat.errors import UserError
from recoversat.files.storage import write_json
from recoversat.inference.confidence import CALIBRATION, Calibration, Curve, features
from recoversat.measuring.quality.confidence import spearman
from recoversat.measuring.quality.metrics import sentence_chrf
from recoversat.measuring.reports.table import Table
from recoversat.show.progress import progress
from recoversat.translator import Translator

Floats = NDArray[np.float64]

_FOLDS, _ROUNDS, _RIDGE = 5, 50, 1e-3
_FEWEST = 100  # sentences a curve can be fitted to
_BINS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0)


def calibrate(
    translator: Translator, sources: Sequence[str], references: Sequence[str], good: float
) -> tuple[Curve, Table]:
    """Translate, score with K = 1, and fit; the table judges each fifth of the sentences by a curve of the others."""
    pairs = [pair for pair in zip(sources, references, strict=True) if pair[0].strip() and pair[1].strip()]
    if len(pairs) < _FEWEST:
        raise UserError(f"{len(pairs)} sentences are too few to calibrate with; give at least {_FEWEST}")
    texts = [source for source, _ in pairs]
    with progress("calibrate", len(texts)) as bar:
        written = [one.text for one in translator.translate_iterable(texts, done=bar.advance)]
    scored = translator.score_batch(texts, written)
    given = np.array([features([p for segment in one.segments for p in segment.log_probs]) for one in scored])
    quality = np.array(sentence_chrf(written, [reference for _, reference in pairs]))
    is_good = (quality >= good).astype(np.float64)
    if not 0 < is_good.mean() < 1:
        raise UserError(f"all sentences are on one side of {good:g} chrF2++; choose another bound with --chrf")
    folds = np.arange(len(pairs)) % _FOLDS
    said = np.zeros(len(pairs))
    for fold in range(_FOLDS):
        said[folds == fold] = _said(given[folds == fold], fit(given[folds != fold], is_good[folds != fold]))
    weights = fit(given, is_good)
    curve = Curve(weights=tuple(map(float, weights)), sentences=len(pairs))
    return curve, _reliability(said, is_good, quality, good)


def fit(given: Floats, is_good: Floats) -> Floats:
    """Fit a logistic curve by Newton's method.

    >>> given = np.array([[1.0, -1.0], [1.0, 1.0], [1.0, 1.0], [1.0, -1.0]])
    >>> weights = fit(given, np.array([0.0, 1.0, 0.0, 1.0]))
    >>> bool(np.allclose(weights, 0))
    True
    """
    weights = np.zeros(given.shape[1])
    for _ in range(_ROUNDS):
        p = _said(given, weights)
        slope = given.T @ (is_good - p) - _RIDGE * weights
        weights = weights + np.linalg.solve((given.T * (p * (1 - p))) @ given + _RIDGE * np.eye(len(weights)), slope)
    return weights


def keep(folder: Path, direction: str, curve: Curve, good: float) -> Path:
    """Write a curve into a model's folder, beside those of its other directions that mean the same."""
    known = Calibration.read(folder)
    others = known.directions if known and known.chrf == good else {}
    if known and (gone := sorted(known.directions.keys() - others.keys() - {direction})):
        told = f"{', '.join(gone)} was calibrated for {known.chrf:g} chrF2++ and is so no longer"
        print(f"note: {told}; calibrate it with --chrf {good:g} too", file=sys.stderr)
    written = Calibration(chrf=good, directions={**others, direction: curve})
    write_json(folder / CALIBRATION, written.model_dump())
    return folder / CALIBRATION


def _said(given: Floats, weights: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-given @ weights)), dtype=np.float64)


def _reliability(said: Floats, is_good: Floats, quality: Floats, good: float) -> Table:
    rows = []
    for low, high in pairwise(_BINS):
        here = (said >= low) & ((said < high) | (high == 1))
        if n := int(here.sum()):
            rows.append(
                [f"{low:.2f} to {high:.2f}", f"{n:,}", f"{said[here].mean():.3f}", f"{is_good[here].mean():.3f}",
                 f"{quality[here].mean():.1f}"]
            )  # fmt: skip
    error = float(np.mean((said - is_good) ** 2))
    blind = float(np.mean((is_good.mean() - is_good) ** 2))
    return Table(
        caption="Reliability: of what was said, how much was so?",
        columns=["Confidence", "Sentences", "Said, mean", "Were good", "chrF2++, mean"],
        rows=rows,
        notes=[
            f"Good: at least {good:g} chrF2++ against the reference, as {is_good.mean():.3f} of {len(said):,} are."
            " Every sentence is judged by a curve that was fitted to others.",
            f"Brier score {error:.4f} (who always says {is_good.mean():.3f}: {blind:.4f});"
            f" Spearman's ρ of confidence and chrF2++ {spearman(said.tolist(), quality.tolist()) or 0:.3f}.",
        ],
    )
