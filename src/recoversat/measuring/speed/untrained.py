"""Untrained models of a given size, in our format and those of peers, from the same weights.

Speed does not depend on what a model has learnt, only on its size and on how much it writes; the latter is fixed.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray

from recoversat.config import PRESETS, Config, ModelConfig, parse_config
from recoversat.engines.loading import native_engine
from recoversat.engines.vocabulary import TABLE, Shortlist
from recoversat.errors import UserError
from recoversat.export.int8 import quantised
from recoversat.files.int8 import write_int8
from recoversat.files.model_folder import ONNX, WEIGHTS, write_description
from recoversat.measuring import peers
from recoversat.measuring.peers.marian import SHORTLIST
from recoversat.measuring.specs import SystemSpec
from recoversat.text.tokenizer import BpeTokenizer
from recoversat.vocab import N_SPECIAL, SPECIAL_PIECES, TERMINATORS

_BEAM = 4
_LISTED: dict[str, dict[str, str]] = {"shortlist": {}, "shortlist unverified": {"verify_shortlist": "false"}}


def untrained_config(text: str, vocabulary: int, segments: Sequence[int]) -> Config:
    """Read a preset's name, or sizes such as d_model=512,d_hidden=2048."""
    if text in PRESETS:
        sizes = dict(PRESETS[text]["model"])
    else:
        pairs = [part.partition("=") for part in text.split(",") if part]
        if not pairs or not all(equals and value for _, equals, value in pairs):
            known = ", ".join(sorted(PRESETS))
            raise UserError(f"--untrained {text}: name a preset ({known}) or sizes, e.g. d_model=512,d_hidden=2048")
        sizes = {key.strip(): yaml.safe_load(value) for key, _, value in pairs}
    if sizes.get("kind", "segments") != "segments":
        raise UserError(
            f"--untrained {text}: RecoverSAT and autoregressive models are made up; of another kind train one for a few"
            " updates and name it by --system"
        )
    model = {**sizes, "vocab_size": vocabulary, "max_segments": max(segments)}
    data = {"tokenizer": "bpe", "vocab_size": vocabulary}
    return parse_config({"data": data, "model": model, "train": {"segments": [1, *segments]}})


def sentences(n: int, length: int, vocabulary: int) -> list[str]:
    drawn = np.random.default_rng(length).integers(0, vocabulary - N_SPECIAL, (n, length))
    return [" ".join(f"w{word}" for word in line) for line in drawn]


def build_untrained(folder: Path, config: Config, segments: Sequence[int], device: str) -> list[SystemSpec]:
    """Write the models and say which systems are to be timed."""
    words = [f"w{word}" for word in range((config.model.vocab_size or 0) - N_SPECIAL)]
    tokenizer = BpeTokenizer([*SPECIAL_PIECES, *words])
    weights = random_weights(config.model)
    own, compute = _write_own(folder, config, tokenizer, weights, device)
    ways = [(f"RecoverSAT K={k}", k, 1) for k in segments]
    ways += [(f"our AT {_search(beam)}", 1, beam) for beam in (1, _BEAM)]
    systems = [SystemSpec(f"{name} {compute}", str(own), k, beam, compute) for name, k, beam in ways]
    if device == "cpu" and native_engine():  # which alone uses lists
        listed = _write_listed(folder, own, tokenizer.size)
        for kind, decode in _LISTED.items():
            systems += [SystemSpec(f"{name} {compute} {kind}", listed, k, decode=decode) for name, k, _ in ways[:-1]]
    for peer in peers.PEERS:
        for path, compute in peer.write_untrained(folder, weights, config, tokenizer, device):
            for beam in (1, _BEAM):
                name = f"{peer.title} {_search(beam)} {compute}"
                systems.append(SystemSpec(name, str(path), 1, beam, compute, unavailable=peer.missing()))
    return systems


