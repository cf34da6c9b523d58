"""One sending of one request: HTTP to a reply or a `ClientError`. Retrying is the client's, see `retry.py`."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import msgspec

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
from daneel.harness.credentials import checked_key
from daneel.harness.http_response import announces_its_end, read_whole, retry_after_s, socket_of
from daneel.harness.inline_thoughts import InlineThoughts
from daneel.harness.progress import ProgressWatch, shut_down
from daneel.harness.reply import Reply, from_accumulator
from daneel.harness.server_url import is_loopback, root_of
from daneel.harness.stream_reader import MAX_WHOLE_BYTES, StreamReader
from daneel.wire.accumulate import Accumulator
from daneel.wire.error_body import PeerError, read_error
from daneel.wire.lenient_json import decode
from daneel.wire.messages import Delta, JsonObject

MAX_STREAM_BYTES = 1024 * 1024 * 1024
MAX_ERROR_BYTES = 1024 * 1024

_DRAIN_S = 2.0
_BUSY = ("unavailable", "rate_limit_exceeded", "overloaded_error", "429", "503")

OnDelta = Callable[[Delta], object]
OnBytes = Callable[[bytes], object]


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

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None,
        timeouts: Timeouts,
        verify: ssl.SSLContext | bool = True,
        cancelled: threading.Event | None = None,
    ) -> None:
        self.base_url = base_url
        self.cancelled = cancelled or threading.Event()
        self.on_bytes: OnBytes | None = None
        """Is given whatever the server sends in a body, as it comes."""
        self._timeouts = timeouts
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._lock = threading.Lock()
        # compressed replies would get round the limits on size
        headers = {"Accept-Encoding": "identity", "User-Agent": "daneel"}
        if api_key:
            headers["Authorization"] = f"Bearer {checked_key(api_key)}"
        self._http = httpx2.Client(headers=headers, trust_env=not is_loopback(base_url), verify=verify)

    def close(self) -> None:
        self._http.close()

    def cancel(self) -> None:
        self.cancelled.set()
        with self._lock:
            sockets = list(self._sockets)
        for connected in sockets:
            shut_down(connected)

    def get(self, path: str, *, end_at: float | None, from_root: bool = False) -> Any:
        """The JSON at a route. `from_root`: beside the dialect's routes, not under them."""
        return self._json("GET", path, None, end_at, from_root=from_root)

    def post(self, path: str, content: JsonObject, *, end_at: float | None, from_root: bool = False) -> Any:
        """The JSON that a route answers."""
        return self._json("POST", path, msgspec.json.encode(content), end_at, from_root=from_root)

    def _json(self, method: str, path: str, content: bytes | None, end_at: float | None, *, from_root: bool) -> Any:
        wait_s = self._timeouts.connect_s * 3
        base_url = root_of(self.base_url) if from_root else None
        with self._open(method, path, content, wait_s, end_at, base_url=base_url) as response:
            body = self._body(response, wait_s, end_at)
        try:
            return decode(body)
        except ValueError:
            said = f"not JSON: {body[:200]!r}" if body.strip() else "empty"
            raise BadReply(f"what {self.base_url}{path} gives is {said}") from None

    def chat(
        self, content: bytes, *, stream: bool, on_delta: OnDelta | None, end_at: float | None, split_thoughts: bool
    ) -> Reply:
        """One completed reply. Whether it is read as a stream is up to what the server sends: some ignore `stream`.

        `split_thoughts`: take thoughts in a family's tags out of the content.
        """
        began = time.monotonic()
        reader = StreamReader(Accumulator(split=InlineThoughts() if split_thoughts else None), on_delta)
        wait_s = self._timeouts.first_token_s if stream else self._timeouts.whole_s
        with self._open("POST", "/chat/completions", content, wait_s, end_at) as response:
            kind = response.headers.get("content-type", "").lower()
            if "event-stream" in kind or (stream and not any(name in kind for name in _NEVER_STREAMS)):
                return self._streamed(response, reader, began, end_at)
            body = self._body(response, wait_s, end_at)
        return self._whole(body, reader, began)

    def _body(self, response: httpx2.Response, wait_s: float, end_at: float | None) -> bytes:
        """A whole body, within `wait_s`, however slowly its bytes come."""
        with ProgressWatch(socket_of(response), stall_s=wait_s, end_at=end_at) as watch:
            try:
                body = read_whole(self._pieces(response), MAX_WHOLE_BYTES, self.base_url)
            except (httpx2.HTTPError, httpx2.StreamError):
                if watch.fired is None:
                    raise
        if watch.fired is not None and not self.cancelled.is_set():
            raise self._overdue(watch.fired, wait_s)
        return body

    def _overdue(self, fired: str, waited_s: float, reader: StreamReader | None = None) -> ClientError:
        started = reader is not None and reader.started
        partial = reader.read.message() if reader is not None else None
        if fired == "end":
            said = f"the time given to the request to {self.base_url} is over"
            return RequestTimeout(said, started=started, partial=partial)
        return ProgressTimeout(f"{self.base_url} made no progress for {waited_s:g} s", started=started, partial=partial)

    @contextlib.contextmanager
    def _open(
        self,
        method: str,
        path: str,
        content: bytes | None,
        wait_s: float,
        end_at: float | None,
        *,
        base_url: str | None = None,
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
                (base_url or self.base_url) + path,
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
        if isinstance(error, httpx2.TimeoutException) and _is_over(end_at):
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

    def _pieces(self, response: httpx2.Response) -> Iterator[bytes]:
        for piece in response.iter_bytes():
            if self.on_bytes is not None:
                self.on_bytes(piece)
            yield piece

    def _refusal(self, response: httpx2.Response) -> ClientError:
        error = read_error(read_whole(self._pieces(response), MAX_ERROR_BYTES, self.base_url, cut=True))
        headers = response.headers
        after_s = retry_after_s(headers.get("retry-after"))
        location = headers.get("location")
        return from_status(response.status_code, error, self.base_url, retry_after_s=after_s, location=location)

    def _whole(self, body: bytes, reader: StreamReader, began: float) -> Reply:
        if not body.strip():
            raise StreamBroken(f"{self.base_url} sent an empty body", retryable=True)
        reader.take_whole(body)
        self._check_end(reader, None, None)
        reason = self._checked_reason(reader.read, started=True)
        return from_accumulator(reader.read, reason, duration_s=time.monotonic() - began)

    def _streamed(self, response: httpx2.Response, reader: StreamReader, began: float, end_at: float | None) -> Reply:
        connected = socket_of(response)
        watch = ProgressWatch(connected, stall_s=self._timeouts.first_token_s, end_at=end_at)
        ttft_s: float | None = None
        broken: Exception | None = None
        with watch:
            try:
                num_bytes = 0
                for piece in self._pieces(response):
                    num_bytes += len(piece)
                    if num_bytes > MAX_STREAM_BYTES:
                        said = f"the stream is longer than {MAX_STREAM_BYTES} bytes"
                        raise BadReply(said, started=reader.started, partial=reader.read.message())
                    if reader.feed(piece):
                        watch.progress(_DRAIN_S if reader.done else self._stall_s(reader))
                    if ttft_s is None and reader.started:
                        ttft_s = time.monotonic() - began
                    if reader.read.error is not None or watch.fired:
                        break
            except (httpx2.HTTPError, httpx2.StreamError) as error:
                broken = error
        fired = watch.fired
        if isinstance(broken, httpx2.TimeoutException) and _is_over(end_at):
            fired = "end"  # the socket's own limit was the first to notice
        ended = reader.done or (broken is None and fired is None and announces_its_end(response))
        # after the end mark nothing is awaited, so nothing can have gone wrong
        self._check_end(reader, None if reader.done else fired, None if reader.done else broken)
        return self._finished(reader, ended, ttft_s=ttft_s, duration_s=time.monotonic() - began)

    def _stall_s(self, reader: StreamReader) -> float:
        return self._timeouts.progress_s if reader.started else self._timeouts.first_token_s

    def _check_end(self, reader: StreamReader, fired: str | None, broken: Exception | None) -> None:
        """Raise what ended the stream before its end, if something did."""
        read, started = reader.read, reader.started
        if self.cancelled.is_set():
            raise RequestCancelled("the request was cancelled", started=started, partial=read.message())
        if read.error is not None:
            raise self._error_frame(read.error, read, started=started)
        if fired is not None:
            raise self._overdue(fired, self._stall_s(reader), reader)
        if broken is not None:
            raise from_transport(broken, self.base_url, started=started, partial=read.message()) from broken

    def _finished(self, reader: StreamReader, ended: bool, **measured: Any) -> Reply:
        try:
            reader.finish()
        except BadReply as error:
            if ended:
                raise
            raise StreamBroken(f"the reply of {self.base_url} was cut off", retryable=not reader.started) from error
        self._check_end(reader, None, None)
        reason = self._checked_reason(reader.read, started=reader.started)
        if not ended and not reader.done:
            said = f"the stream of {self.base_url} ended without its end mark"
            raise StreamBroken(said, started=reader.started, partial=reader.read.message())
        return from_accumulator(reader.read, reason, **measured)

    def _checked_reason(self, read: Accumulator, *, started: bool) -> str:
        """The finish reason, if it is one of a completed reply."""
        reason = read.finish_reason
        if reason is None:
            said = f"the reply of {self.base_url} ended without a finish reason"
            raise StreamBroken(said, retryable=not started, started=started, partial=read.message())
        if reason in ("error", "abort"):
            error = PeerError(f"finish reason {reason!r}", code=reason)
            raise self._error_frame(error, read, started=started)
        return reason

    def _error_frame(self, error: PeerError, read: Accumulator, *, started: bool) -> ErrorInStream:
        busy = str(error.code) in _BUSY or str(error.type) in _BUSY
        said = f"{self.base_url} ended the reply with an error: {error.message}"
        return ErrorInStream(said, error=error, retryable=busy and not started, started=started, partial=read.message())


def _is_over(end_at: float | None) -> bool:
    return end_at is not None and time.monotonic() >= end_at
