"""How often each key or address may ask."""

import ipaddress
import time
from collections import OrderedDict

_MINUTE = 60.0


class RateLimiter:
    """Allow `rate` requests a minute for each caller, in bursts of that size (the generic cell rate algorithm).

    The table never grows over `most` callers: the one seen longest ago is forgotten.
    """

    def __init__(self, most: int = 16_384) -> None:
        self._most = most
        self._whole_at: OrderedDict[str, float] = OrderedDict()  # when a caller's allowance is whole again

    def wait_time(self, caller: str, rate: int, cost: int = 1, now: float | None = None, paid: int = 0) -> float:
        """Count `cost` requests; return 0, or without counting them the seconds until they are allowed.

        What costs more than a minute's allowance takes all of it. So many of them as are `paid` have been counted.
        """
        now = time.monotonic() if now is None else now  # a clock that nobody sets back
        whole = max(self._whole_at.get(caller, now), now) + (min(cost, rate) - paid) * _MINUTE / rate
        if whole - now > _MINUTE + 1e-6:
            return whole - now - _MINUTE
        self._whole_at[caller] = whole
        self._whole_at.move_to_end(caller)
        if len(self._whole_at) > self._most:
            self._whole_at.popitem(last=False)
        return 0.0

    def is_spent(self, caller: str, rate: int) -> bool:
        """Say whether a caller would have to wait, without counting anything."""
        return self._whole_at.get(caller, 0.0) - time.monotonic() > _MINUTE - _MINUTE / rate + 1e-6


def network_of(address: str) -> str:
    """Name where a request comes from: of IPv6 the network, since one user has many addresses.

    >>> network_of("10.0.0.7"), network_of("::ffff:10.0.0.7"), network_of("2001:db8::1:2:3:4")
    ('10.0.0.7', '10.0.0.7', '2001:db8::/64')
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped:  # so a socket that listens on both kinds names those of the old one
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
