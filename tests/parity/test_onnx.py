"""The ONNX engine writes what the torch engine writes: same tokens in fp32, nearly the same in int8."""

from pathlib import Path

import numpy as np
import pytest
import torch

from recoversat.config import ModelConfig
from recoversat.decoding.segmentwise import Decoded, Forced
from recoversat.decoding.stepping import FREE, Bools, Choice, Ints, Stepper
from recoversat.engines.engine import Options, StepEngine
from recoversat.engines.onnx.engine import OnnxEngine
from recoversat.engines.torch.engine import TorchEngine
from recoversat.export.checks import compare_tokens
from recoversat.inference.exact import decode_exactly, verifier_for
from recoversat.model.transformer import Transformer
from recoversat.segments import assemble
from recoversat.vocab import BOS, DEL, EOS, N_SPECIAL, NEVER_EMITTED
from tests.exported import write_exported

SHAPES = {
    "small": ModelConfig(d_model=64, d_hidden=96, n_heads=4, encoder_layers=2, decoder_layers=3, vocab_size=301),
    "odd": ModelConfig(d_model=278, d_hidden=507, n_heads=2, encoder_layers=2, decoder_layers=2, vocab_size=1001),
    "deep encoder": ModelConfig(
        d_model=32, d_hidden=130, n_heads=1, encoder_layers=4, decoder_layers=1, vocab_size=128, max_segments=12
    ),
}
INT8_SHAPES = {
    "small": SHAPES["small"],
    "deep encoder": SHAPES["deep encoder"].model_copy(update={"d_hidden": 160}),
}


def lively_model(config: ModelConfig, seed: int) -> Transformer:
    """Make a model whose every weight, bias and norm has a say in what it writes."""
    torch.manual_seed(seed)
    model = Transformer(config)
    for parameter in model.parameters():
        matrix = parameter.dim() > 1
        torch.nn.init.normal_(parameter, mean=0.0 if matrix else 0.5, std=2 / config.d_model**0.5 if matrix else 0.3)
    torch.nn.init.normal_(model.embedding.weight, std=0.3)
    return model


@pytest.fixture(scope="module", params=SHAPES)
def engines(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, StepEngine]:
    return engines_of(lively_model(SHAPES[request.param], seed=1), tmp_path_factory.mktemp("onnx"))


@pytest.fixture(scope="module", params=INT8_SHAPES)
def int8(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, StepEngine]:
    """Return the engines of models whose sizes are those of int8."""
    return engines_of(lively_model(INT8_SHAPES[request.param], seed=1), tmp_path_factory.mktemp("int8"))


def engines_of(model: Transformer, folder: Path) -> dict[str, StepEngine]:
    precisions = ["fp32", "int8"] if model.config in INT8_SHAPES.values() else ["fp32"]
    write_exported(model, folder, *precisions)
    loaded: dict[str, StepEngine] = {name: OnnxEngine(folder, name, model.config) for name in precisions}
    return loaded | {"torch": TorchEngine(model, torch.device("cpu"))}


def sources_of(lengths: list[int], seed: int = 2) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(N_SPECIAL, 120, length).tolist() for length in lengths]


def decode(
    engine: StepEngine, sources: list[list[int]], n_segments: Ints, limits: Ints, forced: list[Forced] | None = None
) -> list[Decoded]:
    return engine.decode(sources, n_segments, Options(forced=forced, limits=limits, top_tokens=3))


def assert_same(expected: list[Decoded], got: list[Decoded]) -> None:
    for one, other in zip(expected, got, strict=True):
        assert one.segments == other.segments
        assert one.steps == other.steps
        for place, log_probs in enumerate(one.log_probs):
            np.testing.assert_allclose(log_probs, other.log_probs[place], atol=2e-4)
            for best, other_best in zip(one.top_tokens[place], other.top_tokens[place], strict=True):
                assert [token for token, _ in best] == [token for token, _ in other_best]
                np.testing.assert_allclose([p for _, p in best], [p for _, p in other_best], atol=2e-4)


