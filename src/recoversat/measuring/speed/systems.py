"""The systems as a worker sees them: text in, text and counts out, whoever's engine it is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from recoversat.engines.loading import ONNX, ComputeType
from recoversat.errors import UserError
from recoversat.export.ctranslate2_writer import MODEL
from recoversat.files.model_folder import WEIGHTS, resolve_model
from recoversat.measuring.peers.ctranslate2 import CTranslate2Translator, is_ctranslate2
from recoversat.measuring.speed.fixed import fix_length
from recoversat.measuring.speed.specs import AUTO, BenchSystem
from recoversat.measuring.systems import engine_settings
from recoversat.translator import Translator


class Written(Protocol):
    """A translation."""

    @property
    def text(self) -> str:
        """Return it as text."""

    @property
    def ids(self) -> list[int]:
        """Return it in sub-words; only the clock's owner asks, when it stands still."""


class Runner(Protocol):
    """A loaded system."""

    facts: dict[str, Any]  # family, engine, precision, device, segments, beam, bytes

    def translate(self, texts: Sequence[str], length: int | None) -> Sequence[Written]:
        """Translate one batch, tokenisation included; `length` fixes the tokens of every translation."""

    def source_lengths(self, texts: Sequence[str]) -> list[int]:
        """Count the sub-words of sources."""


def load_runner(system: BenchSystem, device: str, threads: int) -> Runner:
    """Load a folder of ours or of CTranslate2's."""
    if is_ctranslate2(Path(system.path)):
        return PeerRunner(system, device, threads)
    return OwnRunner(system, device, threads)


class OwnRunner:
    """A model of ours, on whichever engine its folder has."""

    def __init__(self, system: BenchSystem, device: str, threads: int) -> None:
        folder = resolve_model(Path(system.path))
        compute = cast(ComputeType, system.compute)
        self._translator = Translator(
            folder, target=system.target, device=device, compute_type=compute, intra_threads=threads
        )
        self._engines: dict[int | None, Any] = {None: self._translator.engine}  # by the length they write
        one_step = self._translator.config.model.kind == "nat"
        choices = sorted(set(self._translator.config.train.segment_choices))
        own = choices[0] if len(choices) == 1 else AUTO
        self._segments: Any = None if one_step else system.segments or own
        self._beam = system.beam
        family = "nat" if one_step else "at" if self._segments == 1 else "recoversat"
        described = engine_settings(self._translator.engine)
        self.facts = {"family": family, "segments": self._segments, "beam": system.beam, **described}
        self.facts["bytes"] = _size(folder, described)

    def translate(self, texts: Sequence[str], length: int | None) -> Sequence[Written]:
        if length not in self._engines:
            self._engines[length] = fix_length(self._engines[None], length or 0)
        self._translator.engine = self._engines[length]
        return self._translator.translate(
            texts, segments=self._segments, batch_size=len(texts), beam=self._beam, scores=False
        )

    def source_lengths(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in self._translator.tokenizer.encode(texts)]


class PeerRunner:
    """CTranslate2."""

    def __init__(self, system: BenchSystem, device: str, threads: int) -> None:
        if system.segments not in (None, 1):
            raise UserError(f"{system.name}: CTranslate2 writes one segment; leave out :segments={system.segments}")
        folder = Path(system.path)
        self._translator = CTranslate2Translator(
            folder, device=device, compute_type=system.compute, threads=threads, target=system.target
        )
        self._beam = system.beam
        self.facts = {
            "family": "ctranslate2", "engine": f"ctranslate2 {self._translator.version}", "segments": 1,
            "precision": self._translator.compute_type, "device": device, "threads": threads, "beam": system.beam,
            "bytes": (folder / MODEL).stat().st_size,
        }  # fmt: skip

    def translate(self, texts: Sequence[str], length: int | None) -> Sequence[Written]:
        return self._translator.translate(texts, batch_size=len(texts), beam=self._beam, length=length)

    def source_lengths(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in self._translator.tokenizer.encode(texts)]


def _size(folder: Path, described: dict[str, Any]) -> int:
    """Count the bytes of the weights that were loaded."""
    exported = folder / ONNX / str(described.get("precision"))
    if described.get("engine") == "onnx" and exported.is_dir():
        return sum(path.stat().st_size for path in exported.iterdir())
    return (folder / WEIGHTS).stat().st_size
