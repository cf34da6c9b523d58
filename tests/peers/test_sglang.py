"""SGLang: pieces of a call that go on say `id: null` and `name: null`; `matched_stop`; usage in a chunk of its own.

Its errors are flat: `{"object": "error", "message": …}`.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.peers.peer import JsonObject, Peer, Said, check_clock, frames, json_reply, pieces, unreadable_arguments
from tests.support.scripted_server import Reply, ScriptedServer

from daneel.harness.client import Client, ContextOverflow

MODEL = "Qwen/Qwen3-8B"
IDS = ("call_6b1f0c9a2d5e4f7788990011", "call_77aa0c9a2d5e4f7788990022")
SAME = {"id": "e6ddb972ba4e46b990af453ef46fbb8a", "created": 1796060631, "model": MODEL}
USAGE = {
    "prompt_tokens": 215,
    "total_tokens": 252,
    "completion_tokens": 37,
    "prompt_tokens_details": None,
    "reasoning_tokens": 0,
}


def call(index: int, *, id: str | None, name: str | None, arguments: str) -> JsonObject:
    return {"id": id, "index": index, "type": "function", "function": {"name": name, "arguments": arguments}}


def whole(said: Said, request: JsonObject) -> Reply:
    calls = [call(number, id=IDS[number], name=name, arguments=text) for number, (name, text) in enumerate(said.calls)]
    message = {
        "role": "assistant",
        "content": said.content or None,
        "reasoning_content": said.thoughts or None,
        "tool_calls": calls or None,
    }
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": said.finish_reason,
        "matched_stop": 151645,
    }
    return json_reply({**SAME, "object": "chat.completion", "choices": [choice], "usage": USAGE, "metadata": {}})


def streamed(said: Said, request: JsonObject) -> Reply:
    def chunk(finish: str | None = None, **delta: Any) -> JsonObject:
        full = {"role": None, "content": None, "reasoning_content": None, "tool_calls": None, **delta}
        choice = {"index": 0, "delta": full, "logprobs": None, "finish_reason": finish, "matched_stop": None}
        return {**SAME, "object": "chat.completion.chunk", "choices": [choice], "usage": None}

    sent = [chunk(role="assistant", content="")]
    sent += [chunk(reasoning_content=piece) for piece in pieces(said.thoughts)]
    sent += [chunk(content=piece) for piece in pieces(said.content)]
    for index, (name, arguments) in enumerate(said.calls):
        sent.append(chunk(tool_calls=[call(index, id=IDS[index], name=name, arguments="")]))
        sent += [chunk(tool_calls=[call(index, id=None, name=None, arguments=piece)]) for piece in pieces(arguments, size=1)]
    sent.append(chunk(said.finish_reason))
    if request.get("stream_options", {}).get("include_usage"):
        sent.append({**SAME, "object": "chat.completion.chunk", "choices": [], "usage": USAGE})
    return frames(*sent)


def refused(message: str) -> Reply:
    body = {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}
    return json_reply(body, status=400)


def refuse(request: JsonObject) -> Reply | None:
    bad = unreadable_arguments(request)
    return refused(f"Invalid tool call arguments: {bad}") if bad else None


LISTING = {
    "object": "list",
    "data": [{"id": MODEL, "object": "model", "created": 1, "owned_by": "sglang", "root": MODEL, "max_model_len": 40960}],
}
PEER = Peer(LISTING, whole, streamed, refuse)


@pytest.mark.parametrize("stream", [True, False])
def test_the_clock_goal(stream: bool) -> None:
    check_clock(PEER, stream=stream)


def test_a_prompt_that_is_too_long() -> None:
    said = "The input (3000 tokens) is longer than the model's context length (2048 tokens)."
    with ScriptedServer(lambda request: refused(said)) as server, pytest.raises(ContextOverflow, match="3000 tokens"):
        Client(server.url, model="m").chat([])
