"""What the engine in C++ keeps: memory is given back, and what sentences will keep is known before they begin."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

from recoversat.config import ModelConfig
from recoversat.decoding.stopping import stoppable
from recoversat.engines.engine import Options
from recoversat.engines.native._engine import Sentence, Shortlist, Verify
from recoversat.engines.native.engine import NativeEngine
from recoversat.engines.vocabulary import TABLE
from recoversat.engines.vocabulary import Shortlist as Table
from recoversat.export.int8 import quantised
from recoversat.files.int8 import write_int8
from recoversat.measuring.speed.untrained import made_up_ranges, random_weights
from recoversat.vocab import DEL, EOS, N_SPECIAL
from tests.processors import needs_native
from tests.unit.engines.native.test_native_engine import under_way

K, V, D = 8, 8192, 32
CONFIG = ModelConfig(
    d_model=D, d_hidden=32, n_heads=2, encoder_layers=1, decoder_layers=1, vocab_size=V, max_segments=K
)
LISTED = 4000  # pieces of a list: not yet too many to be used
SOURCE = [7, 8, 9, 10, 11]


class _Heap(ctypes.Structure):
    _names = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    _fields_ = [(name, ctypes.c_size_t) for name in _names]


HAS_COUNTS = hasattr(ctypes.CDLL(None), "mallinfo2")
pytestmark = [needs_native, pytest.mark.skipif(not HAS_COUNTS, reason="what is allocated is counted by glibc 2.33")]


def allocated() -> int:
    """Return how many bytes this process has allocated and not given back, in all threads."""
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = _Heap
    heap = libc.mallinfo2()
    return int(heap.uordblks + heap.hblkhd)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    weights, made = random_weights(CONFIG), tmp_path_factory.mktemp("model")
    write_int8(made, quantised(weights, CONFIG, made_up_ranges(weights)), CONFIG)
    common = np.zeros((1, V), dtype=np.bool_)
    common[0, [EOS, DEL, *range(N_SPECIAL, LISTED)]] = True
    Table(np.full((V, 1), 70), np.array([], dtype=np.int64), common).save(made / TABLE)
    return made


def living(steps: int, **more: bool) -> Options:
    """Let every segment live so long, whatever it writes."""
    return Options(lives=np.full(K, steps), **more)


def most_allocated(engine: NativeEngine, sentences: int, options: Options) -> tuple[int, int]:
    """Decode a batch; return how many bytes more were allocated meanwhile, at most, and how many are afterwards."""
    before, found = allocated(), [0]
    with stoppable(lambda: found.append(allocated() - before)):
        engine.decode([SOURCE] * sentences, np.full(sentences, K), options)
    return max(found), allocated() - before


def test_sentences_that_are_done_leave_no_more_behind_than_may_be_kept(folder: Path) -> None:
    engine, steps = NativeEngine(folder, CONFIG, max_memory=1), 1000
    most_allocated(engine, 1, living(2))
    most, left = most_allocated(engine, 1, living(steps))
    held = 2 * steps * K * D * 4  # keys and values of the one layer
    assert most > held
    assert left < held / 2  # room for the scores of five queries and for positions stays: a quarter


@pytest.mark.parametrize(("shortlist", "steps"), [(False, 100), (True, 12)])
def test_a_batch_takes_no_more_than_it_may(folder: Path, shortlist: bool, steps: int) -> None:
    """Keys and values count, and so do the pieces of the lists, which are most of it where sentences are short."""
    sentences, options, bound = 32, living(steps, shortlist=shortlist, verified=False), 1 << 20
    taken = []
    for max_memory in (None, 2 * bound):
        engine = NativeEngine(folder, CONFIG, max_memory=max_memory)
        engine._model.side_by_side = 1000
        most_allocated(engine, 1, options)
        taken.append(most_allocated(engine, sentences, options)[0])
    unbounded, bounded = taken
    assert unbounded > 4 * bound
    assert bounded < 1.25 * bound


@pytest.mark.parametrize("steps", [5, 50])
def test_what_a_sentence_will_keep_is_known_before_it_begins(
    folder: Path, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The least bound for four sentences side by side grows by their lists, and by the rows these are verified with."""
    engine = NativeEngine(folder, CONFIG)
    engine._model.side_by_side = 1000
    found = under_way(engine, monkeypatch)
    bias = engine._bias.copy()
    bias[[EOS, DEL]] = -np.inf  # all are under way as long as they may be

    def least(shortlist: Shortlist | None, verify: Verify) -> int:
        """Return how many bytes a sentence has to be allowed: all of them fit, or one less."""
        too_little, enough = 0, 1 << 24
        while enough - too_little > 64:
            found.clear()
            middle = (too_little + enough) // 2
            sentences = [Sentence(SOURCE, [steps] * K, bias, bias, None) for _ in range(4)]
            engine._model.write(sentences, shortlist, max_bytes=middle, verify=verify)
            too_little, enough = (too_little, middle) if max(found) == 4 else (middle, enough)
        return enough // 4

    plain = least(None, Verify.NO)
    listed = least(engine._shortlist, Verify.NO)
    verified = least(engine._shortlist, Verify.YES)
    rows = K * steps
    assert plain >= 2 * D * 4 * (rows + len(SOURCE))
    assert listed - plain >= LISTED * D
    assert verified - listed >= rows * D
