"""Capture a function on static buffers as a CUDA graph; on a CPU the function itself is what is run."""

from collections.abc import Callable

import torch
from torch import Tensor

from recoversat.engines.cuda.state import rung

Replay = Callable[[], None]
SEEN = (64, 128, 256, 512, 1024)  # cache rows that a step's graph looks at
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


class Graphs:
    """What a bucket has captured: its encoder, and a step for each number of cache rows that one may look at."""

    def __init__(
        self, capturer: Capturer, state: Tensor, encode: Replay, step: Callable[[int, bool], None], room: int
    ) -> None:
        """Take functions over static buffers; `step` gets the number of rows it looks at, at most `room`.

        It also hears whether it is a first step with a choice of its own (`special_first` of `take_steps`).
        """
        self._capturer, self._state, self._room = capturer, state, room
        self._run_encoder, self._run_step = encode, step
        self._encode: Replay | None = None
        self._step_for: dict[tuple[int, bool], Replay] = {}

    def drop(self) -> None:
        """Let go of the graphs and of the session that owns them: a cycle waits for the garbage collector."""
        self._encode = None
        self._step_for.clear()
        del self._run_encoder, self._run_step

    def encode(self) -> None:
        """Encode the sources that lie in the buffers."""
        if self._encode is None:
            self._encode = self._capturer.capture(self._run_encoder, self._state)
        self._encode()

    def take_steps(self, most: int, unasked: int, rows_a_step: int, n_left: Tensor, special_first: bool = False) -> int:
        """Step until `n_left[step]` is 0, which nobody asks before step `unasked`; return the number of steps."""
        for taken in range(1, most + 1):
            self._step(min(rung(taken * rows_a_step, SEEN), self._room), special_first and taken == 1)()
            if unasked <= taken < most and not n_left[taken - 1].item():
                return taken
        return most

    def _step(self, n_seen: int, special: bool) -> Replay:
        kind = n_seen, special
        if kind not in self._step_for:
            self._step_for[kind] = self._capturer.capture(lambda: self._run_step(*kind), self._state)
        return self._step_for[kind]


def rehearse(function: Replay, state: Tensor) -> None:
    """Run a function so that libraries set themselves up and kernels are compiled, and take back what it did."""
    before = state.clone()
    for _ in range(_WARM_UPS):
        function()
        state.copy_(before)


def steps_before_asking(source_length: int, n_segments: int) -> int:
    """Say before which step hardly any sentence has ended: asking the device costs as much as a few kernels.

    The longest of several segments is longer than their mean; one segment may be shorter than the source.

    >>> steps_before_asking(25, 10), steps_before_asking(25, 1)
    (4, 19)
    """
    return -(-source_length // n_segments) + 1 if n_segments > 1 else -(-3 * source_length // 4)
