"""The graph engine's static buffers write what the reference engine writes; on a CPU, where nothing is captured."""

import numpy as np
import pytest
import torch

from benchmarks import gpu_check
from recoversat.config import ModelConfig, parse_config
from recoversat.decoding.segmentwise import Decoded, Forced
from recoversat.decoding.stepping import Ints
from recoversat.decoding.stopping import stoppable
from recoversat.decoding.verify import write_verified
from recoversat.engines.cuda.beam import BeamSession
from recoversat.engines.cuda.capture import Capturer, Replay, rehearse
from recoversat.engines.cuda.causal import CausalSession
from recoversat.engines.cuda.engine import AHEAD, GraphEngine
from recoversat.engines.cuda.layers import ManyRows
from recoversat.engines.cuda.model import GraphModel
from recoversat.engines.cuda.ops import PlainOps
from recoversat.engines.cuda.segments import SegmentSession
from recoversat.engines.cuda.session import Bucket, Session
from recoversat.engines.cuda.state import Arena, Field
from recoversat.engines.cuda.weights import collect_weights
from recoversat.engines.engine import Options
from recoversat.engines.pairs import equal_rows
from recoversat.engines.torch.engine import TorchEngine
from recoversat.errors import UserError
from recoversat.inference.exact import decode_exactly, decode_greedily
from recoversat.model.transformer import Transformer
from recoversat.text.tokenizer import BpeTokenizer
from recoversat.translator import Translator
from recoversat.vocab import BOS, DEL, EOS, N_SPECIAL, UNK

CPU = torch.device("cpu")
SHAPES = {
    "small": ModelConfig(d_model=64, d_hidden=96, n_heads=4, encoder_layers=2, decoder_layers=3, vocab_size=301),
    "odd": ModelConfig(d_model=38, d_hidden=51, n_heads=2, encoder_layers=1, decoder_layers=2, vocab_size=130),
    "few segments": ModelConfig(
        d_model=32, d_hidden=64, n_heads=1, encoder_layers=2, decoder_layers=1, vocab_size=128, max_segments=7
    ),
}


def lively_model(config: ModelConfig) -> Transformer:
    """Make a model whose every weight has a say, and which ends its segments after a few tokens."""
    return gpu_check.lively_model(config, ending=6)


Engines = tuple[TorchEngine, GraphEngine]


@pytest.fixture(scope="module", params=SHAPES)
def engines(request: pytest.FixtureRequest) -> Engines:
    config = SHAPES[request.param]
    return (
        TorchEngine(lively_model(config), CPU),
        GraphEngine(lively_model(config), CPU, torch.float32),
    )


def sources_of(lengths: list[int], seed: int = 2) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(N_SPECIAL, 120, length).tolist() for length in lengths]


def assert_same(
    engines: Engines,
    sources: list[list[int]],
    n_segments: list[int],
    limits: list[int],
    forced: list[Forced] | None = None,
    n_best: int = 0,
) -> list[Decoded]:
    reference, graphs = engines
    k, bounds = np.array(n_segments).clip(max=graphs.max_segments), np.array(limits)
    options = Options(forced=forced, top_tokens=n_best, limits=bounds)
    expected, got = (engine.decode(sources, k, options) for engine in (reference, graphs))
    assert len(got) == len(expected)
    for one, other in zip(expected, got, strict=True):
        assert one.segments == other.segments
        assert one.steps == other.steps
        assert len(one.top_tokens) == len(other.top_tokens)
        for place, log_probs in enumerate(one.log_probs):
            np.testing.assert_allclose(log_probs, other.log_probs[place], atol=2e-4)
            if n_best:
                _assert_same_alternatives(one.top_tokens[place], other.top_tokens[place])
    return got


def _assert_same_alternatives(expected: list[list[tuple[int, float]]], got: list[list[tuple[int, float]]]) -> None:
    for best, other in zip(expected, got, strict=True):
        assert [token for token, _ in best] == [token for token, _ in other]
        np.testing.assert_allclose([p for _, p in best], [p for _, p in other], atol=2e-4)


