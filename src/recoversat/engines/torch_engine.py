"""The reference engine: the model itself, step by step with a key/value cache, on CPU or GPU.

B sentences, S source, K segments, V vocabulary.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from recoversat.decoding.stepping import FREE, Bools, Choice, Ints
from recoversat.engines.engine import pad_sources
from recoversat.errors import UserError
from recoversat.model.transformer import DecoderCache, Transformer
from recoversat.model.weights import load_model
from recoversat.vocab import DEL, NEVER_EMITTED


class TorchEngine:
    """Decode with a Transformer as it is."""

    def __init__(self, model: Transformer, device: torch.device) -> None:
        self._model = model.to(device).eval()
        self._device = device

    @property
    def max_segments(self) -> int:
        return self._model.config.max_segments

    @torch.inference_mode()
    def start(self, sources: Sequence[Sequence[int]], n_segments: Ints) -> "TorchStepper":
        """Encode the sources and project them for every decoder layer."""
        src = torch.from_numpy(pad_sources(sources)).to(self._device)  # (B, S)
        lengths = torch.tensor([len(source) for source in sources], device=self._device)
        positions = torch.arange(src.shape[1], device=self._device).expand_as(src)
        real = (positions < lengths[:, None]).long()
        memory = self._model.encode(src, positions, real)
        cache = self._model.start(memory, real, int(n_segments.max()))
        single = torch.from_numpy(n_segments == 1).to(self._device)
        return TorchStepper(self._model, cache, single)


class TorchStepper:
    """A batch of sentences being written by the model."""

    def __init__(self, model: Transformer, cache: DecoderCache, single: Tensor) -> None:
        self._model, self._cache = model, cache
        self._single = single  # (B,) sentences of one segment, which have nothing to delete

    @torch.inference_mode()
    def step(self, tokens: Ints, active: Bools, forced: Ints | None = None, n_best: int = 0) -> Choice:
        """Append a row to each segment and choose the next tokens; only those come back from the device."""
        device = self._single.device
        hidden = self._model.step(torch.from_numpy(tokens).to(device), torch.from_numpy(active).to(device), self._cache)
        logits = self._model.logits(hidden).float()  # (B, K, V)
        logits[..., list(NEVER_EMITTED)] = -torch.inf
        logits[..., DEL].masked_fill_(self._single[:, None], -torch.inf)
        norm = logits.logsumexp(dim=-1)  # (B, K)
        chosen_logit, chosen = logits.max(dim=-1)
        if forced is not None:
            wanted = torch.from_numpy(forced).to(device)
            chosen = torch.where(wanted == FREE, chosen, wanted)
            chosen_logit = logits.gather(-1, chosen[..., None])[..., 0]
        log_probs = (chosen_logit - norm).cpu().numpy()
        if not n_best:
            return Choice(chosen.cpu().numpy(), log_probs)
        best, best_tokens = logits.topk(n_best, dim=-1)
        best = best - norm[..., None]
        return Choice(chosen.cpu().numpy(), log_probs, best_tokens.cpu().numpy(), best.cpu().numpy())

    @torch.inference_mode()
    def keep(self, which: Ints) -> None:
        """Drop or reorder members of the batch."""
        index = torch.from_numpy(np.asarray(which)).to(self._single.device)
        self._cache.keep(index)
        self._single = self._single[index]


def load_torch_engine(folder: Path, device: str = "auto") -> TorchEngine:
    """Load a model folder's weights onto a device."""
    model, _ = load_model(folder)
    kind = device if device != "auto" else ("cuda" if torch.cuda.is_available() else "cpu")
    if kind.startswith("cuda") and not torch.cuda.is_available():
        raise UserError("--device cuda: torch sees no GPU here; use --device cpu")
    return TorchEngine(model, torch.device(kind))
