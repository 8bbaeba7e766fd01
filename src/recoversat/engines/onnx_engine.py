"""The fast CPU engine: the two exported graphs on ONNX Runtime; torch is neither imported nor needed.

B sentences, S source, K segments, L decoder layers, H heads, E = D / H, D model, P padded vocabulary.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from recoversat.config import ModelConfig
from recoversat.decoding.stepping import Floats, Ints, Stepper
from recoversat.engines.engine import pad_sources
from recoversat.engines.onnx_stepper import Binding, OnnxStepper, Positions, layer_names
from recoversat.engines.split_stepper import SplitStepper
from recoversat.errors import UserError
from recoversat.vocab import DEL, NEVER_EMITTED

_ROWS = 128  # rows a step: more gain nothing, but their scores (rows * vocabulary) fall out of the caches


class OnnxEngine:
    """Decode with the graphs that `export_model` wrote.

    `threads` bounds the processor cores used (1 is best for single sentences). `max_memory`, in bytes, bounds
    what decoding needs beside the weights: a batch that needs more is decoded in parts, one sentence at least.
    int8 rows share one scale in a product, so neighbours in a batch may move a score in its last digits.
    """

    def __init__(self, folder: Path, config: ModelConfig, threads: int = 1, max_memory: int | None = None) -> None:
        self._config, self._max_memory = config, max_memory
        self._encoder = _session(folder / "encoder.onnx", threads)
        self._step = _session(folder / "step.onnx", threads)
        size = next(value.shape[0] for value in self._step.get_inputs() if value.name == "bias")
        assert config.vocab_size is not None
        self._bias: Floats = np.zeros(size, dtype=np.float32)
        self._bias[[*NEVER_EMITTED, *range(config.vocab_size, size)]] = -np.inf
        self._single_bias = self._bias.copy()
        self._single_bias[DEL] = -np.inf  # one segment has nothing to delete
        self._positions = Positions(config.d_model)

    @property
    def max_segments(self) -> int:
        return self._config.max_segments

    def start(self, sources: Sequence[Sequence[int]], n_segments: Ints) -> Stepper:
        """Encode the sources and project them for every decoder layer."""
        single = np.asarray(n_segments) == 1
        parts = [
            (self._start([sources[place] for place in places], int(n_segments[places].max())), places)
            for group in (np.flatnonzero(~single), np.flatnonzero(single))
            for places in self._parts(sources, n_segments, group)
        ]
        return parts[0][0] if len(parts) == 1 else SplitStepper(parts)

    def _parts(self, sources: Sequence[Sequence[int]], n_segments: Ints, group: Ints) -> list[Ints]:
        """Cut a group of sentences into parts that stay within the bounds on rows and memory."""
        if not len(group):
            return []
        widest = int(n_segments[group].max())
        at_once = max(1, _ROWS // widest)
        if self._max_memory is not None:
            longest = max(len(sources[place]) for place in group)
            at_once = min(at_once, max(1, self._max_memory // self._bytes_needed(longest, widest)))
        return [group[start : start + at_once] for start in range(0, len(group), at_once)]

    def _bytes_needed(self, length: int, n_segments: int) -> int:
        """Estimate from above what one sentence needs: scores, caches, and rows inside the graphs."""
        config = self._config
        scores = 3 * n_segments * len(self._bias)
        caches = 2 * config.decoder_layers * config.d_model * (3 * (length + 2 * n_segments) + length)
        inside = 8 * max(length, n_segments) * max(config.d_model, config.d_hidden)
        return 4 * (scores + caches + inside + config.n_heads * length * length)

    def _start(self, sources: Sequence[Sequence[int]], n_segments: int) -> "OnnxStepper":
        config = self._config
        tokens = pad_sources(sources)  # (B, S)
        batch, length = tokens.shape
        heads = config.n_heads
        lengths = np.array([len(source) for source in sources], dtype=np.int32)
        shape = (2 * config.decoder_layers, batch, heads, length, config.d_model // heads)
        memory: Floats = np.empty(shape, dtype=np.float32)  # keys and values of all layers in one block
        binding = Binding(self._encoder)
        binding.inputs({"tokens": tokens, "positions": self._positions.first(length)[None], "lengths": lengths})
        binding.outputs(dict(zip(layer_names("memory_", config.decoder_layers), memory, strict=True)))
        binding.run()
        bias = self._single_bias if n_segments == 1 else self._bias
        return OnnxStepper(self._step, memory, lengths, self._positions, bias, room=length + 2 * n_segments)


def _session(path: Path, threads: int) -> Any:
    if not path.is_file():
        raise UserError(f"{path.parent}: not an exported model ({path.name} is missing); run 'recoversat export'")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    # the graphs are fused by hand; all that is left is to transpose the output matrix once
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
