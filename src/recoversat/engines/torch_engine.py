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
from recoversat.engines.nat_engine import TorchNatEngine
from recoversat.model.build import Model
from recoversat.model.device import torch_device
from recoversat.model.transformer import DecoderCache, Transformer
from recoversat.model.weights import load_model
from recoversat.vocab import DEL, NEVER_EMITTED


class TorchEngine:
    """Decode with a Transformer as it is."""

    def __init__(self, model: Transformer, device: torch.device, dtype: torch.dtype = torch.float32) -> None:
        self._model = model.to(device, dtype).eval()
        self._device = device

    @property
    def max_segments(self) -> int:
        return self._model.config.max_segments

    @property
    def description(self) -> dict[str, str | int]:
        """Name engine, precision, device and threads, for the signature of a result."""
        kind = str(next(self._model.parameters()).dtype).removeprefix("torch.")
        precision = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}.get(kind, kind)
        on_gpu = self._device.type == "cuda"
        name = torch.cuda.get_device_name(self._device) if on_gpu else self._device.type
        return {"engine": "torch", "precision": precision, "device": name, "threads": torch.get_num_threads()}

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
        if n_best:
            best, best_tokens = logits.topk(min(n_best, logits.shape[-1]), dim=-1)
            chosen_logit, chosen = best[..., 0], best_tokens[..., 0]
        else:
            chosen_logit, chosen = logits.max(dim=-1)
        if forced is not None:
            wanted = torch.from_numpy(forced).to(device)
            chosen = torch.where(wanted == FREE, chosen, wanted)
            chosen_logit = logits.gather(-1, chosen[..., None])[..., 0]
        log_probs = (chosen_logit - norm).cpu().numpy()
        if not n_best:
            return Choice(chosen.cpu().numpy(), log_probs)
        best = best - norm[..., None]
        return Choice(chosen.cpu().numpy(), log_probs, best_tokens.cpu().numpy(), best.cpu().numpy())

    @torch.inference_mode()
    def keep(self, which: Ints) -> None:
        """Drop or reorder members of the batch."""
        index = torch.from_numpy(np.asarray(which)).to(self._single.device)
        self._cache.keep(index)
        self._single = self._single[index]


def engine_for(model: Model, device: torch.device) -> "TorchEngine | TorchNatEngine":
    """Wrap a model that is in memory."""
    return TorchEngine(model, device) if isinstance(model, Transformer) else TorchNatEngine(model, device)


def load_torch_engine(folder: Path, device: str = "auto") -> "TorchEngine | TorchNatEngine":
    """Load a model folder's weights onto a device."""
    model, _ = load_model(folder)
    return engine_for(model, torch_device(device))
