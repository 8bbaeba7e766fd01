"""What the rest of the program knows of an engine: it decodes, searches and scores.

An engine that takes steps only says how to start and inherits all three (`StepEngine`: torch, ONNX). One that is
faster on its own overrides them (CUDA). One that knows no steps refuses what it cannot do (one-step models).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from recoversat.decoding.beam import beam_search, search_as_transformers
from recoversat.decoding.fixed import FixedStepper
from recoversat.decoding.segmentwise import Decoded, Forced, decode_segments, max_steps
from recoversat.decoding.stepping import Bools, Ints, Stepper
from recoversat.decoding.verify import Verifier
from recoversat.engines.pairs import Pair, check_pairs, equal_rows
from recoversat.errors import UserError

Sources = Sequence[Sequence[int]]  # ids of each sentence


@dataclass(frozen=True)
class Options:
    """How translations are written."""

    extra_steps: int = 20  # a segment may take this many more steps than its share of the source has tokens
    length_penalty: float = 0.6  # of beam search
    as_transformers: bool = False  # beam search ends and scores as that of Hugging Face does
    forced: Sequence[Forced] | None = None  # tokens that must be written, a sentence each
    top_tokens: int = 0  # how many of the best tokens are noted beside each that was chosen
    scores: bool = True  # without them an engine may leave out log-probabilities
    limits: Ints | None = None  # the most steps of each sentence, where they shall not follow from its length
    shortlist: bool = True  # an engine may leave out pieces that a translation of the source cannot hold
    verified: bool = True  # but then has to see to it that the same comes out as without
    together: bool = False  # all segments of a sentence may end with the first that does; not all engines do it
    iterations: int = 10  # passes of mask-predict
    lengths: int = 5  # candidates of mask-predict
    tolerance: float = 0.0  # by how much a drafted token may be less likely than that of K = 1, which verifies it
    begins: Bools | None = None  # (V,) what a segment may begin with; K = 1, which has no border, begins as it likes
    lives: Ints | None = None  # (K,) after how many steps each segment ends, to time models that have learnt nothing

    def of(self, places: list[int]) -> "Options":
        """Return the same for some of the sentences."""
        if self.forced is None and self.limits is None:
            return self
        forced = None if self.forced is None else [self.forced[i] for i in places]
        return replace(self, forced=forced, limits=None if self.limits is None else self.limits[places])

    def most_steps(self, sources: Sources, n_segments: Ints) -> Ints:
        """Return how many steps each sentence may take."""
        if self.lives is not None:
            return np.full(len(sources), self.lives.max())
        if self.limits is not None:
            return self.limits
        lengths = map(len, sources)
        each = [max_steps(*one, self.extra_steps) for one in zip(lengths, n_segments.tolist(), strict=True)]
        return np.array(each, dtype=np.int64)


class Engine(ABC):
    """A loaded model."""

    drafts_pay_from: float = 0  # source tokens from which the words of K = 1 come sooner from a draft that is verified

    @property
    @abstractmethod
    def max_segments(self) -> int:
        """The largest K the model can decode with."""

    @property
    def description(self) -> dict[str, str | int]:
        """Engine, precision, device and threads, for the signature of a result."""
        return {}

    def encode(self, sources: Sources) -> Sources:
        """Return sources that need not be encoded again, where the engine can remember what it has read."""
        return sources

    @abstractmethod
    def decode(self, sources: Sources, n_segments: Ints, options: Options = Options()) -> list[Decoded]:
        """Write sentence b in n_segments[b] segments."""

    def verifier(self, source: Sequence[int], room: int, options: Options = Options()) -> Verifier | None:
        """Begin to write a sentence of at most `room` tokens with K = 1, several rows at once; None: it cannot."""
        return None

    @abstractmethod
    def search(self, sources: Sources, beam: int, options: Options = Options()) -> list[Decoded]:
        """Find the best translation of each sentence by beam search, in one segment."""

    @abstractmethod
    def score(self, pairs: Sequence[Pair], n_segments: int = 1) -> list[Decoded]:
        """Return each target as if it had been written in K equal segments, with its log-probabilities.

        They are those decoding chooses from: what it never writes takes no part in them.
        """

    def deletions(self, pairs: Sequence[Pair]) -> list[list[float]]:
        """Return how probable DEL is after each token of each target, read as one segment: that it is superfluous."""
        raise UserError("decode.delete_tokens: this engine does not read a draft in one pass; export the model again")

    def judged_by(self, teacher: "Engine", n_lengths: int) -> "Engine":
        """Return an engine that writes in several lengths and lets a teacher's scores choose among them."""
        raise UserError("lengths: only a one-step model (model.kind nat) is decoded in several lengths")


class WrappedEngine(Engine):
    """Another engine, whose calls are changed on their way to it or back."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def max_segments(self) -> int:
        return self._engine.max_segments

    @property
    def description(self) -> dict[str, str | int]:
        return self._engine.description

    def decode(self, sources: Sources, n_segments: Ints, options: Options = Options()) -> list[Decoded]:
        return self._engine.decode(sources, n_segments, options)

    def search(self, sources: Sources, beam: int, options: Options = Options()) -> list[Decoded]:
        return self._engine.search(sources, beam, options)

    def score(self, pairs: Sequence[Pair], n_segments: int = 1) -> list[Decoded]:
        return self._engine.score(pairs, n_segments)


class StepEngine(Engine):
    """An engine that takes one step at a time; the loops are those of `decoding`."""

    @abstractmethod
    def start(self, sources: Sources, n_segments: Ints, options: Options = Options()) -> Stepper:
        """Encode sources and begin decoding, sentence b with n_segments[b] segments."""

    def decode(self, sources: Sources, n_segments: Ints, options: Options = Options()) -> list[Decoded]:
        stepper, limits = self._begin(sources, n_segments, options), options.most_steps(sources, n_segments)
        return decode_segments(
            stepper, n_segments, limits, options.forced, options.top_tokens, options.scores, options.together
        )

    def search(self, sources: Sources, beam: int, options: Options = Options()) -> list[Decoded]:
        ones = np.ones(len(sources), dtype=np.int64)
        stepper, limits = self._begin(sources, ones, options), options.most_steps(sources, ones)
        search = search_as_transformers if options.as_transformers else beam_search
        return search(stepper, limits, beam, options.length_penalty)

    def score(self, pairs: Sequence[Pair], n_segments: int = 1) -> list[Decoded]:
        """Force every token, one step after the other; engines that can run all rows at once override this."""
        check_pairs(pairs)
        targets = [equal_rows(target, n_segments) for _, target in pairs]
        forced = [
            dict(zip(zip(own.segments.tolist(), own.steps.tolist(), strict=True), own.labels.tolist(), strict=True))
            for own in targets
        ]
        limits = np.array([own.steps.max() + 1 for own in targets])
        options = Options(forced=forced, limits=limits, shortlist=False)  # what is given may hold any piece
        return self.decode([source for source, _ in pairs], np.full(len(pairs), n_segments), options) if pairs else []

    def _begin(self, sources: Sources, n_segments: Ints, options: Options) -> Stepper:
        stepper = self.start(sources, n_segments, options)
        return stepper if options.lives is None else FixedStepper(stepper, options.lives)
