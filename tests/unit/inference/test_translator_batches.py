"""How texts are grouped: by length, and never more than an engine with bounded memory can take."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from recoversat.decoding.stepping import Ints, Stepper
from recoversat.engines.engine import BoundedEngine
from recoversat.translator import Translator

TEXTS = ["a", "a b c", "b", "a b", "c", "", "b c"]
SCRIPTS = {text: ["the EOS"] for text in TEXTS if text}


def bounded(translator: Translator, largest: Callable[[int, int], int | None]) -> list[list[int]]:
    """Bound an engine's memory and remember the lengths of the sources it is given together."""
    started: list[list[int]] = []
    engine: Any = translator.engine

    class Bounded(BoundedEngine):
        max_segments = engine.max_segments

        def start(self, sources: Sequence[Sequence[int]], n_segments: Ints) -> Stepper:
            started.append([len(source) for source in sources])
            return engine.start(sources, n_segments)

        def largest_batch(self, source_length: int, n_segments: int) -> int | None:
            return largest(source_length, n_segments)

    translator.engine = Bounded()
    return started


def test_long_sentences_get_smaller_batches_than_short_ones(scripted) -> None:
    translator = scripted(SCRIPTS)
    started = bounded(translator, lambda length, k: 6 // length)
    assert [t.text for t in translator.translate(TEXTS)] == ["the" if text else "" for text in TEXTS]
    assert started == [[3, 2], [2, 1, 1], [1]]


@pytest.mark.parametrize(("beam", "sizes"), [(1, [6]), (2, [3, 3]), (3, [2, 2, 2]), (4, [1] * 6), (9, [1] * 6)])
def test_a_beam_takes_the_place_of_as_many_sentences(scripted, beam: int, sizes: list[int]) -> None:
    translator = scripted(SCRIPTS)
    started = bounded(translator, lambda length, k: 6)
    translator.translate(TEXTS, beam=beam)
    assert [len(batch) for batch in started] == sizes


@pytest.mark.parametrize(("largest", "sizes"), [(None, [4, 2]), (100, [4, 2]), (0, [1] * 6)])
def test_the_batch_size_is_kept_and_a_batch_is_never_empty(scripted, largest: int | None, sizes: list[int]) -> None:
    translator = scripted(SCRIPTS)
    started = bounded(translator, lambda length, k: largest)
    translator.translate(TEXTS, batch_size=4)
    assert [len(batch) for batch in started] == sizes


def test_an_engine_is_asked_with_the_k_that_is_decoded(scripted) -> None:
    translator = scripted({"a b": ["the EOS", "house EOS"]})
    asked: list[tuple[int, int]] = []
    bounded(translator, lambda length, k: asked.append((length, k)) or 1)
    translator.translate(["a b"])
    assert asked == [(2, 2)]
