"""A sentence by itself goes through one graph: it writes what steps taken one by one write."""

from pathlib import Path

import numpy as np
import pytest
import torch

from recoversat.config import ModelConfig
from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stopping import StoppedError, stoppable
from recoversat.engines.engine import Options
from recoversat.engines.onnx.engine import OnnxEngine
from recoversat.engines.onnx.sentence import SENTENCE, SentenceGraph
from recoversat.export.onnx import export_model
from recoversat.measuring.speed.untrained import made_up_ranges
from recoversat.model.transformer import Transformer
from recoversat.vocab import EOS, TERMINATORS
from tests.processors import needs_vnni

CONFIG = ModelConfig(d_model=32, d_hidden=48, n_heads=4, encoder_layers=2, decoder_layers=2, vocab_size=12)
SOURCES = [[7, 8, 9], [10], [11, 5, 6, 7, 9, 8, 10, 5, 6]]


@pytest.fixture(scope="module", params=[pytest.param("int8", marks=needs_vnni), "fp32"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(7)  # with these weights segments end after two to ten steps
    weights = {name: 8 * value.numpy() for name, value in Transformer(CONFIG).state_dict().items()}
    [made] = export_model(weights, CONFIG, tmp_path_factory.mktemp("onnx"), (request.param,), made_up_ranges(weights))
    return made


@pytest.fixture(scope="module")
def engine(folder: Path) -> OnnxEngine:
    return OnnxEngine(folder, CONFIG)


@pytest.fixture(scope="module")
def stepwise(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> OnnxEngine:
    """Load the same model as it was exported before there was such a graph."""
    older = tmp_path_factory.mktemp("older") / folder.name
    older.mkdir()
    for path in folder.iterdir():
        if path.name != SENTENCE:
            (older / path.name).write_bytes(path.read_bytes())
    return OnnxEngine(older, CONFIG)


def test_the_same_comes_out_as_of_steps(
    engine: OnnxEngine, stepwise: OnnxEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[Decoded] = []
    write = SentenceGraph.write
    monkeypatch.setattr(SentenceGraph, "write", lambda *args, **more: runs.append(write(*args, **more)) or runs[-1])
    ended = set()
    for source in SOURCES:
        for k in (1, 2, 5):
            for scores in (True, False):
                options = Options(scores=scores, extra_steps=6)
                [one], [other] = (each.decode([source], np.array([k]), options) for each in (engine, stepwise))
                assert (one.segments, one.steps) == (other.segments, other.steps)
                for mine, theirs in zip(one.log_probs, other.log_probs, strict=True):
                    np.testing.assert_allclose(mine, theirs, atol=1e-5)
                ended |= {(len(segment), segment[-1] in TERMINATORS) for segment in one.segments}
    assert len(runs) == 18
    assert len({length for length, by_itself in ended if by_itself}) > 3
    assert any(not by_itself for _, by_itself in ended)  # others were cut off


def test_one_segment_deletes_nothing(engine: OnnxEngine, stepwise: OnnxEngine) -> None:
    assert engine._sentence
    whole, single = engine._whole(False), engine._whole(True)
    assert np.isinf(single.inputs["bias"]).sum() == np.isinf(whole.inputs["bias"]).sum() + 1


@pytest.mark.parametrize("more", [{"forced": [{(0, 0): 8}]}, {"top_tokens": 2}])
def test_what_it_cannot_do_goes_step_by_step(
    engine: OnnxEngine, stepwise: OnnxEngine, more: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SentenceGraph, "write", None)
    options = Options(extra_steps=3, **more)
    assert engine.decode(SOURCES[:1], np.array([2]), options) == stepwise.decode(SOURCES[:1], np.array([2]), options)
    encoded = engine.encode(SOURCES[:1])
    assert engine.decode(encoded, np.array([2]), Options(extra_steps=3))
    assert engine.decode(SOURCES, np.full(3, 2), Options(extra_steps=3))


def test_it_can_be_stopped_before_it_begins(engine: OnnxEngine) -> None:
    def stop() -> None:
        raise StoppedError

    with stoppable(stop), pytest.raises(StoppedError):
        engine.decode(SOURCES[:1], np.array([2]))


def test_models_that_have_learnt_nothing_write_as_much_as_they_should(engine: OnnxEngine) -> None:
    lives = np.array([3, 1, 2])
    options = Options(lives=lives)
    [one] = engine.decode(SOURCES[:1], np.array([3]), options)
    assert max(map(len, one.segments)) <= 3
    assert [segment[-1] for segment in one.segments] == [EOS] * 3
