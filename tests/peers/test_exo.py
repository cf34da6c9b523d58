"""exo: thoughts as `reasoning_content`, all calls of a turn in one chunk, which is the last; its prefill is told in comments.

Every field stands in every chunk, null where it says nothing. `/v1/models` lists all models it could run.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.peers.peer import THOUGHTS, JsonObject, Peer, Said, check_clock, frames, json_reply, pieces
from tests.support.scripted_server import Reply, ScriptedServer

from daneel.harness.client import Client, ErrorInStream
from daneel.harness.progress import CommentProgress

MODEL = "mlx-community/Qwen3-30B-A3B-4bit"
IDS = ("5f0c64b4-1c1e-4f4a-9d0b-0b5a7c1f2e01", "8a2d9c11-77b2-4c1e-8a55-52c9e0d3aa02")
SAME = {"id": "c0a8f9f2-2a35-4a61-8a3d-6b8a5a3fd001", "created": 1796060631, "model": MODEL}
USAGE = {
    "prompt_tokens": 192,
    "completion_tokens": 44,
    "total_tokens": 236,
    "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 12, "audio_tokens": 0},
}
EMPTY = dict.fromkeys(("content", "reasoning_content", "name", "tool_calls", "tool_call_id", "function_call"))
PROGRESS = '{"model":"m","processed_tokens":%d,"total_tokens":192}'


def calls(said: Said) -> list[JsonObject] | None:
    made = [
        {
            "id": IDS[number],
            "index": number,
            "type": "function",
            "function": {"id": IDS[number], "name": name, "arguments": text},
        }
        for number, (name, text) in enumerate(said.calls)
    ]
    return made or None


def whole(said: Said, request: JsonObject) -> Reply:
    said_so = {**EMPTY, "content": said.content, "reasoning_content": said.thoughts or None, "tool_calls": calls(said)}
    choice = {
        "index": 0,
        "message": {"role": "assistant", **said_so},
        "logprobs": None,
        "finish_reason": said.finish_reason,
    }
    return json_reply({**SAME, "object": "chat.completion", "choices": [choice], "usage": USAGE, "service_tier": None})


def streamed(said: Said, request: JsonObject) -> Reply:
    def chunk(finish: str | None = None, **delta: Any) -> JsonObject:
        choice = {
            "index": 0,
            "delta": {"role": "assistant", **EMPTY, **delta},
            "logprobs": None,
            "finish_reason": finish,
            "usage": None,
        }
        usage = USAGE if finish else None
        return {**SAME, "object": "chat.completion", "choices": [choice], "usage": usage, "service_tier": None}

    sent: list[JsonObject | str] = [f": prefill_progress {PROGRESS % tokens}\n\n" for tokens in (64, 128, 192)]
    sent += [chunk(reasoning_content=piece) for piece in pieces(said.thoughts)]
    if said.calls:
        sent.append(chunk("tool_calls", tool_calls=calls(said)))
    else:
        *first, last = pieces(said.content)
        sent += [*(chunk(content=piece) for piece in first), chunk("stop", content=last)]
    return frames(*sent)


LISTING = {
    "object": "list",
    "data": [
        {"id": name, "object": "model", "created": 1, "owned_by": "exo", "hugging_face_id": name, "context_length": 0}
        for name in (MODEL, "mlx-community/Llama-3.3-70B-Instruct-4bit")
    ],
}
PEER = Peer(LISTING, whole, streamed, model=MODEL)


@pytest.mark.parametrize("stream", [True, False])
def test_the_clock_goal(stream: bool) -> None:
    check_clock(PEER, stream=stream)


def test_its_comments_are_progress_as_long_as_they_move() -> None:
    progress = CommentProgress()
    assert [progress.moved(f"prefill_progress {PROGRESS % tokens}") for tokens in (64, 64, 128)] == [True, False, True]


def test_an_error_in_place_of_the_rest() -> None:
    body = json.dumps({"error": {"message": "Instance was deleted", "type": "InternalServerError", "code": 500}})
    first = {**SAME, "choices": [{"index": 0, "delta": {"role": "assistant", "reasoning_content": THOUGHTS}}]}
    with (
        ScriptedServer(lambda request: frames(first, f"data: {body}\n\n")) as server,
        pytest.raises(ErrorInStream, match="Instance was deleted") as caught,
    ):
        Client(server.url, model=MODEL).chat([])
    assert caught.value.partial is not None
    assert caught.value.partial.reasoning == THOUGHTS
