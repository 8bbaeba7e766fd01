"""The fast CPU engine: the two exported graphs on ONNX Runtime; torch is neither imported nor needed.

B sentences, S source, K segments, L decoder layers, H heads, E = D / H, D model, P padded vocabulary.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from recoversat.config import ModelConfig
from recoversat.decoding.stepping import Floats, Ints, Stepper
from recoversat.engines.engine import BoundedEngine, pad_sources
from recoversat.engines.onnx.split_stepper import SplitStepper
from recoversat.engines.onnx.stepper import Binding, OnnxStepper, Positions
from recoversat.errors import UserError
from recoversat.vocab import DEL, NEVER_EMITTED

# How much goes through a graph at once: less is slower, more gains nothing and needs memory.
_ROWS = 160
_SOURCE_TOKENS = 512
_FLOAT = 4  # bytes
_BLOCK = 128  # the graph's vocabulary is padded to whole blocks (see onnx_weights, which needs onnx)


class OnnxEngine(BoundedEngine):
    """Decode with the graphs that `export_model` wrote.

    `threads` bounds the processor cores used: each takes a part of the batch and computes alone, so that a single
    sentence uses one. (Two cores inside each product were slower than one for a sentence and than this for a batch.)
    `max_memory`, in bytes, bounds what decoding needs beside the weights: half of it is for what sentences keep
    from step to step (the caller asks `largest_batch` and stays within it), half for the scores and rows of one
    step (a batch that needs more goes through the graph in parts); ONNX Runtime then gives memory back at once.
    int8 rows have a scale of their own product's; where an export knew none, those of a batch share one, and neighbours
    may move a score in its last digits.
    """

    def __init__(self, folder: Path, config: ModelConfig, threads: int = 1, max_memory: int | None = None) -> None:
        self._config, self._max_memory = config, max_memory
        self._precision, self._threads = folder.name, threads
        exact, arena = saturates(folder), max_memory is None
        self._encoder = _session(folder / "encoder.onnx", exact, arena)
        self._step = _session(folder / "step.onnx", exact, arena)
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        size = _vocabulary_places(self._step, config, folder)
        self._bias: Floats = np.zeros(size, dtype=np.float32)
        self._bias[[*NEVER_EMITTED, *range(config.vocab_size or size, size)]] = -np.inf
        self._single_bias = self._bias.copy()
        self._single_bias[DEL] = -np.inf  # one segment has nothing to delete
        self._positions = Positions(config.d_model)

    @property
    def max_segments(self) -> int:
        return self._config.max_segments

    @property
    def description(self) -> dict[str, str | int]:
        """Name engine, precision, device and threads, for the signature of a result."""
        return {"engine": "onnx", "precision": self._precision, "device": "cpu", "threads": self._threads}

    def start(self, sources: Sequence[Sequence[int]], n_segments: Ints) -> Stepper:
        """Encode the sources and project them for every decoder layer."""
        single = np.asarray(n_segments) == 1
        parts = [
            places
            for group in (np.flatnonzero(~single), np.flatnonzero(single))
            for places in self._parts(n_segments, group)
        ]

        def start(places: Ints) -> OnnxStepper:
            return self._start([sources[place] for place in places], int(n_segments[places].max()))

        pool = self._pool if len(parts) > 1 else None
        steppers = list((pool.map if pool else map)(start, parts))
        return steppers[0] if len(parts) == 1 else SplitStepper(list(zip(steppers, parts, strict=True)), pool)

    def largest_batch(self, source_length: int, n_segments: int) -> int | None:
        """Return how many sentences of this length may be started at once within `max_memory`; None = any number."""
        if self._max_memory is None:
            return None
        config = self._config
        rows = source_length + 2 * (source_length + 2 * n_segments)  # of the source, and while the cache grows
        return max(1, self._max_memory // 2 // (2 * config.decoder_layers * config.d_model * rows * _FLOAT))

    def _parts(self, n_segments: Ints, group: Ints) -> list[Ints]:
        """Cut a group of sentences into equal parts, one or more a thread, within the bounds on rows and memory."""
        if not len(group):
            return []
        widest = int(n_segments[group].max())
        at_once = max(1, _ROWS // widest)
        if self._max_memory is not None:
            # logits, log-probabilities, and one more while they are computed, in every thread
            one = 3 * widest * len(self._bias) * _FLOAT * self._threads
            at_once = min(at_once, max(1, self._max_memory // 2 // one))
        rounds = -(-len(group) // (at_once * self._threads))
        n_parts = min(len(group), rounds * self._threads)
        return np.array_split(group, n_parts) if n_parts > 1 else [group]

    def _start(self, sources: Sequence[Sequence[int]], n_segments: int) -> "OnnxStepper":
        config = self._config
        tokens = pad_sources(sources)  # (B, S)
        batch, length = tokens.shape
        heads = config.n_heads
        lengths = np.array([len(source) for source in sources], dtype=np.int32)
        memory: Floats = np.empty(
            (2 * config.decoder_layers, batch, heads, length, config.d_model // heads), np.float32
        )
        positions, at_once = self._positions.first(length)[None], max(1, _SOURCE_TOKENS // max(1, length))
        for part in (slice(start, start + at_once) for start in range(0, batch, at_once)):
            whole = batch <= at_once
            found = memory if whole else np.empty_like(memory[:, part], order="C")
            binding = Binding(self._encoder)
            binding.inputs({"tokens": tokens[part], "positions": positions, "lengths": lengths[part]})
            binding.outputs({"memory": found})
            binding.run()
            if not whole:
                memory[:, part] = found
        bias = self._single_bias if n_segments == 1 else self._bias
        room = length + length // 5 + n_segments  # what is longer is rare, and makes the cache grow
        return OnnxStepper(self._step, memory, lengths, self._positions, bias, room)


def saturates(folder: Path) -> bool:
    """Say whether this processor gets products of int8 weights wrong: without VNNI, sums in 16 bits overflow."""
    rows = np.full((16, 64), 255, dtype=np.uint8)
    [sums] = _session(folder / "probe.onnx", exact=False, arena=False).run(["sums"], {"rows": rows})
    return bool((sums != 64 * 255 * 127).any())


def usable_cores() -> int:
    """Count the cores this process may use; OMP_NUM_THREADS bounds them, as it does for everybody else."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdecimal() and int(asked):
        return int(asked)
    return cores()


