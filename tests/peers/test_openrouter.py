"""OpenRouter: comments while it looks for a provider, `reasoning` beside `reasoning_details`, usage in a chunk with a choice.

It tells the provider's own finish reason beside its own, and an error of the provider in the choice, under status 200.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.peers.peer import JsonObject, Peer, Said, check_clock, frames, json_reply, pieces
from tests.support.scripted_server import Reply, ScriptedServer

from daneel.harness.client import Client, ErrorInStream, KeyRefused, ServerRefused

MODEL = "qwen/qwen3-30b-a3b"
IDS = ("chatcmpl-tool-1b2f0d", "chatcmpl-tool-8e6a4c")
SAME = {"id": "gen-1796060631-3RqXbW0gC1u1mZ4y", "provider": "Novita", "model": MODEL, "created": 1796060631}
USAGE = {
    "prompt_tokens": 244,
    "completion_tokens": 58,
    "total_tokens": 302,
    "cost": 0.0000412,
    "is_byok": False,
    "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    "cost_details": {"upstream_inference_cost": None},
    "completion_tokens_details": {"reasoning_tokens": 21, "image_tokens": 0},
}
PROCESSING = ": OPENROUTER PROCESSING\n\n"


def details(text: str) -> list[JsonObject]:
    return [{"type": "reasoning.text", "text": text, "format": "unknown", "index": 0}]


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
    message: JsonObject = {"role": "assistant", "content": said.content, "refusal": None, "reasoning": said.thoughts or None}
    if said.thoughts:
        message["reasoning_details"] = details(said.thoughts)
    if said.calls:
        message["tool_calls"] = calls(said, indexed=True)
    choice = {
        "logprobs": None,
        "finish_reason": said.finish_reason,
        "native_finish_reason": said.finish_reason,
        "index": 0,
        "message": message,
    }
    return json_reply({**SAME, "object": "chat.completion", "choices": [choice], "usage": USAGE})


def streamed(said: Said, request: JsonObject) -> Reply:
    def chunk(finish: str | None = None, **delta: Any) -> JsonObject:
        choice = {
            "index": 0,
            "delta": {"role": "assistant", "content": "", **delta},
            "finish_reason": finish,
            "native_finish_reason": finish,
            "logprobs": None,
        }
        return {**SAME, "object": "chat.completion.chunk", "choices": [choice]}

    sent: list[JsonObject | str] = [PROCESSING, PROCESSING]
    sent += [chunk(reasoning=piece, reasoning_details=details(piece)) for piece in pieces(said.thoughts)]
    sent += [chunk(content=piece) for piece in pieces(said.content)]
    for call in calls(said, indexed=True):
        head = {**call, "function": {"name": call["function"]["name"], "arguments": ""}}
        rest = {"index": call["index"], "type": "function", "function": {"arguments": call["function"]["arguments"]}}
        sent += [chunk(content=None, tool_calls=[head]), PROCESSING, chunk(content=None, tool_calls=[rest])]
    sent += [chunk(said.finish_reason), {**chunk(), "usage": USAGE}]
    return frames(*sent, Content_Type="text/event-stream")


LISTING = {
    "data": [{"id": name, "name": name, "context_length": 40960} for name in (MODEL, "openai/gpt-5", "google/gemma-3-27b-it")]
}
PEER = Peer(LISTING, whole, streamed, model=MODEL)


@pytest.mark.parametrize("stream", [True, False])
def test_the_clock_goal(stream: bool) -> None:
    check_clock(PEER, stream=stream)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, KeyRefused), (402, ServerRefused), (408, ServerRefused), (502, ServerRefused)],
)
def test_refusals(status: int, kind: type[ServerRefused]) -> None:
    body = {"error": {"message": "No auth credentials found", "code": status}, "user_id": "user_2x"}
    with (
        ScriptedServer(lambda request: json_reply(body, status=status)) as server,
        pytest.raises(kind, match="No auth credentials found") as caught,
    ):
        Client(server.url, model=MODEL).chat([])
    assert caught.value.code == str(status)


def test_an_error_of_the_provider_in_an_open_stream() -> None:
    choice = {"index": 0, "delta": {"content": ""}, "finish_reason": "error", "native_finish_reason": "error"}
    frame = {**SAME, "error": {"code": "server_error", "message": "Provider disconnected"}, "choices": [choice]}
    with (
        ScriptedServer(lambda request: frames(PROCESSING, frame)) as server,
        pytest.raises(ErrorInStream, match="Provider disconnected"),
    ):
        Client(server.url, model=MODEL).chat([])


@pytest.mark.parametrize("stream", [True, False])
def test_an_error_of_the_provider_inside_the_choice(stream: bool) -> None:
    part = {"delta" if stream else "message": {"role": "assistant", "content": ""}}
    choice = {"index": 0, **part, "finish_reason": "error", "error": {"code": 502, "message": "Provider returned error"}}
    body = {**SAME, "choices": [choice]}
    with (
        ScriptedServer(lambda request: frames(body) if stream else json_reply(body)) as server,
        pytest.raises(ErrorInStream, match="Provider returned error"),
    ):
        Client(server.url, model=MODEL).chat([], stream=stream)
