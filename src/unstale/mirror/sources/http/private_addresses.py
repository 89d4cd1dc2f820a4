"""The guard against private addresses: no public address leads the mirror to a private one.

A public page may redirect to ``http://169.254.169.254/``, and anybody can register a name that resolves to
``10.0.0.1``. The mirror often runs inside a private network, and would fetch what its owner never asked for.
So there are two kinds of polls. If the user named a private host (an address, ``localhost``, a name that only
exists inside), the poll may go to private addresses. All other polls connect to public addresses only,
whatever their names resolve to. The guard checks the address of each connection, not the name, so that a name
that resolves differently the second time gains nothing. The two kinds of polls share no connections.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import Executor
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

Lookup = Callable[[str, int], list[str]]
"""Takes a host and a port, and returns the addresses of that name; may block."""

_INSIDE = frozenset(
    {"localhost", "local", "internal", "intranet", "lan", "home", "corp", "private", "localdomain", "test"}
)
"""Last labels of names that do not exist in public (RFC 6761, 6762, 8375, and common practice)."""
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


class PrivateAddress(OSError):  # noqa: N818
    """A public name has private addresses only."""


@lru_cache(maxsize=16384)
def is_public(address: str) -> bool:
    """Tell whether an address is public, and that of one machine.

    >>> [is_public(a) for a in ("93.184.216.34", "10.0.0.1", "169.254.169.254", "::ffff:10.0.0.1")]
    [True, False, False, False]
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    return _public4(parsed) if isinstance(parsed, IPv4Address) else _public6(parsed)


def _public4(address: IPv4Address) -> bool:
    # is_global is False for loopback, private, link-local, shared (100.64/10), documentation and 0/8
    return address.is_global and not address.is_multicast and not address.is_reserved


def _public6(address: IPv6Address) -> bool:
    inner = address.ipv4_mapped or address.sixtofour
    if address in _NAT64:
        inner = IPv4Address(int(address) & 0xFFFFFFFF)
    if inner is not None:
        return _public4(inner)
    if address.scope_id is not None or address.teredo is not None:
        return False
    return address in _GLOBAL_UNICAST and address.is_global


@lru_cache(maxsize=16384)
def named_private(host: str) -> bool:
    """Tell whether a user who names this host means a private one.

    >>> [named_private(h) for h in ("localhost", "192.168.1.1", "::1", "nas", "wiki.internal", "example.org")]
    [True, True, True, True, True, False]
    """
    try:
        ip_address(host)
    except ValueError:
        name = host.rstrip(".")
        return "." not in name or name.rpartition(".")[2] in _INSIDE or name.endswith(".home.arpa")
    return not is_public(host)


def look_up(host: str, port: int) -> list[str]:
    """Return the addresses of a name, as the system resolves it. This blocks."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


class Resolver(AbstractResolver):
    """Looks names up in threads of its own, and returns only addresses that the poll may connect to.

    The event loop has few threads by default. A handful of names whose servers are silent would block them
    all.
    """

    def __init__(self, lookup: Lookup, threads: Executor, public: Callable[[str], bool] | None) -> None:
        self._lookup, self._threads, self._public = lookup, threads, public

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002  (the connector asks for all)
    ) -> list[ResolveResult]:
        """Return the addresses of a host; raise `PrivateAddress` if there are private ones only."""
        loop = asyncio.get_running_loop()
        addresses = await loop.run_in_executor(self._threads, self._lookup, host, port)
        addresses = list(dict.fromkeys(addresses))
        if self._public is not None:
            allowed = [address for address in addresses if self._public(address)]
            if addresses and not allowed:
                raise PrivateAddress(f"{host} is {addresses[0]}, a private address")
            addresses = allowed
        if not addresses:
            raise OSError(f"{host} has no address")
        return [self._result(host, address, port) for address in addresses]

    @staticmethod
    def _result(host: str, address: str, port: int) -> ResolveResult:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return ResolveResult(
            hostname=host, host=address, port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST
        )

    async def close(self) -> None:
        """Do nothing: the caller ends the threads."""


def guarded_socket(info: tuple[Any, ...], public: Callable[[str], bool] | None) -> socket.socket:
    """Make the socket of a connection; raise `PrivateAddress` if the address is private and must not be."""
    family, kind, protocol, _, address = info
    if public is not None and not public(str(address[0])):
        raise PrivateAddress(f"{address[0]} is a private address")
    return socket.socket(family=family, type=kind, proto=protocol)
