"""The one-step baseline as an engine: sources are encoded once and written in any lengths asked for.

B sentences, S source, R translations to write, N positions of the longest, V vocabulary.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from recoversat.decoding.oneshot import Written
from recoversat.decoding.stepping import Ints
from recoversat.engines.engine import OneShotEngine, pad_sources
from recoversat.engines.torch.description import describe_torch
from recoversat.model.nat import NatTransformer, predicted_lengths
from recoversat.vocab import N_SPECIAL


class TorchNatEngine(OneShotEngine):
    """Write with a NatTransformer as it is, on CPU or GPU."""

    def __init__(self, model: NatTransformer, device: torch.device) -> None:
        self._model = model.to(device).eval()
        self._device = device

    @property
    def max_segments(self) -> int:
        """A one-step model writes a single segment."""
        return 1

    @property
    def description(self) -> dict[str, str | int]:
        """Name engine, precision, device and threads, for the signature of a result."""
        return describe_torch(self._model, self._device)

    @torch.inference_mode()
    def open(self, sources: Sequence[Sequence[int]]) -> "TorchWriter":
        """Encode the sources."""
        src = torch.from_numpy(pad_sources(sources)).to(self._device)  # (B, S)
        lengths = torch.tensor([len(source) for source in sources], device=self._device)
        return TorchWriter(self._model, src, lengths)


class TorchWriter:
    """A batch of encoded sources; see `decoding.oneshot.Writer`."""

    def __init__(self, model: NatTransformer, src: Tensor, src_lengths: Tensor) -> None:
        self._model, self._src, self._src_lengths = model, src, src_lengths
        self._positions, self._real = _places(src_lengths, src.shape[1])
        self._memory = model.encode(src, self._positions, self._real)

    @torch.inference_mode()
    def lengths(self) -> Ints:
        """Predict the target length of each source."""
        logits = self._model.length_logits(self._memory, self._real, n_sentences=1)[:, 0]  # (B, C)
        return np.asarray(predicted_lengths(logits, self._src_lengths).cpu().numpy())

    @torch.inference_mode()
    def write(self, members: Ints, lengths: Ints) -> Written:
        """Take the likeliest token of every position; specials are masked out before normalising."""
        which = torch.from_numpy(members).to(self._src.device)
        wanted = torch.from_numpy(lengths).to(self._src.device)
        steps, real = _places(wanted, int(lengths.max()))  # (R, N)
        hidden = self._model.decode(
            self._src[which], self._positions[which], self._real[which], steps, real, self._memory[which]
        )
        logits = self._model.logits(hidden).float()  # (R, N, V)
        logits[..., :N_SPECIAL] = -torch.inf
        best, tokens = logits.max(dim=-1)
        log_probs = (best - logits.logsumexp(dim=-1)).tolist()
        return Written(
            [line[:length] for line, length in zip(tokens.tolist(), lengths, strict=True)],
            [line[:length] for line, length in zip(log_probs, lengths, strict=True)],
        )


def _places(lengths: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Return positions and sentence numbers of padded lines with one sentence each."""
    positions = torch.arange(width, device=lengths.device).expand(len(lengths), width)
    return positions, (positions < lengths[:, None]).long()
