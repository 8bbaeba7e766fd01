"""Shortlists: a step chooses among the pieces that a translation of these sources can hold, not the whole vocabulary.

B sentences, L places of a list, N rows of a step, D model, V vocabulary, P padded vocabulary, T directions.
A table made from pairs of text (`export/shortlist.py`) says which pieces those are. The part of the output matrix that
belongs to them is cut out once for a batch. A sentence chooses from its own list, whatever its neighbours need.

What one sentence wrote from its list is verified: the rows of all its steps meet the whole vocabulary in one product.
"""

from collections.abc import Callable, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recoversat.decoding.segmentwise import Decoded, Forced
from recoversat.decoding.stepping import FREE, Bools, Floats, Ints
from recoversat.engines.vocabulary import TABLE, Shortlist
from recoversat.vocab import PAD

# beside step.onnx (see export/onnx_shortlist.py)
LISTED_STEP, LISTED_SENTENCE, ROWS, CHOOSE = "step_listed.onnx", "sentence_listed.onnx", "rows.onnx", "choose.onnx"
GRAPHS = (LISTED_STEP, LISTED_SENTENCE, ROWS, CHOOSE)
_BLOCK = 128  # the graph finds the best token block by block

Inputs = dict[str, NDArray[Any]]


class Vocabulary:
    """What a step chooses from: arrays for the graph, and ids for the places it names. Here all: a place is an id."""

    def __init__(self, inputs: Inputs) -> None:
        """Take the inputs that are the same in every step; `bias` (P,) is added to the logits."""
        self.inputs = inputs

    @cached_property
    def pieces(self) -> Ints:
        """The piece at each place."""
        return np.arange(len(self.inputs["bias"]))

    def rows(self, sentences: Ints, counts: Ints) -> Inputs:
        """Return the inputs that depend on whose each row is: sentences[b] has counts[b] of them."""
        return {}

    def ids(self, places: Ints) -> Ints:
        """Return the pieces at these places."""
        return places

    def places(self, ids: Ints) -> Ints:
        """Return where these pieces are; FREE stays FREE."""
        return ids

    def only(self, allowed: Bools) -> "Vocabulary":
        """Return the same without pieces that are not allowed (V,)."""
        bias = self.inputs["bias"].copy()
        bias[: len(allowed)][~allowed] = -np.inf
        return Vocabulary(self.inputs | {"bias": bias})


class Listed(Vocabulary):
    """The lists of a batch, put together: the first pieces (l,) are real, the others fill the last block."""

    def __init__(self, inputs: Inputs, pieces: Ints, bias: Floats) -> None:
        """Take the pieces in ascending order (L,) and what is added to their logits in each sentence (B, L)."""
        super().__init__(inputs | {"listed": np.ones(1, dtype=np.bool_), "list_bias": bias[:1]})
        self.pieces, self._bias = pieces, bias

    def rows(self, sentences: Ints, counts: Ints) -> Inputs:
        return {"list_bias": self._bias[np.repeat(sentences, counts)]} if len(self._bias) > 1 else {}

    def ids(self, places: Ints) -> Ints:
        return self.pieces[places]

    def places(self, ids: Ints) -> Ints:
        return np.where(ids == FREE, FREE, np.searchsorted(self.pieces, ids))

    def only(self, allowed: Bools) -> "Listed":
        bias = self._bias.copy()
        bias[:, : len(self.pieces)][:, ~allowed[self.pieces]] = -np.inf
        return Listed(self.inputs, self.pieces, bias)


class Lists:
    """A table, the graph that cuts rows out of the output matrix, and the one that chooses from all of it."""

    def __init__(self, table: Shortlist, rows: Any, choose: Callable[[], Any]) -> None:
        self._table, self._rows, self._choose = table, rows, cache(choose)
        shapes = {value.name: value.shape for value in rows.get_outputs()}
        self._quantised = "scale" in shapes
        d_model = shapes["weight"][0 if self._quantised else 1]
        weight: NDArray[Any] = (
            np.zeros((d_model, 1), np.int8) if self._quantised else np.zeros((1, d_model), np.float32)
        )
        self.unlisted: Inputs = {"listed": np.zeros(1, dtype=np.bool_), "list_bias": np.zeros((1, 1), np.float32)}
        self.unlisted |= self._named(weight, np.zeros(1, dtype=np.float32))

    def cut(
        self, sources: Sequence[Sequence[int]], bias: Floats, forced: Sequence[Forced] | None = None
    ) -> Listed | None:
        """Return what these sources can become; None where that may be almost anything."""
        members = self._table.members(sources, forced)  # (B, V)
        too_long = self._table.is_too_long(members)  # (B,) says a sentence by itself, not its batch
        if too_long.all():
            return None
        members[too_long] = True
        pieces = np.flatnonzero(members.any(axis=0))
        size = -(-len(pieces) // _BLOCK) * _BLOCK
        biases: Floats = np.full((len(sources), size), -np.inf, dtype=np.float32)
        biases[:, : len(pieces)] = np.where(members[:, pieces], bias[pieces], -np.inf)
        weight, *scale = self._rows.run(None, {"ids": np.pad(pieces, (0, size - len(pieces)), constant_values=PAD)})
        return Listed(self._named(weight, *scale) | {"bias": bias}, pieces, biases)

    def verified(self, written: Decoded, hidden: Floats, bias: Floats, scores: bool) -> Decoded | None:
        """Return what was written, with the scores of the whole vocabulary; None where that has a better piece.

        `hidden` (R, D) are the rows of the last layer, step by step, as they were made.
        """
        chosen, log_probs = self._choose().run(
            ["chosen", "log_probs"],
            {
                "hidden": hidden,
                "bias": bias,
                "wanted": np.full((len(hidden), 1), FREE),
                "scored": np.array([scores]),
                "n_best": np.zeros(1, dtype=np.int64),
            },
        )
        if chosen[:, 0].tolist() != [written.segments[segment][step] for step, segment in _rows(written)]:
            return None
        if scores:
            note_scores(written, log_probs[:, 0])
        return written

    def _named(self, weight: NDArray[Any], scale: Floats | None = None) -> Inputs:
        return {"list_weight": weight} | ({"list_scale": scale} if self._quantised and scale is not None else {})


def note_scores(written: Decoded, log_probs: Floats) -> None:
    """Give each token its log-probability; they come step by step (R,)."""
    for (_, segment), value in zip(_rows(written), log_probs.tolist(), strict=True):
        written.log_probs[segment].append(value)


def _rows(written: Decoded) -> list[tuple[int, int]]:
    """Return (step, segment) of all rows, in the order in which they were made."""
    return sorted((step, segment) for segment, ids in enumerate(written.segments) for step in range(len(ids)))


def open_lists(folder: Path, vocab_size: int, session: Callable[[Path], Any]) -> Lists | None:
    """Open the lists of an exported model, where it has some; several graphs belong to them."""
    table = folder.parent / TABLE
    if not table.is_file() or not all((folder / name).is_file() for name in GRAPHS):
        return None
    return Lists(Shortlist.load(table, vocab_size), session(folder / ROWS), partial(session, folder / CHOOSE))
