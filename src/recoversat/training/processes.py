"""One training run over one or several processes (`torchrun`); with one process nothing is sent."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, distributed

from recoversat.model.device import torch_device


@dataclass(frozen=True)
class Processes:
    """This process's place among its peers."""

    rank: int
    world: int
    device: torch.device

    @property
    def is_main(self) -> bool:
        """Say whether this process writes files and talks."""
        return self.rank == 0

    def sum(self, tensors: list[Tensor]) -> None:
        """Replace each tensor by its sum over all processes, in one message."""
        if self.world == 1:
            return
        flat = torch.cat([tensor.reshape(-1).float() for tensor in tensors])
        distributed.all_reduce(flat)
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def any(self, mine: bool) -> bool:
        """Say whether it is so in at least one process; all must ask."""
        if self.world == 1:
            return mine
        flag = torch.tensor([float(mine)], device=self.device)
        self.sum([flag])
        return bool(flag.item())

    def wait(self) -> None:
        """Wait until every process has come here."""
        if self.world > 1:
            distributed.barrier()


@contextmanager
def join_processes(device: str) -> Iterator[Processes]:
    """Join the group that torchrun started, if it did, and leave it at the end."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    place = torch_device(device)
    if place.type == "cuda" and world > 1:
        torch.cuda.set_device(place)
    if world > 1:
        distributed.init_process_group("nccl" if place.type == "cuda" else "gloo")
    try:
        yield Processes(rank, world, place)
    finally:
        if world > 1:
            distributed.destroy_process_group()
