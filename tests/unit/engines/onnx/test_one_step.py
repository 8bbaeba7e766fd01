"""Models that write all at once, exported: the graphs fill places as torch does, alone and in batches."""

from pathlib import Path

import numpy as np
import pytest
import torch

from recoversat.config import ModelConfig
from recoversat.data.corpus import ParallelSentences, Sentences
from recoversat.decoding.segmentwise import Decoded
from recoversat.engines.engine import Options
from recoversat.engines.loading import EngineOptions, engine_for, load_engine, onnx_engine
from recoversat.engines.onnx.engine import OnnxEngine
from recoversat.engines.onnx.one_step import OnnxOneStepEngine
from recoversat.engines.torch.engine import TorchEngine
from recoversat.engines.torch.nat import TorchNatEngine
from recoversat.errors import UserError
from recoversat.export.folder import export_folder
from recoversat.export.shortlist import add_shortlist
from recoversat.model.nat import NatTransformer
from recoversat.model.transformer import Transformer
from recoversat.translator import Translator
from recoversat.vocab import N_SPECIAL
from tests.exported import write_exported
from tests.system.tiny_model import write_sentences, write_tiny_model

V = 140
CPU = torch.device("cpu")
OPTIONS = Options(iterations=4, lengths=3)
KINDS = ("nat", "cmlm", "ctc")


def model_of(kind: str) -> NatTransformer:
    """Make a model whose every weight, bias and norm has a say, and whose lengths stay near the source's."""
    torch.manual_seed(1)
    config = ModelConfig(
        kind=kind, d_model=32, d_hidden=64, n_heads=2, encoder_layers=2, decoder_layers=2, vocab_size=V, upsample=2
    )  # type: ignore[arg-type]
    model = NatTransformer(config).eval()
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, mean=1.0 if "norm.weight" in name else 0.0, std=0.3)
    if kind != "ctc":
        model.length.bias.data[60:75] += 4.0
    return model


def sources_of(n: int) -> list[list[int]]:
    rng = np.random.default_rng(2)
    return [rng.integers(N_SPECIAL, V, size=length).tolist() for length in rng.integers(1, 20, size=n)]


@pytest.fixture(scope="module", params=KINDS)
def engines(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    model = model_of(request.param)
    folder = write_exported(model, tmp_path_factory.mktemp("exported"))
    opened = {name: onnx_engine(folder, name, model.config, 1) for name in ("fp32", "int8")}
    return opened | {"torch": TorchNatEngine(model, CPU)}


def decode(engine: object, sources: list[list[int]]) -> list[Decoded]:
    assert isinstance(engine, OnnxOneStepEngine | TorchNatEngine)
    return engine.decode(sources, np.ones(len(sources), dtype=np.int64), OPTIONS)


def test_fp32_writes_what_torch_writes(engines: dict[str, object]) -> None:
    sources = sources_of(40)
    wanted, got = decode(engines["torch"], sources), decode(engines["fp32"], sources)
    assert len({len(one.segments[0]) for one in wanted}) > 5
    for one, other in zip(wanted, got, strict=True):
        assert one.segments == other.segments
        assert one.steps == other.steps
        assert one.log_probs[0] == pytest.approx(other.log_probs[0], abs=1e-3)


def test_int8_writes_nearly_the_same(engines: dict[str, object]) -> None:
    sources = sources_of(40)
    wanted, got = decode(engines["torch"], sources), decode(engines["int8"], sources)
    pairs = [
        (a, b)
        for one, other in zip(wanted, got, strict=True)
        for a, b in zip(one.segments[0], other.segments[0], strict=False)
    ]
    assert sum(a == b for a, b in pairs) > 0.5 * len(pairs)


@pytest.mark.parametrize("size", [1, 7])
def test_sentences_do_not_notice_their_batch(engines: dict[str, object], size: int) -> None:
    sources = sources_of(14)
    whole = decode(engines["fp32"], sources)
    for at in range(0, 14, size):
        for one, other in zip(decode(engines["fp32"], sources[at : at + size]), whole[at:], strict=False):
            assert one.segments == other.segments


def test_lengths_may_be_judged_by_a_teacher_as_with_torch(tmp_path: Path) -> None:
    model = model_of("nat")
    fp32 = write_exported(model, tmp_path, "fp32")
    teacher, sources = TorchEngine(Transformer(model.config), CPU), sources_of(6)
    both = (
        engine.judged_by(teacher, 5)
        for engine in (TorchNatEngine(model, CPU), onnx_engine(fp32, "fp32", model.config, 1))
    )
    wanted, got = (engine.decode(sources, np.ones(6, dtype=np.int64)) for engine in both)
    assert [one.segments for one in wanted] == [one.segments for one in got]


def test_a_judge_is_as_precise_as_what_it_judges(tmp_path: Path) -> None:
    """An export may have int8 alone, of the teacher too."""
    for name, kind in (("nat", "nat"), ("teacher", "segments")):
        export_folder(write_tiny_model(tmp_path / name, kind=kind), tmp_path / f"{name}8", ("int8",), None, force=True)
    judged = Translator(tmp_path / "nat8", device="cpu").judged_by(tmp_path / "teacher8", 3, "cpu")
    assert len(judged.translate(write_sentences(tmp_path / "text", 3))) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_an_exported_folder_says_the_same_in_text(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoversat.export.folder._SAMPLE", 4)
    model = write_tiny_model(tmp_path / kind, kind=kind)
    lines = write_sentences(tmp_path / "text", 4)
    report = export_folder(model, tmp_path / "out", ("fp32",), None)
    assert all(one.same == one.sentences for one in report.agreements if one.precision == "fp32")
    assert kind.upper() in (tmp_path / "out/README.md").read_text()
    wanted = Translator(model, device="cpu").translate(lines)
    exported = Translator(tmp_path / "out", device="cpu", compute_type="float32")
    assert isinstance(exported.engine, OnnxOneStepEngine)
    assert [one.text for one in exported.translate(lines)] == [one.text for one in wanted]
    with pytest.raises(UserError, match=f"memory of a '{kind}' model cannot be bounded"):
        load_engine(tmp_path / "out", exported.config.model, EngineOptions("cpu", max_memory=1 << 20))
    pairs = ParallelSentences(Sentences.of([[7, 8]]), Sentences.of([[9]]))
    with pytest.raises(UserError, match=f"a '{kind}' model has no shortlist"):
        add_shortlist(tmp_path / "out", pairs)


def test_a_model_of_segments_keeps_its_engine(tmp_path: Path) -> None:
    model = Transformer(
        ModelConfig(d_model=16, d_hidden=16, n_heads=2, encoder_layers=1, decoder_layers=1, vocab_size=V)
    )
    fp32 = write_exported(model, tmp_path, "fp32")
    assert type(onnx_engine(fp32, "fp32", model.config, 1)) is OnnxEngine
    assert type(engine_for(model, CPU)) is TorchEngine
