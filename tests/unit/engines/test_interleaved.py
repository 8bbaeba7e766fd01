"""SAT: K consecutive tokens a step, with RecoverSAT's rows, mask and engines."""

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.gpu_check import lively_model
from recoversat.config import ModelConfig, TrainConfig, parse_config
from recoversat.data.batching import Batches
from recoversat.data.corpus import ParallelSentences, Sentences
from recoversat.decoding.segmentwise import Decoded
from recoversat.engines.cuda.engine import GraphEngine
from recoversat.engines.engine import Engine, Options
from recoversat.engines.interleaved import InterleavedEngine, interleaved
from recoversat.engines.loading import engine_for
from recoversat.engines.onnx.engine import OnnxEngine
from recoversat.engines.torch.engine import TorchEngine
from recoversat.errors import UserError
from recoversat.export.folder import export_folder
from recoversat.measuring.speed.fixed import FixedEngine
from recoversat.model.transformer import Transformer
from recoversat.segments import rows
from recoversat.translator import Translator
from recoversat.vocab import BOS, DEL, EOS, N_SPECIAL, NEVER_EMITTED
from tests.exported import write_exported
from tests.system.tiny_model import write_sentences, write_tiny_model

V = 40
CPU = torch.device("cpu")
CONFIG = ModelConfig(
    kind="sat", d_model=32, d_hidden=64, n_heads=4, encoder_layers=1, decoder_layers=2, dropout=0.0, vocab_size=V,
    max_segments=6,
)  # fmt: skip


def lively() -> Transformer:
    """A model whose every weight has a say, and which ends after a few steps."""
    return lively_model(CONFIG, ending=1.5)


def sources_of(n: int, seed: int = 1) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(N_SPECIAL, V, size=length).tolist() for length in rng.integers(1, 15, size=n)]


def batch_of(src: list[list[int]], tgt: list[list[int]], segments: int | list[int]) -> Batches:
    config = TrainConfig(segments=segments, random_prob=0, repeat_prob=0, batch_tokens=sum(map(len, tgt)), steps=10)
    pairs = ParallelSentences(Sentences.of(src), Sentences.of(tgt))
    return Batches.of(pairs, config, lambda ids: np.ones(len(ids), dtype=bool), dealt=True)


@pytest.mark.parametrize("k", [1, 2, 4, 6])
def test_tokens_are_dealt_out_in_turn(k: int) -> None:
    """Row (t, i) predicts token t * K + i, from token (t - 1) * K + i; every segment has an end of its own."""
    sources, targets = sources_of(20, seed=2), sources_of(20, seed=3)
    (batch,) = batch_of(sources, targets, k)[0]
    found = set()
    for line in range(len(batch.sentence)):
        for number in range(1, int(batch.sentence[line].max()) + 1):
            mine = batch.sentence[line] == number
            columns = [getattr(batch, name)[line][mine].tolist() for name in ("tokens", "labels", "steps", "segments")]
            found.add(tuple(map(tuple, columns)))
    expected = [rows([[*target[i::k], EOS] for i in range(k)]) for target in targets]
    assert found == {tuple(tuple(column.tolist()) for column in vars(one).values()) for one in expected}
    first, whole = expected[0], targets[0]
    places = (first.steps * k + first.segments).tolist()
    by_place = dict(zip(places, zip(first.tokens.tolist(), first.labels.tolist(), strict=True), strict=True))
    assert [by_place[j][1] for j in range(len(whole))] == whole
    assert [by_place[j][0] for j in range(len(whole))] == ([BOS] * k + whole)[: len(whole)]


@pytest.mark.parametrize("k", [2, 3, 6])
def test_what_is_written_with_a_cache_is_what_all_rows_at_once_predict(k: int) -> None:
    model, sources = lively(), sources_of(12)
    written = InterleavedEngine(TorchEngine(model, CPU)).decode(sources, np.full(12, k))
    assert len({len(one.segments[0]) for one in written}) > 3
    for source, one in zip(sources, written, strict=True):
        tokens = one.segments[0]
        # the rows of the whole, as training has them, with what stands after the first end unknown
        steps = torch.arange(one.steps).repeat_interleave(k)
        segments = torch.arange(k).repeat(one.steps)
        carried = torch.tensor(([BOS] * k + tokens)[: len(steps)] + [EOS] * max(0, len(steps) - k - len(tokens)))
        src, ones = torch.tensor([source]), torch.ones(1, len(steps), dtype=torch.long)
        with torch.inference_mode():
            positions, real = torch.arange(len(source))[None], torch.ones_like(src)
            hidden = model(src, positions, real, carried[None], steps[None], segments[None], ones)
            logits = model.logits(hidden)[0, : len(tokens)]
            logits[:, NEVER_EMITTED] = -torch.inf
        likeliest = logits.argmax(dim=-1).tolist()
        likeliest[-1] = EOS if likeliest[-1] == DEL else likeliest[-1]
        assert tokens == likeliest
        assert one.log_probs[0] == pytest.approx(logits.log_softmax(-1).amax(-1).tolist(), abs=1e-4)


