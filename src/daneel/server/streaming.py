"""A reply as server-sent events over ASGI, and work that ends when its client leaves.

Nothing here knows the web framework: only ASGI's `receive` and `send`.
"""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

from daneel.server import chat
from daneel.server.asgi import Receive, Scope, Send
from daneel.server.reply import CallProgress, Piece, PrefillProgress
from daneel.wire.errors import ServerBug, ServerUnavailable, WireError
from daneel.wire.sse import DONE, encode_comment, encode_event

T = TypeVar("T")

KEEPALIVE_S = 5.0
"""Silence is broken after this long; the promise is 10 s."""

CALL_PROGRESS_CHARS = 256
CALL_PROGRESS_S = 1.0
SHUTDOWN_RETRY_S = 5.0


class ClientGone(Exception):
    """The client closed the connection: nobody is left to answer."""


async def while_connected(receive: Receive, stopping: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when the client leaves (`ClientGone`) or the server stops (503).

    The request's body must have been read: then `receive()` waits for the disconnect. (`send()` would go on succeeding.)
    """
    task = asyncio.create_task(work)
    gone = asyncio.create_task(_wait_disconnect(receive))
    stop = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({task, gone, stop}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if gone.done():
            raise ClientGone
        raise ServerUnavailable("the server is shutting down", retry_after_s=SHUTDOWN_RETRY_S)
    finally:
        for each in (task, gone, stop):
            each.cancel()
        await asyncio.wait({task, gone, stop})  # the generation is closed, and so cancelled, before anything else happens


async def _wait_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream:
    """An ASGI reply that streams one turn. Errors before the first event are raised; later ones become an error event."""

    def __init__(self, turn: chat.Turn, stopping: asyncio.Event, *, keepalive_s: float = KEEPALIVE_S) -> None:
        self._turn = turn
        self._stopping = stopping
        self._keepalive_s = keepalive_s

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        writer = _EventWriter(send)
        try:
            await while_connected(receive, self._stopping, self._write(writer))
        except ClientGone:
            return
        except WireError as error:
            if not writer.started:
                raise
            await writer.end(encode_event(error.body()))
        except Exception as error:
            if not writer.started:
                raise
            traceback.print_exception(error, file=sys.stderr)
            await writer.end(encode_event(bug(error).body()))

    async def _write(self, writer: _EventWriter) -> None:
        state = _StreamState(self._turn)
        keepalive = asyncio.create_task(self._keep_alive(writer, state))
        try:
            async with aclosing(chat.generate_all(self._turn)) as steps:
                async for turn, items in steps:
                    # one write for each step of the engine, however much it brought
                    await writer.write(b"".join(state.encode(turn, item) for item in items))
        finally:
            keepalive.cancel()
            await asyncio.wait({keepalive})
        await writer.end(b"")

    async def _keep_alive(self, writer: _EventWriter, state: _StreamState) -> None:
        while True:
            silent_s = time.monotonic() - writer.last_write
            if silent_s >= self._keepalive_s:
                await writer.write(state.keepalive())
                silent_s = 0.0
            await asyncio.sleep(self._keepalive_s - silent_s)


def bug(error: Exception) -> ServerBug:
    """What a client is told of an exception that nobody expected: its kind, never its traceback."""
    return ServerBug(f"the server failed ({type(error).__name__}); its log says where")


class _EventWriter:
    """Sends bytes of a stream. The headers go out with the first of them, so that an error before has its own status."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False
        self.last_write = time.monotonic()

    async def write(self, data: bytes, *, more: bool = True) -> None:
        if not self.started:
            self.started = True
            headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
            headers.append((b"x-accel-buffering", b"no"))  # nginx would hold the stream back
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        if data or not more:
            self.last_write = time.monotonic()
            await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def end(self, data: bytes) -> None:
        await self.write(data + DONE, more=False)


class _StreamState:
    """Turns items into events and remembers what the comments need."""

    def __init__(self, turn: chat.Turn) -> None:
        self._prefill = PrefillProgress(0, len(turn.prompt.ids))
        self._calls: dict[int, CallProgress] = {}
        """By the reply in which they are written."""
        self._call_told_at = time.monotonic()

    def encode(self, turn: chat.Turn, item: chat.StepItem) -> bytes:
        match item:
            case PrefillProgress():
                self._prefill = item
                return self.keepalive()
            case CallProgress():
                return self._call_progress(turn.choice, item)
            case Piece():
                self._calls.pop(turn.choice, None)
                # there is a reply, so all of the prompt was evaluated, though no step told of its last part
                self._prefill = PrefillProgress(self._prefill.total, self._prefill.total)
        return b"".join(encode_event(chunk) for chunk in chat.chunks(turn, item))

    def keepalive(self) -> bytes:
        return encode_comment(f"keepalive {self._prefill.done}/{self._prefill.total}")

    def _call_progress(self, choice: int, item: CallProgress) -> bytes:
        """A comment when the call's name is known, and from then on now and again."""
        now = time.monotonic()
        told = self._calls.get(choice) or CallProgress(None, 0)
        if (
            item.name == told.name
            and item.num_chars - told.num_chars < CALL_PROGRESS_CHARS
            and now - self._call_told_at < CALL_PROGRESS_S
        ):
            return b""
        self._calls[choice], self._call_told_at = item, now
        return encode_comment(f"tool_call {item.name or '?'} {item.num_chars}")