def cores() -> int:
    """Count the cores the system lets this process use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _vocabulary_places(step: Any, config: ModelConfig, folder: Path) -> int:
    """Return the padded size of the vocabulary; refuse a graph that belongs to another config.json."""
    shapes = {value.name: value.shape for value in step.get_inputs()}
    if "scored" not in shapes:
        raise UserError(f"{folder}: exported by an older version of recoversat; export the model again")
    size = int(shapes["bias"][0]) if "bias" in shapes else 0
    layers = sum(name.startswith("memory_key_") for name in shapes)
    found = [layers, *shapes.get("position", [0])[-1:], *shapes.get("places", [0, 0])[-2:-1]]
    wanted = [config.decoder_layers, config.d_model, config.n_heads]
    for what, one, other in zip(("decoder_layers", "d_model", "n_heads"), found, wanted, strict=True):
        if one != other:
            raise UserError(f"{folder}: the graph of another model ({what} is {one}, config.json says {other})")
    if config.vocab_size is None or not 0 <= size - config.vocab_size < _BLOCK:
        raise UserError(f"{folder}: the graph of another model ({size} tokens, config.json says {config.vocab_size})")
    return size


def _session(path: Path, exact: bool, arena: bool) -> Any:
    if not path.is_file():
        raise UserError(f"{path.parent}: not an exported model ({path.name} is missing); run 'recoversat export'")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = 1, 1
    options.enable_cpu_mem_arena = arena
    options.log_severity_level = 3
    # the graphs are fused by hand; all that is left is to transpose the output matrix once
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_EXTENDED if exact else levels.ORT_ENABLE_BASIC
    if exact:  # unsigned weights: half as fast, but they do not overflow
        options.add_session_config_entry("session.x64quantprecision", "1")
    unwanted = ["SkipLayerNormFusion", "DynamicQuantizeMatMulFusion"]  # slower than what they replace
    try:
        return onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"], disabled_optimizers=unwanted
        )
    except Exception as error:  # the errors of ONNX Runtime have no base class of their own
        raise UserError(f"{path}: damaged, or of another version ({str(error).splitlines()[0]})") from None
