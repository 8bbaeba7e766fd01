"""The beam search of Hugging Face's transformers in one bucket of sizes: the same as `decoding.search_as_transformers`.

A hypothesis that ends takes no place: what is noted of the best is its parent, its last token and that one's
log-probability.

B sentences, W beam, R = B * W, C candidates a hypothesis.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Ints
from recoversat.engines.cuda.beam import BeamSession, trails
from recoversat.engines.cuda.capture import Capturer
from recoversat.engines.cuda.model import GraphModel
from recoversat.engines.cuda.session import Bucket
from recoversat.engines.cuda.state import Field, Fields
from recoversat.vocab import EOS


class TransformersBeamSession(BeamSession):
    """Keeps W open hypotheses of every sentence, and the scores of the W best that have ended."""

    def __init__(self, model: GraphModel, capturer: Capturer, bucket: Bucket) -> None:
        super().__init__(model, capturer, bucket)
        self._host["finished"][:] = -np.inf

    def _run_step(self, n_seen: int, special: bool) -> None:
        state, (batch, width) = self._state, self._state.sums.shape
        best, tokens, sums = self._candidates(n_seen, 2 * width)
        ranked = sums.sort(dim=1, descending=True, stable=True).indices[:, : 2 * width]  # (B, 2 * W)
        parents = torch.div(ranked, best.shape[-1], rounding_mode="floor")
        chosen, log_probs = (x.view(batch, -1).gather(1, ranked) for x in (tokens, best))
        sums = sums.gather(1, ranked)
        at_limit = (state.step + 1 >= state.limits)[:, None]
        ended = (sums > -torch.inf) & ((chosen == EOS) | at_limit)
        was_running = state.running > 0
        self._finish(sums, ended & was_running[:, None], chosen, parents, log_probs)
        still_open = sums.masked_fill(ended, -torch.inf)
        kept = still_open.sort(dim=1, descending=True, stable=True).indices[:, :width]
        chosen, parents, log_probs, sums = (x.gather(1, kept) for x in (chosen, parents, log_probs, still_open))
        self._note(chosen, parents, log_probs)
        state.tokens.copy_(chosen.view(-1))
        state.row_mask.copy_(state.row_mask.gather(1, parents[:, :, None].expand_as(state.row_mask)))
        state.sums.copy_(sums)
        hopes = sums[:, 0] / state.penalties.index_select(0, state.step)
        running = was_running & (sums[:, 0] > -torch.inf) & (hopes > state.finished[:, -1])
        state.end.copy_(torch.where(was_running, state.step + 1, state.end))
        state.running.copy_(running)
        state.n_running.index_copy_(0, state.step, running.sum(dtype=torch.int32)[None])
        state.rows.add_(width)
        state.step.add_(1)

    def _finish(self, sums: Tensor, ended: Tensor, tokens: Tensor, parents: Tensor, log_probs: Tensor) -> None:
        """Note the best of those that ended among the W best candidates, and all their scores."""
        state, width = self._state, self._bucket.width
        scores = (sums / state.penalties.index_select(0, state.step)).masked_fill(~ended, -torch.inf)[:, :width]
        score, slot = scores.max(dim=1, keepdim=True)
        better = score[:, 0] > state.best
        parent, token, log_prob = (x.gather(1, slot)[:, 0] for x in (parents, tokens, log_probs))
        for noted, new in (
            (state.best, score[:, 0]), (state.best_at, (state.step - 1) * width + parent), (state.last_token, token),
            (state.last_log_prob, log_prob),
        ):  # fmt: skip
            noted.copy_(torch.where(better, new, noted))
        state.finished.copy_(torch.cat([state.finished, scores], dim=1).topk(width, dim=1).values)

    def _collect(self, taken: int, count: int) -> list[Decoded]:
        """Follow the parent of each sentence's best hypothesis back to its beginning, and add the last token."""
        host, width = self._host, self._bucket.width
        log = host["log"][:taken].reshape(taken, 3, self._bucket.batch, width)
        best_at = host["best_at"][:count]
        tokens, log_probs = trails(best_at, log[:, :, :count])
        lasts = zip(host["last_token"].tolist(), host["last_log_prob"].tolist(), strict=True)
        found = []
        for ids, scores, n, (token, log_prob), end in zip(
            tokens.tolist(), log_probs.tolist(), (best_at // width + 1).tolist(), lasts, host["end"].tolist(),
            strict=False,
        ):  # fmt: skip
            found.append(Decoded([[*ids[:n], token]], [[*scores[:n], log_prob]], end))
        return found

    def _fields(self, bucket: Bucket, dtype: torch.dtype) -> Fields:
        return super()._fields(bucket, dtype) | {"finished": Field((bucket.batch, bucket.width), torch.float64)}

    def _results(self, bucket: Bucket) -> tuple[Fields, Fields]:
        both, found = super()._results(bucket)
        last = {"last_token": Field((bucket.batch,)), "last_log_prob": Field((bucket.batch,), torch.float32)}
        return both | last, found

    def _penalty(self, lengths: Ints, alpha: float) -> NDArray[np.float64]:
        return np.asarray(lengths**alpha, dtype=np.float64)
