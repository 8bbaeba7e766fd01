"""Which other translations of a sentence are worth showing."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from recoversat.inference.translation import Segment, Translation
from recoversat.serve.work.alternatives import other_translations


def written(source: str, text: str, score: float = -0.5) -> Translation:
    tokens = text.split()
    best = [[(token, score), (f"{token}2", score - 1)] for token in tokens]
    segment = Segment(text, tokens, list(range(len(tokens))), "eos", [score] * len(tokens), best)
    return Translation(source, text, cast(Any, [segment]), 1)


def test_what_says_nothing_or_has_another_number_is_no_alternative() -> None:
    model = cast(Any, SimpleNamespace(vocabulary={f"{word}2": n for n, word in enumerate(["a", "b", "c", "d"], 50)}))
    answers = iter(["", "a 20 1", "a 2", "other 20"])

    def translate(sources: list[str], k: int | None, forced: Any) -> list[Translation]:
        return [written(source, next(answers)) for source in sources]

    others = other_translations(model, [written("x 20", "a b c d 20")], [{}], 4, translate)
    assert others.texts == {"x 20": ["a b c d 20", "other 20"]}


@pytest.mark.parametrize("scores", [(-0.9, -0.4, -0.7), (-0.4, -0.7, -0.9)])
def test_the_best_alternative_is_the_first(scores: tuple[float, ...]) -> None:
    model = cast(Any, SimpleNamespace(vocabulary={f"{word}2": n for n, word in enumerate(["a", "b", "c"], 50)}))
    named = {-0.4: "best", -0.7: "good", -0.9: "poor"}

    def translate(sources: list[str], k: int | None, forced: Any) -> list[Translation]:
        return [written(source, named[score], score) for source, score in zip(sources, scores, strict=True)]

    others = other_translations(model, [written("x", "a b c")], [{}], 3, translate)
    assert others.texts == {"x": ["a b c", "best", "good", "poor"]}
    assert [others.nth(nth, ["x"]) for nth in range(4)] == [["best"], ["good"], ["poor"], ["a b c"]]
