"""Rep and Mis: how much more a system repeats and forgets than an autoregressive one (Section 4.5).

All counting is on sub-word ids as decoded. Ratios are shares (0 to 1); Rep and Mis are percent.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

WINDOW = 9  # the formula looks back over nine tokens

Ids = Sequence[int]


@dataclass(frozen=True)
class ErrorRates:
    """Rep and Mis with the ratios behind them; Mis is None where no reference tokens were given."""

    relative_to: str
    repeated: float
    at_repeated: float
    rep: float
    missing: float | None = None
    at_missing: float | None = None
    mis: float | None = None


def repeated_ratio(sentences: Sequence[Ids], window: int = WINDOW) -> float:
    """Share of tokens that already stood among the `window` tokens before them: r(Y).

    No token at all gives 0.

    >>> repeated_ratio([[7, 8, 7, 7]])  # the second and the third 7 repeat
    0.5
    """
    total = sum(len(ids) for ids in sentences)
    repeated = sum(
        ids[j] in ids[max(0, j - window) : j]
        for ids in sentences
        for j in range(1, len(ids))  # the first token has nothing before it
    )
    return repeated / total if total else 0.0


def missing_ratio(sentences: Sequence[Ids], references: Sequence[Ids]) -> float:
    """Share of reference tokens that the translation lacks, counted as a multiset: m(Y, ref).

    The sum over w runs over the distinct tokens of a reference: over its occurrences, a token
    missing twice would count four times and the "ratio" could exceed 1. No reference token gives 0.

    >>> missing_ratio([[7, 9]], [[7, 7, 8, 9]])  # one 7 and the 8 are missing
    0.5
    """
    total = sum(len(ids) for ids in references)
    missing = sum(
        (Counter(reference) - Counter(ids)).total()  # Counter subtraction is max(difference, 0)
        for ids, reference in zip(sentences, references, strict=True)
    )
    return missing / total if total else 0.0


def relative_increment(ratio: float, at_ratio: float) -> float:
    """Increment over the AT system in percent.

    An AT ratio of 0 has no relative increment: equal ratios then give 0, anything more is infinite.

    >>> relative_increment(0.75, 0.5), relative_increment(0.0, 0.0), relative_increment(0.1, 0.0)
    (50.0, 0.0, inf)
    """
    if at_ratio == 0:
        return 0.0 if ratio == 0 else math.inf
    return 100 * (ratio - at_ratio) / at_ratio


def error_rates(
    tokens: Sequence[Ids], at_name: str, at_tokens: Sequence[Ids], reference_tokens: Sequence[Ids] | None = None
) -> ErrorRates:
    """Compute Rep, and Mis when the references' tokens are known, relative to the AT system `at_name`."""
    repeated, at_repeated = repeated_ratio(tokens), repeated_ratio(at_tokens)
    rep = relative_increment(repeated, at_repeated)
    if reference_tokens is None:
        return ErrorRates(at_name, repeated, at_repeated, rep)
    missing, at_missing = missing_ratio(tokens, reference_tokens), missing_ratio(at_tokens, reference_tokens)
    mis = relative_increment(missing, at_missing)
    return ErrorRates(at_name, repeated, at_repeated, rep, missing, at_missing, mis)