def test_a_sentence_ends_in_the_step_of_its_first_end() -> None:
    written = InterleavedEngine(TorchEngine(lively(), CPU)).decode(sources_of(30), np.full(30, 3))
    ended = [one for one in written if one.segments[0][-1] == EOS]
    assert len(ended) > 10
    for one in ended:
        assert len(one.segments) == 1
        assert EOS not in one.segments[0][:-1]
        assert one.steps == -(-len(one.segments[0]) // 3)


def test_segments_of_a_sat_end_together_and_others_alone() -> None:
    engine, sources, k = TorchEngine(lively(), CPU), sources_of(30), np.full(30, 3)
    alone, together = engine.decode(sources, k), engine.decode(sources, k, Options(together=True))
    assert all(len({*map(len, one.segments)}) == 1 for one in together)
    assert any(len({*map(len, one.segments)}) > 1 for one in alone)
    for one, other in zip(alone, together, strict=True):
        assert len(other.segments[0]) == min(map(len, one.segments))
        ours, theirs = interleaved(one), interleaved(other)  # what an engine wrote after the first end is not read
        assert (ours.segments, ours.steps) == (theirs.segments, theirs.steps)
        # other rows are active in a step, so that a BLAS may add up in another order
        assert ours.log_probs[0] == pytest.approx(theirs.log_probs[0], abs=1e-4)


def test_what_was_cut_off_has_no_end() -> None:
    assert interleaved(Decoded([[11, 13], [12, 14]], [[], []])) == Decoded([[11, 12, 13, 14]], [[]], steps=2)
    assert interleaved(Decoded([[11, DEL], [12, 14]], [[], []])).segments == [[11, 12, EOS]]


@pytest.mark.parametrize("size", [1, 7])
def test_sentences_do_not_notice_their_batch(size: int) -> None:
    engine, sources = InterleavedEngine(TorchEngine(lively(), CPU)), sources_of(21)
    k = np.arange(21) % 6 + 1
    whole = engine.decode(sources, k)
    for at in range(0, 21, size):
        for one, other in zip(engine.decode(sources[at : at + size], k[at : at + size]), whole[at:], strict=False):
            assert one.segments == other.segments
            assert one.steps == other.steps


def test_the_fast_engines_write_what_torch_writes(tmp_path: Path) -> None:
    model, sources = lively(), sources_of(24)
    write_exported(lively(), tmp_path, "fp32")
    reference = engine_for(model, CPU)
    assert isinstance(reference, InterleavedEngine)
    engines: list[Engine] = [OnnxEngine(tmp_path, "fp32", CONFIG), GraphEngine(lively(), CPU, torch.float32)]
    for k in (1, 2, 4, 6):
        counts = np.full(24, k)
        wanted = reference.decode(sources, counts)
        for engine in engines:
            for one, other in zip(wanted, InterleavedEngine(engine).decode(sources, counts), strict=True):
                assert one.segments == other.segments
                assert one.steps == other.steps
                assert one.log_probs[0] == pytest.approx(other.log_probs[0], abs=1e-3)


def test_an_exported_sat_says_the_same_in_text(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "sat", kind="sat")
    lines = write_sentences(tmp_path / "text", 12)
    report = export_folder(model, tmp_path / "out", ("fp32",), None)
    assert all(one.same == one.sentences for one in report.agreements)
    assert "SAT" in (tmp_path / "out/README.md").read_text()
    original, exported = Translator(model, device="cpu"), Translator(tmp_path / "out", device="cpu")
    for segments in (1, 2, 4, None):
        wanted, got = (one.translate(lines, segments=segments, alternatives=2) for one in (original, exported))
        assert [one.text for one in wanted] == [one.text for one in got]
        assert all(len(one.segments) == 1 for one in got)
        assert all(len(one.segments[0].alternatives) == len(one.segments[0].log_probs) for one in got)


@pytest.mark.parametrize("k", [1, 3, 6])
def test_untrained_it_writes_as_many_tokens_as_are_wanted(k: int) -> None:
    engine = FixedEngine(InterleavedEngine(TorchEngine(lively(), CPU)), 13)
    for one in engine.decode(sources_of(4), np.full(4, k)):
        assert len(one.segments[0]) == 13 + (k > 1)
        assert one.steps == -(-len(one.segments[0]) // k)


def test_a_sat_refuses_what_it_cannot_do() -> None:
    engine = InterleavedEngine(TorchEngine(lively(), CPU))
    with pytest.raises(UserError, match="cannot be given words"):
        engine.decode([[7]], np.array([2]), Options(forced=[{(0, 0): 9}]))
    with pytest.raises(UserError, match="with segments 1 only"):
        engine.score([([7], [8])], 2)
    assert engine.score([([7], [8])]) == TorchEngine(lively(), CPU).score([([7], [8])])
    with pytest.raises(UserError, match=r"add train.random_prob=0 and train.repeat_prob=0"):
        parse_config({"model": {"kind": "sat"}})
