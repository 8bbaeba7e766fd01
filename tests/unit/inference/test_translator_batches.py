"""How texts are grouped: by length, the longest first, and never more than were asked for."""

import pytest

from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Ints
from recoversat.engines.engine import Engine, Options, Sources

TEXTS = ["a", "a b c", "b", "a b", "c", "", "b c"]
SCRIPTS = {text: ["the EOS"] for text in TEXTS if text}


class Watched(Engine):
    """An engine that remembers the lengths of the sources it is given together."""

    max_segments = 4

    def __init__(self, engine: Engine) -> None:
        self._engine, self.batches, self.options = engine, [], []

    def decode(self, sources: Sources, n_segments: Ints, options: Options = Options()) -> list[Decoded]:
        self.batches.append([len(source) for source in sources])
        self.options.append(options)
        return self._engine.decode(sources, n_segments, options)

    def search(self, sources: Sources, beam: int, options: Options = Options()) -> list[Decoded]:
        self.batches.append([len(source) for source in sources])
        return self._engine.search(sources, beam, options)

    score = None


@pytest.mark.parametrize("beam", [1, 3])
def test_like_lengths_are_decoded_together_and_come_back_in_order(scripted, beam: int) -> None:
    translator = scripted(SCRIPTS)
    translator.engine = watched = Watched(translator.engine)
    found = translator.translate(TEXTS, batch_size=4, beam=beam)
    assert [one.text for one in found] == ["the" if text else "" for text in TEXTS]
    assert watched.batches == [[3, 2, 2, 1], [1, 1]]


def test_what_was_asked_for_reaches_the_engine(scripted) -> None:
    translator = scripted(SCRIPTS)
    translator.engine = watched = Watched(translator.engine)
    translator.translate(["a"], scores=False)
    translator.translate(["a"], scores=False, alternatives=2)
    translator.translate(["a"], forced=[{(0, 0): 7}])
    assert [(one.extra_steps, one.scores, one.top_tokens, one.forced) for one in watched.options] == [
        (3, False, 0, None), (3, True, 2, None), (3, True, 0, [{(0, 0): 7}]),
    ]  # fmt: skip
