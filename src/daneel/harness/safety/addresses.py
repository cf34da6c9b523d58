"""Which network addresses a fetch may reach: public ones. Pure but for one question to the resolver.

A page that can make an agent fetch `http://127.0.0.1:8080/` or `http://169.254.169.254/` reaches what its author cannot: the
machine's own services, its network, a cloud's keys. So a host is resolved once, every address that came back is looked at, and
the connection goes to one that was looked at.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable

from daneel.harness.raised import ToolFailure

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[[str, int], list[str]]
"""Host and port to the addresses of it. Raises OSError."""

RESOLVE_TIMEOUT_S = 10.0

_REFUSED = tuple(
    ipaddress.ip_network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
        *("192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        *("224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32"),  # the last is a cloud's own service at a public address
        *("::/128", "::1/128", "::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16"),
        *("fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"),
    )
)
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
_UNICAST = ipaddress.ip_network("2000::/3")
"""All IPv6 addresses that have been given out so far."""


def is_public(text: str) -> bool:
    """Whether an address is one of the open internet's. IPv6 forms that hold an IPv4 address are judged by that one too."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return all(_is_public(each) for each in (address, *_held(address)))


def _is_public(address: Address) -> bool:
    if any(address.version == network.version and address in network for network in _REFUSED):
        return False
    if isinstance(address, ipaddress.IPv6Address) and address not in _UNICAST:
        return bool(address.ipv4_mapped) or address in _TRANSLATED  # and judged by the address it holds
    return address.is_global and not address.is_multicast


def _held(address: Address) -> list[Address]:
    """The IPv4 addresses inside an IPv6 address: mapped, 6to4, Teredo, NAT64."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    held: list[Address] = [each for each in (address.ipv4_mapped, address.sixtofour) if each is not None]
    if address.teredo is not None:
        held += address.teredo
    if address in _TRANSLATED:
        held.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return held


def resolve(host: str, port: int) -> list[str]:
    """All addresses of a host, as the system has them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def pinned(host: str, port: int, *, resolver: Resolver = resolve, is_allowed: Callable[[str], bool] = is_public) -> str:
    """The one address that a request to this host will go to. Raises ToolFailure, in words for the model.

    One address among several that is not public spoils them all: no honest host has such.
    """
    addresses = _within(RESOLVE_TIMEOUT_S, host, port, resolver)
    if not addresses:
        raise ToolFailure(f"there is no host {host}; check the address")
    if not all(is_allowed(address) for address in addresses):
        raise ToolFailure(f"{host} is on a private or local network; only public addresses can be fetched")
    return addresses[0]


def _within(timeout_s: float, host: str, port: int, resolver: Resolver) -> list[str]:
    """The resolver's answer; it takes no time limit of its own, so it is asked in a thread that may be left behind."""
    answer: list[list[str]] = []
    failure: list[Exception] = []

    def ask() -> None:
        try:
            answer.append(resolver(host, port))
        except (OSError, ValueError) as error:  # ValueError: a name that no name can be, such as one too long
            failure.append(error)

    thread = threading.Thread(target=ask, name="daneel-resolve", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if failure:
        raise ToolFailure(f"there is no host {host}, or it cannot be found now; check the address") from failure[0]
    if not answer:
        raise ToolFailure(f"{host} could not be found within {timeout_s:g} s; try again later")
    return answer[0]
