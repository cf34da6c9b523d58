"""LM Studio: numbers as call ids, arguments in pieces, `stats` beside the usage; every downloaded model is listed.

`tool_choice` must be a string. A call that its parser gave up on may come without a name, and with an empty id, which it then
refuses in the history.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.peers.peer import (
    JsonObject,
    Peer,
    Said,
    altered,
    check_clock,
    frames,
    json_reply,
    pieces,
    play_clock,
    unreadable_arguments,
)
from tests.support.scripted_server import Reply, ScriptedServer

from daneel.harness.client import Client, ContextOverflow, ErrorInStream

MODEL = "qwen/qwen3-8b"
IDS = ("193629320", "365174485")
SAME = {"id": "chatcmpl-ki3emaxg0hvfzk6qdlncw", "created": 1796060631, "model": MODEL, "system_fingerprint": MODEL}
USAGE = {
    "prompt_tokens": 402,
    "completion_tokens": 71,
    "total_tokens": 473,
    "completion_tokens_details": {"reasoning_tokens": 20},
}


def whole(said: Said, request: JsonObject) -> Reply:
    calls = [
        {"type": "function", "id": IDS[number], "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(said.calls)
    ]
    message = {
        "role": "assistant",
        "content": said.content,
        "reasoning_content": said.thoughts,
        "tool_calls": calls,
    }
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": said.finish_reason}
    return json_reply({**SAME, "object": "chat.completion", "choices": [choice], "usage": USAGE, "stats": {}})


def streamed(said: Said, request: JsonObject) -> Reply:
    def chunk(finish: str | None = None, **delta: Any) -> JsonObject:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**SAME, "object": "chat.completion.chunk", "choices": [choice]}

    sent = [chunk(role="assistant", reasoning_content=piece) for piece in pieces(said.thoughts)]
    sent += [chunk(role="assistant", content=piece) for piece in pieces(said.content)]
    for index, (name, arguments) in enumerate(said.calls):
        head = {"index": index, "id": IDS[index], "type": "function", "function": {"name": name, "arguments": ""}}
        sent.append(chunk(role="assistant", tool_calls=[head]))
        for piece in pieces(arguments, size=1):
            # the name comes again in every piece, empty
            goes_on = {"index": index, "type": "function", "function": {"name": "", "arguments": piece}}
            sent.append(chunk(tool_calls=[goes_on]))
    sent.append(chunk(said.finish_reason))
    if request.get("stream_options", {}).get("include_usage"):
        sent.append({**SAME, "object": "chat.completion.chunk", "choices": [], "usage": USAGE})
    return frames(*sent, Content_Type="text/event-stream")


def refuse(request: JsonObject) -> Reply | None:
    if isinstance(request.get("tool_choice"), dict):
        said = "Invalid tool_choice type: 'object'. Supported string values: none, auto, required"
        return json_reply({"error": said}, status=400)
    ids = [call["id"] for message in request["messages"] for call in message.get("tool_calls") or []]
    if unreadable_arguments(request) is not None or "" in ids:
        return json_reply({"error": "Invalid 'messages' in payload."}, status=400)
    return None


LISTING = {
    "object": "list",
    "data": [
        {"id": name, "object": "model", "owned_by": "organization_owner"}
        for name in (MODEL, "google/gemma-3-4b", "text-embedding-nomic-embed-text-v1.5")
    ],
}
PEER = Peer(LISTING, whole, streamed, refuse, model=MODEL)


@pytest.mark.parametrize("stream", [True, False])
def test_the_clock_goal(stream: bool) -> None:
    check_clock(PEER, stream=stream)


@pytest.mark.parametrize("stream", [True, False])
def test_a_call_without_name_and_id(stream: bool) -> None:
    turns = 0

    def first_nameless(said: Said, request: JsonObject) -> Reply:
        nonlocal turns
        turns += 1
        make = streamed if stream else whole
        return make(said, request) if turns > 1 else altered(make(replace(said, calls=[("", "")]), request), IDS[0], "")

    nameless = replace(PEER, whole=first_nameless, streamed=first_nameless)
    finished, _ = play_clock(nameless, stream=stream)
    assert finished.turns == 3


def test_an_error_event_in_an_open_stream() -> None:
    frame = 'event: error\ndata: {"error":{"message":"The model has crashed without additional information."}}\n\n'
    with (
        ScriptedServer(lambda request: frames({"choices": [{"index": 0, "delta": {"content": "x"}}]}, frame)) as server,
        pytest.raises(ErrorInStream, match="has crashed"),
    ):
        Client(server.url, model="m").chat([])


def test_a_prompt_that_is_too_long() -> None:
    said = "The number of tokens to keep from the initial prompt is greater than the context length."
    with (
        ScriptedServer(lambda request: json_reply({"error": said}, status=400)) as server,
        pytest.raises(ContextOverflow),
    ):
        Client(server.url, model="m").chat([])
