from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float32]
_Ids = NDArray[np.int32]

class ModelError(ValueError): ...

def kits() -> list[str]: ...
def time_product(kit: str, inputs: int, outputs: int, rows: int, rounds: int) -> float: ...

class Model:
    def __init__(
        self, kit: str, tensors: Mapping[str, NDArray[Any]], *, d_model: int, d_hidden: int, n_heads: int,
        encoder_layers: int, decoder_layers: int, pieces: int, segments: int,
    ) -> None: ...  # fmt: skip

class KVCache:
    def __init__(self, model: Model) -> None: ...
    def copy(self) -> KVCache: ...

class Sentence:
    def __init__(
        self, source: Sequence[int], max_steps: Sequence[int], bias: _Floats, first_bias: _Floats,
        source_cache: KVCache | None,
    ) -> None: ...  # fmt: skip
    @property
    def longest(self) -> int: ...
    @property
    def segments(self) -> list[list[int]]: ...
    @property
    def log_probs(self) -> list[list[float]]: ...
    @property
    def steps(self) -> int: ...

class Shortlist:
    def __init__(
        self, likeliest: _Ids, tags: _Ids, common: NDArray[np.uint64], allowed: NDArray[np.uint64]
    ) -> None: ...
    def find(self, source: Sequence[int], forced: Sequence[int]) -> list[int]: ...

class Verify(Enum):
    NO = 0
    YES = 1
    TIME_ONLY = 2

class Decoder:
    def __init__(self, model: Model) -> None: ...
    def encode(self, source: Sequence[int], positions: _Floats) -> KVCache: ...
    def begin(
        self, sentences: Sequence[Sentence], positions: _Floats, shortlist: Shortlist | None, scores: bool,
        max_rows: int, max_bytes: int, verify: Verify,
    ) -> None: ...  # fmt: skip
    def advance(self, steps: int) -> int: ...
    def rows(
        self, sources: Sequence[KVCache], written: Sequence[KVCache], kept: Sequence[int], counts: Sequence[int],
        tokens: Sequence[int], segments: Sequence[int], positions: _Floats, causal: bool, biases: Sequence[_Floats],
        best: _Ids, log_probs: _Floats | None, logits: _Floats | None, labels: Sequence[int] | None,
        label_log_probs: _Floats | None,
    ) -> None: ...  # fmt: skip
