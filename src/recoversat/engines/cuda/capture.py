"""Capture a function on static buffers as a CUDA graph; on a CPU the function itself is what is run."""

from collections.abc import Callable

import torch
from torch import Tensor

Replay = Callable[[], None]
_WARM_UPS = 2


class Capturer:
    """Captures graphs into one memory pool, which they may share as they run one after the other."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device)
            self._pool = torch.cuda.graph_pool_handle()
            self._anchor = self._keep_pool_alive()

    def capture(self, function: Replay, state: Tensor) -> Replay:
        """Return something that runs `function` again and again; capturing leaves `state` as it is.

        The function reads and writes tensors that exist already, makes others only for itself and never waits.
        """
        if self._device.type != "cuda":
            return function
        here = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(here)
        with torch.cuda.stream(self._stream):
            rehearse(function, state)
        here.wait_stream(self._stream)
        torch.cuda.synchronize(self._device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
            function()
        return graph.replay

    def _keep_pool_alive(self) -> torch.cuda.CUDAGraph:
        """Hold one small graph for good: a pool whose last graph was dropped cannot be used again."""
        graph, something = torch.cuda.CUDAGraph(), torch.zeros(1, device=self._device)
        torch.cuda.synchronize(self._device)
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
            something.add_(1)
        return graph


def rehearse(function: Replay, state: Tensor) -> None:
    """Run a function so that libraries set themselves up and kernels are compiled, and take back what it did."""
    before = state.clone()
    for _ in range(_WARM_UPS):
        function()
        state.copy_(before)