@pytest.mark.parametrize("n_segments", [1, 2, 5, 10])
def test_one_sentence_comes_out_the_same(engines: dict[str, StepEngine], n_segments: int) -> None:
    sources, k, limits = sources_of([13]), np.array([n_segments]), np.array([12])
    assert_same(decode(engines["torch"], sources, k, limits), decode(engines["fp32"], sources, k, limits))


def test_a_batch_of_mixed_lengths_and_segments_comes_out_the_same(engines: dict[str, StepEngine]) -> None:
    sources = sources_of([7, 25, 1, 12, 3, 40, 9])
    k, limits = np.array([1, 10, 5, 2, 1, 3, 10]), np.array([9, 4, 12, 7, 3, 15, 6])  # members leave one by one
    assert_same(decode(engines["torch"], sources, k, limits), decode(engines["fp32"], sources, k, limits))


def test_a_sharp_model_does_not_see_padding_either(tmp_path: Path) -> None:
    model = lively_model(SHAPES["small"], seed=1)
    for name, weight in model.named_parameters():
        if name.endswith(("qkv.weight", "query.weight")):
            weight.data *= 8  # scores of attention then differ by hundreds
    engines = engines_of(model, tmp_path)
    sources, k, limits = sources_of([3, 40, 1, 2]), np.full(4, 2), np.full(4, 6)
    assert_same(decode(engines["torch"], sources, k, limits), decode(engines["fp32"], sources, k, limits))


def test_outputs_far_longer_than_expected_come_out_the_same(engines: dict[str, StepEngine]) -> None:
    sources, k, limits = sources_of([2, 3]), np.array([2, 1]), np.array([70, 80])
    assert_same(decode(engines["torch"], sources, k, limits), decode(engines["fp32"], sources, k, limits))


def test_forced_tokens_are_taken_and_scored_the_same(engines: dict[str, StepEngine]) -> None:
    sources, k, limits = sources_of([8, 11]), np.array([3, 1]), np.array([6, 6])
    forced: list[Forced] = [{(0, 0): 40, (0, 1): EOS, (2, 3): 77, (1, 0): DEL}, {(0, 2): 99, (0, 4): EOS}]
    expected = decode(engines["torch"], sources, k, limits, forced)
    assert expected[0].segments[0] == [40, EOS]
    assert_same(expected, decode(engines["fp32"], sources, k, limits, forced))


def test_more_rows_than_one_part_holds_come_out_the_same(engines: dict[str, StepEngine]) -> None:
    sources, k, limits = sources_of([5, 9, 14] * 6), np.full(18, 10), np.tile([3, 5, 4], 6)
    assert_same(decode(engines["torch"], sources, k, limits), decode(engines["fp32"], sources, k, limits))


def play(stepper: Stepper, seed: int, n_segments: int, members: int) -> list[tuple[Choice, Bools]]:
    """Step with tokens, endings and reorderings that do not depend on what the model chooses."""
    rng, played = np.random.default_rng(seed), []
    tokens, active = np.full((members, n_segments), BOS), np.ones((members, n_segments), dtype=bool)
    for step in range(9):
        forced = rng.integers(N_SPECIAL, 120, tokens.shape)
        forced[rng.random(tokens.shape) < 0.5] = FREE
        played.append((stepper.step(tokens, active, forced if step % 2 else None, n_best=4), active))
        tokens = rng.integers(N_SPECIAL, 120, tokens.shape)
        active = active & (rng.random(tokens.shape) < 0.9)
        if step % 3 == 2:
            which = rng.integers(0, len(tokens), len(tokens) + 1)  # one is named twice, others leave
            stepper.keep(which)
            tokens, active = tokens[which], active[which]
    return played


@pytest.mark.parametrize("n_segments", [1, 4])
def test_endings_and_reorderings_come_out_the_same(engines: dict[str, StepEngine], n_segments: int) -> None:
    sources, k = sources_of([6, 17, 11, 2]), np.full(4, n_segments)
    expected = play(engines["torch"].start(sources, k), 3, n_segments, 4)
    for (one, active), (other, _) in zip(
        expected, play(engines["fp32"].start(sources, k), 3, n_segments, 4), strict=True
    ):
        np.testing.assert_array_equal(one.tokens[active], other.tokens[active])
        np.testing.assert_allclose(one.log_probs[active], other.log_probs[active], atol=2e-4)
        assert one.best_tokens is not None
        assert other.best_tokens is not None
        np.testing.assert_array_equal(one.best_tokens[active], other.best_tokens[active])


