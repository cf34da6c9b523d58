"""What a client shows a server and demands of it: API keys, certificates, an encrypted connection."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

from daneel.errors import UserError
from daneel.harness.server_url import is_loopback

MAX_KEY_FILE_BYTES = 64 * 1024


def checked_key(api_key: str) -> str:
    """The key without blanks around it. Raises `UserError`, without the key in it, if no header can hold it."""
    key = api_key.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UserError("the API key holds characters that cannot be sent in a header")
    return key


def key_from_file(path: Path) -> str:
    """The key that is a file's only line. Raises `UserError`."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_KEY_FILE_BYTES).decode("utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"the key file {path} cannot be read: {error.strerror or error}") from error
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) != 1:
        raise UserError(f"the key file {path} must hold one line, the key, and holds {len(lines) or 'none'}")
    return checked_key(lines[0])


def keys_for(servers: Sequence[str], keys: str | Sequence[str] | None) -> list[str | None]:
    """One key for each server: one key is for all of them, several are in the servers' order."""
    given = [keys] if isinstance(keys, str) else list(keys or [])
    if len(given) <= 1:
        return [given[0] if given else None] * len(servers)
    if len(given) != len(servers):
        raise UserError(f"{len(given)} keys for {len(servers)} servers: give one for all, or one for each, in the same order")
    return [key or None for key in given]


def ssl_context(ca_cert: Path | str | None) -> ssl.SSLContext | bool:
    """Which certificates are trusted: the usual authorities', and with `ca_cert`, a PEM file, also what it holds."""
    if ca_cert is None:
        return True
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(cafile=str(ca_cert))
    except ssl.SSLError as error:
        raise UserError(f"the certificate file {ca_cert} holds no certificate in PEM form: {error.reason or error}") from error
    except OSError as error:
        raise UserError(f"the certificate file {ca_cert} cannot be read: {error.strerror or error}") from error
    return context


def check_encrypted(base_url: str, *, insecure_http: bool) -> None:
    """Refuse plain HTTP to another machine: prompts, results and the key would cross the network for all to read."""
    if base_url.startswith("https://") or insecure_http or is_loopback(base_url):
        return
    raise UserError(
        f"{base_url} is plain HTTP to another machine: what is sent, the key included, could be read and changed on the way. "
        "Use https://, a tunnel to this machine, or --insecure-http on a network you trust"
    )
