"""Does an exported model still say what the original says? Compared token by token, and by BLEU."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recoversat.engines.engine import Engine, Options
from recoversat.errors import UserError
from recoversat.measuring.quality.metrics import corpus_bleu

_MAX_LOSS = 0.3  # of BLEU


@dataclass(frozen=True)
class Agreement:
    """How far a precision writes the tokens that torch writes, with K segments."""

    precision: str
    segments: int
    sentences: int
    same: int
    first_difference: int | None  # which sentence

    def as_text(self) -> str:
        return (
            f"{self.precision}, K = {self.segments}: same tokens as torch in {self.same} of {self.sentences} sentences"
        )


@dataclass(frozen=True)
class BleuChange:
    """What a precision does to BLEU on the validation text."""

    torch: float
    exported: float
    sentences: int
    signature: str

    @property
    def change(self) -> float:
        return self.exported - self.torch

    def as_text(self) -> str:
        return f"BLEU {self.torch:.2f} -> {self.exported:.2f} ({self.change:+.2f})"


def compare_tokens(
    reference: Engine, exported: Engine, sources: Sequence[Sequence[int]], k: int, precision: str, extra_steps: int = 20
) -> Agreement:
    """Decode the sample sentences with both engines and count those that come out the same."""
    counts, options = np.full(len(sources), k), Options(extra_steps)
    wanted, got = (engine.decode(sources, counts, options) for engine in (reference, exported))
    equal = [a.segments == b.segments for a, b in zip(wanted, got, strict=True)]
    return Agreement(precision, k, len(equal), sum(equal), None if all(equal) else equal.index(False))


def compare_bleu(wanted: Sequence[str], got: Sequence[str], references: Sequence[str]) -> BleuChange:
    """Score what torch and the exported model wrote."""
    before, after = corpus_bleu(wanted, references), corpus_bleu(got, references)
    return BleuChange(before.value, after.value, len(references), after.signature)


def refuse_loss(change: BleuChange, force: bool = False) -> None:
    """Raise an error where BLEU falls too far, unless forced."""
    if -change.change > _MAX_LOSS and not force:
        raise UserError(
            f"int8 loses {-change.change:.2f} BLEU ({change.torch:.2f} -> {change.exported:.2f}), "
            f"more than {_MAX_LOSS}; export fp32 alone, or pass --force to keep it"
        )
