"""Does an exported model still say what the original says? Compared token by token, and by BLEU.

What is found is shown to the user, kept as export.json and written on the model card.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from recoversat import __version__
from recoversat.config import Config
from recoversat.engines.engine import Engine, Options
from recoversat.errors import UserError
from recoversat.export.shortlist import ShortlistReport
from recoversat.files.int8 import Arrays
from recoversat.measuring.quality.metrics import corpus_bleu

FORMAT = "recoversat-export-1"
_UNMEASURED = "BLEU not measured: no validation text was given (--corpus, or --valid-src and --valid-tgt)"
_MAX_LOSS = 0.3  # of BLEU


@dataclass(frozen=True)
class Agreement:
    """How far a precision writes the tokens that torch writes, with K segments."""

    precision: str
    segments: int
    sentences: int
    same: int
    first_difference: int | None  # which sentence

    def as_text(self) -> str:
        return (
            f"{self.precision}, K = {self.segments}: same tokens as torch in {self.same} of {self.sentences} sentences"
        )


@dataclass(frozen=True)
class BleuChange:
    """What a precision does to BLEU on the validation text."""

    torch: float
    exported: float
    sentences: int
    signature: str

    @property
    def change(self) -> float:
        return self.exported - self.torch

    def as_text(self) -> str:
        return f"BLEU {self.torch:.2f} -> {self.exported:.2f} ({self.change:+.2f})"


def compare_tokens(
    reference: Engine, exported: Engine, sources: Sequence[Sequence[int]], k: int, precision: str, extra_steps: int = 20
) -> Agreement:
    """Decode the sample sentences with both engines and count those that come out the same."""
    counts, options = np.full(len(sources), k), Options(extra_steps)
    wanted, got = (engine.decode(sources, counts, options) for engine in (reference, exported))
    equal = [a.segments == b.segments for a, b in zip(wanted, got, strict=True)]
    return Agreement(precision, k, len(equal), sum(equal), None if all(equal) else equal.index(False))


def compare_bleu(wanted: Sequence[str], got: Sequence[str], references: Sequence[str]) -> BleuChange:
    before, after = corpus_bleu(wanted, references), corpus_bleu(got, references)
    return BleuChange(before.value, after.value, len(references), after.signature)


def refuse_loss(change: BleuChange, force: bool = False) -> None:
    """Raise an error where BLEU falls too far, unless forced."""
    if -change.change > _MAX_LOSS and not force:
        raise UserError(
            f"int8 loses {-change.change:.2f} BLEU ({change.torch:.2f} -> {change.exported:.2f}), "
            f"more than {_MAX_LOSS}; export fp32 alone, or pass --force to keep it"
        )


def refuse_other_weights(wanted: Arrays, got: Arrays) -> None:
    """Raise an error where a weight that was read again is further than half a step from the original."""
    for name, array in wanted.items():
        step = np.abs(array).max(axis=-1, keepdims=True) / 127 if array.ndim > 1 else 0.0
        if name not in got or (np.abs(got[name] - array) > 0.501 * step).any():
            raise UserError(f"int8: {name} is not what was exported; nothing was written, export again")


@dataclass(frozen=True)
class ExportReport:
    source: Mapping[str, Any]  # fingerprint and size of the torch weights
    sample: str  # which sentences were compared token by token
    agreements: list[Agreement]
    int8: BleuChange | None
    files: Mapping[str, Mapping[str, int]]  # precision -> name -> bytes
    calibrated_on: int  # sentences that gave int8 its scales
    calibration: str  # which they were
    shortlist: ShortlistReport | None = None

    @property
    def sizes(self) -> dict[str, int]:
        return {name: sum(files.values()) for name, files in self.files.items()}

    @property
    def int8_cost(self) -> str:
        """Say what int8 costs, or that nobody knows."""
        return f"{self.int8.as_text()} on {self.int8.sentences:,} validation sentences" if self.int8 else _UNMEASURED

    @property
    def int8_scales(self) -> str:
        """Say where the scales of int8 come from."""
        return f"int8: scales were measured on {self.calibrated_on} sentences ({self.calibration})"

    def as_text(self) -> str:
        lines = [f"{agreement.as_text()} ({self.sample})" for agreement in self.agreements]
        lines += [f"int8: {self.int8_cost}", self.int8_scales] if "int8" in self.files else []
        lines += [
            f"{name}: {_megabytes(size)}, torch {_megabytes(self.source['bytes'])}" for name, size in self.sizes.items()
        ]
        return "\n".join([*lines, *([self.shortlist.as_text()] if self.shortlist else [])])

    def as_json(self) -> dict[str, Any]:
        bleu = {"precision": "int8", "change": self.int8.change, **asdict(self.int8)} if self.int8 else _UNMEASURED
        packages = ("numpy", "onnx", "torch")
        return {
            "format": FORMAT,
            "versions": {"recoversat": __version__} | {name: version(name) for name in packages},
            "source": dict(self.source),
            "checks": {"sample": self.sample, "tokens": list(map(asdict, self.agreements)), "bleu": bleu},
            "calibrated_on": self.calibrated_on,
            "precisions": {
                name: {"bytes": self.sizes[name], "files": dict(files)} for name, files in self.files.items()
            },
        }


def export_card(config: Config, facts: Mapping[str, Any], report: ExportReport) -> str:
    ours = "RecoverSAT" if max(config.train.segment_choices) > 1 else "Transformer"
    rows = [f"| {name} | {_megabytes(size)} | {_against_torch(name, report)} |" for name, size in report.sizes.items()]
    return Template(Path(__file__).with_name("card_onnx.md").read_text(encoding="utf-8")).substitute(
        languages=config.data.languages,
        kind=ours if config.model.kind == "segments" else config.model.kind.upper(),
        parameters=f"{report.source['parameters']:,}",
        preset=config.preset or "none",
        segments=config.train.segments,
        version=__version__,
        facts="\n".join(f"- {name}: {value}" for name, value in facts.items()),
        torch=_megabytes(report.source["bytes"]),
        rows="\n".join(rows),
        sample=report.sample,
        scales=f"{report.int8_scales}.\n" if "int8" in report.files else "",
    )


def _against_torch(precision: str, report: ExportReport) -> str:
    mine = [one for one in report.agreements if one.precision == precision]
    same, total = sum(one.same for one in mine), sum(one.sentences for one in mine)
    tokens = f"{same} of {total} sample translations the same"
    return tokens if precision != "int8" else f"{report.int8_cost}; {tokens}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
