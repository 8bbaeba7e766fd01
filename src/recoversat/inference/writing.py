"""From sentences to drafts: decode what is not copied, put segments together, let the repairs look at them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from recoversat.decoding.segmentwise import Decoded
from recoversat.errors import UserError
from recoversat.inference.assembling import Draft, Source
from recoversat.inference.batches import decode_batches, options_for
from recoversat.inference.forcing import check_forced, force_lines
from recoversat.inference.repairing import Repairs
from recoversat.inference.request import Request
from recoversat.text.parts import Parts, parts_of

if TYPE_CHECKING:
    from recoversat.translator import Translator

_FINER = 2  # times as many segments as a translation has that stands as it was drafted


@dataclass(frozen=True)
class Writer:
    """A translator, what a call asks of it, and the repairs, in their order."""

    translator: "Translator"
    request: Request
    repairs: Repairs

    def cut(self, texts: list[str]) -> tuple[list[Parts], list[Source]]:
        """Cut texts longer than any the model was trained on; return also all parts as the model reads them."""
        translator, longest = self.translator, self.translator.config.data.max_tokens
        cut, sources = [], []
        for number, source in enumerate(translator.read(texts), 1):
            if translator.is_short(source.ids):
                cut.append(Parts([source.text], ["", ""]))
                sources.append(source)
                continue
            if self.request.is_forced:
                size = f"{len(source.ids) - bool(translator.prefix)} pieces, at most {longest}"
                raise UserError(f"line {number}: too long to force words in it ({size})")
            cut.append(parts_of(source.text, translator.source, translator.fits))
            sources += translator.read(cut[-1].texts)
        return cut, sources

    def write(self, sources: list[Source]) -> list[Draft]:
        """Decode sentences that fit, put their segments together, have them repaired."""
        may_rewrite = not self.request.is_forced
        return self.repairs.after_decoding(self._decode(sources), self._again, may_rewrite=may_rewrite)

    def judged(self, drafts: list[Draft]) -> list[Draft]:
        """Score with K = 1 what has not been yet."""
        unknown = [i for i, draft in enumerate(drafts) if draft.decoded.segments and not draft.decoded.as_one]
        pairs = [(drafts[i].source.ids, drafts[i].ids) for i in unknown]
        judged, scores = list(drafts), self.translator.score_ids(pairs, batch_size=self.request.batch_size)
        for i, scored in zip(unknown, scores, strict=True):
            judged[i] = replace(drafts[i], decoded=replace(drafts[i].decoded, judged=scored.log_probs[0]))
        return judged

    def _again(self, repairs: Repairs, texts: list[str], request: Request) -> list[Draft]:
        """Write texts once more, as a repair asks for."""
        return Writer(self.translator, request, repairs).write(self.translator.read(texts))

    def _decode(self, sources: list[Source]) -> list[Draft]:
        """Decode what is not copied, and put its segments together."""
        tokenizer, request = self.translator.tokenizer, self.request
        counts = self._counts([len(source.ids) for source in sources])
        copied = [self._copied(source) for source in sources]
        counts = [0 if copy else k for k, copy in zip(counts, copied, strict=True)]
        forced = request.forced
        if request.force:
            forced = force_lines(request.force, tokenizer, counts)
        written = {i: copy for i, copy in enumerate(copied) if copy}
        ids, options = [source.ids for source in sources], options_for(request, forced, self.translator.begins)
        for i, decoded in decode_batches(self.translator.engine, ids, counts, request, options):
            written[i] = Draft.of(sources[i], decoded, tokenizer)
            if request.force and forced:
                check_forced(forced[i], decoded.segments, f"line {i + 1}")
        return [written[i] for i in range(len(sources))]

    def _counts(self, lengths: Sequence[int]) -> list[int]:
        """Return K for sources of these lengths."""
        translator, segments, decode = self.translator, self.request.segments, self.request.decode
        finer = _FINER if decode.exact else 1  # a mistake in a draft costs a pass, not quality
        counts = translator.segment_counts(segments, [finer * length for length in lengths])
        if decode.exact and not decode.tolerance and segments is None:
            counts[np.array(lengths) < translator.engine.drafts_pay_from] = 1
        found: list[int] = counts.tolist()
        return found

    def _copied(self, source: Source) -> Draft | None:
        """Return a source as its own translation, where there is nothing to read or a repair wants it so."""
        ids, tokenizer = source.ids[bool(self.translator.prefix) :], self.translator.tokenizer
        names = self.repairs.copying(source.text) if ids else ()
        return None if ids and not names else Draft(source, source.text, ids, Decoded([], []), tokenizer, repairs=names)
