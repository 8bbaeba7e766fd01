"""The reference engine: the model itself, step by step with a key/value cache, on CPU or GPU.

B sentences, S source, K segments, N rows of one segment, V vocabulary.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import FREE, Bools, Choice, Floats, Ints
from recoversat.decoding.verify import AHEAD
from recoversat.engines.engine import Options, Sources, StepEngine
from recoversat.engines.pairs import Pair, side_by_side
from recoversat.engines.torch.scoring import delete_probs, score_pairs
from recoversat.model.transformer import DecoderCache, Transformer
from recoversat.vocab import DEL, NEVER_EMITTED

_PRECISIONS = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


class TorchEngine(StepEngine):
    """Decode with a Transformer as it is."""

    def __init__(self, model: Transformer, device: torch.device, dtype: torch.dtype = torch.float32) -> None:
        self._model = model.to(device, dtype).eval()
        self._device = device

    @property
    def max_segments(self) -> int:
        return self._model.config.max_segments

    @property
    def description(self) -> dict[str, str | int]:
        return describe_torch(self._model, self._device)

    def score(self, pairs: Sequence[Pair], n_segments: int = 1) -> list[Decoded]:
        """Run all rows of a target at once."""
        return score_pairs(self._model, pairs, n_segments)

    def deletions(self, pairs: Sequence[Pair]) -> list[list[float]]:
        return delete_probs(self._model, pairs)

    def verifier(self, source: Sequence[int], room: int, options: Options = Options()) -> "TorchVerifier":
        return TorchVerifier(self._model, self._start_cache([source], 1))

    def start(self, sources: Sources, n_segments: Ints, options: Options = Options()) -> "TorchStepper":
        cache = self._start_cache(sources, int(n_segments.max()))
        single = torch.from_numpy(n_segments == 1).to(self._device)
        barred = None if options.begins is None else torch.from_numpy(~options.begins).to(self._device)
        return TorchStepper(self._model, cache, single, barred)

    @torch.inference_mode()
    def _start_cache(self, sources: Sources, n_segments: int) -> DecoderCache:
        """Encode the sources and project them for every decoder layer."""
        src = torch.from_numpy(side_by_side(sources)).to(self._device)  # (B, S)
        lengths = torch.tensor([len(source) for source in sources], device=self._device)
        positions = torch.arange(src.shape[1], device=self._device).expand_as(src)
        real = (positions < lengths[:, None]).long()
        return self._model.start(self._model.encode(src, positions, real), real, n_segments)


class TorchStepper:
    """A batch of sentences being written by the model."""

    def __init__(self, model: Transformer, cache: DecoderCache, single: Tensor, barred: Tensor | None = None) -> None:
        self._model, self._cache = model, cache
        self._sources = np.arange(len(single))  # which source each member translates
        self._single = single  # (B,) sentences of one segment, which have nothing to delete
        self._barred = barred  # (V,) what the first token of a segment may not be

    @torch.inference_mode()
    def step(
        self, tokens: Ints, active: Bools, forced: Ints | None = None, n_best: int = 0, scores: bool = True
    ) -> Choice:
        """Append a row to each segment and choose the next tokens; only those come back from the device."""
        device = self._single.device
        hidden = self._model.step(torch.from_numpy(tokens).to(device), torch.from_numpy(active).to(device), self._cache)
        logits = self._model.logits(hidden)  # (B, K, V)
        for token in NEVER_EMITTED:
            logits[..., token] = -torch.inf
        logits[..., DEL].masked_fill_(self._single[:, None], -torch.inf)
        if self._barred is not None:
            logits.masked_fill_(self._barred & ~self._single[:, None, None], -torch.inf)
            self._barred = None  # only the first step begins segments
        log_probs = logits.log_softmax(dim=-1, dtype=torch.float32)
        best, best_tokens = top(log_probs, min(max(n_best, 1), log_probs.shape[-1]))
        chosen_log_prob, chosen = best[..., 0], best_tokens[..., 0]
        if forced is not None:
            wanted = torch.from_numpy(forced).to(device)
            chosen = torch.where(wanted == FREE, chosen, wanted)
            chosen_log_prob = log_probs.gather(-1, chosen[..., None])[..., 0]
        choice = Choice(chosen.cpu().numpy(), chosen_log_prob.cpu().numpy())
        if not n_best:
            return choice
        return choice._replace(best_tokens=best_tokens.cpu().numpy(), best_log_probs=best.cpu().numpy())

    @torch.inference_mode()
    def keep(self, which: Ints) -> None:
        index = torch.from_numpy(np.asarray(which)).to(self._single.device)
        sources = self._sources[which]
        self._cache.keep(index, same_sources=np.array_equal(sources, self._sources))
        self._sources, self._single = sources, self._single[index]


class TorchVerifier:
    """One sentence as K = 1 writes it."""

    ahead = AHEAD

    def __init__(self, model: Transformer, cache: DecoderCache) -> None:
        self._model, self._cache = model, cache

    @torch.inference_mode()
    def verify(self, tokens: Sequence[int], scores: bool) -> tuple[Ints, Floats]:
        rows = torch.tensor([tokens], device=self._cache.real.device)
        logits = self._model.logits(self._model.append(rows, self._cache))[0]  # (N, V)
        logits[:, [*NEVER_EMITTED, DEL]] = -torch.inf
        log_probs, chosen = logits.log_softmax(dim=-1, dtype=torch.float32).max(dim=-1)
        return chosen.cpu().numpy(), log_probs.cpu().numpy()

    def forget(self, rows: int) -> None:
        self._cache.forget(rows)


def top(scores: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return the n largest of the last dimension, best first.

    The n largest lie in the n blocks with the largest maxima: finding those is one pass over the vocabulary,
    where torch's topk on a GPU takes many.
    """
    if n == 1:
        values, places = scores.max(dim=-1, keepdim=True)
        return values, places
    size = scores.shape[-1]
    block = next(b for b in (128, 64, 32, 16, 8, 4, 2, 1) if size % b == 0)
    if not scores.is_cuda or block < 8 or size <= n * block:
        values, places = scores.topk(n, dim=-1)
        return values, places
    blocked = scores.unflatten(-1, (-1, block))  # (B, K, blocks, block)
    blocks = blocked.amax(dim=-1).topk(n, dim=-1).indices  # (B, K, n)
    inside = blocked.gather(-2, blocks[..., None].expand(*blocks.shape, block)).flatten(-2)  # (B, K, n * block)
    values, places = inside.topk(n, dim=-1)
    return values, blocks.gather(-1, places // block) * block + places % block


def describe_torch(model: nn.Module, device: torch.device) -> dict[str, str | int]:
    """Name engine, precision, device and threads of a model that torch runs."""
    dtype = next(model.parameters()).dtype
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    precision = _PRECISIONS.get(dtype, str(dtype))
    return {"engine": "torch", "precision": precision, "device": name, "threads": torch.get_num_threads()}
