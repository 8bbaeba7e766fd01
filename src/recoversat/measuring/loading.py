"""From what the command line says of a system to one that runs."""

from recoversat.measuring.own import load_own
from recoversat.measuring.peers import peer_of
from recoversat.measuring.specs import SystemSpec
from recoversat.measuring.system import System


def load_system(spec: SystemSpec, device: str = "auto", threads: int = 0, *, scores: bool = True) -> System:
    """Load a folder of ours or of a peer; without `scores` ours leaves out log-probabilities, as peers do."""
    if peer := peer_of(spec.path):
        return peer(spec, "cpu" if device == "auto" else device, threads)
    return load_own(spec, device, threads, scores)
