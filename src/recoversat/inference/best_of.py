"""Best of several K: a sentence is written in several ways, and the same model as K = 1 chooses among them.

One model for every K can judge itself: what K segments have written is scored as one segment in a single parallel
pass. The translation is the candidate with the highest mean log-probability; where even its worst token is very
unlikely, the sentence is written again as K = 1 would (`doubt`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Ints
from recoversat.engines.engine import Engine, Options, Sources
from recoversat.inference.exact import verify_drafts

Counts = tuple[int, ...]  # the values of K that a sentence is written with
IdsOf = Callable[[int, Decoded], list[int]]  # sentence, what was written -> the tokens a reader would get


def neighbours(counts: Ints, choices: Sequence[int], best_of: int) -> list[Counts]:
    """Return for each K those around it that a model was trained for.

    K = 1 has no better one, and takes as many calls as it writes tokens: where there are others enough, it is not
    among several.

    >>> neighbours(np.array([1, 2, 5, 16]), [1, 2, 3, 4, 5, 6, 8, 10, 16], 3)
    [(1,), (2, 3, 4), (4, 5, 6), (8, 10, 16)]
    """
    known = sorted(set(choices))
    if known[0] == 1 and len(known) > best_of:
        known = known[1:]
    last = max(0, len(known) - best_of)
    starts = [1 if k == 1 else min(max(0, known.index(k) - best_of // 2), last) for k in counts.tolist()]
    return [(1,) if k == 1 else tuple(known[at : at + best_of]) for k, at in zip(counts, starts, strict=True)]


@dataclass(frozen=True)
class BestOf:
    """An engine that chooses among its own translations."""

    engine: Engine
    doubt: float | None = None  # log-probability of the worst token below which a sentence is written again

    def decode(self, sources: Sources, counts: Sequence[Counts], options: Options, ids_of: IdsOf) -> list[Decoded]:
        """Write sentence b with every K of counts[b] at the same time, and keep the likeliest."""
        sources = self.engine.encode(sources)
        owners = [b for b, own in enumerate(counts) for _ in own]
        k = np.array([k for own in counts for k in own])
        written = self.engine.decode([sources[b] for b in owners], k, options)
        texts = [(b, tuple(ids_of(b, one))) for b, one in zip(owners, written, strict=True)]
        judged = self._judge(sources, dict.fromkeys(texts))
        best: dict[int, Decoded] = {}
        for text, one in zip(texts, written, strict=True):
            candidate = replace(one, judged=judged[text])
            best[text[0]] = _better(best.get(text[0]), candidate)
        results = [replace(best[b], steps=best[b].steps + 1) for b in range(len(sources))]  # the pass that judges
        return self._certain(sources, results, options, ids_of)

    def _judge(
        self, sources: Sources, texts: dict[tuple[int, tuple[int, ...]], None]
    ) -> dict[tuple[int, tuple[int, ...]], list[float]]:
        """Score each candidate with K = 1; what two K have written alike is scored once."""
        scored = self.engine.score([(sources[b], ids) for b, ids in texts])
        return {text: one.log_probs[0] for text, one in zip(texts, scored, strict=True)}

    def _certain(self, sources: Sources, results: list[Decoded], options: Options, ids_of: IdsOf) -> list[Decoded]:
        """Let K = 1 write doubtful sentences; what there is of them is a draft."""
        doubted = [
            b
            for b, one in enumerate(results)
            if self.doubt is not None and len(one.segments) > 1 and min(one.judged) < self.doubt
        ]
        if not doubted:
            return results
        drafts = [ids_of(b, results[b]) for b in doubted]
        exactly = replace(options, scores=True, tolerance=0.0)
        again = verify_drafts(self.engine, [sources[b] for b in doubted], drafts, exactly)
        for b, one in zip(doubted, again, strict=True):
            results[b] = replace(one, steps=results[b].steps + one.steps)
        return results


def _better(first: Decoded | None, second: Decoded) -> Decoded:
    """Choose the likelier one, the first where they are equal; both were written in the same steps."""
    if first is None:
        return second
    chosen = max(first, second, key=lambda one: float(np.mean(one.judged)))
    return replace(chosen, steps=max(first.steps, second.steps))
