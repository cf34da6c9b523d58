"""vllm-mlx: calls come whole; usage twice, on the last chunk and in one of its own; nothing is told of the cache.

Older versions, with no tool parser chosen, leave calls in streams as text, in the model's own markup. Errors are
FastAPI's `detail`, or a plain text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.peers.peer import JsonObject, Peer, Said, body_of, check_clock, frames, json_reply, pieces, play_clock, shapes
from tests.support.scripted_server import Reply, ScriptedServer, error

from daneel.harness.client import Client, ServerRefused

MODEL = "mlx-community/Qwen3-4B-4bit"
IDS = ("call_86c423c4", "call_da59a452")
SAME = {"id": "chatcmpl-86c423c4", "created": 1796059465, "model": MODEL}
USAGE = {"prompt_tokens": 210, "completion_tokens": 37, "total_tokens": 247}


def whole(said: Said, request: JsonObject) -> Reply:
    message: JsonObject = {"role": "assistant"}
    if said.content:
        message["content"] = said.content
    if said.thoughts:
        message["reasoning_content"] = said.thoughts
    if said.calls:
        message["tool_calls"] = [
            {"id": IDS[number], "type": "function", "function": {"name": name, "arguments": arguments}}
            for number, (name, arguments) in enumerate(said.calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": said.finish_reason}
    body = {**SAME, "object": "chat.completion", "choices": [choice], "usage": USAGE, "generation_metadata": None}
    return json_reply(body)


def stream_of(said: Said, request: JsonObject, *, parsed: bool) -> Reply:
    def chunk(finish: str | None = None, usage: JsonObject | None = None, **delta: Any) -> JsonObject:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {
            **SAME,
            "object": "chat.completion.chunk",
            "choices": [choice],
            "usage": usage,
            "generation_metadata": None,
        }

    sent = [chunk(role="assistant"), *(chunk(reasoning_content=piece) for piece in pieces(said.thoughts))]
    sent += [chunk(content=piece) for piece in pieces(said.content)]
    for number, (name, arguments) in enumerate(said.calls):
        if parsed:
            function = {"name": name, "arguments": arguments}
            sent.append(chunk(tool_calls=[{"index": number, "id": IDS[number], "type": "function", "function": function}]))
        else:
            text = f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>\n'
            sent += [chunk(content=piece) for piece in pieces(text)]
    sent.append(chunk(said.finish_reason if parsed else "stop", usage=USAGE))
    if request.get("stream_options", {}).get("include_usage"):
        sent.append({**chunk(usage=USAGE), "choices": []})
    return frames(*sent)


LISTING = {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 1796059468, "owned_by": "vllm-mlx"}]}
PEER = Peer(LISTING, whole, lambda said, request: stream_of(said, request, parsed=True))
UNPARSED = Peer(LISTING, whole, lambda said, request: stream_of(said, request, parsed=False))


@pytest.mark.parametrize("stream", [True, False])
def test_the_clock_goal(stream: bool) -> None:
    check_clock(PEER, stream=stream)


def test_the_clock_goal_with_calls_left_as_text() -> None:
    finished, _ = play_clock(UNPARSED, stream=True)
    assert finished.turns == 2
    assert [call.name for call in finished.calls] == ["cur_time", "get_current_date"]
    assert {event.kind for event in finished.events} == {"text_call"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"detail": "The model `m` does not exist."}, "The model `m` does not exist."),
        (
            {"detail": [{"type": "greater_than", "loc": ["body", "max_tokens"], "msg": "Input should be greater than 0"}]},
            "body.max_tokens: Input should be greater than 0",
        ),
        (b"Internal Server Error", "Internal Server Error"),
    ],
)
def test_refusals(body: Any, said: str) -> None:
    with ScriptedServer(lambda request: error(422, body)) as server, pytest.raises(ServerRefused) as caught:
        Client(server.url, model="m").chat([])
    assert caught.value.error.message == said


def test_the_scripted_server_writes_what_the_real_one_does(shared_dir: Path) -> None:
    real = (shared_dir / "wire-samples" / "vllm_mlx" / "01_chat.response").read_bytes()
    assert shapes(body_of(whole(Said(content="Paris."), {}))) == shapes(real)
