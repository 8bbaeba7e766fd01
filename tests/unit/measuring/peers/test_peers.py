"""A new peer is a class and a line: with no more than that, evaluate and bench measure it."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from recoversat.errors import UserError
from recoversat.measuring import peers
from recoversat.measuring.own import load_system
from recoversat.measuring.quality.run import Request, run_evaluation
from recoversat.measuring.specs import SystemSpec, TestSpec
from recoversat.measuring.speed import results
from recoversat.measuring.speed.pool import Worker
from recoversat.measuring.speed.untrained import build_untrained, untrained_config
from recoversat.measuring.speed.worker import serve
from recoversat.measuring.system import Peer, PeerTranslation, nothing_done


class Capitals(Peer):
    """Writes everything in capitals."""

    title, package, marker = "Capitals", "capitals", "capitals.txt"

    def __init__(self, spec: SystemSpec, device: str = "cpu", threads: int = 0) -> None:
        super().__init__(spec, device, threads)
        self.facts = {
            "family": self.package, "engine": "capitals 1.0", "precision": "exact", "device": device,
            "segments": 1, "beam": spec.beam, "bytes": (self.folder / self.marker).stat().st_size,
        }  # fmt: skip

    @classmethod
    def missing(cls) -> str | None:
        return None

    @classmethod
    def write_untrained(cls, folder: Path, *_: Any) -> list[tuple[Path, str]]:
        (folder / "capitals").mkdir()
        return [(folder / "capitals", "default")]

    def translate(
        self, texts: Any, batch_size: int, length: int | None = None, done: Any = nothing_done
    ) -> list[PeerTranslation]:
        done(len(texts))
        return [PeerTranslation(text.upper(), [9] * (length or len(text.split()))) for text in texts]

    def source_lengths(self, texts: Any) -> list[int]:
        return [len(text.split()) for text in texts]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(peers, "PEERS", (*peers.PEERS, Capitals))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "capitals.txt").write_text("A")
    return tmp_path / "model"


def test_a_folder_is_known_by_its_marker(folder: Path) -> None:
    assert isinstance(load_system(SystemSpec("c", str(folder))), Capitals)
    assert peers.peer_of(str(folder.parent)) is None


def test_evaluate_translates_with_it_and_says_who_it_was(folder: Path) -> None:
    (folder.parent / "src").write_text("a small house\n\non a hill\n")
    (folder.parent / "ref").write_text("A SMALL HOUSE\n\nON A HILL\n")
    test = TestSpec("t", folder.parent / "src", folder.parent / "ref")
    asked = Request([SystemSpec("c", str(folder), beam=2)], [test], folder.parent / "out")
    (result,) = run_evaluation(asked).results
    assert result.output.hypotheses == ["A SMALL HOUSE", "", "ON A HILL"]
    assert (result.steps, result.segments, result.confidence) == (None, None, None)
    signature = result.output.signature
    assert [signature[key] for key in ("K", "beam", "engine", "precision", "batch")] == [
        1,
        2,
        "capitals 1.0",
        "exact",
        32,
    ]
    (folder / "capitals.txt").write_text("B")
    assert run_evaluation(asked).results[0].output.signature["weights"] != signature["weights"]


def test_a_worker_of_bench_times_it(folder: Path) -> None:
    load = {"system": {"name": "c", "path": str(folder)}, "device": "cpu", "threads": 1, "first": "x", "length": None}
    requests = [{"do": "load", **load}, {"do": "time", "batches": [["a b", "c"]], "length": None}]
    answers = io.StringIO()
    serve(iter(map(json.dumps, requests)), answers)
    loaded, timed = map(json.loads, answers.getvalue().splitlines())
    assert timed["tokens"] == 3
    worker = Worker(SystemSpec("c", str(folder)), "cpu", 1)
    worker.facts = loaded["facts"]
    facts = results.facts_of(worker)
    assert (facts.family, facts.engine, facts.segments) == ("capitals", "capitals 1.0", 1)
    row = results.Row("c", 1, 1, 1, 8.0, 8.0, 8.0, 1.0, 1.0, 0, best_ms=8.0)
    ours = results.SystemFacts("k5", "k5", 1, family="recoversat")
    mine = results.Row("k5", 1, 1, 1, 2.0, 2.0, 2.0, 1.0, 1.0, 0, best_ms=2.0)
    (ratio,) = results.ratios_of([row, mine], [facts, ours])
    assert (ratio.system, ratio.over, ratio.times) == ("k5", "c", 4.0)


def test_untrained_models_are_made_up_for_it(folder: Path) -> None:
    config = untrained_config("d_model=32,d_hidden=32,n_heads=2,encoder_layers=1,decoder_layers=1", 64, [3])
    names = [spec.name for spec in build_untrained(folder.parent, config, [3], "cpu")]
    assert names[-2:] == ["Capitals greedy default", "Capitals beam 4 default"]


def test_only_what_can_be_made_up_is() -> None:
    with pytest.raises(UserError, match="train one for a few updates and name it by --system"):
        untrained_config("d_model=8,kind=cmlm", 64, [3])
