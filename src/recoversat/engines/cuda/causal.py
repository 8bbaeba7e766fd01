"""One segment, several rows at once: given tokens are scored, or a draft is verified, in one pass over static buffers.

Every row sees the rows before it. A pass has as many rows as its bucket, those without a token too: no row of a later
pass sees them, and its rows take their places. B sentences, S source, N rows a pass, R = B * N, M cache rows.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import numpy as np
import torch

from recoversat.decoding.stepping import Floats, Ints
from recoversat.engines.cuda.capture import Capturer
from recoversat.engines.cuda.model import GraphModel
from recoversat.engines.cuda.session import Bucket, Session
from recoversat.engines.cuda.state import Field
from recoversat.vocab import BOS, EOS, PAD


class GraphVerifier:
    """One sentence as K = 1 writes it, in a session of batch 1.

    Others may use the session between two passes, as a server does for a short request, or it may be dropped: then the
    source is encoded and the rows are run again.
    """

    def __init__(
        self, session: "Callable[[], AbstractContextManager[CausalSession]]", ahead: int, source: Sequence[int]
    ) -> None:
        self._session, self._source, self.ahead, self.most = session, source, ahead, ahead
        self._rows: list[int] = []

    def verify(self, tokens: Sequence[int], scores: bool) -> tuple[Ints, Floats]:
        return self.compare(tokens)[:2]

    def compare(self, tokens: Sequence[int]) -> tuple[Ints, Floats, Floats]:
        with self._session() as session:
            if session.user is not self:
                session.begin([self._source], self)
                for at in range(0, len(self._rows), self.ahead + 1):
                    session.compare(self._rows[at : at + self.ahead + 1], at)
            found = session.compare(tokens, len(self._rows))
        self._rows += tokens
        return found

    def forget(self, rows: int) -> None:
        del self._rows[rows:]


class CausalSession(Session):
    """Runs as many rows of every sentence as its bucket has."""

    def __init__(self, model: GraphModel, capturer: Capturer, bucket: Bucket) -> None:
        batch, _, n_rows, room = bucket
        fields = {
            "tokens": Field((batch, n_rows)),
            "labels": Field((batch, n_rows)),
            "rows": Field((n_rows,)),
            "row_mask": Field((1, n_rows, room), model.weights.dtype),
        }
        found = {"found": Field((3, batch * n_rows), torch.float32)}
        super().__init__(model, capturer, bucket, model.weights.row_positions(room, 1), fields, {}, found)
        self._encoded = False
        self.user: object = None  # whose rows lie in the cache

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Return the log-probability of each token of each target, and of the end after it."""
        self.begin(sources)
        tokens, labels = self._host["tokens"], self._host["labels"]
        tokens[:], labels[:] = PAD, PAD
        for line, target in enumerate(targets):
            tokens[line, : len(target) + 1] = BOS, *target
            labels[line, : len(target) + 1] = *target, EOS
        _, _, given = self._pass(0)
        return [line[: len(target) + 1].tolist() for line, target in zip(given, targets, strict=False)]

    def begin(self, sources: Sequence[Sequence[int]], user: object = None) -> None:
        """Take sources, which the next pass encodes; nothing is written of their translations."""
        self.user = user
        self._fill_sources(sources)
        self._encoded = False

    def compare(self, tokens: Sequence[int], seen: int) -> tuple[Ints, Floats, Floats]:
        """Put a row for each token after the first `seen` rows; return what `decoding.verify.Verifier` asks for."""
        n = len(tokens)
        self._host["tokens"][0, :n], self._host["labels"][0, : n - 1] = tokens, tokens[1:]
        chosen, best, given = self._pass(seen)
        return chosen[0, :n].astype(np.int64), best[0, :n], given[0, : n - 1]

    def _pass(self, seen: int) -> Floats:
        """Run the rows that lie in the buffers, after `seen` others; (3, B, N) as `_run_step` notes it."""
        rows, room = self._host["rows"], self._bucket.room
        rows[:] = np.arange(seen, seen + len(rows))
        self._host["row_mask"][0] = np.where(np.arange(room) <= rows[:, None], 0, self._hidden)
        self._arena.upload()
        self._replay(not self._encoded, 1, room, False)
        self._encoded = True
        self._arena.fetch()
        return self._host["found"].reshape(3, self._bucket.batch, -1).copy()

    def _run_step(self, n_seen: int, _special: bool) -> None:
        """Note the likeliest token of each row, its log-probability, and that of its label."""
        tensors = self._tensors
        hidden = self._layers.hidden(tensors["tokens"].view(-1), self._rows, n_seen, self._memory)
        log_probs = self._model.logits(hidden, single=True).log_softmax(dim=-1, dtype=torch.float32)  # (R, V)
        best, tokens = log_probs.max(dim=-1)
        given = log_probs.gather(-1, tensors["labels"].view(-1, 1))[:, 0]
        tensors["found"].copy_(torch.stack([tokens.float(), best, given]))  # ids below 2 ** 24 are exact
