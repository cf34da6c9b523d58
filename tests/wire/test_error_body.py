from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.wire.error_body import MAX_MESSAGE_CHARS, PeerError, error_in, read_error


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"error": {"message": "no", "type": "t", "code": 400}}, PeerError("no", "t", "400")),
        ({"error": "no"}, PeerError("no")),
        ({"error": {"error": {"message": "deep", "code": "c"}}}, PeerError("deep", None, "c")),
        ({"error": {"code": 500}}, PeerError('{"code":500}', None, "500")),
        ({"error": True, "message": "no"}, PeerError("no")),
        ({"object": "error", "message": "no", "type": "T", "code": 4}, PeerError("no", "T", "4")),
        ({"message": "flat"}, PeerError("flat")),
        ({"detail": "no"}, PeerError("no")),
        ({"detail": [{"loc": ["body", "n"], "msg": "too big"}, {"msg": "and"}]}, PeerError("body.n: too big; and")),
        ({"detail": {"error": {"message": "in detail"}}}, PeerError("in detail")),
    ],
)
def test_shapes(body: dict[str, object], error: PeerError) -> None:
    assert read_error(json.dumps(body).encode()) == error
    assert error_in(body) == error


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": []},
        {"choices": [], "error": None},
        {"choices": [], "message": "hello"},
        {"choices": [], "detail": "x"},
        {"message": {"role": "assistant"}},
        {},
        [],
        None,
        "error",
    ],
)
def test_what_is_no_error(chunk: object) -> None:
    assert error_in(chunk) is None


def test_text_and_nothing() -> None:
    assert read_error(b"Internal Server Error\n").message == "Internal Server Error"
    assert read_error(b"  ").message == "(empty body)"
    assert read_error(b"\xff\xfe").message == "\ufffd\ufffd"
    assert len(read_error(b"x" * 1_000_000).message) <= MAX_MESSAGE_CHARS + 2
    assert read_error(b"[" * 100_000).message.startswith("[[[")


@given(st.binary(max_size=200))
def test_any_bytes_give_a_message(body: bytes) -> None:
    assert read_error(body).message


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["error", "message", "detail", "code", "type", "loc", "msg"]), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_any_json_is_survived(value: object) -> None:
    error = error_in(value)
    assert error is None or isinstance(error.message, str)


def test_real_servers(shared_dir: object) -> None:
    """Every recorded reply with an error status gives a message that is not the raw JSON."""
    from pathlib import Path

    assert isinstance(shared_dir, Path)
    read = []
    for path in sorted((shared_dir / "wire-samples").glob("*/*.response")):
        head, _, body = path.read_bytes().partition(b"\r\n\r\n")
        if head and int(head.split()[1]) >= 400:
            read.append(read_error(body))
    assert len(read) >= 8
    assert not [error for error in read if error.message.startswith(("{", "["))]
