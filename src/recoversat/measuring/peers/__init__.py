"""Other projects' engines, measured beside ours."""

from pathlib import Path

from recoversat.measuring.peers.ctranslate2 import CTranslate2
from recoversat.measuring.system import Peer

PEERS: tuple[type[Peer], ...] = (CTranslate2,)


def peer_of(path: str) -> type[Peer] | None:
    """Return whose model a folder holds; None = ours, or no model at all."""
    return next((peer for peer in PEERS if (Path(path) / peer.marker).is_file()), None)
