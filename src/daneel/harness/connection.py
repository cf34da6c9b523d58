"""One sending of one request: HTTP to a reply or a `ClientError`. Retrying is the client's, see `retry.py`."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2

from daneel.errors import UserError
from daneel.harness.client_errors import (
    BadReply,
    ClientError,
    ErrorInStream,
    ProgressTimeout,
    RequestCancelled,
    RequestTimeout,
    StreamBroken,
    from_status,
    from_transport,
)
from daneel.harness.progress import ProgressWatch, shut_down
from daneel.harness.reply import Reply, from_accumulator
from daneel.harness.server_url import is_loopback
from daneel.harness.stream_reader import StreamReader
from daneel.wire.accumulate import Accumulator
from daneel.wire.error_body import PeerError, read_error
from daneel.wire.lenient_json import decode
from daneel.wire.messages import Delta

MAX_WHOLE_BYTES = 64 * 1024 * 1024
MAX_STREAM_BYTES = 1024 * 1024 * 1024
MAX_ERROR_BYTES = 1024 * 1024

_DRAIN_S = 2.0
_BUSY = ("unavailable", "rate_limit_exceeded", "overloaded_error", "429", "503")

OnDelta = Callable[[Delta], object]


@dataclass(frozen=True)
class Timeouts:
    """Seconds: to connect; without progress before and after the first token; for a reply that is not streamed."""

    connect_s: float = 10.0
    first_token_s: float = 900.0
    progress_s: float = 300.0
    whole_s: float = 1800.0


_NEVER_STREAMS = ("json", "html")
"""In a content type: a whole body, whatever was asked for. A page comes from a web application at the same address."""


class Connection:
    """Speaks HTTP with one server, from any number of threads. `base_url` has no slash at its end."""

    def __init__(self, base_url: str, *, api_key: str | None, timeouts: Timeouts) -> None:
        self.base_url = base_url
        self.cancelled = threading.Event()
        self._timeouts = timeouts
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._lock = threading.Lock()
        # compressed replies would get round the limits on size
        headers = {"Accept-Encoding": "identity", "User-Agent": "daneel"}
        if api_key:
            headers["Authorization"] = f"Bearer {_checked_key(api_key)}"
        self._http = httpx2.Client(headers=headers, trust_env=not is_loopback(base_url))

    def close(self) -> None:
        self._http.close()

    def cancel(self) -> None:
        self.cancelled.set()
        with self._lock:
            sockets = list(self._sockets)
        for connected in sockets:
            shut_down(connected)

    def get(self, path: str, *, end_at: float | None) -> Any:
        """The JSON at a route."""
        with self._open("GET", path, None, self._timeouts.connect_s * 3, end_at) as response:
            body = _read_whole(response, MAX_WHOLE_BYTES, self.base_url)
        return self._decoded(body)

    def chat(self, content: bytes, *, stream: bool, on_delta: OnDelta | None, end_at: float | None) -> Reply:
        """One completed reply. Whether it is read as a stream is up to what the server sends: some ignore `stream`."""
        began = time.monotonic()
        wait_s = self._timeouts.first_token_s if stream else self._timeouts.whole_s
        with self._open("POST", "/chat/completions", content, wait_s, end_at) as response:
            kind = response.headers.get("content-type", "").lower()
            if "event-stream" in kind or (stream and not any(name in kind for name in _NEVER_STREAMS)):
                return self._streamed(response, on_delta, began, end_at)
            body = _read_whole(response, MAX_WHOLE_BYTES, self.base_url)
        return self._whole(body, on_delta, began)

    @contextlib.contextmanager
    def _open(
        self, method: str, path: str, content: bytes | None, wait_s: float, end_at: float | None
    ) -> Iterator[httpx2.Response]:
        """The response to a request, its status checked; what goes wrong while it is read becomes a `ClientError`."""
        left_s = wait_s if end_at is None else min(wait_s, end_at - time.monotonic())
        if left_s <= 0:
            raise RequestTimeout(f"no time is left to ask {self.base_url}")
        headers = {"Content-Type": "application/json"} if content is not None else {}
        timeout = httpx2.Timeout(left_s, connect=min(left_s, self._timeouts.connect_s), pool=None)
        try:
            with self._http.stream(
                method,
                self.base_url + path,
                content=content,
                headers=headers,
                timeout=timeout,
                extensions={"trace": self._trace},
            ) as response:
                if response.status_code != 200:
                    raise self._refusal(response)
                yield response
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL) as error:
            raise self._explained(error, end_at) from error

    def _explained(self, error: Exception, end_at: float | None) -> ClientError:
        if self.cancelled.is_set():
            return RequestCancelled("the request was cancelled")
        if isinstance(error, httpx2.TimeoutException) and end_at is not None and time.monotonic() >= end_at:
            return RequestTimeout(f"the time given to the request to {self.base_url} is over")
        return from_transport(error, self.base_url, started=False)

    def _trace(self, event: str, info: dict[str, Any]) -> None:
        """Keep hold of each connection's socket, so that `cancel()` can wake whoever reads from it."""
        if event not in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            return
        connected = info["return_value"].get_extra_info("socket")
        if isinstance(connected, socket.socket):
            with self._lock:
                self._sockets.add(connected)
        if self.cancelled.is_set():
            shut_down(connected)

    def _refusal(self, response: httpx2.Response) -> ClientError:
        error = read_error(_read_whole(response, MAX_ERROR_BYTES, self.base_url, cut=True))
        headers = response.headers
        after_s = _retry_after_s(headers.get("retry-after"))
        location = headers.get("location")
        return from_status(response.status_code, error, self.base_url, retry_after_s=after_s, location=location)

    def _decoded(self, body: bytes) -> Any:
        if not body.strip():
            raise StreamBroken(f"{self.base_url} sent an empty body", retryable=True)
        try:
            return decode(body)
        except ValueError:
            raise BadReply(f"{self.base_url} sent what is not JSON: {body[:200]!r}") from None

    def _whole(self, body: bytes, on_delta: OnDelta | None, began: float) -> Reply:
        read = Accumulator()
        payload = self._decoded(body)
        delta = read.add(payload)
        error = read.error
        if error is not None:
            # a status of 200 around an error
            raise self._error_frame(error, read, started=False)
        if read.num_choices_seen == 0:
            raise BadReply(f"{self.base_url} sent a reply without a choice: {body[:200]!r}")
        reason = self._checked_reason(read, started=True)
        last = read.final_delta()
        for part in (delta, last):
            if on_delta is not None and part is not None and part != Delta():
                on_delta(part)
        return from_accumulator(read, reason, duration_s=time.monotonic() - began)

    def _streamed(self, response: httpx2.Response, on_delta: OnDelta | None, began: float, end_at: float | None) -> Reply:
        reader = StreamReader(Accumulator(), on_delta)
        connected = _socket_of(response)
        watch = ProgressWatch(connected, stall_s=self._timeouts.first_token_s, end_at=end_at)
        ttft_s: float | None = None
        broken: Exception | None = None
        with watch:
            try:
                num_bytes = 0
                for piece in response.iter_bytes():
                    num_bytes += len(piece)
                    if num_bytes > MAX_STREAM_BYTES:
                        raise BadReply(f"the stream is longer than {MAX_STREAM_BYTES} bytes", partial=reader.read.message())
                    if reader.feed(piece):
                        watch.progress(_DRAIN_S if reader.done else self._stall_s(reader))
                    if ttft_s is None and reader.started:
                        ttft_s = time.monotonic() - began
                    if reader.read.error is not None or watch.fired:
                        break
            except (httpx2.HTTPError, httpx2.StreamError) as error:
                broken = error
        ended = reader.done or (broken is None and watch.fired is None and _announces_its_end(response))
        # after the end mark nothing is awaited, so nothing can have gone wrong
        self._check_end(reader, None if reader.done else watch.fired, None if reader.done else broken)
        return self._finished(reader, ended, ttft_s=ttft_s, duration_s=time.monotonic() - began)

    def _stall_s(self, reader: StreamReader) -> float:
        return self._timeouts.progress_s if reader.started else self._timeouts.first_token_s

    def _check_end(self, reader: StreamReader, fired: str | None, broken: Exception | None) -> None:
        """Raise what ended the stream before its end, if something did."""
        read, started = reader.read, reader.started
        if self.cancelled.is_set():
            raise RequestCancelled("the request was cancelled", partial=read.message())
        if read.error is not None:
            raise self._error_frame(read.error, read, started=started)
        if fired == "end":
            raise RequestTimeout(f"the time given to the request to {self.base_url} is over", partial=read.message())
        if fired == "stall":
            waited_s = self._stall_s(reader)
            raise ProgressTimeout(f"{self.base_url} made no progress for {waited_s:g} s", partial=read.message())
        if broken is not None:
            raise from_transport(broken, self.base_url, started=started, partial=read.message()) from broken

    def _finished(self, reader: StreamReader, ended: bool, **measured: Any) -> Reply:
        reader.finish()
        self._check_end(reader, None, None)
        reason = self._checked_reason(reader.read, started=reader.started)
        if not ended and not reader.done:
            raise StreamBroken(f"the stream of {self.base_url} ended without its end mark", partial=reader.read.message())
        return from_accumulator(reader.read, reason, **measured)

    def _checked_reason(self, read: Accumulator, *, started: bool) -> str:
        """The finish reason, if it is one of a completed reply."""
        reason = read.finish_reason
        if reason is None:
            said = f"the reply of {self.base_url} ended without a finish reason"
            raise StreamBroken(said, retryable=not started, partial=read.message())
        if reason in ("error", "abort"):
            error = PeerError(f"finish reason {reason!r}", code=reason)
            raise self._error_frame(error, read, started=started)
        return reason

    def _error_frame(self, error: PeerError, read: Accumulator, *, started: bool) -> ErrorInStream:
        busy = str(error.code) in _BUSY or str(error.type) in _BUSY
        said = f"{self.base_url} ended the reply with an error: {error.message}"
        return ErrorInStream(said, error=error, retryable=busy and not started, partial=read.message())


def _read_whole(response: httpx2.Response, max_bytes: int, where: str, *, cut: bool = False) -> bytes:
    """The body, up to a limit: longer ones are cut or refused."""
    parts: list[bytes] = []
    num_bytes = 0
    for piece in response.iter_bytes():
        parts.append(piece)
        num_bytes += len(piece)
        if num_bytes > max_bytes:
            if cut:
                break
            raise BadReply(f"{where} sent more than {max_bytes} bytes")
    return b"".join(parts)[:max_bytes]


def _announces_its_end(response: httpx2.Response) -> bool:
    """Whether a body that was cut off could be told from a complete one: not if only the closed connection ends it."""
    return "content-length" in response.headers or "chunked" in response.headers.get("transfer-encoding", "").lower()


def _socket_of(response: httpx2.Response) -> socket.socket | None:
    stream = response.extensions.get("network_stream")
    connected = stream.get_extra_info("socket") if stream is not None else None
    return connected if isinstance(connected, socket.socket) else None


def _retry_after_s(value: str | None) -> float | None:
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


def _checked_key(api_key: str) -> str:
    key = api_key.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UserError("the API key holds characters that cannot be sent in a header")
    return key
