"""Verify a draft with the model itself: several rows of one segment at once, after those in the cache.

N rows, V vocabulary.
"""

from collections.abc import Sequence

import torch

from recoversat.decoding.stepping import Floats, Ints
from recoversat.decoding.verify import AHEAD
from recoversat.model.transformer import DecoderCache, Transformer
from recoversat.vocab import DEL, NEVER_EMITTED


class TorchVerifier:
    """One sentence as K = 1 writes it."""

    ahead = AHEAD

    def __init__(self, model: Transformer, cache: DecoderCache) -> None:
        self._model, self._cache = model, cache

    @torch.inference_mode()
    def verify(self, tokens: Sequence[int], scores: bool) -> tuple[Ints, Floats]:
        """Run a row for each token; each sees those before it."""
        rows = torch.tensor([tokens], device=self._cache.real.device)
        logits = self._model.logits(self._model.append(rows, self._cache))[0]  # (N, V)
        logits[:, [*NEVER_EMITTED, DEL]] = -torch.inf
        log_probs, chosen = logits.log_softmax(dim=-1, dtype=torch.float32).max(dim=-1)
        return chosen.cpu().numpy(), log_probs.cpu().numpy()

    def forget(self, rows: int) -> None:
        """Keep the first rows."""
        self._cache.forget(rows)
