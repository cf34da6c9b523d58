"""Length-prefixed msgpack frames between the server and its child processes, over a socketpair. Never pickle.

A frame is four bytes of length (big-endian, of the body), then the body: one msgspec Struct, or a tagged union of them.
Usage, the parent on asyncio and the child blocking::

    class Ping(Struct, tag=True): text: str
    class Pong(Struct, tag=True): text: str

    ours, theirs = socket.socketpair()
    frames = await AsyncFrames.open(ours, Ping | Pong)   # parent
    await frames.send(Ping("a")); reply = await frames.recv()
    frames = Frames(theirs, Ping | Pong)                 # child, any thread may send, one thread receives
    request = frames.recv(); frames.send(Pong("b"))      # both recv() raise EOFError when the peer is gone

A body that is too long, is not msgpack or does not fit the type raises `FrameError`: the stream is then unusable.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from typing import Any

import msgspec

MAX_FRAME_BYTES = 64 * 2**20
"""Above the largest frame in use (the pieces of a 256k vocabulary take about 4 MB), below what would hurt."""

_PREFIX_BYTES = 4


class FrameError(Exception):
    """The peer sent, or was to be sent, something that is not a frame of the agreed type."""


def encode_frame(message: Any, max_bytes: int = MAX_FRAME_BYTES) -> bytes:
    """The bytes of one frame. Raises `FrameError` when the body is longer than `max_bytes`."""
    body = msgspec.msgpack.encode(message)
    if len(body) > max_bytes:
        raise FrameError(f"a frame of {len(body)} bytes is over the limit of {max_bytes}")
    return len(body).to_bytes(_PREFIX_BYTES, "big") + body


class _Codec:
    """What both sides share: the limit, the type, and turning bytes into a message."""

    def __init__(self, message_type: Any, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._decoder = msgspec.msgpack.Decoder(message_type)

    def body_length(self, prefix: bytes) -> int:
        length = int.from_bytes(prefix, "big")
        if length > self.max_bytes:
            raise FrameError(f"the peer announced a frame of {length} bytes, over the limit of {self.max_bytes}")
        return length

    def decode(self, body: bytes) -> Any:
        try:
            return self._decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise FrameError(f"the peer sent a frame that cannot be read: {error}") from error


class Frames:
    """The blocking side. `send` is safe from several threads; `recv` belongs to one."""

    def __init__(self, sock: socket.socket, message_type: Any, *, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._sock = sock
        self._codec = _Codec(message_type, max_bytes)
        self._send_lock = threading.Lock()

    def send(self, message: Any) -> None:
        """Write one frame. Raises `OSError` when the peer is gone, `FrameError` when it is too long."""
        data = encode_frame(message, self._codec.max_bytes)
        with self._send_lock:
            self._sock.sendall(data)

    def recv(self) -> Any:
        """The next message. Raises `EOFError` when the peer is gone, `FrameError` when it is not one."""
        length = self._codec.body_length(self._read(_PREFIX_BYTES))
        return self._codec.decode(self._read(length))

    def _read(self, num_bytes: int) -> bytes:
        data = bytearray()
        while len(data) < num_bytes:
            try:
                part = self._sock.recv(min(num_bytes - len(data), 2**20))
            except ConnectionError as error:
                raise EOFError(str(error)) from error
            if not part:
                raise EOFError("the peer closed the connection")
            data += part
        return bytes(data)

    def close(self) -> None:
        self._sock.close()


class AsyncFrames:
    """The asyncio side. Made by `open`; one task receives, any task sends (a send is one write, so frames never mix)."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, codec: _Codec) -> None:
        self._reader = reader
        self._writer = writer
        self._codec = codec

    @classmethod
    async def open(cls, sock: socket.socket, message_type: Any, *, max_bytes: int = MAX_FRAME_BYTES) -> AsyncFrames:
        """Take over `sock` (made non-blocking)."""
        sock.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=sock)
        return cls(reader, writer, _Codec(message_type, max_bytes))

    async def send(self, message: Any) -> None:
        """Write one frame. Raises `OSError` when the peer is gone, `FrameError` when it is too long."""
        self.post(message)
        await self._writer.drain()

    def post(self, message: Any) -> None:
        """Write one small frame without waiting for room: for a cancel in a generator that is being closed."""
        data = encode_frame(message, self._codec.max_bytes)
        if self._writer.is_closing():
            raise ConnectionResetError("the connection is closed")
        self._writer.write(data)

    async def recv(self) -> Any:
        """The next message. Raises `EOFError` when the peer is gone, `FrameError` when it is not one."""
        try:
            length = self._codec.body_length(await self._reader.readexactly(_PREFIX_BYTES))
            return self._codec.decode(await self._reader.readexactly(length))
        except ConnectionError as error:
            raise EOFError(str(error)) from error

    async def close(self) -> None:
        """Close and wait for it; the peer's `recv` then raises `EOFError`."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