@pytest.mark.parametrize("n_segments", [1, 4])
def test_int8_scores_stay_close(int8: dict[str, StepEngine], n_segments: int) -> None:
    sources, k = sources_of([6, 17, 11, 2]), np.full(4, n_segments)
    expected = play(int8["torch"].start(sources, k), 3, n_segments, 4)
    got = play(int8["int8"].start(sources, k), 3, n_segments, 4)
    errors = np.concatenate(
        [np.abs(one.log_probs - other.log_probs)[active & (one.tokens == other.tokens)]
         for (one, active), (other, _) in zip(expected, got, strict=True)]
    )  # fmt: skip
    same = [(one.tokens == other.tokens)[active] for (one, active), (other, _) in zip(expected, got, strict=True)]
    spread = np.concatenate([one.log_probs[active] for one, active in expected]).std()
    assert np.concatenate(same).mean() > 0.85
    assert np.median(errors) < 0.05 * spread
    assert errors.max() < 0.4 * spread
    assert errors.max() > 0  # it is not fp32


@pytest.mark.parametrize("name", ["fp32", "int8"])
def test_what_must_not_be_written_is_not(int8: dict[str, StepEngine], name: str) -> None:
    options = Options(top_tokens=90, limits=np.full(2, 3), forced=[{(0, 1): DEL}] * 2)
    single, double = int8[name].decode(sources_of([6, 9]), np.array([1, 2]), options)
    for one in (single, double):
        likely = [token for step in one.top_tokens[0] for token, log_prob in step if log_prob > -np.inf]
        assert likely
        assert not np.isin(likely, NEVER_EMITTED).any()
    assert single.log_probs[0][1] == -np.inf
    assert np.isfinite(double.log_probs[0][1])


@pytest.mark.parametrize("n_segments", [1, 2, 5, 10])
@pytest.mark.parametrize("name", ["fp32", "torch"])
def test_one_pass_scores_as_one_step_after_the_other(
    engines: dict[str, StepEngine], name: str, n_segments: int
) -> None:
    pairs = list(zip(sources_of([7, 25, 1, 12, 40, 3]), sources_of([9, 31, 2, 0, 17, 8], seed=5), strict=True))
    at_once, stepwise = engines[name].score(pairs, n_segments), StepEngine.score(engines[name], pairs, n_segments)
    for one, other, (_, target) in zip(at_once, stepwise, pairs, strict=True):
        assert (one.segments, one.steps) == (other.segments, other.steps)
        assert assemble(one.segments) == target
        np.testing.assert_allclose(np.concatenate(one.log_probs), np.concatenate(other.log_probs), atol=1e-4)


@pytest.mark.parametrize("n_segments", [1, 3])
def test_engines_give_targets_the_same_scores(engines: dict[str, StepEngine], n_segments: int) -> None:
    pairs = list(zip(sources_of([7, 25, 1]), sources_of([9, 31, 2], seed=5), strict=True))
    for one, other in zip(
        engines["torch"].score(pairs, n_segments), engines["fp32"].score(pairs, n_segments), strict=True
    ):
        np.testing.assert_allclose(np.concatenate(one.log_probs), np.concatenate(other.log_probs), atol=2e-4)


@pytest.mark.parametrize("name", ["torch", "fp32"])
def test_drafts_are_verified_into_what_one_segment_writes(engines: dict[str, StepEngine], name: str) -> None:
    engine, rng = engines[name], np.random.default_rng(3)
    one = np.array([1])
    for source in sources_of([3, 14, 25, 9, 40]):
        limit = len(source) + 8
        options = Options(limits=np.array([limit]))
        (greedy,) = engine.decode([source], one, options)
        (drafted,) = decode_exactly(engine, [source], np.array([5]), options)
        assert drafted.segments == greedy.segments
        text = assemble(greedy.segments)
        for draft in (text, text[3:], [*text[:4], *rng.integers(N_SPECIAL, 120, 3).tolist(), *text[6:]], []):
            verify = verifier_for(engine, [source], options)
            assert verify
            written = verify(draft)
            assert written.segments == greedy.segments
            np.testing.assert_allclose(written.log_probs[0], greedy.log_probs[0], atol=2e-4)
            assert written.steps <= greedy.steps


