"""The one idea of a system that is measured: text in, text out, and what it says of itself."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recoversat import __version__
from recoversat.config import Config
from recoversat.errors import UserError
from recoversat.files.storage import fingerprint
from recoversat.inference.translation import Translation
from recoversat.measuring.specs import SystemSpec
from recoversat.text.tokenizer import Tokenizer

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | dict[str, JSON] | None"
Weights: TypeAlias = Mapping[str, NDArray[np.float32]]
Done: TypeAlias = Callable[[int], None]  # hears how many more sentences are done


def nothing_done(count: int) -> None:
    """Tell nobody how many sentences are done."""


@dataclass(frozen=True)
class PeerTranslation:
    """What a peer wrote, as text and in sub-words."""

    text: str
    ids: list[int]


class System(ABC):
    """A loaded system."""

    facts: dict[str, JSON]  # family, engine, precision, device, segments, beam, bytes: what tables say of it

    @abstractmethod
    def translate(
        self, texts: Sequence[str], batch_size: int, length: int | None = None, done: Done = nothing_done
    ) -> Sequence[Translation | PeerTranslation]:
        """Translate lines, tokenisation included; `length` fixes the tokens of every translation."""

    @abstractmethod
    def source_lengths(self, texts: Sequence[str]) -> list[int]:
        """Count the sub-words of sources."""

    @abstractmethod
    def settings(self) -> dict[str, JSON]:
        """Return all that decides what it writes: its output is used again as long as this stays the same."""


class Peer(System):
    """Another project's engine. A new one is a subclass in `peers/` and a line in `peers/__init__.py`."""

    title: ClassVar[str]
    package: ClassVar[str]  # what pip installs; also its family in bench.json
    marker: ClassVar[str]  # the file by which a folder is known to hold its model
    note: ClassVar[str] = ""  # what must be known to read its times

    @abstractmethod
    def __init__(self, spec: SystemSpec, device: str = "cpu", threads: int = 0) -> None:
        """Load the folder; fill in `facts`, with the version in facts["engine"]."""
        self.folder = Path(spec.path)
        if spec.segments not in (None, 1):
            raise UserError(f"{spec.name}: {self.title} writes one segment; leave out :segments={spec.segments}")

    @classmethod
    def missing(cls) -> str | None:
        """Say what has to be installed before it can be measured; None = nothing."""
        return None if find_spec(cls.package) else f"{cls.title} is not installed: pip install 'recoversat[peers]'"

    @classmethod
    def write_untrained(
        cls, folder: Path, weights: Weights, config: Config, tokenizer: Tokenizer, device: str
    ) -> Iterable[tuple[Path, str]]:
        """Write weights of ours in its format: folders, and what they compute in. `bench --untrained` times them."""
        return []

    def settings(self) -> dict[str, JSON]:
        """Return what its facts say, and a fingerprint of its model."""
        told: dict[str, JSON] = {key: self.facts[key] for key in ("beam", "engine", "precision", "device")}
        weights = fingerprint(self.folder / self.marker)
        return {"version": __version__, "K": self.facts["segments"], "weights": weights, **told}
