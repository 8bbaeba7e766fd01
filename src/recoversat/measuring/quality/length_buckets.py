"""BLEU over source length, as in the paper's figure."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from recoversat.measuring.quality.metrics import corpus_bleu
from recoversat.measuring.quality.outputs import SystemOutput, TestSet

EDGES = (10, 20, 30, 40, 50, 60)


@dataclass(frozen=True)
class LengthBucket:
    """The sentences of one range of source lengths and each system's BLEU on them."""

    label: str
    n_sentences: int
    bleu: dict[str, float]


def bucket_labels(edges: Sequence[int]) -> list[str]:
    """Name the ranges between the edges, upper ends included.

    >>> bucket_labels([10, 20])
    ['1–10', '11–20', '>20']
    """
    starts = [1, *(edge + 1 for edge in edges[:-1])]
    return [f"{low}–{high}" for low, high in zip(starts, edges, strict=True)] + [f">{edges[-1]}"]


def assign_buckets(lengths: Sequence[int], edges: Sequence[int]) -> list[list[int]]:
    """Give, for each range, the numbers of the sentences whose length falls in it.

    >>> assign_buckets([10, 11, 3, 99], [10, 20])
    [[0, 2], [1], [3]]
    """
    buckets: list[list[int]] = [[] for _ in range(len(edges) + 1)]
    for number, length in enumerate(lengths):
        buckets[bisect_left(edges, length)].append(number)
    return buckets


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
    """Score every system on every range of source lengths that has a sentence in it."""
    lengths, _ = source_lengths(test_set)
    return [
        LengthBucket(label, len(chosen), {out.name: _bleu_of(out, test_set, chosen) for out in outputs})
        for label, chosen in zip(bucket_labels(edges), assign_buckets(lengths, edges), strict=True)
        if chosen
    ]


def _bleu_of(output: SystemOutput, test_set: TestSet, chosen: Sequence[int]) -> float:
    hypotheses = [output.hypotheses[number] for number in chosen]
    return corpus_bleu(hypotheses, [test_set.references[number] for number in chosen]).value