@pytest.mark.parametrize("n_segments", [1, 2, 5, 7, 10])
def test_one_sentence_comes_out_the_same(engines: Engines, n_segments: int) -> None:
    assert_same(engines, sources_of([13]), [n_segments], [12])


@pytest.mark.parametrize("count", [1, 3, 16, 21])
def test_batches_of_one_number_of_segments_come_out_the_same(engines: Engines, count: int) -> None:
    sources = sources_of(np.random.default_rng(count).integers(1, 40, count).tolist(), seed=count)
    for n_segments in (1, 10):
        limits = [-(-len(source) // n_segments) + 20 for source in sources]
        assert_same(engines, sources, [n_segments] * count, limits)


def test_a_batch_of_mixed_lengths_and_segments_comes_out_the_same(engines: Engines) -> None:
    sources = sources_of([7, 25, 1, 12, 3, 40, 9])
    got = assert_same(engines, sources, [1, 10, 5, 2, 1, 3, 10], [9, 4, 12, 7, 3, 15, 6])
    assert len({one.steps for one in got}) > 1
    assert DEL not in got[0].segments[0]
    assert DEL not in got[4].segments[0]


def test_segments_are_cut_off_at_their_limit(engines: Engines) -> None:
    sources = sources_of([5, 30])
    for limit in (1, 2):
        got = assert_same(engines, sources, [5, 5], [limit, limit + 1])
        assert all(len(segment) <= limit for segment in got[0].segments)


def test_long_texts_pass_through_several_cache_lengths(engines: Engines) -> None:
    never = [{(0, t): 50 for t in range(149)}, {(0, 3): 60}]
    got = assert_same(engines, sources_of([100, 4]), [1, 1], [150, 30], never)
    assert got[0].steps == 150


def test_forced_tokens_and_alternatives_come_out_the_same(engines: Engines) -> None:
    sources = sources_of([7, 25, 3])
    forced: list[Forced] = [{(0, 0): 17, (2, 1): EOS}, {}, {(1, 0): 44, (1, 1): DEL, (0, 30): 9}]
    assert_same(engines, sources, [3, 5, 2], [8, 9, 6], forced, n_best=3)
    assert_same(engines, sources, [3, 5, 2], [8, 9, 6], forced)
    assert_same(engines, sources, [3, 5, 2], [8, 9, 6], n_best=4)
    assert_same(engines, sources, [3, 5, 2], [8, 9, 6], [{}, {}, {}])


def test_a_step_taken_while_the_host_asks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    config = SHAPES["small"]
    engines = TorchEngine(lively_model(config), CPU), GraphEngine(lively_model(config), CPU, torch.float32)
    monkeypatch.setattr(ManyRows, "goes_ahead", True)
    for source in sources_of([13, 25, 3, 25]):
        for n_segments, limit in ((1, 40), (5, 12), (5, 1)):
            assert_same(engines, [source], [n_segments], [limit])
        assert_same_search(engines, [source], np.array([40]), beam=4, alpha=0.6)


def test_a_bucket_used_again_remembers_nothing(engines: Engines) -> None:
    long, short = sources_of([16, 15, 14]), sources_of([3, 2], seed=9)
    for sources in (long, short, long):
        assert_same(engines, sources, [4] * len(sources), [10] * len(sources))


def assert_same_search(
    engines: Engines, sources: list[list[int]], limits: Ints, beam: int, alpha: float, as_transformers: bool = False
) -> None:
    reference, graphs = engines
    options = Options(length_penalty=alpha, limits=limits, as_transformers=as_transformers)
    expected, got = (engine.search(sources, beam, options) for engine in (reference, graphs))
    for one, other in zip(expected, got, strict=True):
        assert (one.steps, one.segments) == (other.steps, other.segments)
        np.testing.assert_allclose(one.log_probs[0], other.log_probs[0], atol=2e-4)


@pytest.mark.parametrize(("beam", "alpha"), [(1, 0.6), (2, 0.0), (4, 0.6), (5, 1.5)])
def test_beam_search_comes_out_the_same(engines: Engines, beam: int, alpha: float) -> None:
    sources = sources_of([7, 25, 1, 12, 3, 40, 9], seed=beam)
    assert_same_search(engines, sources, np.array([len(source) + 20 for source in sources]), beam, alpha)
    assert_same_search(engines, sources[:3], np.array([1, 2, 5]), beam, alpha)


@pytest.mark.parametrize(("beam", "alpha"), [(1, 1.0), (2, 0.0), (4, 1.0), (5, 0.6)])
def test_beam_search_as_transformers_does_comes_out_the_same(engines: Engines, beam: int, alpha: float) -> None:
    sources = sources_of([7, 25, 1, 12, 3, 40, 9], seed=beam)
    limits = np.array([len(source) + 20 for source in sources])
    assert_same_search(engines, sources, limits, beam, alpha, as_transformers=True)
    assert_same_search(engines, sources[:3], np.array([1, 2, 5]), beam, alpha, as_transformers=True)


def test_wide_beams_over_few_tokens_come_out_the_same() -> None:
    config = ModelConfig(d_model=16, d_hidden=16, n_heads=2, encoder_layers=1, decoder_layers=1, vocab_size=9)
    engines = TorchEngine(lively_model(config), CPU), GraphEngine(lively_model(config), CPU, torch.float32)
    sources = [[5, 6, 7], [8], [5, 5, 5, 5, 5]]
    assert_same_search(engines, sources, np.array([6, 6, 6]), beam=4, alpha=0.6)
    assert_same_search(engines, sources, np.array([6, 6, 6]), beam=12, alpha=0.6)


def test_buckets_are_dropped_when_there_are_too_many() -> None:
    config = SHAPES["odd"]
    engine = GraphEngine(lively_model(config), CPU, torch.float32, max_buckets=2)
    for n_segments in (1, 2, 3, 2):
        engine.decode(sources_of([5]), np.array([n_segments]), Options(limits=np.array([4])))
    assert [bucket[2] for bucket in engine.buckets] == [3, 2]


def test_batches_that_need_too_much_memory_are_decoded_in_parts() -> None:
    config = SHAPES["odd"]
    model = lively_model(config)
    whole = GraphEngine(lively_model(config), CPU, torch.float32)
    parts = GraphEngine(lively_model(config), CPU, torch.float32, max_bytes=300_000)
    sources, k, limits = sources_of([5] * 11), np.full(11, 3), np.full(11, 9)
    assert_same((TorchEngine(model, CPU), parts), sources, k.tolist(), limits.tolist())
    found = [engine.search(sources, 2, Options(limits=limits)) for engine in (whole, parts)]
    assert [one.segments for one in found[0]] == [one.segments for one in found[1]]
    assert max(bucket[0] for bucket in parts.buckets) < 11


def test_one_copy_sets_buffers_and_one_fetches_results() -> None:
    number = {"number": Field((1,))}
    arena = Arena(number, CPU, {"count": Field((2,), torch.int32)}, {"log": Field((3,), torch.float32)})
    host, device = arena.host, arena.device
    host["number"][:], host["count"][:], host["log"][:] = 7, 8, 9
    arena.upload()
    assert [tensor.tolist() for tensor in device.values()] == [[7], [8, 8], [0, 0, 0]]
    for tensor in device.values():
        tensor.fill_(1)
    arena.fetch()
    assert [array.tolist() for array in host.values()] == [[7], [1, 1], [1, 1, 1]]


class RehearsingCapturer(Capturer):
    """Warms functions up as a GPU would before it captures them."""

    def capture(self, function: Replay, state: torch.Tensor) -> Replay:
        rehearse(function, state)
        return function


def test_warming_up_before_a_capture_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoversat.engines.cuda.engine.Capturer", RehearsingCapturer)
    config = SHAPES["small"]
    engines = TorchEngine(lively_model(config), CPU), GraphEngine(lively_model(config), CPU, torch.float32)
    sources, limits = sources_of([7, 25, 12]), [26, 64, 13]  # with K = 10, to the last place of the cache
    assert_same(engines, sources, [10, 1, 4], limits)
    assert_same(engines, sources, [2, 2, 2], limits, n_best=2)
    assert_same_search(engines, sources, np.array([27, 45, 64]), beam=4, alpha=0.6)


def test_a_step_asks_the_device_nothing_and_uses_nothing_of_the_host() -> None:
    """On torch's meta device there are no values: reading one, or mixing in a tensor of the host, is an error."""
    weights = collect_weights(lively_model(SHAPES["odd"]), torch.device("meta"), torch.float16)
    model, capturer = GraphModel(weights, PlainOps()), Capturer(CPU)
    for bucket in (Bucket(2, 16, 5, 64), Bucket(1, 16, 1, 64), Bucket(2, 16, 4, 128)):
        segments = SegmentSession(model, capturer, bucket)
        segments._run_encoder()
        for barred in (False, True):
            segments._run_step(64, barred)
    beam = BeamSession(model, capturer, Bucket(2, 16, 4, 64))
    beam._run_encoder()
    beam._run_step(64, False)
    causal = CausalSession(model, capturer, Bucket(1, 16, 32, 64))
    for encode, n_rows in ((True, 32), (False, 16)):
        causal._run(encode, n_rows, 64)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_writes_something_alike(dtype: torch.dtype) -> None:
    config, sources, k = SHAPES["small"], sources_of([12] * 16), np.full(16, 5)
    exact = GraphEngine(lively_model(config), CPU, torch.float32).decode(sources, k, Options(limits=np.full(16, 8)))
    with torch.backends.mkldnn.flags(enabled=False):  # it trips over instructions that some machines only claim to have
        half = GraphEngine(lively_model(config), CPU, dtype).decode(sources, k, Options(limits=np.full(16, 8)))
    pairs = [
        (a, b)
        for one, other in zip(exact, half, strict=True)
        for a, b in zip(one.segments, other.segments, strict=True)
    ]
    firsts = [(a[0], b[0]) for a, b in pairs]
    assert sum(one == other for one, other in firsts) >= 0.8 * len(firsts)


def test_nothing_becomes_nothing(engines: Engines) -> None:
    assert engines[1].decode([], np.zeros(0, dtype=np.int64)) == []
    assert engines[1].search([], 4) == []
    assert engines[1].score([]) == []


@pytest.mark.parametrize("n_segments", [1, 2, 5])
def test_given_targets_have_the_log_probabilities_of_decoding(engines: Engines, n_segments: int) -> None:
    graphs, sources = engines[1], sources_of([7, 25, 1, 12])
    pairs = list(zip(sources, sources_of([9, 20, 3, 0], seed=4), strict=True))
    targets = [equal_rows(target, n_segments) for _, target in pairs]
    places = [zip(own.segments.tolist(), own.steps.tolist(), strict=True) for own in targets]
    forced = [dict(zip(each, own.labels.tolist(), strict=True)) for each, own in zip(places, targets, strict=True)]
    stepwise = graphs.decode(sources, np.full(4, n_segments), Options(forced=forced, limits=np.full(4, 30)))
    for one, other in zip(stepwise, graphs.score(pairs, n_segments), strict=True):
        assert (one.segments, one.steps) == (other.segments, other.steps)
        np.testing.assert_allclose(np.concatenate(one.log_probs), np.concatenate(other.log_probs), atol=2e-4)


def test_it_says_what_it_is(engines: Engines) -> None:
    assert engines[1].description["engine"] == "graphs (plain)"


def test_a_translator_writes_the_same_with_it(tokenizer: BpeTokenizer) -> None:
    config = parse_config({"data": {"tokenizer": "bpe"}, "train": {"segments": 3}})
    shape = ModelConfig(d_model=16, d_hidden=16, n_heads=2, encoder_layers=1, decoder_layers=1, vocab_size=14)
    engines = TorchEngine(lively_model(shape), CPU), GraphEngine(lively_model(shape), CPU, torch.float32)
    reference, graphs = (Translator.of(engine, tokenizer, config) for engine in engines)
    texts = ["the house", "", "a b c in the gas"]
    for how in ({"segments": 3}, {"segments": 1}, {"segments": 1, "beam": 3}, {"segments": 2, "alternatives": 2}):
        expected, got = reference.translate(texts, **how), graphs.translate(texts, **how)
        assert [one.text for one in expected] == [one.text for one in got]
        assert [one.steps for one in expected] == [one.steps for one in got]
        assert [one.score for one in expected] == pytest.approx([one.score for one in got], abs=1e-4)
    assert {bucket[2] for bucket in graphs.engine.buckets} == {1, 3}  # what is traced has no graphs of its own


def test_models_vary_in_what_they_write(engines: Engines) -> None:
    """Guard the tests above: lengths differ and both endings occur."""
    sources = sources_of([20] * 30)
    k = np.full(30, 5)
    got = engines[1].decode(sources, k, Options(limits=np.full(30, 24)))
    endings = {segment[-1] for one in got for segment in one.segments}
    lengths = {len(segment) for one in got for segment in one.segments}
    assert {EOS, DEL} <= endings
    assert len(lengths) > 9


def test_given_translations_score_the_same(engines: Engines) -> None:
    sources, targets = sources_of([7, 25, 1, 40, 17]), sources_of([9, 15, 1, 70, 16], seed=4)
    pairs = [*zip(sources, targets, strict=True), (sources[0], []), (sources[1], targets[1])]
    for some in (pairs, pairs[:1], pairs[3:4], pairs):  # in another bucket, and in the same one again
        expected, got = (engine.score(some) for engine in engines)
        for one, other in zip(expected, got, strict=True):
            assert one.segments == other.segments
            np.testing.assert_allclose(one.log_probs[0], other.log_probs[0], atol=2e-4)
    graphs = engines[1]
    assert any(len(bucket) == 4 and bucket[0] == 8 and bucket[2] == 96 for bucket in graphs.buckets)  # all in one pass


def test_what_graphs_do_not_score_the_reference_does(engines: Engines) -> None:
    reference, graphs = engines
    pairs = [(source, [20, UNK, 30, 40]) for source in sources_of([6, 9])]
    assert graphs.score(pairs) == reference.score(pairs)
    assert graphs.score([(pairs[0][0], [20, 30, 40])], 2) == reference.score([(pairs[0][0], [20, 30, 40])], 2)
    with pytest.raises(UserError, match="pair 2"):
        graphs.score([(pairs[0][0], [20]), ([], [20])])


@pytest.mark.parametrize("length", [1, 9, 30, 80])
def test_what_is_verified_is_what_one_segment_writes(engines: Engines, length: int) -> None:
    graphs = engines[1]
    (source,) = sources_of([length], seed=length)
    options = Options(limits=np.array([length + 20]))
    (expected,) = graphs.decode([source], np.array([1]), options)
    words = expected.segments[0][:-1]
    for draft in ([], words, words[::-1], [*words[:3], 99, *words[3:]], words[2:], words[:4] * 20):
        written = write_verified(draft, graphs.verifier(source, length + 20), length + 20, scores=True)
        assert written.segments == expected.segments
        np.testing.assert_allclose(written.log_probs[0], expected.log_probs[0], atol=2e-4)
        if draft == words:
            assert written.steps == -(-len(expected.segments[0]) // (AHEAD + 1))


def test_a_draft_is_compared_as_the_reference_does(engines: Engines) -> None:
    (source,) = sources_of([20])
    reference, graphs = (engine.verifier(source, 60) for engine in engines)
    for tokens, kept in (([BOS, 9, 10, 11], 2), ([20, 21, 22, 23, 24], 3), ([30], 4), ([31, 32], 6)):
        for one, other in zip(reference.compare(tokens), graphs.compare(tokens), strict=True):
            np.testing.assert_allclose(one, other, atol=2e-4)
        for verifier in (reference, graphs):
            verifier.forget(kept)


@pytest.mark.parametrize("max_buckets", [96, 1])  # one: the other's work drops what was captured, too
def test_a_sentence_verified_in_between_takes_nothing_from_another(max_buckets: int) -> None:
    """As a server does it: a short request is translated between two passes of a long one."""
    graphs = GraphEngine(lively_model(SHAPES["small"]), CPU, torch.float32, max_buckets=max_buckets)
    limits = Options(limits=np.array([50]))
    written = [(source, graphs.decode([source], np.array([1]), limits)[0]) for source in sources_of([30] * 20)]
    (first, expected), (second, other) = [(source, one) for source, one in written if one.steps > 5][:2]
    passes, inner = 0, list[Decoded]()

    def in_between() -> None:
        nonlocal passes
        passes += 1
        if passes == 4:
            with stoppable(lambda: None):
                inner.append(write_verified([], graphs.verifier(second, 50), 50, scores=True))

    with stoppable(in_between):
        again = write_verified([], graphs.verifier(first, 50), 50, scores=True)  # without a draft: a token a pass
    assert [again.segments, inner[0].segments] == [expected.segments, other.segments]
    np.testing.assert_allclose(again.log_probs[0], expected.log_probs[0], atol=2e-4)


def test_drafts_are_verified_by_graphs_not_step_by_step(engines: Engines) -> None:
    reference, graphs = engines
    (source,) = sources_of([30])
    one, k = Options(limits=np.array([50])), np.array([5])
    expected = decode_greedily(reference, [source], one)[0]
    got = decode_exactly(graphs, [source], k, one)[0]
    assert got.segments == expected.segments
    assert got.accepted  # none where K = 1 wrote every token itself


@pytest.fixture
def encodings(monkeypatch: pytest.MonkeyPatch) -> list[type[Session]]:
    """Note whose encoder runs."""
    found: list[type[Session]] = []
    run = Session._run_encoder
    monkeypatch.setattr(Session, "_run_encoder", lambda session: (found.append(type(session)), run(session))[1])
    return found


@pytest.mark.parametrize("length", [2, 14, 40])
def test_exact_writes_what_one_segment_writes_and_encodes_once(
    engines: Engines, encodings: list[type[Session]], length: int
) -> None:
    graphs, limits = engines[1], Options(limits=np.array([length + 20]))
    for source in sources_of([length] * 5, seed=length):
        expected = decode_greedily(graphs, [source], limits)[0]
        encodings.clear()
        got = decode_exactly(graphs, [source], np.array([4]), limits)[0]
        assert encodings == [SegmentSession]
        assert got.segments == expected.segments
        np.testing.assert_allclose(got.log_probs[0], expected.log_probs[0], atol=2e-4)


def test_a_source_that_others_wrote_over_is_encoded_again(engines: Engines, encodings: list[type[Session]]) -> None:
    reference, graphs = engines
    first, second = sources_of([20, 20])
    shorter = second[:17]  # of the same bucket
    limits = Options(limits=np.array([30]))
    asked = [[BOS, 9, 10, 11], [20, 21, 22, 23, 24], [30], [31, 32], [33]]
    mine, theirs = graphs.verifier(first, 60), reference.verifier(first, 60)
    encoded = []
    for number, tokens in enumerate(asked):
        encodings.clear()
        for one, other in zip(theirs.compare(tokens), mine.compare(tokens), strict=True):
            np.testing.assert_allclose(one, other, atol=2e-4)
        encoded.append(encodings == [CausalSession])
        if number in {1, 2}:
            graphs.decode([(second, shorter)[number - 1]], np.array([3]), limits)
    assert encoded == [True, False, True, True, False]


def test_what_is_encoded_is_known_by_all_that_the_encoder_reads(
    engines: Engines, encodings: list[type[Session]]
) -> None:
    """A source and its beginning differ, though padding has the number of a token."""
    graphs, limits = engines[1], Options(limits=np.array([5]))
    (source,) = sources_of([12])
    for own in (source, source[:-1], [*source[:-1], 0], source):
        graphs.decode([source], np.array([3]), limits)
        encodings.clear()
        found = graphs.verifier(own, 60).compare([BOS, 9, 10])
        assert encodings == ([] if own == source else [CausalSession])
        for one, other in zip(engines[0].verifier(own, 60).compare([BOS, 9, 10]), found, strict=True):
            np.testing.assert_allclose(one, other, atol=2e-4)


def test_passes_of_few_and_many_rows_share_a_cache_and_forget(engines: Engines) -> None:
    (source,) = sources_of([25])
    tokens = sources_of([200], seed=7)[0]
    reference, graphs = (engine.verifier(source, 90) for engine in engines)
    at = 0
    for n, kept in ((20, 5), (3, 8), (32, 20), (16, 36), (17, 40), (1, 41), (32, 60), (2, 61), (32, 62), (5, 67)):
        for one, other in zip(*(own.compare(tokens[at : at + n]) for own in (reference, graphs)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-4)
        at += n
        for verifier in (reference, graphs):
            verifier.forget(kept)


def test_a_pass_has_no_more_rows_and_looks_at_no_more_places_than_it_needs(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs, sizes = engines[1], list[tuple[int, ...]]()
    replay = Session._replay
    monkeypatch.setattr(
        Session, "_replay", lambda session, run, *how: (sizes.append(how[1:]), replay(session, run, *how))[1]
    )
    verifier = graphs.verifier(sources_of([25])[0], 150)
    for n in (13, 16, 17, 32, 13, 2):
        verifier.compare([9] * n)
    assert sizes == [(16, 64), (16, 64), (32, 64), (32, 128), (16, 128), (16, 128)]


def test_a_pass_may_be_rehearsed_before_it_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoversat.engines.cuda.engine.Capturer", RehearsingCapturer)
    graphs, limits = GraphEngine(lively_model(SHAPES["small"]), CPU, torch.float32), Options(limits=np.array([45]))
    for source in sources_of([25, 25, 8, 25]):
        expected = decode_greedily(graphs, [source], limits)[0]
        assert decode_exactly(graphs, [source], np.array([4]), limits)[0].segments == expected.segments


def test_room_for_encoded_sources_is_shared_and_given_back() -> None:
    model = GraphModel(collect_weights(lively_model(SHAPES["odd"]), CPU, torch.float32), PlainOps())
    one, other = model.encoded(1, 16), model.encoded(1, 16)
    one.of = (b"a source",)
    assert one is other
    assert model.encoded(1, 32) is not one
    del one, other
    assert not model.encoded(1, 16).of


def test_only_some_tokens_begin_segments_and_one_segment_begins_as_it_likes(engines: Engines) -> None:
    reference, graphs = engines
    sources, k, limits = sources_of([7, 25, 3, 12]), np.array([4, 1, 2, 5]), np.full(4, 9)
    free = reference.decode(sources, k, Options(limits=limits))
    begins = np.zeros(len(reference._model.embedding.weight), dtype=bool)
    begins[[EOS, DEL, *range(40, 60)]] = True
    begins[free[1].segments[0][0]] = False  # what K = 1 begins with
    options = Options(limits=limits, begins=begins)
    expected, got = (engine.decode(sources, k, options) for engine in (reference, graphs))
    assert [one.segments for one in got] == [one.segments for one in expected]
    assert got[1].segments == free[1].segments
    assert all(begins[segment[0]] for one in (got[0], *got[2:]) for segment in one.segments)
    assert not all(begins[token] for one in got for segment in one.segments for token in segment[1:])
    assert [one.segments for one in graphs.decode(sources, k, Options(limits=limits))] == [one.segments for one in free]
