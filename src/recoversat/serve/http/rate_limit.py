"""How often each key or address may ask, counted over all workers in one small shared file."""

import fcntl
import hashlib
import ipaddress
import mmap
import os
import struct
import tempfile
import time
from pathlib import Path

_SLOT = struct.Struct("<8sd")  # whose it is, and when their allowance is whole again
_NEAR = 8  # slots that are tried for one caller
_MINUTE = 60.0


class RateLimiter:
    """Allow `rate` requests a minute for each caller, in bursts of that size (the generic cell rate algorithm).

    The table never grows: where it is full, the caller seen longest ago is forgotten. A lock on a file
    is used because the system takes it back from a worker that is killed.
    """

    def __init__(self, path: Path | None = None, slots: int = 16_384) -> None:
        self._slots = slots
        self._file = open(path, "r+b" if path.exists() else "w+b") if path else tempfile.TemporaryFile()  # noqa: SIM115
        if os.fstat(self._file.fileno()).st_size < slots * _SLOT.size:
            os.ftruncate(self._file.fileno(), slots * _SLOT.size)
        self._table = mmap.mmap(self._file.fileno(), slots * _SLOT.size)

    def wait_time(self, caller: str, rate: int, now: float | None = None) -> float:
        """Count a request; return 0, or without counting it the seconds until the next one is allowed."""
        now = time.time() if now is None else now
        name = hashlib.blake2b(caller.encode("utf-8", "replace"), digest_size=8).digest()
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            at, whole = self._find(name)
            whole = max(whole, now) + _MINUTE / rate
            if whole - now > _MINUTE + 1e-6:
                return whole - now - _MINUTE
            _SLOT.pack_into(self._table, at, name, whole)
            return 0.0
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give the table back."""
        self._table.close()
        self._file.close()

    def _find(self, name: bytes) -> tuple[int, float]:
        first = int.from_bytes(name, "little")
        places = [(first + i) % self._slots * _SLOT.size for i in range(_NEAR)]
        found = [(place, *_SLOT.unpack_from(self._table, place)) for place in places]
        for place, owner, whole in found:
            if owner == name:
                return place, whole
        place, _, _ = min(found, key=lambda slot: float(slot[2]))
        return place, 0.0


def caller_of(api_key: str, address: str) -> str:
    """Name who asks: their key, else their address (of IPv6 the network: one user has many addresses).

    >>> caller_of("", "10.0.0.7"), caller_of("", "2001:db8::1:2:3:4")
    ('address 10.0.0.7', 'address 2001:db8::/64')
    """
    if api_key:
        return f"key {api_key}"
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return f"address {address}"
    network = ipaddress.ip_network((parsed, 64), strict=False) if parsed.version == 6 else parsed
    return f"address {network}"
