"""A translator that writes what a test tells it to: no weights, no torch, every probability known."""

from collections.abc import Callable

import numpy as np
import pytest

from recoversat.config import parse_config
from recoversat.decoding.stepping import FREE, Choice
from recoversat.engines.engine import StepEngine
from recoversat.text.tokenizer import BpeTokenizer
from recoversat.translator import Translator
from recoversat.vocab import DEL, EOS, SPECIAL_PIECES

PIECES = ["the", "house", "cham@@", "bers", "in", "gas", "a", "b", "c"]
Scripts = dict[str, list[str]]


class ScriptedStepper:
    """Token t of a segment has log-probability -(t + 1) / 10; a script that has no ending repeats its last token."""

    def __init__(self, scripts, counts):
        self._scripts, self._counts, self._step = scripts, counts, 0

    def step(self, tokens, active, forced=None, n_best=0, scores=True):
        self._counts.append(len(self._scripts))
        chosen = np.array(
            [
                [script[k][min(self._step, len(script[k]) - 1)] if k < len(script) else EOS for k in range(width)]
                for script, width in zip(self._scripts, [active.shape[1]] * len(active), strict=True)
            ]
        )
        if forced is not None:
            chosen = np.where(forced == FREE, chosen, forced)
        self._step += 1
        log_probs = np.full(chosen.shape, -self._step / 10, dtype=np.float32)
        if not n_best:
            return Choice(chosen, log_probs)
        best = np.stack([(chosen + i) % (len(PIECES) + len(SPECIAL_PIECES)) for i in range(n_best)], axis=-1)
        falls = -self._step / 10 - np.arange(n_best, dtype=np.float32)
        return Choice(chosen, log_probs, best, np.broadcast_to(falls, best.shape))

    def keep(self, which):
        self._scripts = [self._scripts[i] for i in which]


class ScriptedEngine(StepEngine):
    """Knows a script for each source."""

    max_segments = 4
    description = {"engine": "scripted"}  # noqa: RUF012

    def __init__(self, scripts):
        self._scripts = scripts
        self.batches: list[int] = []  # sentences in each step: empty as long as nothing was translated

    def start(self, sources, n_segments, options=None):
        return ScriptedStepper([self._scripts[tuple(ids)] for ids in sources], self.batches)

    def deletions(self, pairs):
        return [[0.0] * len(target) for _, target in pairs]


@pytest.fixture
def tokenizer() -> BpeTokenizer:
    return BpeTokenizer([*SPECIAL_PIECES, *PIECES])


@pytest.fixture
def scripted(tokenizer: BpeTokenizer) -> Callable[[Scripts], Translator]:
    """Make a translator from {source: ["the house EOS", "in DEL", ...]}; all sources have the same K."""

    def make(scripts: Scripts) -> Translator:
        endings = {"EOS": EOS, "DEL": DEL}
        known = {
            tuple(tokenizer.encode([source])[0]): [
                [endings.get(word) or tokenizer.encode([word])[0][0] for word in segment.split()]
                for segment in segments
            ]
            for source, segments in scripts.items()
        }
        config = parse_config(
            {
                "data": {"tokenizer": "bpe"},
                "model": {"max_segments": 4},
                "train": {"segments": len(next(iter(scripts.values()))), "delete_tokens": 0.1},
                "decode": {"extra_steps": 3},
            }
        )
        return Translator.of(ScriptedEngine(known), tokenizer, config)

    return make
