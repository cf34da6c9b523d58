"""Parts of an HTTP response that the client looks at: its body up to a limit, how it ends, its socket, `Retry-After`."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from email.utils import parsedate_to_datetime

import httpx2

from daneel.harness.client_errors import BadReply


def read_whole(pieces: Iterable[bytes], max_bytes: int, where: str, *, cut: bool = False) -> bytes:
    """The body that comes in pieces, up to a limit: longer ones are cut or refused."""
    parts: list[bytes] = []
    num_bytes = 0
    for piece in pieces:
        parts.append(piece)
        num_bytes += len(piece)
        if num_bytes > max_bytes:
            if cut:
                break
            raise BadReply(f"{where} sent more than {max_bytes} bytes")
    return b"".join(parts)[:max_bytes]


def announces_its_end(response: httpx2.Response) -> bool:
    """Whether a body that was cut off could be told from a complete one: not if only the closed connection ends it."""
    return "content-length" in response.headers or "chunked" in response.headers.get("transfer-encoding", "").lower()


def socket_of(response: httpx2.Response) -> socket.socket | None:
    stream = response.extensions.get("network_stream")
    connected = stream.get_extra_info("socket") if stream is not None else None
    return connected if isinstance(connected, socket.socket) else None


def retry_after_s(value: str | None) -> float | None:
    """Seconds from a `Retry-After` header: a number, or a date."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(0.0, seconds) if seconds == seconds else None
