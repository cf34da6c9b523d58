"""A server's address as people give it, made into the base of its routes."""

from __future__ import annotations

import ipaddress
import re

import httpx2

from daneel.errors import UserError

_HOST = re.compile(r"[\w.:-]+")
_VERSION = re.compile(r"v\d+\w*")
_ROUTES = ("/chat/completions", "/completions", "/models")


def base_of(address: str) -> str:
    """The base URL, without a slash at its end. Raises `UserError` when the address cannot be one.

    `http://` is added where there is no scheme, `/v1` where no part of the path names a version; a route at the end is cut off.
    """
    given = address.strip()
    if "://" not in given:
        given = "http://" + given
    try:
        url = httpx2.URL(given)
    except (httpx2.InvalidURL, ValueError) as error:
        raise UserError(f"the server address {address!r} is not a URL: {error}") from None
    if url.scheme not in ("http", "https") or not _HOST.fullmatch(url.host):
        raise UserError(f"the server address {address!r} must look like http://host:port")
    if url.port is not None and not 0 < url.port < 2**16:  # sockets would take its last 16 bits: another server
        raise UserError(f"the server address {address!r} has no possible port: it must be from 1 to 65535")
    if url.userinfo:
        raise UserError("the server address must not hold a user name or password; give a key with --key")
    if url.query or url.fragment:
        raise UserError(f"the server address {address!r} must not hold a query or fragment")
    path = url.path.rstrip("/")
    for route in _ROUTES:
        path = path.removesuffix(route)
    if not any(_VERSION.fullmatch(part) for part in path.split("/")):
        path += "/v1"
    return str(url.copy_with(path=path))


def root_of(base_url: str) -> str:
    """The address below which a server has its other routes: the base without the part that names a version at its end."""
    head, _, last = base_url.rpartition("/")
    return head if _VERSION.fullmatch(last) else base_url


def is_loopback(base_url: str) -> bool:
    """Whether the server runs on this machine, so that no proxy is to be asked."""
    host = httpx2.URL(base_url).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
