"""Ollama: parallel calls come whole and all at index 0, with ids of their own; content "" beside thoughts and calls.

`/v1/models` lists every model that was pulled, so one must be named. Older versions gave no index at all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.peers.peer import JsonObject, Peer, Said, check_clock, frames, json_reply, pieces, unreadable_arguments
from tests.support.scripted_server import Reply, ScriptedServer, error

from daneel.harness.client import Client, ModelNotChosen

MODEL = "qwen3:8b"
IDS = ("call_9h1yf2mq", "call_x0t3vb7k")
SAME = {"id": "chatcmpl-531", "created": 1796060631, "model": MODEL, "system_fingerprint": "fp_ollama"}
USAGE = {"prompt_tokens": 186, "completion_tokens": 41, "total_tokens": 227}


def calls(said: Said, *, indexed: bool = True) -> list[JsonObject]:
    beside: JsonObject = {"index": 0} if indexed else {}
    return [
        {"id": IDS[number], **beside, "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(said.calls)
    ]


def whole(said: Said, request: JsonObject) -> Reply:
    message: JsonObject = {"role": "assistant", "content": said.content}
    if said.thoughts:
        message["reasoning"] = said.thoughts
    if said.calls:
        message["tool_calls"] = calls(said)
    choice = {"index": 0, "message": message, "finish_reason": said.finish_reason}
    return json_reply({**SAME, "object": "chat.completion", "choices": [choice], "usage": USAGE})


def stream_of(said: Said, request: JsonObject, *, indexed: bool) -> Reply:
    def chunk(finish: str | None = None, **delta: Any) -> JsonObject:
        choice = {"index": 0, "delta": {"role": "assistant", "content": "", **delta}, "finish_reason": finish}
        return {**SAME, "object": "chat.completion.chunk", "choices": [choice]}

    sent = [chunk(reasoning=piece) for piece in pieces(said.thoughts)]
    sent += [chunk(content=piece) for piece in pieces(said.content)]
    sent += [chunk(tool_calls=[call]) for call in calls(said, indexed=indexed)]
    sent.append(chunk(said.finish_reason))
    if request.get("stream_options", {}).get("include_usage"):
        sent.append({**SAME, "object": "chat.completion.chunk", "choices": [], "usage": USAGE})
    return frames(*sent, Content_Type="text/event-stream")


def streamed(said: Said, request: JsonObject) -> Reply:
    return stream_of(said, request, indexed=True)


def refuse(request: JsonObject) -> Reply | None:
    if unreadable_arguments(request) is not None:
        body = {"message": "invalid tool call arguments", "type": "invalid_request_error", "param": None, "code": None}
        return json_reply({"error": body}, status=400)
    return None


LISTING = {
    "object": "list",
    "data": [
        {"id": name, "object": "model", "created": 1796060631, "owned_by": "library"} for name in (MODEL, "nomic-embed-text")
    ],
}
PEER = Peer(LISTING, whole, streamed, refuse, model=MODEL)


@pytest.mark.parametrize("stream", [True, False])
def test_the_clock_goal(stream: bool) -> None:
    requests = check_clock(PEER, stream=stream)
    assert requests[0]["model"] == MODEL


def test_the_clock_goal_without_any_index() -> None:
    older = replace(PEER, streamed=lambda said, request: stream_of(said, request, indexed=False))
    check_clock(older, stream=True)


def test_one_of_its_models_must_be_named() -> None:
    with (
        ScriptedServer([], models=error(200, LISTING)) as server,
        Client(server.url) as client,
        pytest.raises(ModelNotChosen, match=r"2 models \(qwen3:8b, nomic-embed-text\)"),
    ):
        client.chat([])
