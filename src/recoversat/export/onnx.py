"""Write a trained model as ONNX graphs, and check what was written.

    onnx/fp32/encoder.onnx  step.onnx  probe.onnx  weights.bin        onnx/int8/...

Needs numpy and onnx, not torch: weights come as a dictionary of arrays.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from recoversat.config import ModelConfig
from recoversat.engines.engine import Engine, Options
from recoversat.errors import UserError
from recoversat.export.onnx_graph import encoder_graph, probe_graph, step_graph
from recoversat.export.onnx_weights import Fp32, Int8, Precision, WeightFile, Weights
from recoversat.export.ranges import Ranges
from recoversat.files.storage import atomic_folder

PrecisionName = Literal["fp32", "int8"]


def export_model(
    weights: Weights,
    config: ModelConfig,
    out: Path,
    precisions: Sequence[PrecisionName] = ("fp32", "int8"),
    ranges: Ranges | None = None,
) -> list[Path]:
    """Write the graphs of each precision into a folder below `out` and return these folders.

    `ranges` are those of the inputs of products (see `calibrate`); int8 without them follows each batch.
    """
    known: dict[PrecisionName, Precision] = {"fp32": Fp32(), "int8": Int8(ranges)}
    if config.kind != "segments":
        raise UserError(f"model.kind = {config.kind} cannot be exported; only 'segments' can")
    folders = []
    for name in precisions:
        if name not in known:
            raise UserError(f"precision {name!r} does not exist; there are: {', '.join(known)}")
        with atomic_folder(out / name, replace=True) as scratch, WeightFile(scratch / "weights.bin") as file:
            precision = known[name]
            (scratch / "encoder.onnx").write_bytes(encoder_graph(weights, config, precision, file))
            (scratch / "step.onnx").write_bytes(step_graph(weights, config, precision, file))
            (scratch / "probe.onnx").write_bytes(probe_graph(file))
        folders.append(out / name)
    return folders


@dataclass(frozen=True)
class TokenCheck:
    """How far an exported model writes the same tokens as the reference."""

    sentences: int
    same: int
    first_difference: int | None = None  # which sentence

    @property
    def passed(self) -> bool:
        return self.same == self.sentences


def compare_tokens(
    reference: Engine, exported: Engine, sources: Sequence[Sequence[int]], n_segments: int, extra_steps: int = 20
) -> TokenCheck:
    """Decode the sample sentences with both engines and count those that come out the same."""
    counts, options = np.full(len(sources), n_segments), Options(extra_steps)
    wanted, got = (engine.decode(sources, counts, options) for engine in (reference, exported))
    equal = [a.segments == b.segments for a, b in zip(wanted, got, strict=True)]
    return TokenCheck(len(equal), sum(equal), None if all(equal) else equal.index(False))


@dataclass(frozen=True)
class BleuChange:
    """What a precision does to translation quality on the validation set."""

    reference: float
    exported: float

    @property
    def change(self) -> float:
        return self.exported - self.reference


def compare_bleu(
    reference: Engine, exported: Engine, bleu: Callable[[Engine], float], max_loss: float = 0.3, force: bool = False
) -> BleuChange:
    """Measure BLEU with both engines; refuse a loss above `max_loss` unless forced."""
    change = BleuChange(bleu(reference), bleu(exported))
    refuse_loss(change, max_loss, force)
    return change


def refuse_loss(change: BleuChange, max_loss: float = 0.3, force: bool = False) -> None:
    """Raise an error where BLEU falls by more than `max_loss`, unless forced."""
    if -change.change > max_loss and not force:
        raise UserError(
            f"int8 loses {-change.change:.2f} BLEU ({change.reference:.2f} -> {change.exported:.2f}), "
            f"more than {max_loss}; export fp32 alone, or pass --force to keep it"
        )
