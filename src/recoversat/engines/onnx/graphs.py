"""The graphs of an exported model as sessions of ONNX Runtime, each opened when it is needed first.

Who translates one sentence after the other needs one of them (`sentence`), who translates batches two others.
"""

from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from recoversat.config import ModelConfig
from recoversat.engines.onnx.sentence import SENTENCE
from recoversat.engines.onnx.shortlist import LISTED_SENTENCE, LISTED_STEP, open_lists
from recoversat.errors import UserError

_BLOCK = 128  # a graph's vocabulary is padded to whole blocks (see onnx_weights, which needs onnx)


class Graphs:
    """The sessions of a folder; graphs of another model than config.json speaks of are refused."""

    def __init__(self, folder: Path, config: ModelConfig, arena: bool) -> None:
        self._folder, self._config, self._arena = folder, config, arena
        self._exact = folder.name != "fp32" and saturates(folder)  # only int8 products may overflow
        self._session = partial(_session, exact=self._exact, arena=arena)
        self._written = self._weights_written()
        # without VNNI only constant weights of a graph itself are kept from overflowing: no lists, no loops
        self.lists = None if self._exact else open_lists(folder, config.vocab_size or 0, self._open)

    def _weights_written(self) -> tuple[int, int]:
        weights = (self._folder / "weights.bin").stat()
        return weights.st_ino, weights.st_mtime_ns

    def _open(self, path: Path) -> Any:
        """Open a graph, unless others than those that are open have taken its place."""
        if path.is_file() and self._weights_written() != self._written:
            raise UserError(f"{self._folder}: the model was replaced while it was in use; load it again")
        return self._session(path)

    @cached_property
    def encoder(self) -> Any:
        return self._open(self._folder / "encoder.onnx")

    @cached_property
    def step(self) -> Any:
        step = self._open(self._folder / (LISTED_STEP if self.lists else "step.onnx"))
        shapes = {value.name: value.shape for value in step.get_inputs()}
        if "scored" not in shapes:
            raise UserError(f"{self._folder}: exported by an older version of recoversat; export the model again")
        layers = sum(name.startswith("memory_key_") for name in shapes)
        self._check(layers, *shapes.get("position", [0])[-1:], *shapes.get("places", [0, 0])[-2:-1])
        return step

    @cached_property
    def sentence(self) -> Any | None:
        """Return the graph of whole sentences; models that were exported earlier have none, bounded memory neither."""
        path = self._folder / (LISTED_SENTENCE if self.lists else SENTENCE)
        if self._exact or not self._arena or not path.is_file():
            return None
        sentence = self._open(path)
        known = sentence.get_modelmeta().custom_metadata_map
        self._check(*(int(known.get(name, 0)) for name in ("decoder_layers", "d_model", "n_heads")))
        return sentence

    def vocabulary_places(self) -> int:
        """Return the padded size of the vocabulary."""
        shapes = {value.name: value.shape for value in (self.sentence or self.step).get_inputs()}
        size, known = int(shapes["bias"][0]) if "bias" in shapes else 0, self._config.vocab_size
        if known is None or not 0 <= size - known < _BLOCK:
            raise UserError(f"{self._folder}: the graph of another model ({size} tokens, config.json says {known})")
        return size

    def _check(self, decoder_layers: int, d_model: int, n_heads: int) -> None:
        found = {"decoder_layers": decoder_layers, "d_model": d_model, "n_heads": n_heads}
        for name, size in found.items():
            if size != (wanted := getattr(self._config, name)):
                raise UserError(
                    f"{self._folder}: the graph of another model ({name} is {size}, config.json says {wanted})"
                )


def saturates(folder: Path) -> bool:
    """Say whether this processor gets products of int8 weights wrong: without VNNI, sums in 16 bits overflow."""
    rows = np.full((16, 64), 255, dtype=np.uint8)
    [sums] = _session(folder / "probe.onnx", exact=False, arena=False).run(["sums"], {"rows": rows})
    return bool((sums != 64 * 255 * 127).any())


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
