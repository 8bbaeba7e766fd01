"""CTranslate2 writes with our weights what we write: same tokens in fp32, nearly the same in int8."""

from pathlib import Path

import numpy as np
import pytest
import torch

from recoversat.config import ModelConfig, parse_config
from recoversat.decoding.segmentwise import decode_segments, max_steps
from recoversat.engines.torch.engine import TorchEngine
from recoversat.errors import UserError
from recoversat.export.ctranslate2_writer import POSITIONS, sinusoids, write_ctranslate2
from recoversat.measuring.peers.ctranslate2 import CTranslate2
from recoversat.measuring.specs import SystemSpec
from recoversat.model.attention import sinusoids as torch_sinusoids
from recoversat.model.transformer import Transformer
from recoversat.text.tokenizer import BpeTokenizer
from recoversat.vocab import EOS, N_SPECIAL, SPECIAL_PIECES
from tests.parity.test_onnx import SHAPES, sources_of
from tests.processors import needs_onednn_with_vnni, needs_vnni

pytest.importorskip("ctranslate2")
EXTRA = 6


@torch.no_grad()
def sharp_model(config: ModelConfig) -> Transformer:
    """Make a model that writes many different tokens, and whose every weight has a say."""
    torch.manual_seed(3)
    model = Transformer(config)
    for name, parameter in model.named_parameters():
        is_norm = parameter.dim() == 1 and name.endswith("weight")
        std = 0.4 if parameter.dim() == 1 else 2.0 / config.d_model**0.5
        torch.nn.init.normal_(parameter, mean=1.0 if is_norm else 0.0, std=std)
    model.decoder.norm.weight.normal_()
    model.decoder.norm.bias.zero_()
    torch.nn.init.normal_(model.embedding.weight, std=2.0 / config.d_model**0.5)
    return model


def both(shape: str, folder: Path, precision: str, beam: int = 1) -> tuple[TorchEngine, CTranslate2]:
    config = SHAPES[shape]
    model = sharp_model(config)
    weights = {name: value.numpy() for name, value in model.state_dict().items()}
    before = {name: value.copy() for name, value in weights.items()}
    assert config.vocab_size is not None
    tokenizer = BpeTokenizer([*SPECIAL_PIECES, *(f"w{i}" for i in range(config.vocab_size - N_SPECIAL))])
    values = {"model": config.model_dump(), "train": {"segments": 1}, "decode": {"extra_steps": EXTRA}}
    write_ctranslate2(weights, parse_config(values), tokenizer.pieces(range(tokenizer.size)), folder, precision)
    assert all(np.array_equal(before[name], value) for name, value in weights.items())  # quantising changes nothing
    tokenizer.save(folder)
    return TorchEngine(model, torch.device("cpu")), CTranslate2(SystemSpec("peer", str(folder), beam=beam), threads=1)


def greedy(engine: TorchEngine, sources: list[list[int]]) -> list[list[int]]:
    ones = np.ones(len(sources), dtype=np.int64)
    limits = np.array([max_steps(len(source), 1, EXTRA) for source in sources])
    decoded = decode_segments(engine.start(sources, ones), ones, limits)
    return [[token for token in one.segments[0] if token != EOS] for one in decoded]


@pytest.mark.parametrize("shape", SHAPES)
def test_fp32_writes_the_same_tokens(shape: str, tmp_path: Path) -> None:
    engine, peer = both(shape, tmp_path, "fp32")
    sources = sources_of([7, 25, 1, 12, 3, 40, 9, 18, 2, 31, 5, 16] * 3)
    wanted = greedy(engine, sources)
    assert len({token for ids in wanted for token in ids}) > 8
    assert peer.translate_ids(sources) == wanted
    assert [peer.translate_ids([source])[0] for source in sources[:6]] == wanted[:6]
    assert peer.facts["precision"] == "float32"


@needs_vnni
@needs_onednn_with_vnni
@pytest.mark.parametrize("shape", SHAPES)
def test_int8_writes_nearly_the_same(shape: str, tmp_path: Path) -> None:
    engine, peer = both(shape, tmp_path, "int8")
    sources = sources_of([7, 25, 1, 12, 3, 40])
    pairs = zip(peer.translate_ids(sources), greedy(engine, sources), strict=True)
    assert sum(got[:2] == wanted[:2] for got, wanted in pairs) >= 4
    assert str(peer.facts["precision"]).startswith("int8")


def test_a_fixed_length_is_kept(tmp_path: Path) -> None:
    for beam in (1, 4):
        (folder := tmp_path / str(beam)).mkdir()
        _, peer = both("small", folder, "fp32", beam)
        assert [len(ids) for ids in peer.translate_ids(sources_of([5, 9]), length=14)] == [14, 14]


def test_blank_lines_stay_and_too_long_ones_are_refused(tmp_path: Path) -> None:
    _, peer = both("small", tmp_path, "fp32")
    blank, some = peer.translate(["  ", "w1 w2 w3"], 8, length=4)
    assert (blank.text, blank.ids) == ("", [])
    assert len(some.ids) == len(some.text.split()) == 4
    with pytest.raises(UserError, match=f"reads at most {POSITIONS}"):
        peer.translate(["w1 " * (POSITIONS + 1)], 1)


def test_positions_are_those_of_the_model() -> None:
    np.testing.assert_allclose(sinusoids(60, 278), torch_sinusoids(torch.arange(60), 278).numpy(), atol=1e-4)
