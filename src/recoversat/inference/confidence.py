"""How sure a model is, in a number that means something: the probability that a translation is a good one.

K = 1 gives every token a probability. Their mean says which of two translations is the better one, but not how good
either is: that is measured on validation text (`recoversat calibrate`) and kept in the model's folder.
"""

import math
from collections.abc import Sequence
from operator import mul
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from recoversat.errors import UserError
from recoversat.files.storage import read_json
from recoversat.text.alignment import Range, words_of
from recoversat.text.tokenizer import Tokenizer

CALIBRATION = "confidence.json"
FORMAT = "recoversat-confidence-1"
_UNLIKELY = math.log(0.05)  # of a token with K = 1: its word is in doubt
_WORST = -20.0  # what is less likely still is no worse


class Curve(BaseModel):
    """A logistic curve over what K = 1 says of the tokens, and how many sentences it was fitted to."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weights: tuple[float, float, float, float]  # of `features`
    sentences: int = Field(ge=1)

    def probability(self, log_probs: Sequence[float]) -> float:
        """Return how probable a good translation is.

        >>> round(Curve(weights=(-2, 4, 0, 0), sentences=1).probability([math.log(0.5), math.log(0.5)]), 3)
        0.5
        """
        return 1 / (1 + math.exp(-sum(map(mul, self.weights, features(log_probs)))))


def features(log_probs: Sequence[float]) -> tuple[float, float, float, float]:
    """Return what the curve is over: 1, the geometric mean of the probabilities, the worst one, the length (logs)."""
    return 1.0, _mean(log_probs), float(max(min(log_probs), _WORST)), math.log(len(log_probs))


def _mean(log_probs: Sequence[float]) -> float:
    """Return the geometric mean of probabilities; of so few numbers sooner without numpy."""
    return math.exp(math.fsum(log_probs) / len(log_probs))


class Calibration(BaseModel):
    """The content of confidence.json; a translation is good that has at least `chrf` chrF2++."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: str = FORMAT
    chrf: float = Field(gt=0, lt=100)
    directions: dict[str, Curve]

    @classmethod
    def read(cls, folder: Path) -> "Calibration | None":
        """Read that of a model; None where it was never calibrated."""
        if not (path := folder / CALIBRATION).is_file():
            return None
        try:
            found = cls.model_validate(read_json(path, "calibration"))
        except ValidationError:
            found = None
        if not found or found.format != FORMAT:
            raise UserError(f"{path}: no calibration of this version; remove it, or run 'recoversat calibrate' again")
        return found

    def curve(self, source: str, target: str) -> Curve | None:
        return self.directions.get(f"{source}-{target}")


def judge(
    text: str, ids: Sequence[int], log_probs: Sequence[float], tokenizer: Tokenizer, curve: Curve | None
) -> tuple[float | None, tuple[Range, ...]]:
    """Return how sure K = 1 is of a text, and the words it finds unlikely, as places in the text.

    They follow from the log-probabilities of its tokens and EOS; nothing is said where nobody asked for them.
    """
    if not log_probs:
        return None, ()
    sure = curve.probability(log_probs) if curve else _mean(log_probs)
    return sure, _doubtful(text, ids, log_probs, tokenizer)


def _doubtful(text: str, ids: Sequence[int], log_probs: Sequence[float], tokenizer: Tokenizer) -> tuple[Range, ...]:
    """Find the words that have an unlikely token; none where tokens and words cannot be matched."""
    if len(log_probs) != len(ids) + 1:  # a text in several parts, or one that was changed since
        return ()
    if min(log_probs) >= _UNLIKELY:
        return ()
    words, owners = words_of(text, ids, tokenizer)
    unlikely = {owner for owner, p in zip(owners.tolist(), log_probs, strict=False) if p < _UNLIKELY}
    return tuple(word for number, word in enumerate(words) if number in unlikely)
