"""Write an autoregressive model in CTranslate2's own format, so that its engine runs exactly our weights.

Needs numpy and ctranslate2, not torch: weights come as a dictionary of arrays, as for ONNX.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recoversat.config import Config, ModelConfig
from recoversat.engines.positions import sinusoids
from recoversat.errors import UserError
from recoversat.vocab import BOS, DEL, EOS, NEVER_EMITTED, UNK

Weights = Mapping[str, NDArray[np.float32]]
POSITIONS = 1024  # places the tables have; CTranslate2 too cuts longer sources unless told otherwise
MODEL = "model.bin"
NOTES = "recoversat"  # our own settings, kept in CTranslate2's config.json
_MISSING = "CTranslate2 is not installed: pip install 'recoversat[peers]'"
_NEVER = np.float32(-1e4)  # added to the score of what must not be written; fits float16


def import_ctranslate2() -> Any:
    """Return the library, or say how to get it."""
    try:
        import ctranslate2
    except ImportError:
        raise UserError(_MISSING) from None
    return ctranslate2


def write_ctranslate2(weights: Weights, config: Config, pieces: Sequence[str], folder: Path, precision: str) -> None:
    """Write model.bin, config.json and the vocabulary; `precision` is "fp32" or "int8", `pieces` one for each id."""
    import_ctranslate2()
    from ctranslate2 import specs  # loads torch where there is one

    model = config.model
    weights = {name: array.copy() for name, array in weights.items()}  # quantising multiplies them in place
    spec = specs.TransformerSpec.from_config((model.encoder_layers, model.decoder_layers), model.n_heads)
    _fill_encoder(spec.encoder, weights, model)
    _fill_decoder(spec.decoder, weights, model)
    spec.register_source_vocabulary(list(pieces))
    spec.register_target_vocabulary(list(pieces))
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = pieces[BOS], pieces[EOS], pieces[UNK]
    spec.config.decoder_start_token = pieces[BOS]
    spec.config.layer_norm_epsilon = 1e-5
    spec.config.add_attribute(NOTES, _notes(config))
    spec.validate()
    spec.optimize(quantization={"fp32": "float32", "int8": "int8"}[precision])
    spec.save(str(folder))


def _notes(config: Config) -> dict[str, Any]:
    decode, data = config.decode, config.data
    notes = {"extra_steps": decode.extra_steps, "length_penalty": decode.length_penalty, "tokenizer": data.tokenizer}
    return notes | {"directions": [list(pair) for pair in data.directions], "tagged": data.tagged}


def _fill_encoder(spec: Any, weights: Weights, config: ModelConfig) -> None:
    spec.embeddings[0].weight = weights["embedding.weight"]
    spec.scale_embeddings = True
    spec.position_encodings.encodings = sinusoids(POSITIONS, config.d_model)
    _norm(spec.layer_norm, weights, "encoder.norm")
    for index, layer in enumerate(spec.layer):
        _self_attention_and_feed_forward(layer, weights, f"encoder.layers.{index}")


def _fill_decoder(spec: Any, weights: Weights, config: ModelConfig) -> None:
    spec.embeddings.weight = weights["embedding.weight"]
    spec.scale_embeddings = True
    # all rows belong to segment 0, so its embedding is a part of the position
    spec.position_encodings.encodings = sinusoids(POSITIONS, config.d_model) + weights["segment_embedding.weight"][0]
    _norm(spec.layer_norm, weights, "decoder.norm")
    spec.projection.weight = weights["embedding.weight"]
    # what our engines never write: whoever loads the folder need not know
    spec.projection.bias = np.zeros(len(weights["embedding.weight"]), dtype=np.float32)
    spec.projection.bias[[*NEVER_EMITTED, DEL]] = _NEVER
    for index, layer in enumerate(spec.layer):
        name = f"decoder.layers.{index}"
        _self_attention_and_feed_forward(layer, weights, name)
        _norm(layer.attention.layer_norm, weights, f"{name}.cross_norm")
        for place, part in enumerate(("query", "key_value", "output")):
            _linear(layer.attention.linear[place], weights, f"{name}.cross_attention.{part}")


def _self_attention_and_feed_forward(layer: Any, weights: Weights, name: str) -> None:
    _norm(layer.self_attention.layer_norm, weights, f"{name}.attention_norm")
    _linear(layer.self_attention.linear[0], weights, f"{name}.self_attention.qkv")
    _linear(layer.self_attention.linear[1], weights, f"{name}.self_attention.output")
    _norm(layer.ffn.layer_norm, weights, f"{name}.feed_forward_norm")
    _linear(layer.ffn.linear_0, weights, f"{name}.feed_forward.inner")
    _linear(layer.ffn.linear_1, weights, f"{name}.feed_forward.outer")


def _linear(spec: Any, weights: Weights, name: str) -> None:
    spec.weight, spec.bias = weights[f"{name}.weight"], weights[f"{name}.bias"]


def _norm(spec: Any, weights: Weights, name: str) -> None:
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]