def _write_own(
    folder: Path, config: Config, tokenizer: BpeTokenizer, weights: dict[str, NDArray[np.float32]], device: str
) -> tuple[Path, str]:
    """Write our folder, int8 weights for a CPU, else torch weights, and say what it computes in."""
    own = folder / "ours"
    own.mkdir(parents=True)
    write_description(own, config, tokenizer, {"untrained": True})
    if device != "cpu":
        from safetensors.numpy import save_file

        save_file(weights, own / WEIGHTS)
        return own, "float16"
    write_int8(own, quantised(weights, config.model, made_up_ranges(weights)), config.model)
    if native_engine() is None:
        from recoversat.export.onnx import export_int8

        export_int8(config.model, own / ONNX)
    return own, "int8"


def _write_listed(folder: Path, own: Path, vocabulary: int) -> str:
    """Give our folder a shortlist as well, of as many made-up pieces as Marian's."""
    listed, (frequent, likeliest) = folder / "ours-shortlist", SHORTLIST
    shutil.copytree(own, listed)
    rng = np.random.default_rng(1)
    common = np.zeros((1, vocabulary), dtype=np.bool_)
    common[0, [*TERMINATORS, *rng.integers(N_SPECIAL, vocabulary, frequent)]] = True
    pieces = rng.integers(N_SPECIAL, vocabulary, (vocabulary, likeliest))
    Shortlist(pieces, np.empty(0, dtype=np.int64), common).save(listed / TABLE)
    return str(listed)


def made_up_ranges(weights: Mapping[str, NDArray[np.float32]]) -> dict[str, tuple[float, float]]:
    """Say for each product how large its inputs may get, as exporting a trained model measures it."""
    matrices = [name for name, array in weights.items() if ".layers." in name and array.ndim == 2]
    products = [name.removesuffix(".weight") for name in [*matrices, "embedding.weight"]]
    return {name: (0.0 if name.endswith("feed_forward.outer") else -8.0, 8.0) for name in products}


def _search(beam: int) -> str:
    return "greedy" if beam == 1 else f"beam {beam}"


def random_weights(config: ModelConfig, seed: int = 1) -> dict[str, NDArray[np.float32]]:
    """Draw N(0, 0.02) weights under the names of Transformer.state_dict()."""
    assert config.vocab_size is not None
    rng, d, hidden = np.random.default_rng(seed), config.d_model, config.d_hidden
    shapes = {"embedding.weight": (config.vocab_size, d), "segment_embedding.weight": (config.max_segments, d)}
    norms = ["encoder.norm", "decoder.norm"]
    layers = [("encoder", i) for i in range(config.encoder_layers)]
    layers += [("decoder", i) for i in range(config.decoder_layers)]
    for side, index in layers:
        name = f"{side}.layers.{index}"
        parts = {"self_attention.qkv": (3 * d, d), "self_attention.output": (d, d)}
        parts |= {"feed_forward.inner": (hidden, d), "feed_forward.outer": (d, hidden)}
        norms += [f"{name}.attention_norm", f"{name}.feed_forward_norm"]
        if side == "decoder":
            parts |= {"cross_attention.query": (d, d), "cross_attention.key_value": (2 * d, d)}
            parts |= {"cross_attention.output": (d, d)}
            norms.append(f"{name}.cross_norm")
        shapes |= {f"{name}.{part}.weight": shape for part, shape in parts.items()}
    weights = {name: rng.normal(0, 0.02, shape).astype(np.float32) for name, shape in shapes.items()}
    linear = [name for name in weights if ".layers." in name]
    weights["embedding.weight"][list(TERMINATORS)] = 0  # so that an untrained model never ends by itself
    weights |= {f"{name.removesuffix('weight')}bias": np.zeros(len(weights[name]), np.float32) for name in linear}
    for name in norms:
        weights |= {f"{name}.weight": np.ones(d, np.float32), f"{name}.bias": np.zeros(d, np.float32)}
    return weights
