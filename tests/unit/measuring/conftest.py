"""A small made-up test set and three systems of falling quality on it."""

import numpy as np
import pytest

from recoversat.measuring.quality.outputs import SegmentStat, SystemOutput, TestSet

WORDS = [
    "the",
    "small",
    "old",
    "house",
    "bridge",
    "stands",
    "on",
    "near",
    "a",
    "hill",
    "people",
    "meet",
    "day",
]
N_SENTENCES = 60


def ids_of(line: str) -> list[int]:
    """Give each word of the vocabulary an id of its own, above the special ones."""
    return [WORDS.index(word.strip(".")) + 10 for word in line.split()]


def noisy(line: str, share: float, rng: np.random.Generator) -> str:
    """Replace, repeat or drop about `share` of the words."""
    words: list[str] = []
    for word in line.split():
        if rng.random() >= share:
            words.append(word)
        else:
            words += [[], [word, word], [str(rng.choice(WORDS))]][int(rng.integers(3))]
    return " ".join(words)


def make_output(name: str, test_set: TestSet, share: float, seed: int, k: int) -> SystemOutput:
    """Make a system whose score falls with the errors it makes."""
    rng = np.random.default_rng(seed)
    shares = [share * 2 * float(rng.random()) for _ in test_set.references]
    lines = [noisy(line, one, rng) for line, one in zip(test_set.references, shares, strict=True)]
    tokens = [ids_of(line) for line in lines]
    endings = ("eos", "eos", "eos", "del")
    segments = [[SegmentStat(len(ids) // k + i % 2, endings[i % 4]) for i in range(k)] for ids in tokens]
    return SystemOutput(
        name=name,
        test_set=test_set.name,
        hypotheses=lines,
        tokens=tokens,
        steps=[max(part.length for part in parts) + 1 for parts in segments],
        segments=segments,
        scores=[-one for one in shares],
        latency_ms=100.0 / k,
        settings={"version": "0.1.0", "data": "feed", "K": k, "p": "1->0" if k > 1 else None, "engine": "torch"},
    )


def make_test_set(name: str = "toy") -> TestSet:
    """Make sentences of 2 to 40 words."""
    rng = np.random.default_rng(3)
    lines = [" ".join(rng.choice(WORDS, size=2 + i * 38 // N_SENTENCES)) + "." for i in range(N_SENTENCES)]
    return TestSet(name, [line.upper() for line in lines], lines, [ids_of(line) for line in lines])


@pytest.fixture(scope="session")
def toy() -> TestSet:
    return make_test_set()


@pytest.fixture(scope="session")
def systems(toy: TestSet) -> list[SystemOutput]:
    return [
        make_output("AT", toy, 0.10, 1, 1),
        make_output("K=2", toy, 0.14, 2, 2),
        make_output("K=10", toy, 0.20, 3, 10),
    ]
