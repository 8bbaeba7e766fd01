"""BLEU over source length, as in the paper's figure; and what long sentences lose."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recoversat.measuring.quality.errors import missing_ratio
from recoversat.measuring.quality.metrics import corpus_bleu
from recoversat.measuring.quality.outputs import SystemOutput, TestSet
from recoversat.measuring.reports.table import Table, number

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
    buckets = []
    for label, chosen in _ranges(test_set, edges).items():
        references = [test_set.references[i] for i in chosen]
        bleu = {one.name: corpus_bleu([one.hypotheses[i] for i in chosen], references).value for one in outputs}
        buckets.append(LengthBucket(label, len(chosen), bleu))
    return buckets


def length_table(outputs: Sequence[SystemOutput], test_set: TestSet, at_system: str | None) -> Table | None:
    """Show by source length how much was written and how much of the references found; None without sub-words."""
    here = [one for one in outputs if one.test_set == test_set.name]
    tokens = {one.name: one.tokens for one in here if one.tokens is not None}
    if at_system not in tokens or test_set.reference_tokens is None:
        return None
    rows = []
    for label, chosen in _ranges(test_set, EDGES).items():
        usual = sum(len(tokens[at_system][i]) for i in chosen)
        references = [test_set.reference_tokens[i] for i in chosen]
        for name, own in tokens.items():
            written = [own[i] for i in chosen]
            length = 100 * sum(map(len, written)) / max(usual, 1)
            found = 100 * (1 - missing_ratio(written, references))
            rows.append([label, str(len(chosen)), name, number(length, 1), number(found, 1)])
    return Table(
        caption=f"By source length ({source_lengths(test_set)[1]}) on {test_set.name}",
        columns=["Length", "Sentences", "System", "Written", "Recall"],
        rows=rows,
        n_labels=3,
        notes=[f"Written: sub-words for 100 of {at_system}. Recall: percent of the references' sub-words written."],
    )


def _ranges(test_set: TestSet, edges: Sequence[int]) -> dict[str, list[int]]:
    """Say which sentences fall into each range that has any."""
    ranges = np.searchsorted(edges, source_lengths(test_set)[0])  # which one each sentence falls into
    starts = [1, *(edge + 1 for edge in edges)]
    labels = [*(f"{low}–{high}" for low, high in zip(starts, edges, strict=False)), f">{edges[-1]}"]
    return {labels[number]: np.flatnonzero(ranges == number).tolist() for number in np.unique(ranges)}
