"""mlx_lm.server: HTTP/1.0, so only the closed connection ends a stream; calls come whole; its keepalives count the prefill.

The role stands in every chunk, the usage chunk calls itself `chat.completion`, errors are a plain string, and a call that
cannot be parsed is dropped: finish reason `tool_calls`, and nothing else.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.peers.peer import (
    JsonObject,
    Peer,
    Said,
    altered,
    body_of,
    check_clock,
    frames,
    json_reply,
    pieces,
    play_clock,
    shapes,
    unreadable_arguments,
)
from tests.support.scripted_server import Reply, ScriptedServer

from daneel.harness.client import Client, ServerRefused

MODEL = "mlx-community/Qwen3-4B-4bit"
USAGE = {"prompt_tokens": 210, "completion_tokens": 32, "total_tokens": 242, "prompt_tokens_details": {"cached_tokens": 209}}


def envelope(kind: str) -> JsonObject:
    return {
        "id": f"chatcmpl-{uuid.uuid4()}",
        "system_fingerprint": "0.32.2-0.32.4-macOS-26.1-arm64",
        "object": kind,
        "model": "default_model",
        "created": 1796059654,
    }


def calls(said: Said, *, indexed: bool) -> list[JsonObject]:
    made: list[JsonObject] = []
    for number, (name, arguments) in enumerate(said.calls):
        call = {"function": {"name": name, "arguments": arguments}, "type": "function", "id": str(uuid.uuid4())}
        made.append({**call, "index": number} if indexed else call)
    return made


def whole(said: Said, request: JsonObject) -> Reply:
    message: JsonObject = {"role": "assistant"}
    for name, value in (("content", said.content), ("reasoning", said.thoughts), ("tool_calls", calls(said, indexed=False))):
        if value:
            message[name] = value
    choice = {"index": 0, "finish_reason": said.finish_reason, "message": message}
    return json_reply({**envelope("chat.completion"), "choices": [choice], "usage": USAGE}, Connection="close")


def streamed(said: Said, request: JsonObject) -> Reply:
    same = envelope("chat.completion.chunk")

    def chunk(finish: str | None = None, **delta: Any) -> JsonObject:
        return {**same, "choices": [{"index": 0, "finish_reason": finish, "delta": {"role": "assistant", **delta}}]}

    sent: list[JsonObject | str] = [": keepalive 1/210\n\n", ": keepalive 210/210\n\n"]
    sent += [chunk(reasoning=piece) for piece in pieces(said.thoughts)]
    sent += [chunk(content=piece) for piece in pieces(said.content)]
    for call in calls(said, indexed=True):
        sent += [chunk(tool_calls=[call]), chunk(content="\n")]
    sent.append(chunk(said.finish_reason))
    if request.get("stream_options", {}).get("include_usage"):
        sent.append({**same, "object": "chat.completion", "choices": [], "usage": USAGE})
    return frames(*sent, ascii_only=True, Connection="close", Content_Type="text/event-stream")


def refuse(request: JsonObject) -> Reply | None:
    bad = unreadable_arguments(request)
    return json_reply({"error": f"Expecting value: {bad}"}, status=404) if bad else None


LISTING = {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 1796059654}]}
PEER = Peer(LISTING, whole, streamed, refuse)


def thoughts_in_tags(said: Said) -> Said:
    return replace(said, thoughts="", content=f"<think>\n{said.thoughts}\n</think>\n\n{said.content}")


# a model whose tokenizer tells the server nothing of thoughts
TAGGED = replace(
    PEER,
    whole=lambda said, request: whole(thoughts_in_tags(said), request),
    streamed=lambda said, request: streamed(thoughts_in_tags(said), request),
)


@pytest.mark.parametrize("stream", [True, False])
def test_the_clock_goal(stream: bool) -> None:
    check_clock(PEER, stream=stream)


@pytest.mark.parametrize("stream", [True, False])
def test_the_clock_goal_with_thoughts_in_tags(stream: bool) -> None:
    requests = check_clock(TAGGED, stream=stream)
    sent = requests[1]["messages"][1]
    assert sent["content"].startswith("<think>\nThe user wants")
    assert "reasoning" not in sent


@pytest.mark.parametrize("stream", [True, False])
def test_a_call_that_was_dropped_by_the_server(stream: bool) -> None:
    """Finish reason `tool_calls`, no call, no text: the model is asked again."""
    dropped = Said()
    made = 0

    def first_dropped(said: Said, request: JsonObject) -> Reply:
        nonlocal made
        made += 1
        make = streamed if stream else whole
        if made > 1:
            return make(said, request)
        return altered(make(dropped, request), '"stop"', '"tool_calls"')

    finished, _ = play_clock(replace(PEER, whole=first_dropped, streamed=first_dropped), stream=stream)
    assert finished.turns == 3


def test_errors_are_a_plain_string() -> None:
    with (
        ScriptedServer(lambda request: json_reply({"error": "Failed to load m"}, status=404)) as server,
        pytest.raises(ServerRefused, match="answered 404: Failed to load m"),
    ):
        Client(server.url, model="m").chat([])


def test_the_scripted_server_writes_what_the_real_one_does(shared_dir: Path) -> None:
    """The same fields in the same places, whatever their values."""
    for name, ours in (("62_two_calls_stream", streamed), ("62_two_calls", whole)):
        path = shared_dir / "wire-samples" / "mlx_lm_scripted_qwen" / f"{name}.response"
        said = Said(content="\n", calls=[("cur_time", "{}"), ("cur_date", "{}")])
        reply = ours(said, {"stream_options": {"include_usage": True}})
        assert shapes(body_of(reply)) == shapes(path.read_bytes().partition(b"\r\n\r\n")[2]), name
