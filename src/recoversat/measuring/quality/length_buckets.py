"""BLEU over source length, as in the paper's figure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recoversat.measuring.quality.metrics import corpus_bleu
from recoversat.measuring.quality.outputs import SystemOutput, TestSet

EDGES = (10, 20, 30, 40, 50, 60)


@dataclass(frozen=True)
class LengthBucket:
    """The sentences of one range of source lengths and each system's BLEU on them."""

    label: str
    n_sentences: int
    bleu: dict[str, float]


def source_lengths(test_set: TestSet) -> tuple[list[int], str]:
    """Count each source in sub-words where they are known, else in words; say which.

    >>> source_lengths(TestSet("t", ["ein kleines Haus"], ["a small house"]))
    ([3], 'words')
    """
    if test_set.source_tokens is not None:
        return [len(ids) for ids in test_set.source_tokens], "sub-words"
    return [len(line.split()) for line in test_set.sources], "words"


def bleu_by_length(
    outputs: Sequence[SystemOutput], test_set: TestSet, edges: Sequence[int] = EDGES
) -> list[LengthBucket]:
    """Score every system on every range of source lengths, upper ends included, that has a sentence in it."""
    ranges = np.searchsorted(edges, source_lengths(test_set)[0])  # which one each sentence falls into
    starts = [1, *(edge + 1 for edge in edges)]
    labels = [*(f"{low}–{high}" for low, high in zip(starts, edges, strict=False)), f">{edges[-1]}"]
    buckets = []
    for number in np.unique(ranges):
        chosen = np.flatnonzero(ranges == number)
        references = [test_set.references[i] for i in chosen]
        bleu = {one.name: corpus_bleu([one.hypotheses[i] for i in chosen], references).value for one in outputs}
        buckets.append(LengthBucket(labels[number], len(chosen), bleu))
    return buckets
