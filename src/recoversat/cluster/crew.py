"""Who works: how many workers, what each one gets, where they are, and which part of the whole is theirs."""

import re
from dataclasses import dataclass

from recoversat.errors import UserError

_RESOURCE = re.compile(r"(cpus|gpus)=(\d+(?:\.\d+)?)")
_SHARE = re.compile(r"(\d+)/(\d+)")


@dataclass(frozen=True)
class Crew:
    """Workers of a run; without `ray` the work is done in this process."""

    workers: int = 1
    cpus: float = 1  # of each worker
    gpus: float = 0
    ray: bool = False
    address: str | None = None  # of a Ray cluster that runs; None: one of our own on this machine
    share: tuple[int, int] | None = None  # part i of n, from 1: for schedulers that start a command many times

    @classmethod
    def of(
        cls, workers: int | None, cluster: str | None, per_worker: str | None, share: str | None,
        device: str = "cpu", threads: int = 0,
    ) -> "Crew":  # fmt: skip
        """Read what people ask for; several workers on one machine are a Ray cluster too.

        Where nothing is said a worker gets a core, or a GPU if that is the device.
        """
        if per_worker and threads:
            raise UserError("--per-worker says how many threads a worker has; leave --threads out")
        each = parse_resources(per_worker or ("gpus=1" if device.startswith("cuda") else f"cpus={threads or 1}"))
        kind, _, address = (cluster or "").partition("=")
        if kind not in ("", "ray"):
            raise UserError(f"--cluster {cluster}: there is ray (on this machine) and ray=ADDRESS")
        with_ray = kind == "ray" or (workers or 1) > 1
        part = parse_share(share) if share else None
        return cls(workers or 1, **each, ray=with_ray, address=address or None, share=part)

    @property
    def threads(self) -> int:
        return max(1, int(self.cpus))

    @property
    def device(self) -> str:
        return "cuda" if self.gpus else "cpu"


def parse_resources(text: str) -> dict[str, float]:
    """Read what a worker gets.

    >>> parse_resources("gpus=0.25,cpus=4")
    {'gpus': 0.25, 'cpus': 4.0}
    """
    found = [_RESOURCE.fullmatch(one.strip()) for one in text.split(",")]
    given = {match[1]: float(match[2]) for match in found if match}
    if not all(found) or not any(given.values()):
        raise UserError(f"--per-worker {text}: write e.g. cpus=2, gpus=1 or cpus=4,gpus=0.5")
    return given


def parse_share(text: str) -> tuple[int, int]:
    """Read i/n.

    >>> parse_share("3/10")
    (3, 10)
    """
    match = _SHARE.fullmatch(text.strip())
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise UserError(f"--shard {text}: write i/n with i from 1 to n, e.g. 3/10")
    return int(match[1]), int(match[2])
