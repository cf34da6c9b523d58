"""How a request to a server can end badly, seen from the client.

ClientError
├── ServerUnreachable     no connection could be made
├── ServerRefused         an error status; carries `status`, `type`, `code`
│   ├── ServerBusy        429 or 503, also after all retries; carries `retry_after_s`
│   ├── KeyRefused        401 or 403
│   └── ContextOverflow   the prompt does not fit the served context
├── StreamBroken          the reply ended too early: connection lost, no finish reason, no end
├── ErrorInStream         an error frame in an open stream
├── BadReply              a status of 200, and a body that is not what the dialect says
├── ProgressTimeout       no token and no progress for too long
├── RequestTimeout        the time given to this request is over
├── ModelNotChosen        no model named, and the server serves none or several
└── RequestCancelled      `Client.cancel()` was called

`retryable` says whether the client may send the request again: never once a token has come, which is what `started` says.
`partial` is the message as far as it had come, if anything had.
"""

from __future__ import annotations

import ssl
from typing import Any

import httpx2

from daneel.harness.overflow import says_overflow
from daneel.wire.error_body import PeerError
from daneel.wire.messages import Message


class ClientError(Exception):
    """Base of all errors of the client. The message is one sentence that names the server."""

    def __init__(self, message: str, *, retryable: bool = False, started: bool = False, partial: Message | None = None) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.started = started
        self.partial = partial


class ServerUnreachable(ClientError):
    pass


class ServerRefused(ClientError):
    def __init__(self, message: str, *, status: int, error: PeerError, retryable: bool = False) -> None:
        super().__init__(message, retryable=retryable)
        self.status = status
        self.error = error
        self.type = error.type
        self.code = error.code


class ServerBusy(ServerRefused):
    def __init__(self, message: str, *, status: int, error: PeerError, retry_after_s: float | None = None) -> None:
        super().__init__(message, status=status, error=error, retryable=True)
        self.retry_after_s = retry_after_s


class KeyRefused(ServerRefused):
    pass


class ContextOverflow(ServerRefused):
    pass


class StreamBroken(ClientError):
    pass


class ErrorInStream(ClientError):
    def __init__(
        self,
        message: str,
        *,
        error: PeerError,
        retryable: bool = False,
        started: bool = False,
        partial: Message | None = None,
    ) -> None:
        super().__init__(message, retryable=retryable, started=started, partial=partial)
        self.error = error


class BadReply(ClientError):
    pass


class ProgressTimeout(ClientError):
    pass


class RequestTimeout(ClientError):
    pass


class ModelNotChosen(ClientError):
    pass


class RequestCancelled(ClientError):
    pass


TRANSPORT_ERRORS: dict[type[Exception], tuple[type[ClientError], bool]] = {
    httpx2.ConnectError: (ServerUnreachable, True),
    httpx2.ConnectTimeout: (ServerUnreachable, True),
    httpx2.ProxyError: (ServerUnreachable, True),
    httpx2.PoolTimeout: (ServerUnreachable, True),
    httpx2.UnsupportedProtocol: (ServerUnreachable, False),
    httpx2.InvalidURL: (ServerUnreachable, False),
    httpx2.WriteTimeout: (StreamBroken, True),
    httpx2.ReadTimeout: (ProgressTimeout, False),
    httpx2.ReadError: (StreamBroken, True),
    httpx2.WriteError: (StreamBroken, True),
    httpx2.CloseError: (StreamBroken, True),
    httpx2.RemoteProtocolError: (StreamBroken, True),
    httpx2.LocalProtocolError: (BadReply, False),
    httpx2.DecodingError: (BadReply, False),
    httpx2.TooManyRedirects: (BadReply, False),
    httpx2.SSEError: (BadReply, False),
    httpx2.HTTPStatusError: (BadReply, False),
    httpx2.StreamClosed: (StreamBroken, True),
    httpx2.StreamConsumed: (StreamBroken, False),
    httpx2.ResponseNotRead: (StreamBroken, False),
    httpx2.RequestNotRead: (StreamBroken, False),
}
"""What each error of the HTTP library means here, and whether the request may be sent again if no token has come."""


def from_transport(error: Exception, where: str, *, started: bool, partial: Message | None = None) -> ClientError:
    """The client's error for one of the HTTP library's. `started`: a token has come, so the request must not be repeated."""
    state: dict[str, Any] = {"started": started, "partial": partial}
    untrusted = _untrusted_certificate(error)
    if untrusted is not None:
        said = f"the certificate of {where} is not trusted: {untrusted}; give its authority's with --ca-cert"
        return ServerUnreachable(said, **state)
    for kind in type(error).__mro__:
        found = TRANSPORT_ERRORS.get(kind)
        if found is not None:
            meaning, retryable = found
            said = str(error) or type(error).__name__
            return meaning(f"{_SAYS[meaning]} {where}: {said}", retryable=retryable and not started, **state)
    return StreamBroken(f"the request to {where} failed: {type(error).__name__}: {error}", **state)


def _untrusted_certificate(error: BaseException) -> str | None:
    """Why the server's certificate was refused, if that is what ended the connection."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLCertVerificationError):
            return seen.verify_message or str(seen)
        seen = seen.__cause__ or seen.__context__
    return None


_SAYS: dict[type[ClientError], str] = {
    ServerUnreachable: "cannot reach the server at",
    StreamBroken: "the connection broke to",
    ProgressTimeout: "nothing came for too long from",
    BadReply: "the reply cannot be read from",
}


def from_status(
    status: int, error: PeerError, where: str, *, retry_after_s: float | None = None, location: str | None = None
) -> ServerRefused:
    """The error for a status that is not 200; the last two are the headers `Retry-After` and `Location`."""
    details: dict[str, Any] = {"status": status, "error": error}
    said = f"{where} answered {status}: {error.message}"
    if status in (429, 503):
        return ServerBusy(said, retry_after_s=retry_after_s, **details)
    if status in (401, 403):
        return KeyRefused(said, **details)
    if 300 <= status < 400 and location:
        return ServerRefused(f"{where} answered {status}: it has moved to {location}; give that address", **details)
    if is_overflow(status, error):
        return ContextOverflow(said, **details)
    return ServerRefused(said, **details)


def is_overflow(status: int, error: PeerError) -> bool:
    """Whether the server says that the prompt does not fit its context."""
    if says_overflow("", kind=error.type, code=error.code):
        return True
    return status in (400, 413, 422, 500) and says_overflow(error.message)
