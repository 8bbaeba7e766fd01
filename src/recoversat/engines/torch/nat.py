"""Models that write all at once, by torch: sources are encoded once, and places filled as often as asked for.

B sentences, S source, R translations to write, N positions of the longest, V vocabulary.
"""

import numpy as np
import torch
from torch import Tensor

from recoversat.decoding.stepping import Floats, Ints
from recoversat.engines.engine import Sources
from recoversat.engines.one_step import OneStepEngine
from recoversat.engines.pairs import side_by_side
from recoversat.engines.torch.engine import describe_torch
from recoversat.model.nat import NatTransformer, likeliest_lengths
from recoversat.vocab import N_SPECIAL

_LOGIT_ROWS = 4096  # rows whose logits exist at the same time


class TorchNatEngine(OneStepEngine):
    """Write with a NatTransformer as it is, on CPU or GPU."""

    def __init__(self, model: NatTransformer, device: torch.device) -> None:
        self._model, self._config = model.to(device).eval(), model.config
        self._device = device

    @property
    def description(self) -> dict[str, str | int]:
        return describe_torch(self._model, self._device)

    @torch.inference_mode()
    def open(self, sources: Sources) -> "TorchFiller":
        src = torch.from_numpy(side_by_side(sources)).to(self._device)  # (B, S)
        lengths = torch.tensor([len(source) for source in sources], device=self._device)
        return TorchFiller(self._model, src, lengths)


class TorchFiller:
    """A batch of encoded sources; see `decoding.oneshot.Filler`."""

    def __init__(self, model: NatTransformer, src: Tensor, src_lengths: Tensor) -> None:
        self._model, self._src_lengths = model, src_lengths
        positions, self._real = places(src_lengths, src.shape[1])
        self._memory = model.encode(src, positions, self._real)

    @torch.inference_mode()
    def likeliest_lengths(self, n: int) -> Ints:
        """Predict n target lengths of each source."""
        logits = self._model.length_logits(self._memory, self._real, n_sentences=1)[:, 0]  # (B, C)
        return np.asarray(likeliest_lengths(logits, self._src_lengths, n).cpu().numpy())

    @torch.inference_mode()
    def fill(self, members: Ints, tokens: Ints, lengths: Ints, least: int = N_SPECIAL) -> tuple[Ints, Floats]:
        """Take the likeliest token of every position."""
        which, carried, wanted = (torch.from_numpy(one).to(self._memory.device) for one in (members, tokens, lengths))
        steps, real = places(wanted, tokens.shape[1])  # (R, N)
        hidden = self._model.decode(carried, steps, real, self._memory[which], self._real[which])
        chosen, log_probs = likeliest(self._model, hidden, least)
        return chosen.cpu().numpy(), log_probs.cpu().numpy()


def likeliest(model: NatTransformer, hidden: Tensor, least: int) -> tuple[Tensor, Tensor]:
    """Return the likeliest token from `least` on of every place (R, N) and its log-probability."""
    chosen, log_probs = [], []
    for rows in hidden.flatten(0, 1).split(_LOGIT_ROWS):
        logits = model.logits(rows).float()  # (chunk, V)
        logits[:, :least] = -torch.inf
        best, token = logits.max(dim=-1)
        chosen.append(token)
        log_probs.append(best - logits.logsumexp(dim=-1))
    return torch.cat(chosen).view(hidden.shape[:2]), torch.cat(log_probs).view(hidden.shape[:2])


def places(lengths: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Return positions and sentence numbers of padded lines with one sentence each."""
    positions = torch.arange(width, device=lengths.device).expand(len(lengths), width)
    return positions, (positions < lengths[:, None]).long()
