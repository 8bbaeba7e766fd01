"""A second round of distillation: a model for every K writes with several, and what K = 1 finds likeliest stays.

Such targets are what K segments can write, unlike those of a beam, and nearly as good (docs/log.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

from recoversat.decoding.segmentwise import Decoded
from recoversat.engines.engine import Options
from recoversat.errors import UserError
from recoversat.inference.best_of import BestOf, neighbours
from recoversat.inference.repairs.join_overlaps import overlaps
from recoversat.segments import assemble
from recoversat.translator import Translator
from recoversat.vocab import TERMINATORS

_Ids = list[int]


@dataclass(frozen=True)
class BestOfWriter:
    """Writes ids for ids, with `best_of` values of K around that of the source's length."""

    translator: Translator
    best_of: int

    def __post_init__(self) -> None:
        if len(self.translator.config.auto_choices) < self.best_of:
            raise UserError(f"best of {self.best_of}: this model was trained for fewer values of K")

    def __call__(self, sources: Sequence[_Ids]) -> list[_Ids]:
        """Write each source; what did not end within its limit comes back empty."""
        settings, choices = self.translator.config.decode, self.translator.config.auto_choices
        counts = neighbours(self.translator.segment_counts("auto", list(map(len, sources))), choices, self.best_of)
        begins = self.translator.tokenizer.begins() if settings.begin_at == "word" else None
        options = Options(settings.extra_steps, scores=False, shortlist=settings.shortlist, begins=begins)
        best = BestOf(self.translator.engine).decode(
            sources, counts, options, lambda b, one: self._ids(sources[b], one)
        )
        return [self._ids(source, one) if _ended(one) else [] for source, one in zip(sources, best, strict=True)]

    def _ids(self, source: _Ids, decoded: Decoded) -> _Ids:
        """Put segments together, what two neighbours both say once where the model is set to."""
        joins = self.translator.config.decode.join_overlaps
        shared = overlaps(decoded.segments, source, self.translator.tokenizer) if joins else repeat(0)
        return assemble([segment[n:] for segment, n in zip(decoded.segments, shared, strict=False)])


def _ended(decoded: Decoded) -> bool:
    return all(segment and segment[-1] in TERMINATORS for segment in decoded.segments)
