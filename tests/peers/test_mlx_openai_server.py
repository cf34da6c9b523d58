"""mlx-openai-server: calls come whole, line ends of the markup between them as content; usage on the last chunk, unasked.

A finish reason stands only in the chunk that has one, `partial` in every message, and it takes 100 messages. Its errors are an
error object inside FastAPI's `detail`. Arguments in the history must be text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.peers.peer import JsonObject, Peer, Said, body_of, check_clock, frames, json_reply, pieces, shapes
from tests.support.scripted_server import Reply, ScriptedServer

from daneel.harness.client import Client, ServerRefused

MODEL = "models/Qwen3-4B-MLX"
IDS = ("call_44b253d45d89437d", "call_65f2f7d0359141b8")
SAME = {"id": "chatcmpl_44f253b45d89437da84a1e78f4bffdc6", "created": 1796059148, "model": MODEL}
USAGE = {
    "prompt_tokens": 210,
    "total_tokens": 247,
    "completion_tokens": 37,
    "prompt_tokens_details": {"cached_tokens": 0},
}
MAX_MESSAGES = 100


def whole(said: Said, request: JsonObject) -> Reply:
    message: JsonObject = {"role": "assistant", "partial": False}
    if said.content:
        message["content"] = said.content
    if said.thoughts:
        message["reasoning_content"] = said.thoughts
    if said.calls:
        message["tool_calls"] = [
            {"id": IDS[number], "type": "function", "index": number, "function": {"name": name, "arguments": arguments}}
            for number, (name, arguments) in enumerate(said.calls)
        ]
    choice = {"finish_reason": said.finish_reason, "index": 0, "message": message}
    return json_reply({**SAME, "object": "chat.completion", "choices": [choice], "usage": USAGE})


def streamed(said: Said, request: JsonObject) -> Reply:
    def chunk(**delta: Any) -> JsonObject:
        return {**SAME, "object": "chat.completion.chunk", "choices": [{"delta": {"role": "assistant", **delta}, "index": 0}]}

    sent = [chunk(), *(chunk(reasoning_content=piece) for piece in pieces(said.thoughts)), chunk(reasoning_content="")]
    sent += [chunk(content=piece) for piece in pieces(said.content)]
    for index, (name, arguments) in enumerate(said.calls):
        function = {"arguments": arguments, "name": name}
        call = {"index": index, "id": IDS[index], "function": function, "type": "function"}
        sent += [chunk(tool_calls=[call]), chunk(content="\n")]
    last = {"delta": {}, "finish_reason": said.finish_reason, "index": 0}
    return frames(*sent, {**chunk(), "choices": [last], "usage": USAGE}, ascii_only=True)


def invalid(location: list[str | int], message: str) -> Reply:
    return json_reply({"detail": [{"type": "value_error", "loc": ["body", *location], "msg": message}]}, status=422)


def refuse(request: JsonObject) -> Reply | None:
    if len(request["messages"]) > MAX_MESSAGES:
        return invalid(["messages"], "Value error, message history too long")
    for number, message in enumerate(request["messages"]):
        for call in message.get("tool_calls") or []:
            if not isinstance(call["function"]["arguments"], str):
                return invalid(["messages", number, "tool_calls"], "Input should be a valid string")
    return None


LISTING = {
    "object": "list",
    "data": [{"id": MODEL, "object": "model", "created": 1796059130, "owned_by": "local", "metadata": None}],
}
PEER = Peer(LISTING, whole, streamed, refuse)


@pytest.mark.parametrize("stream", [True, False])
def test_the_clock_goal(stream: bool) -> None:
    check_clock(PEER, stream=stream)


def test_an_error_inside_the_detail() -> None:
    inner = {"message": "Failed to generate text response: out of memory", "type": "server_error", "param": None, "code": "500"}
    with (
        ScriptedServer(lambda request: json_reply({"detail": {"error": inner}}, status=500)) as server,
        pytest.raises(ServerRefused, match="answered 500: Failed to generate text response: out of memory"),
    ):
        Client(server.url, model="m").chat([])


def test_the_scripted_server_writes_what_the_real_one_does(shared_dir: Path) -> None:
    real = (shared_dir / "wire-samples" / "mlx_openai_server" / "01_chat.response").read_bytes()
    assert shapes(body_of(whole(Said(content="Paris."), {}))) == shapes(real)
