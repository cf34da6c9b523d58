"""LiteLLM as a proxy in front of daneel's server: `reasoning` comes out as `reasoning_content`, usage in a chunk with a choice.

`owned_by` is "openai", so the harness asks for none of daneel's additions; of those that come anyway, `daneel` is passed on.
Errors are wrapped, their code a text.
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

DANEEL = {"timings": {"queue_ms": 0.1, "prefill_ms": 31.0, "decode_ms": 810.2}, "cache": {"read_tokens": 66}}


def whole(said: Said, request: JsonObject) -> Reply:
    message: JsonObject = {"content": said.content or None, "role": "assistant"}
    if said.calls:
        message["tool_calls"] = [
            {"index": number, "function": {"arguments": text, "name": name}, "id": IDS[number], "type": "function"}
            for number, (name, text) in enumerate(said.calls)
        ]
    if said.thoughts:
        message["reasoning_content"] = said.thoughts
        message["provider_specific_fields"] = {"reasoning": said.thoughts}
    choice = {"finish_reason": said.finish_reason, "index": 0, "message": message, "provider_specific_fields": {}}
    return json_reply({**SAME, "object": "chat.completion", "choices": [choice], "usage": USAGE, "daneel": DANEEL})


def streamed(said: Said, request: JsonObject) -> Reply:
    def chunk(finish: str | None = None, **delta: Any) -> JsonObject:
        choice: JsonObject = {"index": 0, "delta": delta}
        if finish:
            choice["finish_reason"] = finish
        return {**SAME, "object": "chat.completion.chunk", "choices": [choice]}

    sent = [chunk(role="assistant"), *(chunk(reasoning_content=piece) for piece in pieces(said.thoughts))]
    sent += [chunk(content=piece) for piece in pieces(said.content)]
    for index, (name, text) in enumerate(said.calls):
        call = {"id": IDS[index], "function": {"arguments": text, "name": name}, "type": "function", "index": index}
        sent.append(chunk(tool_calls=[call]))
    sent.append({**chunk(said.finish_reason), "daneel": DANEEL})
    if request.get("stream_options", {}).get("include_usage"):
        sent.append({**chunk(), "usage": USAGE})
    return frames(*sent)


def wrapped(kind: str, message: str, status: int) -> Reply:
    """The server's own words, and what became of them in words of the proxy's."""
    said = f"litellm.{kind}: OpenAIException - {message}\n\nLiteLLM: model group {MODEL!r} failed with the error above."
    body = {"message": said, "type": "invalid_request_error", "param": None, "code": str(status)}
    return json_reply({"error": body}, status=status)


LISTING = {
    "data": [{"id": MODEL, "object": "model", "created": 1677610602, "owned_by": "openai", "max_input_tokens": 32768}],
    "object": "list",
}
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
