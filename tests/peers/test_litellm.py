"""LiteLLM as a proxy in front of daneel's server: what it does not know is gone, what it takes for empty is left out.

daneel's additions do not come through, `owned_by` is "openai", and errors are wrapped, their code a text.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.peers.peer import JsonObject, Peer, Said, check_clock, frames, json_reply, pieces
from tests.support.scripted_server import Reply, ScriptedServer

from daneel.harness.client import Client, ContextOverflow, ServerRefused

MODEL = "local-qwen"
IDS = ("call_0b1d6f", "call_5c8e2a")
SAME = {"id": "chatcmpl-1c9f4be2", "created": 1796060631, "model": MODEL, "system_fingerprint": "daneel-0.1.0-llama.cpp"}
USAGE = {
    "completion_tokens": 53,
    "prompt_tokens": 73,
    "total_tokens": 126,
    "completion_tokens_details": {"reasoning_tokens": 25},
    "prompt_tokens_details": {"cached_tokens": 66},
}


def whole(said: Said, request: JsonObject) -> Reply:
    message: JsonObject = {"content": said.content or None, "role": "assistant"}
    if said.calls:
        message["tool_calls"] = [
            {"index": number, "function": {"arguments": text, "name": name}, "id": IDS[number], "type": "function"}
            for number, (name, text) in enumerate(said.calls)
        ]
    if said.thoughts:
        message["reasoning_content"] = said.thoughts
    choice = {"finish_reason": said.finish_reason, "index": 0, "message": message, "provider_specific_fields": {}}
    return json_reply({**SAME, "object": "chat.completion", "choices": [choice], "usage": USAGE})


def streamed(said: Said, request: JsonObject) -> Reply:
    def chunk(finish: str | None = None, **delta: Any) -> JsonObject:
        choice: JsonObject = {"index": 0, "delta": delta}
        if finish:
            choice["finish_reason"] = finish
        return {**SAME, "object": "chat.completion.chunk", "choices": [choice]}

    sent = []
    for number, piece in enumerate(pieces(said.thoughts)):
        first: JsonObject = {"role": "assistant"} if number == 0 else {}
        sent.append(chunk(reasoning_content=piece, content="", **first))
    sent += [chunk(content=piece) for piece in pieces(said.content)]
    for index, (name, text) in enumerate(said.calls):
        call = {"id": IDS[index], "function": {"arguments": text, "name": name}, "type": "function", "index": index}
        sent.append(chunk(tool_calls=[call]))
    sent.append(chunk(said.finish_reason))
    if request.get("stream_options", {}).get("include_usage"):
        sent.append({**SAME, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}}], "usage": USAGE})
    return frames(*sent)


def wrapped(kind: str, message: str, status: int) -> Reply:
    said = f"litellm.{kind}: {kind}: OpenAIException - {message}. Received Model Group={MODEL}"
    return json_reply({"error": {"message": said, "type": None, "param": None, "code": str(status)}}, status=status)


LISTING = {"data": [{"id": MODEL, "object": "model", "created": 1677610602, "owned_by": "openai"}], "object": "list"}
PEER = Peer(LISTING, whole, streamed)


@pytest.mark.parametrize("stream", [True, False])
def test_the_clock_goal(stream: bool) -> None:
    requests = check_clock(PEER, stream=stream)
    assert "on_failed_tool_call" not in requests[0]


@pytest.mark.parametrize(
    ("kind", "message", "status", "meaning"),
    [
        ("ContextWindowExceededError", "the prompt has 3000 tokens, the context 2048: too long", 400, ContextOverflow),
        ("BadRequestError", "messages[1]: role must be one of", 400, ServerRefused),
        ("InternalServerError", "Connection error", 500, ServerRefused),
    ],
)
def test_wrapped_refusals(kind: str, message: str, status: int, meaning: type[ServerRefused]) -> None:
    with (
        ScriptedServer(lambda request: wrapped(kind, message, status)) as server,
        pytest.raises(ServerRefused, match=re.escape(message)) as caught,
    ):
        Client(server.url, model=MODEL).chat([])
    assert type(caught.value) is meaning
