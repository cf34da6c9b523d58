"""llama-server: thoughts as `reasoning_content`, calls in pieces with id and name in the first, `timings` beside the usage.

A history with arguments that are no JSON is a 500 on every later request. A prompt that is too long is named by its type.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.peers.peer import (
    JsonObject,
    Peer,
    Said,
    check_clock,
    frames,
    json_reply,
    pieces,
    play_clock,
    unreadable_arguments,
)
from tests.support.scripted_server import Reply, ScriptedServer

from daneel.harness.client import Client, ContextOverflow, ErrorInStream

MODEL = "Qwen3-8B-Q4_K_M.gguf"
IDS = ("3bxRhKzAvbRDVCdWa1oHFmZVjcMUNCqg", "Uq0zLkQ5yHnJm2xTgVwE7rPbS9dCaF1i")
USAGE = {"completion_tokens": 61, "prompt_tokens": 214, "total_tokens": 275, "prompt_tokens_details": {"cached_tokens": 120}}
TIMINGS = {"cache_n": 120, "prompt_n": 94, "prompt_ms": 31.4, "predicted_n": 61, "predicted_ms": 812.5}
SAME = {"created": 1796059654, "id": "chatcmpl-8vCb1aQ", "model": MODEL, "system_fingerprint": "b7212-9d3d5dd"}


def whole(said: Said, request: JsonObject) -> Reply:
    message: JsonObject = {"role": "assistant", "content": said.content or ("" if said.calls else None)}
    if said.thoughts:
        message["reasoning_content"] = said.thoughts
    if said.calls:
        message["tool_calls"] = [
            {"type": "function", "function": {"name": name, "arguments": arguments}, "id": IDS[number]}
            for number, (name, arguments) in enumerate(said.calls)
        ]
    choice = {"finish_reason": said.finish_reason, "index": 0, "message": message}
    return json_reply({"choices": [choice], **SAME, "object": "chat.completion", "usage": USAGE, "timings": TIMINGS})


def streamed(said: Said, request: JsonObject) -> Reply:
    def chunk(finish: str | None = None, **delta: Any) -> JsonObject:
        return {
            "choices": [{"finish_reason": finish, "index": 0, "delta": delta}],
            **SAME,
            "object": "chat.completion.chunk",
        }

    sent = [chunk(role="assistant", content=None)]
    sent += [chunk(reasoning_content=piece) for piece in pieces(said.thoughts)]
    sent += [chunk(content=piece) for piece in pieces(said.content)]
    for index, (name, arguments) in enumerate(said.calls):
        call = {"index": index, "id": IDS[index], "type": "function", "function": {"name": name, "arguments": ""}}
        sent.append(chunk(tool_calls=[call]))
        sent += [chunk(tool_calls=[{"index": index, "function": {"arguments": piece}}]) for piece in pieces(arguments, size=1)]
    sent.append(chunk(said.finish_reason))
    if request.get("stream_options", {}).get("include_usage"):
        sent.append({"choices": [], **SAME, "object": "chat.completion.chunk", "usage": USAGE, "timings": TIMINGS})
    return frames(*sent)


def refuse(request: JsonObject) -> Reply | None:
    bad = unreadable_arguments(request)
    if bad is not None:
        said = f"Failed to parse tool call arguments as JSON: {bad}"
        return json_reply({"error": {"code": 500, "message": said, "type": "server_error"}}, status=500)
    return None


META = {"vocab_type": 2, "n_vocab": 151936, "n_ctx": 8192, "n_ctx_train": 40960, "n_params": 8190735360, "ftype": "Q4_K_M"}
LISTING = {
    "models": [{"name": MODEL, "model": MODEL, "type": "model", "capabilities": ["completion"]}],
    "object": "list",
    "data": [
        {"id": MODEL, "aliases": [MODEL], "tags": [], "object": "model", "created": 1, "owned_by": "llamacpp", "meta": META}
    ],
}
PEER = Peer(LISTING, whole, streamed, refuse)


@pytest.mark.parametrize("stream", [True, False])
def test_the_clock_goal(stream: bool) -> None:
    requests = check_clock(PEER, stream=stream)
    assert requests[1]["messages"][1]["reasoning_content"]


@pytest.mark.parametrize("stream", [True, False])
def test_a_broken_call_does_not_poison_the_history(stream: bool) -> None:
    """Arguments that cannot be read are not sent back: every later request would be a 500."""
    turns = 0

    def first_broken(said: Said, request: JsonObject) -> Reply:
        nonlocal turns
        turns += 1
        broken = replace(said, calls=[("cur_time", '{"zone": ')])
        return (streamed if stream else whole)(broken if turns == 1 else said, request)

    finished, _ = play_clock(replace(PEER, whole=first_broken, streamed=first_broken), stream=stream)
    assert finished.turns == 3


def test_a_prompt_that_is_too_long() -> None:
    said = "request (9 tokens) exceeds the available context size (4 tokens), try increasing it"
    body = {"error": {"code": 400, "message": said, "type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 4}}
    with (
        ScriptedServer(lambda request: json_reply(body, status=400)) as server,
        pytest.raises(ContextOverflow),
    ):
        Client(server.url, model="m").chat([])


@pytest.mark.parametrize("field", ["data", "error"])
def test_an_error_in_an_open_stream(field: str) -> None:
    body = '{"code":500,"message":"Compute error.","type":"server_error"}'
    frame = f'data: {{"error":{body}}}\n\n' if field == "data" else f"error: {body}\n\n"
    with (
        ScriptedServer(lambda request: frames({"choices": [{"index": 0, "delta": {"content": "x"}}]}, frame)) as server,
        pytest.raises(ErrorInStream, match="Compute error"),
    ):
        Client(server.url, model="m").chat([])
