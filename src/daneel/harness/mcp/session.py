"""One connection to an MCP server, held by a thread of its own: the loop is synchronous, the MCP library is not.

Over stdio the server is a child process with hardly any environment; its standard error is kept for error messages. Over HTTP
it is an address; redirects away from it are not followed, and a reply may not be larger than `MAX_REPLY_BYTES`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from daneel.harness.mcp.address import LOOPBACK, Address
from daneel.harness.raised import described
from daneel.harness.safety.untrusted import visible

if TYPE_CHECKING:
    from mcp import Client

T = TypeVar("T")
MAX_REPLY_BYTES = 32_000_000
KEPT_STDERR_BYTES = 2_000
MAX_REASON_CHARS = 400
CLOSE_TIMEOUT_S = 10.0
LOOK_S = 0.002
LOOKS = 10
"""Rounds of the event loop: from the end of a pipe to the one who reads messages it is a few."""
_QUIET = logging.NullHandler()
"""The library logs what a broken server writes, with a traceback; without any handler that would go to the terminal."""


class SessionEnded(Exception):
    """The server is gone, or does not speak MCP. `was_sent`: a request may have reached it."""

    def __init__(self, reason: str, *, was_sent: bool) -> None:
        super().__init__(reason)
        self.was_sent = was_sent


class RequestTimedOut(Exception):
    """The server did not answer in time; it has been told that nobody waits any longer."""


class Session:
    """A started connection. Raises SessionEnded when it cannot be made within `timeout_s`. Safe to use from several threads."""

    def __init__(self, where: Address, *, timeout_s: float) -> None:
        logging.getLogger("mcp").addHandler(_QUIET)
        self._where = where
        self._stderr = _Tail() if where.command else None
        self._ready: Future[None] = Future()
        self._has_ended = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._waiting: set[Future[Any]] = set()
        self._over = threading.Event()
        self._client: Client | None = None
        self._thread = threading.Thread(target=self._main, name=f"mcp {where}", daemon=True)
        self._thread.start()
        try:
            self._ready.result(timeout_s)
        except FutureTimeout:
            self.close()
            raise SessionEnded(f"no answer within {timeout_s:g} s{self._said()}", was_sent=False) from None
        except BaseException as error:
            self.close()
            if isinstance(error, Exception):
                raise SessionEnded(f"{reason_of(error)}{self._said()}", was_sent=False) from error
            raise

    @property
    def is_alive(self) -> bool:
        """False as soon as it is seen that the server is gone."""
        return not self._has_ended.is_set()

    @property
    def client(self) -> Client:
        """The MCP library's own client; to be used in `request()` only."""
        assert self._client is not None
        return self._client

    def request(self, make: Callable[[Client], Awaitable[T]], *, timeout_s: float) -> T:
        """What `make(client)` gives, run in the connection's thread.

        Raises SessionEnded, RequestTimedOut, or what `make` raises.
        """
        if self._has_ended.is_set() or self._loop is None:
            raise SessionEnded(f"it has ended{self._said()}", was_sent=False)
        sent = threading.Event()
        coroutine = self._request(make, sent)
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError as error:  # the loop is closed
            coroutine.close()
            raise SessionEnded(f"it has ended{self._said()}", was_sent=False) from error
        self._waiting.add(future)
        if self._over.is_set():  # the loop may have stopped without a look at it
            future.cancel()
        try:
            return future.result(timeout_s)
        except FutureTimeout:
            future.cancel()
            raise RequestTimedOut(f"no answer within {timeout_s:g} s") from None
        except SessionEnded as error:
            raise SessionEnded(f"{error}{self._said()}", was_sent=error.was_sent) from None
        except BaseException as error:
            future.cancel()
            if isinstance(error, Exception) and (self._has_ended.is_set() or _is_end(error)):
                raise SessionEnded(f"{reason_of(error)}{self._said()}", was_sent=sent.is_set()) from error
            raise
        finally:
            self._waiting.discard(future)

    async def _request(self, make: Callable[[Client], Awaitable[T]], sent: threading.Event) -> T:
        for _ in range(LOOKS):  # a server that has just ended is found out before anything is sent to it
            await asyncio.sleep(LOOK_S if self._where.url is None else 0)
            if self._has_ended.is_set():
                raise SessionEnded("it has ended", was_sent=False)
        sent.set()
        return await make(self.client)

    def close(self) -> None:
        """End the connection, and the server if it is our child. May be called twice."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            with suppress(RuntimeError):  # the loop has just ended by itself
                self._loop.call_soon_threadsafe(self._stop.set)
        if threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_TIMEOUT_S)

    def _said(self) -> str:
        tail = self._stderr.text() if self._stderr is not None else ""
        return f"; it said: {tail}" if tail else ""

    def _main(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as error:  # noqa: BLE001 - whatever a library's task group may hold; it is told in `__init__`
            if not self._ready.done():
                self._ready.set_exception(error if isinstance(error, Exception) else RuntimeError(described(error)))
        finally:
            self._has_ended.set()
            self._over.set()
            for future in tuple(self._waiting):  # what was handed to the loop as it stopped would never be answered
                future.cancel()
            if not self._ready.done():
                self._ready.set_exception(RuntimeError("the connection was closed"))
            if self._stderr is not None:
                self._stderr.close()

    async def _live(self) -> None:
        from mcp import Client

        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        stop = asyncio.ensure_future(self._stop.wait())
        start = asyncio.ensure_future(self._open(Client))
        await asyncio.wait((stop, start), return_when=asyncio.FIRST_COMPLETED)
        start.cancel() if stop.done() else stop.cancel()
        await asyncio.gather(start, return_exceptions=stop.done())

    async def _open(self, client_class: type[Client]) -> None:
        assert self._stop is not None
        async with AsyncExitStack() as stack:
            transport = await stack.enter_async_context(_http_or_stdio(self._where, self._stderr))
            watched = _watched(transport, self._has_ended.set)
            self._client = await stack.enter_async_context(client_class(watched, cache=None))
            self._ready.set_result(None)
            await self._stop.wait()


@asynccontextmanager
async def _http_or_stdio(where: Address, stderr: _Tail | None) -> AsyncIterator[Any]:
    from mcp.client.stdio import StdioServerParameters, stdio_client
    from mcp.client.streamable_http import streamable_http_client

    if where.url is None:
        assert stderr is not None
        parameters = StdioServerParameters(
            command=where.command[0],
            args=list(where.command[1:]),
            env=dict(where.env),
            cwd=where.cwd,
            encoding_error_handler="replace",
        )
        async with stdio_client(parameters, errlog=stderr.file) as streams:
            yield streams
        return
    import httpx2

    http = httpx2.AsyncClient(
        headers=dict(where.headers),
        timeout=httpx2.Timeout(30.0, read=300.0),
        event_hooks={"response": [_refuse_huge]},
        trust_env=urlsplit(where.url).hostname not in LOOPBACK,  # no proxy stands between us and ourselves
    )
    async with http, streamable_http_client(where.url, http_client=http) as streams:
        yield streams


async def _refuse_huge(response: Any) -> None:
    """A reply that is announced as too large is not read."""
    announced = response.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > MAX_REPLY_BYTES:
        await response.aclose()
        raise ValueError(f"a reply of {announced} bytes is more than {MAX_REPLY_BYTES}")


@asynccontextmanager
async def _watched(streams: Any, on_end: Callable[[], None]) -> AsyncIterator[Any]:
    """The same streams; `on_end` is called when nothing more can be read: the server is gone, before any request finds out."""
    reading, writing = streams
    yield _WatchedReader(reading, on_end), writing


class _WatchedReader:
    def __init__(self, inner: Any, on_end: Callable[[], None]) -> None:
        self._inner = inner
        self._on_end = on_end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def receive(self) -> Any:
        try:
            return await self._inner.receive()
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError):
                self._on_end()
            raise

    def __aiter__(self) -> _WatchedReader:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._inner.__anext__()
        except StopAsyncIteration:
            self._on_end()
            raise

    async def __aenter__(self) -> _WatchedReader:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._inner.__aexit__(*error)


def _is_end(error: BaseException) -> bool:
    """Whether it means that there is no server any more, not that a request failed."""
    from mcp.shared.exceptions import MCPError
    from mcp.types import CONNECTION_CLOSED

    return isinstance(error, MCPError) and error.code == CONNECTION_CLOSED


def reason_of(error: BaseException) -> str:
    """The first failure inside groups of them, in words."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError):
        return f"there is no program {error.filename}" if error.filename else "there is no such program"
    message = getattr(error, "message", None)
    return visible(str(message) if message else described(error))[:MAX_REASON_CHARS]


class _Tail:
    """A file to write to, of which the last bytes can be read: a pipe, emptied by a thread."""

    def __init__(self) -> None:
        reading, writing = os.pipe()
        self.file = os.fdopen(writing, "w", encoding="utf-8", errors="replace")
        self._kept: deque[bytes] = deque()
        self._thread = threading.Thread(target=self._drain, args=(reading,), daemon=True)
        self._thread.start()

    def _drain(self, reading: int) -> None:
        with os.fdopen(reading, "rb", buffering=0) as source:
            while block := source.read(4096):
                self._kept.append(block)
                while sum(map(len, self._kept)) - len(self._kept[0]) > KEPT_STDERR_BYTES:
                    self._kept.popleft()

    def text(self) -> str:
        """Its last lines, on one line, or nothing."""
        self._thread.join(0.2)  # what a dying server says comes a moment later than its end
        kept = b"".join(list(self._kept))[-KEPT_STDERR_BYTES:].decode("utf-8", "replace")
        lines = [line.strip() for line in kept.splitlines() if line.strip()]
        return visible(" / ".join(lines[-3:])[-MAX_REASON_CHARS:])

    def close(self) -> None:
        self.file.close()
