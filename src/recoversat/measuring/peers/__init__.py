"""Other projects' engines, measured beside ours."""

from pathlib import Path

from recoversat.measuring.peers.ctranslate2 import CTranslate2
from recoversat.measuring.peers.marian import Marian
from recoversat.measuring.system import Peer

# The first whose marker is found: Marian's weights may be called model.bin too.
PEERS: tuple[type[Peer], ...] = (Marian, CTranslate2)


def peer_of(path: str) -> type[Peer] | None:
    """Return whose model a folder holds; None = ours, or no model at all."""
    return next((peer for peer in PEERS if (Path(path) / peer.marker).is_file()), None)
