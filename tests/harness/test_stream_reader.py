"""Any cut of a reply's bytes gives the same message: at every position, for streams with everything peers do."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.harness.client_errors import BadReply
from daneel.harness.inline_thoughts import InlineThoughts
from daneel.harness.stream_reader import StreamReader
from daneel.wire.accumulate import Accumulator, join
from daneel.wire.messages import Delta


def event(payload: Any, *, end: str = "\n", ascii_only: bool = False, pad: str = "") -> str:
    return f"data:{pad or ' '}{json.dumps(payload, ensure_ascii=ascii_only)}{pad}{end}{end}"


def chunk(delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more}


def call(**piece: Any) -> dict[str, Any]:
    function = {name: piece.pop(name) for name in ("name", "arguments") if name in piece}
    return {"tool_calls": [{**piece, "function": function}]}


USAGE = {"prompt_tokens": 5, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 3}}

STREAMS: dict[str, bytes] = {
    "CRLF, characters of four bytes, line separators inside data": "".join(
        event(frame, end="\r\n")
        for frame in (
            chunk({"reasoning": "\u2028ö\u2029"}),
            chunk({"content": "naïve \U0001f600\u0085 日本"}),
            chunk({}, "stop", usage=USAGE),
        )
    ).encode()
    + b"data: [DONE]\r\n\r\n",
    "bare CR, a byte order mark, comments of all kinds": (
        "\ufeff: keepalive 1/2\r\r:\r:no blank\r\n\r\n"
        + event(chunk({"content": "a"}), end="\r")
        + ": ping - 2026\n\nevent: message\nid: 7\nretry: 10\n"
        + event(chunk({"content": "b"}, "stop"))
        + "\n\n\n: OPENROUTER PROCESSING\n\ndata:[DONE]\n\n"
    ).encode(),
    "halves of surrogate pairs, padded JSON": "".join(
        event(frame, ascii_only=True, pad="   ")
        for frame in (chunk({"content": "x\ud83d"}), chunk({"content": "\ude00y"}), chunk({}, "stop"))
    ).encode()
    + b"data:   [DONE]  \n\n",
    "calls in pieces, all at index 0": "".join(
        event(frame)
        for frame in (
            chunk({"role": "assistant", "content": None}),
            chunk(call(index=0, id="a", name="add", arguments="")),
            chunk(call(index=0, arguments='{"a": "é')),
            chunk(call(index=0, arguments='\u2028"}')),
            chunk(call(index=0, id="b", name="add", arguments='{"a": 2}')),
            chunk({}, "tool_calls"),
            {"choices": [], "usage": USAGE},
        )
    ).encode()
    + b"data: [DONE]\n\n",
    "thoughts in tags": "".join(
        event(frame)
        for frame in (
            chunk({"content": "<th"}),
            chunk({"content": "ink>hm"}),
            chunk({"content": "</think>\n\nyes"}),
            chunk({}, "stop"),
        )
    ).encode()
    + b"data: [DONE]\n\n",
    "an error of its own field, after text": (
        event(chunk({"content": "a"})) + 'error: {"code": 500, "message": "büm"}\n\n'
    ).encode(),
    "an error event that is no JSON": (event(chunk({"content": "a"})) + "event: error\ndata: boom\n\n").encode(),
    "no blank line at the end, data in several lines": (
        b'data: {"choices": [{"index": 0,\ndata: "delta": {"content": "a"}, "finish_reason": "stop"}]}'
    ),
    "events without a blank line between": (
        f"data: {json.dumps(chunk({'content': 'a'}))}\ndata: {json.dumps(chunk({'content': 'b'}, 'stop'))}\n\ndata: [DONE]\n\n"
    ).encode(),
    "a whole reply": json.dumps(
        {"choices": [{"message": {"content": "<think>é</think>日本"}, "finish_reason": "stop"}], "usage": USAGE},
        ensure_ascii=False,
    ).encode(),
    "a whole reply behind a byte order mark and blank lines": (
        "\ufeff\r\n\n " + json.dumps({"choices": [{"message": {"content": "é"}, "finish_reason": "stop"}]})
    ).encode(),
    "chunks on lines of their own": "".join(
        json.dumps(frame, ensure_ascii=False) + "\n" for frame in (chunk({"content": "é"}), chunk({"content": "!"}, "stop"))
    ).encode(),
    "a whole error": b'{"error": {"message": "boom"}}',
}


def read(pieces: Iterable[bytes]) -> tuple[Any, ...]:
    """Everything there is to know of a reply, in the end."""
    made = Accumulator(new_id=lambda numbers=itertools.count(): f"made_{next(numbers)}", split=InlineThoughts())
    deltas: list[Delta] = []
    reader = StreamReader(made, deltas.append)
    for piece in pieces:
        reader.feed(piece)
    reader.finish()
    message = made.message()
    if made.error is None:
        assert join(deltas) == message
    rest = (made.finish_reason, made.usage, made.cached_tokens, made.error, made.reasoning_field, tuple(made.notes))
    return message, *rest, reader.done, reader.started


@pytest.mark.parametrize("name", STREAMS)
def test_every_cut_gives_the_same_reply(name: str) -> None:
    body = STREAMS[name]
    whole = read([body])
    for cut in range(len(body) + 1):
        assert read([body[:cut], body[cut:]]) == whole, cut
    assert read(body[at : at + 1] for at in range(len(body))) == whole


@pytest.mark.parametrize("name", STREAMS)
@given(data=st.data())
def test_any_cuts_give_the_same_reply(name: str, data: st.DataObject) -> None:
    body = STREAMS[name]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    pieces = [body[start:end] for start, end in itertools.pairwise([0, *cuts, len(body)])]
    assert read(pieces) == read([body])


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", STREAMS)
def test_every_pair_of_cuts_gives_the_same_reply(name: str) -> None:
    body = STREAMS[name]
    whole = read([body])
    for first in range(len(body)):
        for second in range(first, len(body), 3):
            assert read([body[:first], body[first:second], body[second:]]) == whole, (first, second)


def test_what_the_streams_say() -> None:
    """So that "the same" is not the same nonsense."""
    said = {name: read([body]) for name, body in STREAMS.items()}
    contents = [message.content for message, *_ in said.values()]
    assert contents == [
        "naïve \U0001f600\u0085 日本",
        "ab",
        "x\U0001f600y",
        None,
        "\n\nyes",
        "a",
        "a",
        "a",
        "ab",
        "日本",
        "é",
        "é!",
        None,
    ]
    calls = said["calls in pieces, all at index 0"][0].tool_calls
    assert [json.loads(each.function.arguments) for each in calls] == [{"a": "é\u2028"}, {"a": 2}]
    assert said["thoughts in tags"][0].reasoning == "hm"
    errors = [error.message for _, _, _, _, error, *_ in said.values() if error is not None]
    assert errors == ["büm", "boom", "boom"]


@pytest.mark.parametrize("body", [b"Internal Server Error", b"<html>Log in", b"{cut", b"[1, 2]", b"datum: x", b"\xff\xfe"])
def test_what_is_neither_events_nor_json_is_shown(body: bytes) -> None:
    for cut in range(len(body) + 1):
        with pytest.raises(BadReply) as caught:
            read([body[:cut], body[cut:]])
        assert repr(body)[2:-1] in str(caught.value)


@pytest.mark.parametrize("body", [b"", b"\n\n", b": ping", b"da", b"event: x\n\n", b"retry: 10\n\n", b"data\n\n", b"id"])
def test_what_may_be_the_beginning_of_a_stream_is_no_other_thing(body: bytes) -> None:
    assert read([body])[1] is None
