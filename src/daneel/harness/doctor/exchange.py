"""One request to a server as it stands on the wire, and everything that came back. Nothing is forgiven, nothing raised.

The client of the harness forgives; the doctor wants to see what there is to forgive. Every request has an end: whatever the
server does, or leaves undone, its connection is shut down when its time is over.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

import httpx2
import msgspec

from daneel.harness.credentials import checked_key
from daneel.harness.progress import shut_down
from daneel.harness.server_url import is_loopback
from daneel.wire.error_body import PeerError, error_in, read_error
from daneel.wire.lenient_json import decode, decode_lines
from daneel.wire.sse import Decoder, EventTooLarge
from daneel.wire.sse import Event as ServerEvent

MAX_BODY_BYTES = 8 * 1024 * 1024
CONNECT_S = 10.0


@dataclass(frozen=True)
class Exchange:
    """What came of one request. `failure` says why there is no whole response; `status` is None when there is none at all."""

    status: int | None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    failure: str | None = None
    timed_out: bool = False
    duration_s: float = 0.0
    first_byte_s: float | None = None

    @property
    def ok(self) -> bool:
        return self.status == 200 and self.failure is None

    @property
    def is_stream(self) -> bool:
        return "event-stream" in self.headers.get("content-type", "").lower() or self.body.lstrip()[:5] == b"data:"

    def json(self) -> Any:
        """The body as JSON; None when it is none."""
        try:
            return decode(self.body)
        except ValueError:
            return None

    def events(self) -> list[ServerEvent]:
        """The server-sent events of the body."""
        decoder = Decoder()
        try:
            return [*decoder.feed(self.body), *decoder.finish()]
        except EventTooLarge:
            return []

    def payloads(self) -> list[Any]:
        """The JSON values in it, one per event; of a whole body, itself."""
        if not self.is_stream:
            value = self.json()
            return [] if value is None else [value]
        found: list[Any] = []
        for event in self.events():
            if event.kind == "data" and not event.is_done:
                with contextlib.suppress(ValueError):
                    found.extend(decode_lines(event.text))
        return found

    def error(self) -> PeerError | None:
        """What the server says was wrong: by its status, or inside a body with status 200."""
        if self.status is not None and self.status != 200:
            return read_error(self.body)
        return next((error for error in map(error_in, self.payloads()) if error is not None), None)

    def said(self) -> str:
        """The outcome in a few words, for a report."""
        if self.status is None or (self.failure and not self.body):
            return self.failure or "no response"
        error = self.error()
        told = f"{self.status}: {error.message[:160]}" if error else str(self.status)
        return f"{told} ({self.failure})" if self.failure else told


class Sender:
    """Sends requests to one server. `end_at` (monotonic seconds) is the end of all time there is."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        verify: ssl.SSLContext | bool = True,
        limit_s: float = 60.0,
        end_at: float | None = None,
    ) -> None:
        self.base_url = base_url
        self.limit_s = limit_s
        self.num_sent = 0
        self.num_timeouts = 0
        """Requests in a row that took too long."""
        self._key = checked_key(api_key) if api_key else None
        self._end_at = end_at
        self._http = httpx2.Client(verify=verify, trust_env=not is_loopback(base_url))

    @property
    def has_key(self) -> bool:
        return self._key is not None

    @property
    def root(self) -> str:
        """The server's own root: the address without `/v1` and what leads to it."""
        return str(httpx2.URL(self.base_url).copy_with(path="/")).rstrip("/")

    def close(self) -> None:
        self._http.close()

    def seconds_left(self) -> float:
        return float("inf") if self._end_at is None else self._end_at - time.monotonic()

    def send(
        self,
        method: str,
        route: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        limit_s: float | None = None,
        leave_after: bytes | None = None,
    ) -> Exchange:
        """One request. `route` below the base URL, or a whole URL. `body`: bytes as they are, all else as JSON.

        `leave_after`: close the connection as soon as these bytes have come.
        """
        limit = min(limit_s or self.limit_s, self.seconds_left())
        if limit <= 0:
            return Exchange(None, failure="there was no time left for it", timed_out=True)
        content = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        sent = {"Accept-Encoding": "identity", "User-Agent": "daneel"}
        sent |= {"Content-Type": "application/json"} if content is not None else {}
        sent |= {"Authorization": f"Bearer {self._key}"} if self._key else {}
        sent |= headers or {}
        self.num_sent += 1
        exchange = self._exchange(method, route if "://" in route else self.base_url + route, content, sent, limit, leave_after)
        self.num_timeouts = self.num_timeouts + 1 if exchange.timed_out else 0
        return exchange

    def _exchange(
        self, method: str, url: str, content: bytes | None, headers: dict[str, str], limit_s: float, leave_after: bytes | None
    ) -> Exchange:
        began = time.monotonic()
        status: int | None = None
        got: dict[str, str] = {}
        body = bytearray()
        first_s: float | None = None
        failure: str | None = None
        with _deadline(limit_s) as deadline:
            try:
                timeout = httpx2.Timeout(limit_s, connect=min(limit_s, CONNECT_S))
                extensions = {"trace": deadline.trace}
                with self._http.stream(
                    method, url, content=content, headers=headers, timeout=timeout, extensions=extensions
                ) as response:
                    status, got = response.status_code, {name.lower(): value for name, value in response.headers.items()}
                    for piece in response.iter_bytes():
                        first_s = first_s if first_s is not None else time.monotonic() - began
                        body += piece
                        if leave_after is not None and leave_after in body:
                            failure = "we left"
                            break
                        if len(body) > MAX_BODY_BYTES:
                            failure = f"the body is longer than {MAX_BODY_BYTES} bytes"
                            break
            except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError, ValueError) as error:
                failure = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
                if isinstance(error, httpx2.TimeoutException):
                    deadline.passed = True
        if deadline.passed and failure != "we left":
            failure = f"not done within {limit_s:.0f} s"
        return Exchange(status, got, bytes(body), failure, deadline.passed, time.monotonic() - began, first_s)


class _Deadline:
    """Shuts down the sockets that were opened meanwhile when the time is over: a slow drip of bytes must not keep us."""

    def __init__(self) -> None:
        self.passed = False
        self._sockets: list[socket.socket] = []

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """Called by the HTTP library at each step."""
        stream = info.get("return_value") or info.get("stream")
        if stream is not None and hasattr(stream, "get_extra_info"):
            connected = stream.get_extra_info("socket")
            if isinstance(connected, socket.socket):
                self._sockets.append(connected)
        if self.passed:
            self.shut()

    def shut(self) -> None:
        self.passed = True
        for connected in list(self._sockets):
            shut_down(connected)


@contextlib.contextmanager
def _deadline(limit_s: float) -> Iterator[_Deadline]:
    deadline, done = _Deadline(), SimpleQueue[None]()

    def watch() -> None:
        try:
            done.get(timeout=min(limit_s, threading.TIMEOUT_MAX))
        except Empty:
            deadline.shut()

    threading.Thread(target=watch, name="daneel-doctor-deadline", daemon=True).start()
    try:
        yield deadline
    finally:
        done.put(None)
