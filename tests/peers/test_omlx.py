"""oMLX: its keepalive is a chunk, with an id, a model and a time of its own, and comes first in every stream.

With tools in the request, text and calls come at once when all is generated. Cached tokens stand beside the other counts.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.peers.peer import JsonObject, Peer, Said, check_clock, frames, json_reply
from tests.support.scripted_server import HANG, Reply, ScriptedServer, sse

from daneel.harness.client import Client, ProgressTimeout, Timeouts

MODEL = "Qwen3-8B-4bit"
IDS = ("call_1f6a0b2c", "call_7d3e9a10")
SAME = {"id": "chatcmpl-5d0c2a9e", "created": 1796060631, "model": MODEL}
USAGE = {
    "prompt_tokens": 190,
    "completion_tokens": 47,
    "total_tokens": 237,
    "cached_tokens": 128,
    "time_to_first_token": 0.21,
    "generation_tokens_per_second": 58.3,
}
KEEPALIVE = {
    "id": "chatcmpl-keepalive",
    "object": "chat.completion.chunk",
    "created": 0,
    "model": "keepalive",
    "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": None}],
}


def calls(said: Said, *, indexed: bool) -> list[JsonObject]:
    return [
        {
            **({"index": number} if indexed else {}),
            "id": IDS[number],
            "type": "function",
            "function": {"name": name, "arguments": text},
        }
        for number, (name, text) in enumerate(said.calls)
    ]


def whole(said: Said, request: JsonObject) -> Reply:
    message: JsonObject = {"role": "assistant", "content": said.content or None, "reasoning_content": said.thoughts or None}
    message["tool_calls"] = calls(said, indexed=False) or None
    choice = {"index": 0, "message": message, "finish_reason": said.finish_reason}
    return json_reply({**SAME, "object": "chat.completion", "choices": [choice], "usage": USAGE})


def streamed(said: Said, request: JsonObject) -> Reply:
    def chunk(finish: str | None = None, **delta: Any) -> JsonObject:
        choice: JsonObject = {"index": 0, "delta": delta}
        if finish:
            choice["finish_reason"] = finish
        return {**SAME, "object": "chat.completion.chunk", "choices": [choice]}

    sent: list[JsonObject | str] = [KEEPALIVE, chunk(role="assistant")]
    if said.thoughts:
        sent += [chunk(reasoning_content=said.thoughts), KEEPALIVE]
    if said.content:
        sent.append(chunk(content=said.content))
    if said.calls:
        sent.append(chunk(tool_calls=calls(said, indexed=True)))
    sent.append(chunk(said.finish_reason))
    if request.get("stream_options", {}).get("include_usage"):
        sent.append({**SAME, "object": "chat.completion.chunk", "choices": [], "usage": USAGE})
    return frames(*sent)


LISTING = {
    "object": "list",
    "data": [{"id": MODEL, "object": "model", "created": 1, "owned_by": "omlx", "max_model_len": 40960}],
}
PEER = Peer(LISTING, whole, streamed)


@pytest.mark.parametrize("stream", [True, False])
def test_the_clock_goal(stream: bool) -> None:
    check_clock(PEER, stream=stream)


@pytest.mark.parametrize("stream", [True, False])
def test_its_cached_tokens_are_read(stream: bool) -> None:
    with ScriptedServer(lambda request: (streamed if stream else whole)(Said(content="x"), request)) as server:
        reply = Client(server.url, model=MODEL).chat([], stream=stream)
    assert (reply.cached_tokens, reply.model) == (128, MODEL)


def test_its_keepalives_are_no_progress() -> None:
    with (
        ScriptedServer(lambda request: sse(*[KEEPALIVE] * 3, HANG)) as server,
        Client(server.url, model=MODEL, timeouts=Timeouts(first_token_s=0.2)) as client,
        pytest.raises(ProgressTimeout) as caught,
    ):
        client.chat([])
    assert not caught.value.started
