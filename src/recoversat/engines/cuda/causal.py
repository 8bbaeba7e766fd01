"""One segment, several rows at once: given tokens are scored, or a draft is verified, in one pass over static buffers.

Every row sees the rows before it. A pass has as many rows as one of a few graphs, those without a token too: no row of
a later pass sees them, and its rows take their places. A source that is encoded already, as that of a draft is, is not
encoded again. B sentences, S source, N rows a pass, R = B * N, M cache rows.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

import numpy as np
import torch

from recoversat.decoding.stepping import Floats, Ints
from recoversat.engines.cuda.capture import Capturer
from recoversat.engines.cuda.model import GraphModel
from recoversat.engines.cuda.session import Bucket, Session
from recoversat.engines.cuda.state import Field, rung
from recoversat.vocab import BOS, EOS, PAD

_ROWS = (16, 32)  # of passes over a few tokens of one sentence


class GraphVerifier:
    """One sentence as K = 1 writes it, in a session of batch 1.

    Others may use the session between two passes, as a server does for a short request, or it may be dropped: then the
    rows are run again.
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
    """Runs as many rows of every sentence as its bucket has; of one sentence fewer, where fewer are asked for."""

    def __init__(self, model: GraphModel, capturer: Capturer, bucket: Bucket) -> None:
        batch, source, n_rows, room = bucket
        fields = {
            "tokens": Field((batch, n_rows)),
            "labels": Field((batch, n_rows)),
            "rows": Field((n_rows,)),
            "row_mask": Field((1, n_rows, room), model.weights.dtype),
        }
        found = {"found": Field((3, batch * n_rows), torch.float32)}
        super().__init__(model, capturer, bucket, model.weights.row_positions(room, 1), fields, {}, found)
        widths = {n_rows, *(few for few in _ROWS if batch == 1 and few < n_rows)}
        self._layers_of = {width: model.layers(batch, width, source) for width in sorted(widths)}
        rows = np.arange(room)
        seen = np.where(rows <= rows[:, None], 0, self._hidden)  # by each row of the cache
        self._seen = seen.astype(self._host["row_mask"].dtype)
        self.user: object = None  # whose rows lie in the cache

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Return the log-probability of each token of each target, and of the end after it."""
        self.begin(sources)
        tokens, labels = self._host["tokens"], self._host["labels"]
        tokens[:], labels[:] = PAD, PAD
        for line, target in enumerate(targets):
            tokens[line, : len(target) + 1] = BOS, *target
            labels[line, : len(target) + 1] = *target, EOS
        _, _, given = self._pass(self._bucket.width, 0)
        return [line[: len(target) + 1].tolist() for line, target in zip(given, targets, strict=False)]

    def begin(self, sources: Sequence[Sequence[int]], user: object = None) -> None:
        """Take sources; nothing is written of their translations."""
        self.user = user
        self._fill_sources(sources)

    def compare(self, tokens: Sequence[int], seen: int) -> tuple[Ints, Floats, Floats]:
        """Put a row for each token after the first `seen` rows; return what `decoding.verify.Verifier` asks for."""
        n = len(tokens)
        self._host["tokens"][0, :n], self._host["labels"][0, : n - 1] = tokens, tokens[1:]
        chosen, best, given = self._pass(next(width for width in self._layers_of if width >= n), seen)
        return chosen[0, :n].astype(np.int64), best[0, :n], given[0, : n - 1]

    def _pass(self, n_rows: int, seen: int) -> Floats:
        """Run the first rows that lie in the buffers, after `seen` others; (3, B, N) as `_run` notes it."""
        self._host["rows"][:n_rows] = np.arange(seen, seen + n_rows)
        self._host["row_mask"][0, :n_rows] = self._seen[seen : seen + n_rows]
        n_seen = min(rung(seen + n_rows, self._layers_of[n_rows].ladder), self._bucket.room)
        self._arena.upload()
        self._replay(self._run, self._encoded.of != self._to_read, n_rows, n_seen)
        self._arena.fetch()
        return self._host["found"].reshape(3, self._bucket.batch, -1).copy()

    def _run(self, encode: bool, n_rows: int, n_seen: int) -> None:
        """Note the likeliest token of each row, its log-probability, and that of its label."""
        if encode:
            self._run_encoder()
        model, layers = self._model, self._layers_of[n_rows]
        tokens, labels = (self._tensors[name][:, :n_rows].reshape(-1) for name in ("tokens", "labels"))
        rows = replace(self._rows, newest=self._rows.newest[:n_rows], mask=self._rows.mask[:, :n_rows])
        hidden = layers.hidden(tokens, rows, n_seen, self._memory)
        model.ops.judge(model.logits(hidden, single=True), labels, self._tensors["found"][:, : len(labels)])
