"""The process around the routes: its socket, its signals, its end.

Order matters for honesty: the port is taken first (so that a port in use is said before minutes of loading), the model is
loaded, and only then does anything listen.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import ipaddress
import math
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import uvicorn

from daneel.errors import UserError
from daneel.server.app import make_app
from daneel.server.auth import KeyRing
from daneel.server.served_model import ServedModel

DRAIN_S = 3.0
"""How long replies under way may go on after the first signal before they are ended with an error."""

END_S = 5
"""How long connections may take to close after that."""

MAX_HEADER_BYTES = 64 * 1024


def is_loopback(host: str) -> bool:
    """Whether `host` can only be reached from this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def bind(host: str, port: int) -> socket.socket:
    """A bound TCP socket that does not listen yet. Port 0 takes a free one. Raises `UserError`."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError, OverflowError) as error:
        raise UserError(f"cannot listen on host {host!r}: {error}") from error
    sock = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # elsewhere the option would let two programs share a port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except (OSError, OverflowError) as error:
        sock.close()
        raise _cannot_listen(host, port, error) from error
    return sock


def base_url(host: str, sock: socket.socket) -> str:
    """Where clients find the server: `/v1` included, as they expect it. A wildcard address is shown as loopback."""
    port = sock.getsockname()[1]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host.strip("[]"), host)
    return f"http://{f'[{shown}]' if ':' in shown and not shown.startswith('[') else shown}:{port}/v1"


async def serve(
    load: Callable[[], Awaitable[ServedModel]],
    *,
    sock: socket.socket,
    host: str,
    keys: KeyRing,
    on_ready: Callable[[ServedModel, str], None],
    until: Awaitable[object] | None = None,
) -> None:
    """Load, listen on `sock`, serve until SIGINT, SIGTERM or the end of `until`, then close everything.

    `on_ready` gets the model and the base URL. The first signal lets replies under way go on for `DRAIN_S`, the second ends
    them at once. Returns also when a signal comes while loading. Raises what `load` raises, and `UserError`.
    """
    signals = _Signals()
    loading = asyncio.ensure_future(load())
    signals.on_first = loading.cancel
    watcher = asyncio.ensure_future(_watch(until, signals)) if until is not None else None
    model: ServedModel | None = None
    try:
        with signals.installed():
            model = await loading
            gc.freeze()  # what is there now stays: the collector need not look through it again and again
            await _listen(model, sock, host, keys, on_ready, signals)
    except asyncio.CancelledError:
        if not signals.count:
            raise
    finally:
        sock.close()
        if watcher is not None:
            watcher.cancel()
        if model is not None:
            await model.close()


async def _listen(
    model: ServedModel,
    sock: socket.socket,
    host: str,
    keys: KeyRing,
    on_ready: Callable[[ServedModel, str], None],
    signals: _Signals,
) -> None:
    stopping = asyncio.Event()
    config = uvicorn.Config(
        make_app(model, keys=keys, stopping=stopping),
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=END_S + math.ceil(DRAIN_S),
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )
    url = base_url(host, sock)
    server = _Server(config, lambda: on_ready(model, url))

    def first() -> None:
        server.should_exit = True
        asyncio.get_running_loop().call_later(DRAIN_S, stopping.set)

    def again() -> None:
        stopping.set()

    signals.on_first, signals.on_more = first, again
    try:
        await server.serve(sockets=[sock])
    except OSError as error:
        raise _cannot_listen(host, sock.getsockname()[1], error) from error


class _Server(uvicorn.Server):
    """uvicorn, told when it listens, and without its handlers: they would raise the signal again at the end."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._on_started()


class _Signals:
    """SIGINT and SIGTERM as calls in the event loop: `on_first`, then `on_more`."""

    def __init__(self) -> None:
        self.count = 0
        self.on_first: Callable[[], object] = lambda: None
        self.on_more: Callable[[], object] = lambda: None

    def arrive(self) -> None:
        self.count += 1
        (self.on_first if self.count == 1 else self.on_more)()

    @contextmanager
    def installed(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, self.arrive)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)


async def _watch(until: Awaitable[object], signals: _Signals) -> None:
    await until
    signals.arrive()


def _cannot_listen(host: str, port: int, error: OSError | OverflowError) -> UserError:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return UserError(f"port {port} on {host} is in use; choose another with --port (0 takes a free one)")
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return UserError(f"cannot listen on {host} port {port}: {reason}")
