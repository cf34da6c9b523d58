"""Addresses: what is loopback, what can be bound, what URL is shown."""

from __future__ import annotations

import socket

import pytest

from daneel.errors import UserError
from daneel.server.serve import base_url, bind, is_loopback


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        *[(host, True) for host in ("127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "LocalHost")],
        *[
            (host, False)
            for host in ("0.0.0.0", "::", "192.168.1.5", "example.org", "", "localhost.example.org", "::ffff:1.2.3.4")
        ],
    ],
)
def test_what_is_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("localhost", "localhost"), ("0.0.0.0", "127.0.0.1"), ("[::1]", "[::1]")]
)
def test_a_free_port_is_taken_and_shown(host: str, shown: str) -> None:
    try:
        sock = bind(host, 0)
    except UserError:
        if ":" in host:
            pytest.skip("this machine has no IPv6")
        raise
    with sock:
        port = sock.getsockname()[1]
        assert port > 0
        assert base_url(host, sock) == f"http://{shown}:{port}/v1"


def test_a_port_that_somebody_listens_on_is_refused() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(UserError, match="is in use; choose another with --port"),
    ):
        bind("127.0.0.1", other.getsockname()[1])


@pytest.mark.parametrize("host", ["no.such.host.invalid", "x" * 300, "203.0.113.7"])
def test_a_host_that_is_not_ours_is_one_sentence(host: str) -> None:
    with pytest.raises(UserError, match="cannot listen on"):
        bind(host, 0)
