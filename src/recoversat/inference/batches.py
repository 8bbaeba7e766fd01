"""Ids in, segments out: sources in batches of like length, decoded or searched as the wish asks for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recoversat.config import DecodeConfig
from recoversat.decoding.segmentwise import Decoded, Forced
from recoversat.decoding.stepping import Ints
from recoversat.decoding.stopping import between_steps
from recoversat.engines.engine import Engine, Options
from recoversat.errors import UserError
from recoversat.inference.request import Wish
from recoversat.vocab import EOS


@dataclass(frozen=True)
class BatchDecoder:
    """An engine and how its model is set to write."""

    engine: Engine
    settings: DecodeConfig

    def decode(
        self, sources: list[list[int]], lengths: list[int], k: Ints, wish: Wish, forced: Sequence[Forced] | None
    ) -> Iterator[tuple[int, Decoded]]:
        """Decode all sources that have a length; yields each with its number, batch by batch, the longest first."""
        order = sorted((i for i, length in enumerate(lengths) if length), key=lambda i: -lengths[i])
        for at in range(0, len(order), wish.batch_size):
            batch = order[at : at + wish.batch_size]
            between_steps()  # an engine that decodes whole sentences is stopped here at least
            batch_forced = [forced[i] for i in batch] if forced else None
            yield from zip(batch, self._decode([sources[i] for i in batch], k[batch], wish, batch_forced), strict=True)

    def _decode(
        self, sources: list[list[int]], n_segments: Ints, wish: Wish, forced: list[Forced] | None
    ) -> list[Decoded]:
        options = Options(
            self.settings.extra_steps, self.settings.length_penalty, forced, wish.alternatives,
            wish.scores or wish.alternatives > 0,
        )  # fmt: skip
        if wish.beam > 1:
            return self._search(sources, n_segments, wish.beam, options)
        return self.engine.decode(sources, n_segments, options)

    def _search(self, sources: list[list[int]], n_segments: Ints, beam: int, options: Options) -> list[Decoded]:
        """Write one segment by beam search."""
        if (k := int(n_segments.max())) > 1:
            raise UserError(f"--beam {beam}: beam search writes one segment, this would be {k}; add --segments 1")
        if options.forced or options.n_best:
            raise UserError(f"--beam {beam}: a beam is neither forced nor traced; leave out --beam, --force or --trace")
        found = self.engine.search(sources, beam, options)
        ends = [[EOS] if nbest.best.closed else [] for nbest in found]
        return [
            Decoded([nbest.best.tokens + end], [nbest.best.token_log_probs], nbest.steps)
            for nbest, end in zip(found, ends, strict=True)
        ]
