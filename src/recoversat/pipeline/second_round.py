"""A second round of distillation: a model for every K writes with several, and what K = 1 finds likeliest stays.

Such targets are what K segments can write, unlike those of a beam, and nearly as good (docs/log.md).
"""

from collections.abc import Callable, Sequence
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


def best_of_writer(translator: Translator, best_of: int) -> Callable[[Sequence[_Ids]], list[_Ids]]:
    """Return what writes ids for ids, with `best_of` values of K around that of the source's length.

    What did not end within its limit comes back empty.
    """
    settings, choices = translator.config.decode, translator.config.auto_choices
    if len(choices) < best_of:
        raise UserError(f"best of {best_of}: this model was trained for fewer values of K")
    begins = translator.tokenizer.begins() if settings.begin_at == "word" else None
    options = Options(settings.extra_steps, scores=False, shortlist=settings.shortlist, begins=begins)

    def joined(source: _Ids, decoded: Decoded) -> _Ids:  # what two neighbours both say once where the model is set to
        shared = overlaps(decoded.segments, source, translator.tokenizer) if settings.join_overlaps else repeat(0)
        return assemble([segment[n:] for segment, n in zip(decoded.segments, shared, strict=False)])

    def write(sources: Sequence[_Ids]) -> list[_Ids]:
        counts = neighbours(translator.segment_counts("auto", list(map(len, sources))), choices, best_of)
        best = BestOf(translator.engine).decode(sources, counts, options, lambda b, one: joined(sources[b], one))
        ended = [all(part and part[-1] in TERMINATORS for part in one.segments) for one in best]
        each = zip(sources, best, ended, strict=True)
        return [joined(source, one) if is_whole else [] for source, one, is_whole in each]

    return write
