"""Beam search of a batch in one bucket of sizes, a whole step in each graph: the same search as `decoding.beam`.

The W hypotheses of a sentence write into one cache, side by side as segments do; nothing is ever moved in it. A mask
tells each hypothesis which rows are its ancestors', and only the mask follows when hypotheses fork or are dropped.
The source is encoded and projected once a sentence, not once a hypothesis.

B sentences, S source, W beam, R = B * W, T steps, M cache rows, C candidates a hypothesis.
"""

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recoversat.decoding.beam import penalty
from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Ints
from recoversat.engines.cuda.capture import Capturer
from recoversat.engines.cuda.model import GraphModel
from recoversat.engines.cuda.session import Bucket, SteppingSession, mask_width, steps_before_asking
from recoversat.engines.cuda.state import Field, Fields
from recoversat.engines.torch.engine import top
from recoversat.vocab import BOS, EOS


class BeamSession(SteppingSession):
    """Keeps W hypotheses of every sentence."""

    def __init__(self, model: GraphModel, capturer: Capturer, bucket: Bucket) -> None:
        weights, w = model.weights, bucket.width
        positions = weights.row_positions(bucket.room, w, same_segment=True)
        both, found = self._results(bucket)
        super().__init__(model, capturer, bucket, positions, self._fields(bucket, weights.dtype), both, found)
        self._state = SimpleNamespace(**self._tensors)
        itself = torch.full((w, w), -torch.inf, dtype=weights.dtype, device=weights.device).fill_diagonal_(0)
        self._itself = itself.expand(bucket.batch, w, w)  # a hypothesis sees its own newest row
        host = self._host  # the state before the first step, which stays there
        host["tokens"][:], host["running"][:], host["rows"][:] = BOS, 1, np.arange(w)
        host["sums"][:], host["best"][:], host["row_mask"][:] = -np.inf, -np.inf, self._hidden
        host["sums"][:, 0] = 0

    def search(self, sources: Sequence[Sequence[int]], limits: Ints, alpha: float) -> list[Decoded]:
        """Find the best translation of each source; they fit the bucket."""
        self._fill(sources, limits, alpha)
        self._arena.upload()
        unasked = steps_before_asking(max(len(source) for source in sources), 1)
        taken = self._take_steps(int(limits.max()), unasked, "n_running")
        return self._collect(taken, len(sources))

    def _run_step(self, n_seen: int, special: bool) -> None:
        state, (batch, width) = self._state, self._state.sums.shape
        best, tokens, sums = self._candidates(n_seen, width)
        n_candidates = best.shape[-1]
        ranked = sums.sort(dim=1, descending=True, stable=True).indices
        picked = ranked[:, :width].sort(dim=1).values  # (B, W), in the order of their parents
        parents = torch.div(picked, n_candidates, rounding_mode="floor")
        chosen, chosen_log_probs = (x.view(batch, -1).gather(1, picked) for x in (tokens, best))
        self._note(chosen, parents, chosen_log_probs)
        state.tokens.copy_(chosen.view(-1))
        state.row_mask.copy_(state.row_mask.gather(1, parents[:, :, None].expand_as(state.row_mask)))
        self._close(sums.gather(1, picked), chosen)
        state.rows.add_(width)
        state.step.add_(1)

    def _candidates(self, n_seen: int, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the best tokens of each hypothesis: log-probabilities and tokens (R, C), and sums (B, W * C)."""
        state, (batch, width) = self._state, self._state.sums.shape
        state.row_mask.index_copy_(2, state.rows, self._itself)
        hidden = self._layers.hidden(state.tokens, self._rows, n_seen, self._memory)
        log_probs = self._model.logits(hidden, single=True).log_softmax(dim=-1, dtype=torch.float32)
        best, tokens = top(log_probs, min(count, self._model.weights.sizes.vocab_true))  # (R, C)
        return best, tokens, (state.sums[:, :, None] + best.view(batch, width, -1)).flatten(1)

    def _note(self, tokens: Tensor, parents: Tensor, log_probs: Tensor) -> None:
        noted = torch.stack([tokens.int(), parents.int(), log_probs.view(torch.int32)])
        self._state.log.index_copy_(0, self._state.step, noted.view(1, 3, -1))

    def _close(self, sums: Tensor, tokens: Tensor) -> None:
        """Set aside hypotheses that ended, and sentences whose best can no longer be beaten."""
        state, width = self._state, self._bucket.width
        was_running = state.running > 0
        at_limit = (state.step + 1 >= state.limits)[:, None]
        ended = (sums > -torch.inf) & ((tokens == EOS) | at_limit) & was_running[:, None]
        scores = sums / state.penalties.index_select(0, state.step)
        score, slot = scores.masked_fill(~ended, -torch.inf).max(dim=1)
        better = score > state.best
        state.best.copy_(torch.where(better, score, state.best))
        state.best_at.copy_(torch.where(better, state.step * width + slot, state.best_at))
        state.sums.copy_(sums.masked_fill(ended, -torch.inf))
        running = was_running & (state.sums.amax(dim=1) / state.largest > state.best)
        state.end.copy_(torch.where(was_running, state.step + 1, state.end))
        state.running.copy_(running)
        state.n_running.index_copy_(0, state.step, running.sum(dtype=torch.int32)[None])

    def _fill(self, sources: Sequence[Sequence[int]], limits: Ints, alpha: float) -> None:
        """Write sources and bounds on the host; places without a sentence end at once."""
        host, count = self._host, len(sources)
        self._fill_sources(sources)
        host["limits"][:] = 1
        host["n_running"][:], host["best_at"][:], host["end"][:] = 0, 0, 0
        host["limits"][:count] = limits
        host["largest"][:] = self._penalty(host["limits"], alpha)
        host["penalties"][:] = self._penalty(np.arange(1, self._bucket.steps + 1), alpha)

    def _collect(self, taken: int, count: int) -> list[Decoded]:
        """Read the log and follow the best hypothesis of each sentence back to its beginning."""
        log = self._host["log"][:taken].reshape(taken, 3, self._bucket.batch, self._bucket.width)
        best_at, ends = self._host["best_at"], self._host["end"]
        tokens, log_probs = trails(best_at[:count], log[:, :, :count])
        lengths = (best_at[:count] // self._bucket.width + 1).tolist()
        listed = zip(tokens.tolist(), log_probs.tolist(), lengths, ends.tolist(), strict=False)
        return [Decoded([ids[:n]], [scores[:n]], end) for ids, scores, n, end in listed]

    def _fields(self, bucket: Bucket, dtype: torch.dtype) -> Fields:
        """Say what changes from step to step, and what bounds it."""
        batch, _, width, room = bucket
        sums = torch.float64
        return {
            "limits": Field((batch,)),
            "largest": Field((batch,), sums),  # the penalty at the limit
            "penalties": Field((bucket.steps,), sums),  # of each step
            "sums": Field((batch, width), sums),  # -inf where there is no hypothesis
            "tokens": Field((batch * width,)),  # the newest of each hypothesis
            "step": Field((1,)),
            "rows": Field((width,)),  # places of the newest rows in the cache
            "running": Field((batch,), torch.int32),
            "best": Field((batch,), sums),  # score of the best finished hypothesis
            # 0 where a row is the hypothesis' own or an ancestor's, -inf elsewhere
            "row_mask": Field((batch, width, mask_width(room, width)), dtype),
        }

    def _results(self, bucket: Bucket) -> tuple[Fields, Fields]:
        """Say what the host sets and reads, and what it only reads."""
        both = {
            "n_running": Field((bucket.steps,), torch.int32),  # how many sentences go on after each step
            "best_at": Field((bucket.batch,)),  # step * W + slot of the best finished hypothesis
            "end": Field((bucket.batch,)),  # the step that was a sentence's last
        }
        return both, {"log": Field((bucket.steps, 3, bucket.batch * bucket.width), torch.int32)}

    def _penalty(self, lengths: Ints, alpha: float) -> NDArray[np.float64]:
        return penalty(lengths, alpha)


def trails(best_at: Ints, log: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Walk from each hypothesis' last token to its first; the log is (T, 3, B, W), what comes back (B, T)."""
    last, slots = np.divmod(best_at, log.shape[3])
    lines = np.arange(len(best_at))
    trails = np.zeros((len(log), 3, len(best_at)), dtype=np.int32)
    for step in range(len(log) - 1, -1, -1):
        trails[step] = log[step][:, lines, slots]
        slots = np.where(step <= last, trails[step, 1], slots)  # the parent's; it has not begun where it ended before
    return trails[:, 0].T, np.ascontiguousarray(trails[:, 2].T).view(np.float32)
