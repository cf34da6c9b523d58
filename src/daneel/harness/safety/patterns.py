"""Patterns for paths and hosts, and which files are private unless a policy says otherwise. Pure.

A path pattern is matched against a path relative to the workspace, `/` between its parts: `*` and `?` stay inside one part,
`**` crosses them; a pattern without `/` matches a name at any depth, and a pattern that matches a folder matches all below it.
A host pattern is a host name, `*.example.org` (that host's subdomains, and itself), or `*`; `:8080` behind it names a port.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

_NAMES = ("credentials", "secret", "secrets", "password", "passwords")
PRIVATE = (
    ".env",
    ".env.*",
    "*.env",
    ".envrc",
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".pgpass",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "credentials",
    *(f"{name}.{kind}" for name in _NAMES for kind in ("json", "yaml", "yml", "toml", "ini", "txt", "csv")),
)
"""Files that hold secrets by custom: reading one needs an approval, and taints the run."""

PROTECTED = (".git/hooks", ".git/config", ".git/modules", ".envrc")
"""What other programs run or obey later, outside of any sandbox: never written by a tool."""


def folded(text: str) -> str:
    """Text as a file system that ignores case and composes letters would compare it."""
    return unicodedata.normalize("NFKC", text).casefold()


@lru_cache(maxsize=1024)
def _path_regex(pattern: str) -> re.Pattern[str]:
    pattern = folded(pattern).rstrip("/")
    anchored = "/" in pattern
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = [wild.get(token) or re.escape(token) for token in re.findall(r"\*\*/|\*\*|\*|\?|[^*?]+", pattern)]
    return re.compile(("" if anchored else "(?:.*/)?") + "".join(parts) + r"(?:/.*)?", re.DOTALL)


def path_matches(path: str, patterns: Iterable[str]) -> str | None:
    """The first of the patterns that the path matches."""
    path = folded(path)
    return next((pattern for pattern in patterns if _path_regex(pattern).fullmatch(path)), None)


def host_matches(host: str, port: int | None, pattern: str) -> bool:
    """Whether a host and port match the pattern; a pattern without a port matches any."""
    wanted, port_text = pattern, ""
    if re.search(r":\d+\Z", pattern) and (pattern.count(":") == 1 or "]:" in pattern):
        wanted, _, port_text = pattern.rpartition(":")
    if port_text and str(port) != port_text:
        return False
    host, wanted = plain_host(host), plain_host(wanted)
    if wanted == "*":
        return True
    if wanted.startswith("*."):
        return host == wanted[2:] or host.endswith(wanted[1:])
    return host == wanted


def plain_host(host: str) -> str:
    """A host name as it is compared: lower case, without the dot that may end it or the brackets around an address."""
    return host.strip().strip("[]").rstrip(".").lower()
