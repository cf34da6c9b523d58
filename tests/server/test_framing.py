"""Frames arrive whole and in order whatever the cuts, and nothing else gets through."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from daneel.server.framing import AsyncFrames, FrameError, Frames, encode_frame


class Ping(Struct, tag=True, frozen=True):
    text: str


class Pong(Struct, tag=True, frozen=True):
    ids: list[int]


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@given(
    messages=st.lists(st.builds(Ping, st.text()) | st.builds(Pong, st.lists(st.integers(0, 2**31))), max_size=6),
    cuts=st.lists(st.integers(1, 40), min_size=1),
)
def test_any_cut_gives_the_same_messages(messages: list[Ping | Pong], cuts: list[int]) -> None:
    data = b"".join(encode_frame(message) for message in messages)

    async def receive() -> list[Ping | Pong]:
        ours, theirs = socket.socketpair()
        with theirs:
            frames = await AsyncFrames.open(ours, Ping | Pong)
            start, got = 0, []
            for index in range(len(data)):
                cut = cuts[index % len(cuts)]
                theirs.sendall(data[start : start + cut])
                start += cut
                await asyncio.sleep(0)
                if start >= len(data):
                    break
            for _ in messages:
                got.append(await frames.recv())  # noqa: PERF401 (an async comprehension reads worse)
            await frames.close()
            return got

    assert asyncio.run(receive()) == messages


def test_the_blocking_side_reads_partial_frames(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    data = encode_frame(Ping("x" * 3_000_000)) + encode_frame(Pong([1]))

    def drip() -> None:
        for start in range(0, len(data), 700_001):
            theirs.sendall(data[start : start + 700_001])

    sender = threading.Thread(target=drip)
    sender.start()
    frames = Frames(ours, Ping | Pong)
    assert frames.recv() == Ping("x" * 3_000_000)
    assert frames.recv() == Pong([1])
    sender.join()


def test_many_threads_send_whole_frames(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    sender, receiver = Frames(theirs, Ping), Frames(ours, Ping)
    threads = [threading.Thread(target=lambda n=n: sender.send(Ping(str(n) * 200_000))) for n in range(8)]
    for thread in threads:
        thread.start()
    got = {receiver.recv().text for _ in threads}
    for thread in threads:
        thread.join()
    assert got == {str(n) * 200_000 for n in range(8)}


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x01\xc1",  # a byte msgpack never uses
        encode_frame({"type": "Unknown"}),
        encode_frame({"type": "Ping", "text": 3}),
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x0d\x82\xa4type\xa4Ping\xa4te\xff\xfe\xa1a",
    ],
)
def test_what_is_no_frame_is_refused(pair: tuple[socket.socket, socket.socket], data: bytes) -> None:
    ours, theirs = pair
    theirs.sendall(data)
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises((FrameError, EOFError)):
        Frames(ours, Ping | Pong).recv()


def test_too_long_is_refused_on_both_ends(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    with pytest.raises(FrameError, match="over the limit of 10"):
        Frames(theirs, Ping, max_bytes=10).send(Ping("much too long"))
    theirs.sendall(encode_frame(Ping("much too long")))
    with pytest.raises(FrameError, match="over the limit of 10"):
        Frames(ours, Ping, max_bytes=10).recv()


@pytest.mark.parametrize("data", [b"", b"\x00", encode_frame(Ping("abc"))[:-1]])
def test_a_peer_that_leaves_is_an_end_of_file(data: bytes) -> None:
    async def receive() -> None:
        ours, theirs = socket.socketpair()
        frames = await AsyncFrames.open(ours, Ping)
        theirs.sendall(data)
        theirs.close()
        with pytest.raises(EOFError):
            await frames.recv()
        await frames.close()
        with pytest.raises(OSError):
            await frames.send(Ping("late"))

    asyncio.run(receive())
    ours, theirs = socket.socketpair()
    with ours:
        theirs.sendall(data)
        theirs.close()
        with pytest.raises(EOFError):
            Frames(ours, Ping).recv()
