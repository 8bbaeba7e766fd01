"""Are hand-captured CUDA graphs worth their lines? The same decoding, captured by us or by torch.compile.

    python -m benchmarks.graphs_or_compile                      # on a GPU
    python -m benchmarks.graphs_or_compile --device cpu --tiny  # only shows that it runs

Both decode an untrained model that never ends on its own: sources of 25 tokens, K = 10 in 6 steps, from ids to ids.
`compiled` is how gpt-fast does it: the model's own modules over caches of fixed size, encoder and step each compiled
with mode="reduce-overhead", the choice of tokens inside. `first` is the first call: capturing, or compiling.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.gpu_check import SIZES, SOURCE_LENGTH, STEPS, endless_model
from recoversat.engines.cuda.engine import GraphEngine
from recoversat.engines.cuda.session import steps_before_asking
from recoversat.engines.engine import Options
from recoversat.model.device import torch_device
from recoversat.model.transformer import Transformer
from recoversat.vocab import BOS, DEL, EOS, N_SPECIAL, NEVER_EMITTED

K = 10


class CompiledDecoder:
    """A model over static caches, for one batch size; torch.compile does the rest."""

    def __init__(self, model: Transformer, batch: int, device: torch.device, dtype: torch.dtype) -> None:
        self._model, self._batch, self._device = model.to(device, dtype).eval(), batch, device
        heads, size = model.config.n_heads, model.config.d_model // model.config.n_heads
        lengths = [SOURCE_LENGTH, K * STEPS] * 2 * model.config.decoder_layers  # of keys and values, layer by layer
        caches = [torch.zeros((batch, heads, length, size), dtype=dtype, device=device) for length in lengths]
        self._memory, self._rows = caches[::2], caches[1::2]
        self._real = torch.zeros((batch, K * STEPS), dtype=torch.bool, device=device)
        for tensor in (*caches, self._real):
            torch._dynamo.mark_static_address(tensor)
        self._sources = torch.ones((batch, 1, 1, SOURCE_LENGTH), dtype=torch.bool, device=device)
        self._bias = torch.zeros(len(model.embedding.weight), dtype=dtype, device=device)
        self._bias[list(NEVER_EMITTED)] = -torch.inf
        torch._dynamo.reset()  # another batch size must not make this one's shapes dynamic
        both = (self._run_encoder, self._run_step)
        self._encode, self._step = (torch.compile(one, mode="reduce-overhead", dynamic=False) for one in both)

    def _run_encoder(self, src: Tensor) -> None:
        positions = torch.arange(SOURCE_LENGTH, device=src.device).expand_as(src)
        memory = self._model.encode(src, positions, torch.ones_like(src))
        for at, layer in enumerate(self._model.decoder.stack):
            for place, projected in enumerate(layer.cross_attention.project_memory(memory)):
                self._memory[2 * at + place].copy_(projected)

    def _run_step(self, tokens: Tensor, active: Tensor, step: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        segments = torch.arange(K, device=tokens.device)
        at = step * K + segments
        allowed = self._real.index_copy_(1, at, active)[:, None, None, :]
        x = self._model._embed_rows(tokens, step.expand_as(tokens), segments.expand_as(tokens))
        for at_layer, layer in enumerate(self._model.decoder.stack):
            keys, values = self._rows[2 * at_layer : 2 * at_layer + 2]
            query, key, value = layer.self_attention.project(layer.attention_norm(x))
            keys, values = keys.index_copy_(2, at, key), values.index_copy_(2, at, value)
            x = x + layer.self_attention.attend(query, keys, values, allowed)
            x = layer._after_self_attention(x, *self._memory[2 * at_layer : 2 * at_layer + 2], self._sources)
        logits = self._model.logits(self._model.decoder.norm(x)) + self._bias
        best, chosen = logits.log_softmax(dim=-1, dtype=torch.float32).max(dim=-1)
        return chosen, best, active & (chosen != EOS) & (chosen != DEL)

    @torch.inference_mode()
    def decode(self, sources: list[list[int]]) -> list[Any]:
        """Write K segments of `STEPS` tokens for each source, all of one length."""
        torch.compiler.cudagraph_mark_step_begin()
        self._encode(torch.tensor(sources, device=self._device))
        self._real.zero_()
        tokens = torch.full((self._batch, K), BOS, device=self._device)
        active, log = torch.ones_like(tokens, dtype=torch.bool), []
        for step in range(STEPS):
            torch.compiler.cudagraph_mark_step_begin()
            made = self._step(tokens, active, torch.full((1,), step, device=self._device))
            tokens, best, active = (x.clone() for x in made)
            log.append((tokens, best))
            if steps_before_asking(SOURCE_LENGTH, K) <= step + 1 < STEPS and not active.any().item():
                break
        torch.stack([best for _, best in log]).tolist()  # log-probabilities come to the host as well
        return torch.stack([chosen for chosen, _ in log], dim=2).tolist()


def timed(name: str, decode: Callable[..., list[Any]], sources: list[list[int]], *how: Any) -> list[Any]:
    """Print the first call in seconds and the median of later ones in milliseconds; return what was written."""
    times = []
    for _ in range(53):
        began = time.perf_counter()
        written = decode(sources, *how)
        times.append(time.perf_counter() - began)
    median = 1000 * statistics.median(times[3:])
    print(f"batch {len(sources):3}  {name:9} {median:8.3f} ms   first {times[0]:6.1f} s", flush=True)
    return written


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    device, config = torch_device(given.device), SIZES["tiny" if given.tiny else "d512"]
    dtype = torch.float16 if device.type == "cuda" else torch.float32
    rng = np.random.default_rng(1)
    print(f"K = {K}, {STEPS} steps, {dtype}, d {config.d_model}, {config.decoder_layers} layers, {device}")
    for batch in (1, 64):
        sources = rng.integers(N_SPECIAL, config.vocab_size, (batch, SOURCE_LENGTH)).tolist()
        graphs = GraphEngine(endless_model(config), device, dtype)
        ours = timed("graphs", graphs.decode, sources, np.full(batch, K), Options(limits=np.full(batch, STEPS)))
        compiled = CompiledDecoder(endless_model(config), batch, device, dtype)
        theirs = timed("compiled", compiled.decode, sources)
        same = sum(one.segments == other for one, other in zip(ours, theirs, strict=True))
        print(f"batch {batch:3}  {same} of {batch} sentences the same", flush=True)


if __name__ == "__main__":
    main()
