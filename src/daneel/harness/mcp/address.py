"""Where an MCP server is: a command to start, or a URL; checked before anything is started or sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from daneel.errors import UserError

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a server is: a command to start, or a URL."""

    command: tuple[str, ...] = ()
    url: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.url.split("?")[0] if self.url is not None else " ".join(self.command)


def address(
    *,
    command: Sequence[str] | None,
    url: str | None,
    env: Mapping[str, str] | None,
    cwd: str | None,
    headers: Mapping[str, str] | None,
    insecure_http: bool,
) -> Address:
    """A checked address. Raises UserError."""
    if (command is None) == (url is None):
        raise UserError("mcp_tools: give either command=[…] or url=…")
    if command is not None:
        if isinstance(command, str) or not command or not all(isinstance(part, str) and part for part in command):
            raise UserError(f"mcp_tools: command must be a list of words, such as ['npx', 'some-server'], not {command!r}")
        if headers:
            raise UserError("mcp_tools: headers go with url=, not with command=")
        return Address(command=tuple(command), env=dict(env or {}), cwd=cwd)
    parts = urlsplit(str(url))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(f"mcp_tools: url must begin with http:// or https://, not {url!r}")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK and not insecure_http:
        raise UserError(f"mcp_tools: {url} is not encrypted; use https://, or say insecure_http=True")
    if env or cwd:
        raise UserError("mcp_tools: env and cwd go with command=, not with url=")
    return Address(url=url, headers=dict(headers or {}))
