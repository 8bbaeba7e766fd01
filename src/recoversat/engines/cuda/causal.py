"""One segment, several rows at once: given tokens are scored, or a draft is verified, in one pass over static buffers.

Every row sees the rows before it. A pass has as many rows as its bucket, those without a token too: no row of a later
pass sees them, and its rows take their places. B sentences, S source, N rows a pass, R = B * N, M cache rows.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch

from recoversat.decoding.stepping import Floats, Ints
from recoversat.engines.cuda.capture import Capturer, Graphs
from recoversat.engines.cuda.model import GraphModel, Rows
from recoversat.engines.cuda.segments import fill_sources
from recoversat.engines.cuda.state import Arena, Field, hidden
from recoversat.vocab import BOS, EOS, PAD


@dataclass(frozen=True)
class CausalBucket:
    """Sizes that a set of graphs is made for."""

    batch: int
    source: int
    rows: int
    room: int  # cache rows: a multiple of 64


class GraphVerifier:
    """One sentence as K = 1 writes it, in a session of batch 1.

    Others may use the session between two passes, as a server does for a short request, or it may be dropped: then the
    source is encoded and the rows are run again.
    """

    def __init__(
        self, session: "Callable[[], AbstractContextManager[CausalSession]]", ahead: int, source: Sequence[int]
    ) -> None:
        self._session, self._source, self.ahead = session, source, ahead
        self._rows: list[int] = []

    def verify(self, tokens: Sequence[int], scores: bool) -> tuple[Ints, Floats]:
        """Run a row for each token; each sees those before it."""
        with self._session() as session:
            if session.user is not self:
                session.begin([self._source], self)
                for at in range(0, len(self._rows), self.ahead + 1):
                    session.verify(self._rows[at : at + self.ahead + 1], at)
            found = session.verify(tokens, len(self._rows))
        self._rows += tokens
        return found

    def forget(self, rows: int) -> None:
        """Keep the first rows."""
        del self._rows[rows:]


class CausalSession:
    """The buffers and graphs of one bucket."""

    def __init__(self, model: GraphModel, capturer: Capturer, bucket: CausalBucket) -> None:
        self._model, self._bucket = model, bucket
        weights, device = model.weights, model.weights.device
        self._arena = Arena(_fields(bucket, weights.dtype), device)
        tensors = self._arena.device
        self._hidden = hidden(weights.dtype)
        self._memory = model.new_memory(bucket.batch, bucket.source, tensors["source_mask"])
        self._source_positions = weights.source_positions(bucket.source)
        caches, positions = model.new_caches(bucket.batch, bucket.room), weights.row_positions(bucket.room, 1)
        self._rows = Rows(caches, positions, tensors["newest"], tensors["row_mask"])
        self._found = torch.zeros((3, bucket.batch * bucket.rows), device=device)
        self._graphs = Graphs(capturer, self._arena.memory, self._run_encoder, self._run_pass, bucket.room)
        self._order = np.arange(bucket.rows)
        self._encoded = False
        self.user: object = None  # whose rows lie in the cache

    def drop(self) -> None:
        """Let go of the graphs; the session is not used again."""
        self._graphs.drop()

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Return the log-probability of each token of each target, and of the end after it."""
        self.begin(sources)
        tokens, labels = self._arena.host["tokens"], self._arena.host["labels"]
        tokens[:], labels[:] = PAD, PAD
        for line, target in enumerate(targets):
            tokens[line, : len(target) + 1] = BOS, *target
            labels[line, : len(target) + 1] = *target, EOS
        _, _, given = self._pass(0)
        return [line[: len(target) + 1].tolist() for line, target in zip(given, targets, strict=False)]

    def begin(self, sources: Sequence[Sequence[int]], user: object = None) -> None:
        """Take sources, which the next pass encodes; nothing is written of their translations."""
        self.user = user
        fill_sources(sources, self._arena.host["src"], self._arena.host["source_mask"], self._hidden)
        self._encoded = False

    def verify(self, tokens: Sequence[int], seen: int) -> tuple[Ints, Floats]:
        """Put a row for each token after the first `seen` rows; return what is likeliest after each, and how likely."""
        self._arena.host["tokens"][0, : len(tokens)] = tokens
        chosen, best, _ = self._pass(seen)
        return chosen[0, : len(tokens)].astype(np.int64), best[0, : len(tokens)]

    def _pass(self, seen: int) -> Floats:
        """Run the rows that lie in the buffers, after `seen` others; (3, B, N) as `_run_pass` notes it."""
        host = self._arena.host
        host["newest"][:] = seen + self._order
        host["row_mask"][0] = np.where(np.arange(self._bucket.room) <= host["newest"][:, None], 0, self._hidden)
        self._arena.upload()
        if not self._encoded:
            self._graphs.encode()
            self._encoded = True
        self._graphs.take_steps(1, 2, self._bucket.room, self._found)
        return self._found.cpu().numpy().reshape(3, self._bucket.batch, -1)

    def _run_encoder(self) -> None:
        self._model.encode(self._arena.device["src"], self._source_positions, self._memory)

    def _run_pass(self, n_seen: int, _special: bool) -> None:
        """Note the likeliest token of each row, its log-probability, and that of its label."""
        tensors = self._arena.device
        hidden = self._model.step(tensors["tokens"].view(-1), self._rows, n_seen, self._memory)
        log_probs = self._model.logits(hidden, single=True).log_softmax(dim=-1, dtype=torch.float32)  # (R, V)
        best, tokens = log_probs.max(dim=-1)
        given = log_probs.gather(-1, tensors["labels"].view(-1, 1))[:, 0]
        self._found.copy_(torch.stack([tokens.float(), best, given]))  # ids below 2 ** 24 are exact


def _fields(bucket: CausalBucket, dtype: torch.dtype) -> dict[str, Field]:
    rows, integers = (bucket.batch, bucket.rows), torch.int64
    return {
        "src": Field((bucket.batch, bucket.source), integers),
        "tokens": Field(rows, integers),
        "labels": Field(rows, integers),
        "newest": Field((bucket.rows,), integers),
        "source_mask": Field((bucket.batch, bucket.source), dtype),
        "row_mask": Field((1, bucket.rows, bucket.room), dtype),
    }
