"""Models that write all at once over static buffers write what torch writes; on a CPU, where nothing is captured."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from recoversat.decoding.segmentwise import Decoded
from recoversat.engines.cuda import one_step
from recoversat.engines.cuda.one_step import GraphOneStepEngine
from recoversat.engines.engine import Sources
from recoversat.engines.torch.engine import TorchEngine
from recoversat.engines.torch.nat import TorchNatEngine
from recoversat.model.transformer import Transformer
from tests.unit.engines.onnx.test_one_step import CPU, KINDS, OPTIONS, model_of, sources_of

Engines = tuple[TorchNatEngine, GraphOneStepEngine]


@pytest.fixture(scope="module", params=KINDS)
def engines(request: pytest.FixtureRequest) -> Engines:
    return TorchNatEngine(model_of(request.param), CPU), GraphOneStepEngine(model_of(request.param), CPU, torch.float32)


def decode(engine: TorchNatEngine | GraphOneStepEngine, sources: Sources) -> list[Decoded]:
    return engine.decode(sources, np.ones(len(sources), dtype=np.int64), OPTIONS)


def assert_same(expected: list[Decoded], got: list[Decoded]) -> None:
    for one, other in zip(expected, got, strict=True):
        assert (one.segments, one.steps) == (other.segments, other.steps)
        np.testing.assert_allclose(one.log_probs[0], other.log_probs[0], atol=2e-4)


def test_buffers_write_what_torch_writes_whatever_was_in_them_before(engines: Engines) -> None:
    sources = sources_of(24)
    for part in (sources, sources[5:9], [[7] * 40, [8, 9]], sources[:1], sources[3:20], [[7] * 300]):
        assert_same(*(decode(engine, part) for engine in engines))


def test_few_sizes_are_kept_and_others_made_again(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_step, "_BATCHES_KEPT", 2)
    monkeypatch.setattr(one_step, "_FILLS_KEPT", 1)
    sources, graphs = sources_of(9), engines[1]
    for size in (1, 4, 9, 1):
        assert_same(*(decode(engine, sources[:size]) for engine in engines))
    assert len(graphs._batches) <= 2
    assert all(len(batch._fills) <= 1 for batch in graphs._batches.values())


def test_threads_that_share_an_engine_do_not_share_a_batch(engines: Engines) -> None:
    reference, graphs = engines
    batches = [sources_of(n) for n in (3, 4, 3, 4, 3, 4)] * 3
    with ThreadPoolExecutor(4) as pool:
        for batch, got in zip(batches, pool.map(lambda batch: decode(graphs, batch), batches), strict=True):
            assert_same(decode(reference, batch), got)


def test_a_teacher_judges_several_lengths() -> None:
    torch.manual_seed(2)
    model = model_of("nat")
    teacher = TorchEngine(Transformer(model.config.model_copy(update={"kind": "recoversat"})), CPU)
    sources = sources_of(6)
    judged = [engine.judged_by(teacher, 3) for engine in (
        TorchNatEngine(model_of("nat"), CPU), GraphOneStepEngine(model, CPU, torch.float32)
    )]  # fmt: skip
    assert_same(*(decode(engine, sources) for engine in judged))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_is_half_precision_throughout(kind: str) -> None:
    engine = GraphOneStepEngine(model_of(kind), CPU, torch.bfloat16)
    written = decode(engine, sources_of(4))
    assert engine.description["precision"] == "bf16"
    assert all(np.isfinite(one.log_probs[0]).all() for one in written)
