"""Muon (Jordan et al., 2024): every weight matrix of the layers moves by the nearest orthogonal matrix to its momentum.

All directions of a matrix then move alike, where Adam follows the few that its gradients are largest in; it takes fewer
updates to the same loss (docs/log.md, "Training speed"). Embeddings, norms and biases are left to AdamW. Moves are
scaled to the size of Adam's (Liu et al., 2025), so that both have one learning rate.

P parts of a fused projection, R rows, C columns.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

_MOMENTUM = 0.95
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the quintic that draws singular values towards 1
_ROUNDS = 5
_ADAMS_SIZE = 0.2  # the root mean square of a typical move of Adam
_PARTS = {"qkv": 3, "key_value": 2}  # projections that are several matrices in one


class Muon(torch.optim.Optimizer):
    """Muon for the matrices of a model's layers, AdamW for all else."""

    def __init__(self, model: nn.Module, **adam: Any) -> None:
        parts = dict(_matrices(model))
        super().__init__(list(parts), {"weight_decay": 0.0} | adam)
        others = [p for p in model.parameters() if p not in parts]
        self._parts, self._adam = parts, torch.optim.AdamW(others, **adam)
        self._adam.state = self.state  # one state to save and to fill
        self.param_groups += self._adam.param_groups

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move all weights by their gradients; matrices of one shape together."""
        self._adam.step()
        group = self.param_groups[0]
        moved, gradients = zip(*((one, one.grad) for one in group["params"] if one.grad is not None), strict=True)
        momenta = [self.state[one].setdefault("momentum", torch.zeros_like(one)) for one in moved]
        torch._foreach_lerp_(momenta, gradients, 1 - _MOMENTUM)
        ahead = torch._foreach_lerp(gradients, momenta, _MOMENTUM)  # Nesterov's
        if group["weight_decay"]:
            torch._foreach_mul_(moved, 1 - group["lr"] * group["weight_decay"])
        alike: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for weight, direction in zip(moved, ahead, strict=True):
            parts = (self._parts[weight], -1, weight.shape[1])
            for part in zip(weight.view(parts), direction.view(parts), strict=True):
                alike[part[0].shape].append(part)
        for shape, members in alike.items():
            weights, directions = zip(*members, strict=True)
            moves = orthogonal(torch.stack(directions)).to(weights[0].dtype)
            torch._foreach_add_(weights, moves.unbind(), alpha=-group["lr"] * _ADAMS_SIZE * max(shape) ** 0.5)


def _matrices(model: nn.Module) -> Iterator[tuple[Tensor, int]]:
    """Yield the matrices of the layers, each with how many it really is."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and ".layers." in name:
            yield module.weight, _PARTS.get(name.rpartition(".")[2], 1)


def orthogonal(matrices: Tensor) -> Tensor:
    """Return matrices (B, R, C) with the same singular vectors, all singular values near 1.

    >>> values = torch.linalg.svdvals(orthogonal(torch.randn(2, 8, 24, generator=torch.Generator().manual_seed(0))))
    >>> bool(values.min() > 0.6), bool(values.max() < 1.3)
    (True, True)
    """
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    if x.is_cuda:
        x = x.bfloat16()
    a, b, c = _COEFFICIENTS
    for _ in range(_ROUNDS):  # x becomes a x + (b S + c S S) x, where S = x x'
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
