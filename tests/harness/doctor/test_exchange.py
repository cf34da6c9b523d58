"""One request has an end, whatever the server does, and all of what came is kept."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.support.scripted_server import HANG, Reply, ScriptedServer, chunk, error, raw, sse, text

from daneel.harness.doctor.exchange import MAX_BODY_BYTES, Exchange, Sender


@pytest.fixture
def send() -> Iterator[Callable[..., Exchange]]:
    senders: list[Sender] = []

    def send(url: str, *, limit_s: float = 20.0, **more: object) -> Exchange:
        senders.append(Sender(f"{url}/v1", limit_s=limit_s))
        return senders[-1].send("POST", "/chat/completions", {"messages": []}, **more)  # type: ignore[arg-type]

    yield send
    for sender in senders:
        sender.close()


@contextmanager
def listener(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does with its first connection whatever `serve` does."""
    listening = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        connection, _ = listening.accept()
        with connection:
            serve(connection)

    threading.Thread(target=run, daemon=True).start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    listening.close()


def drip(connection: socket.socket) -> None:
    """A header that never ends, a byte at a time: no read waits for long."""
    try:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while True:
            connection.sendall(b"x")
            time.sleep(0.01)
    except OSError:
        pass


@pytest.mark.parametrize("body", [raw(HANG), raw(b'{"a": ', HANG), sse(chunk({"content": "Hi"}), HANG, done=False)])
def test_a_server_that_falls_silent_is_left(send: Callable[..., Exchange], body: Reply) -> None:
    with ScriptedServer([body]) as server:
        exchange = send(server.url, limit_s=0.3)
    assert (exchange.timed_out, exchange.ok) == (True, False)
    assert exchange.failure == "not done within 0 s"


def test_a_drip_of_bytes_does_not_keep_us(send: Callable[..., Exchange]) -> None:
    with listener(drip) as url:
        exchange = send(url, limit_s=0.3)
    assert (exchange.timed_out, exchange.status) == (True, None)


def test_a_server_that_hangs_up_or_is_not_there(send: Callable[..., Exchange]) -> None:
    with listener(lambda connection: connection.close()) as url:
        exchange = send(url)
    assert (exchange.status, exchange.timed_out) == (None, False)
    assert exchange.failure
    assert send("http://127.0.0.1:9").failure.startswith("ConnectError")  # type: ignore[union-attr]


def test_no_time_left_sends_nothing() -> None:
    with ScriptedServer([text("Hi")]) as server:
        sender = Sender(f"{server.url}/v1", end_at=time.monotonic() - 1)
        exchange = sender.send("GET", "/models")
        sender.close()
        assert (exchange.timed_out, sender.num_sent, server.requests) == (True, 0, [])


def test_an_endless_body_is_cut(send: Callable[..., Exchange]) -> None:
    with ScriptedServer([raw(*[b"x" * 2**20] * (MAX_BODY_BYTES // 2**20 + 2))]) as server:
        exchange = send(server.url)
    assert "longer than" in str(exchange.failure)
    assert not exchange.ok


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (error(500, b"<html>oops</html>"), "500: <html>oops</html>"),
        (error(422, {"detail": [{"loc": ["body", "n"], "msg": "too big"}]}), "422: body.n: too big"),
        (error(200, {"error": "out of order"}), "200: out of order"),
        (sse({"error": {"message": "midway"}}), "200: midway"),
        (raw(b"\xff\xfe not json at all", status=200), "200"),
    ],
)
def test_errors_are_told_in_whatever_shape_they_come(send: Callable[..., Exchange], reply: Reply, said: str) -> None:
    with ScriptedServer([reply]) as server:
        exchange = send(server.url)
    assert exchange.said() == said


def test_leaving_a_stream_closes_the_connection(send: Callable[..., Exchange]) -> None:
    with ScriptedServer([sse(chunk({"content": "Hi"}), HANG, done=False)]) as server:
        exchange = send(server.url, leave_after=b"data:")
        while not server.disconnects:
            time.sleep(0.01)
    assert (exchange.failure, exchange.timed_out, exchange.status) == ("we left", False, 200)