def test_engines_let_the_same_of_a_draft_stand(engines: dict[str, StepEngine]) -> None:
    rng = np.random.default_rng(4)
    for source in sources_of([14, 25, 9]):
        draft = rng.integers(N_SPECIAL, 120, len(source)).tolist()
        first, second = (engines[name].verifier(source, 60) for name in ("torch", "fp32"))
        assert first is not None
        assert second is not None
        for tokens in ([BOS, *draft[:5]], draft[2:9], draft[:1]):
            for one, other in zip(first.compare(tokens), second.compare(tokens), strict=True):
                np.testing.assert_allclose(one, other, atol=2e-4)
            for verifier in (first, second):
                verifier.forget(3)
        for tolerance in (0.5, 3.0):
            options = Options(limits=np.array([40]), tolerance=tolerance)
            one, other = (
                decode_exactly(engines[name], [source], np.array([5]), options)[0] for name in ("torch", "fp32")
            )
            assert one.segments == other.segments
            np.testing.assert_allclose(one.log_probs[0], other.log_probs[0], atol=2e-4)


def test_comparison_counts_differing_sentences(engines: dict[str, StepEngine]) -> None:
    sources = sources_of([6, 9, 4])
    assert compare_tokens(engines["torch"], engines["fp32"], sources, 3, "fp32").first_difference is None
    other = TorchEngine(lively_model(SHAPES["small"], seed=5), torch.device("cpu"))
    check = compare_tokens(engines["torch"], other, sources, 3, "fp32")
    assert (check.same < 3, check.sentences, check.first_difference) == (True, 3, 0)


def test_exported_graphs_are_valid_onnx(tmp_path: Path) -> None:
    import onnx

    config = SHAPES["small"]
    write_exported(lively_model(config, 1), tmp_path)
    graphs = [tmp_path / "onnx" / precision / name for precision in ("fp32", "int8") for name in ("encoder", "step")]
    for path in graphs:
        model = onnx.load(path.with_suffix(".onnx"), load_external_data=False)
        assert {opset.domain for opset in model.opset_import} == {"", "com.microsoft"}
        assert all(node.op_type != "Identity" for node in model.graph.node)


def test_segments_begin_with_the_same_tokens_where_not_all_may(engines: dict[str, StepEngine]) -> None:
    sources, k, limits = sources_of([5, 17, 2, 9]), np.array([4, 1, 2, 5]), np.full(4, 7)
    size = engines["torch"].start(sources, k).step(np.full((4, 5), BOS), np.ones((4, 5), bool), n_best=9999).best_tokens
    assert size is not None
    begins = np.zeros(size.shape[-1], dtype=bool)
    begins[[EOS, DEL, *range(40, 60)]] = True
    options = Options(limits=limits, top_tokens=3, begins=begins)
    expected, got = (engines[name].decode(sources, k, options) for name in ("torch", "fp32"))
    assert_same(expected, got)
    assert all(begins[segment[0]] for one in (got[0], *got[2:]) for segment in one.segments)
    assert got[1].segments == decode(engines["fp32"], sources[1:2], k[1:2], limits[1:2])[0].segments
    again = engines["fp32"].decode(sources, k, Options(limits=limits, top_tokens=3))
    assert_same(decode(engines["torch"], sources, k, limits), again)  # nothing stays barred


def test_engines_mark_the_same_tokens(int8: dict[str, StepEngine]) -> None:
    pairs = list(zip(sources_of([5, 17, 2]), sources_of([9, 1, 30], seed=5), strict=True))
    expected, got, rough = (int8[name].deletions(pairs) for name in ("torch", "fp32", "int8"))
    for (_, target), one, other, third in zip(pairs, expected, got, rough, strict=True):
        assert len(target) == len(one) == len(third)
        np.testing.assert_allclose(np.log(one), np.log(other), atol=5e-4)
    assert np.ptp(np.log(expected[2])) > 0.01  # or the comparison means nothing
