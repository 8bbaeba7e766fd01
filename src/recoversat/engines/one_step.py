"""Models that write all places of a target at once, as engines: NAT, CMLM and CTC.

An engine only says how places are filled (`decoding.oneshot.Filler`); what they carry is decided in `decoding`.
"""

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy

from recoversat.config import ModelConfig
from recoversat.decoding.mask_predict import mask_predict
from recoversat.decoding.oneshot import Filler, decode_lengths, decode_once, decode_paths
from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Ints
from recoversat.engines.engine import Engine, Options, Sources
from recoversat.engines.pairs import Pair
from recoversat.errors import UserError


class OneStepEngine(Engine):
    """Writes a NAT in the length it predicts or in several that are judged, a CMLM in passes, a CTC by a path."""

    _config: ModelConfig
    _judge: Engine | None = None
    _n_lengths = 1

    @abstractmethod
    def open(self, sources: Sources) -> Filler:
        """Encode the sources."""

    @property
    def max_segments(self) -> int:
        """All is one segment."""
        return 1

    def judged_by(self, teacher: Engine, n_lengths: int) -> Engine:
        if self._config.kind != "nat":
            return super().judged_by(teacher, n_lengths)
        judged = copy(self)
        judged._judge, judged._n_lengths = teacher, n_lengths
        return judged

    def decode(self, sources: Sources, n_segments: Ints, options: Options = Options()) -> list[Decoded]:
        """Write each sentence; there is nothing to force and nothing to bound."""
        filler = self.open(sources)
        if self._config.kind == "ctc":
            return decode_paths(filler, sources, self._config.upsample)
        if self._config.kind == "cmlm":
            return mask_predict(filler, options.iterations, options.lengths)
        if self._judge is None:
            return decode_once(filler, sources)
        return decode_lengths(filler, sources, self._score_by_teacher, self._n_lengths)

    def search(self, sources: Sources, beam: int, options: Options = Options()) -> list[Decoded]:
        raise UserError(f"beam {beam}: a one-step model has no beam; leave it out, or give lengths and a teacher")

    def score(self, pairs: Sequence[Pair], n_segments: int = 1) -> list[Decoded]:
        raise UserError("a one-step model gives no probability to a whole translation; use a teacher")

    def _score_by_teacher(self, sources: Sources, targets: Sequence[Sequence[int]]) -> list[float]:
        assert self._judge is not None
        judged = self._judge.score(list(zip(sources, targets, strict=True)))
        return [sum(one.log_probs[0]) for one in judged]
