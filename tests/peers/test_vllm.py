"""vLLM: thoughts as `reasoning`, the name of a call in one chunk and its arguments in the next ones, nulls for all else.

Fields that the whole reply has and the chunks have not; `usage` in a chunk of its own; `owned_by` "vllm".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.peers.peer import (
    JsonObject,
    Peer,
    Said,
    body_of,
    check_clock,
    frames,
    json_reply,
    pieces,
    shapes,
    unanswered_calls,
    unreadable_arguments,
)
from tests.support.scripted_server import Reply, ScriptedServer

from daneel.harness.client import Client, ContextOverflow, ServerRefused

MODEL = "Qwen/Qwen3-8B"
IDS = ("chatcmpl-tool-a3f8be1c4d204f0c", "chatcmpl-tool-b9c07d11a2c04be1")
CREATED = 1796060631
DETAILS = {"cached_tokens": 128, "created_cache_tokens": 0}


def usage(**details: Any) -> JsonObject:
    return {
        "prompt_tokens": 215,
        "total_tokens": 252,
        "completion_tokens": 37,
        "prompt_tokens_details": {**DETAILS, **details},
    }


def whole(said: Said, request: JsonObject) -> Reply:
    message: JsonObject = {
        "role": "assistant",
        "content": said.content or None,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        "reasoning": said.thoughts or None,
    }
    if said.calls:
        message["tool_calls"] = [
            {"id": IDS[number], "type": "function", "function": {"name": name, "arguments": arguments}}
            for number, (name, arguments) in enumerate(said.calls)
        ]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": said.finish_reason,
        "stop_reason": None,
        "token_ids": None,
        "routed_experts": None,
    }
    rest = ("prompt_logprobs", "prompt_token_ids", "prompt_text", "kv_transfer_params", "ec_transfer_params", "metrics")
    return json_reply(
        {
            "id": "chatcmpl-9e2b3615f7caf50c",
            "object": "chat.completion",
            "created": CREATED,
            "model": MODEL,
            "choices": [choice],
            "service_tier": None,
            "system_fingerprint": "vllm-0.32.0-940d6dfa",
            "usage": {**usage(multimodal_tokens=None), "completion_tokens_details": None},
            **dict.fromkeys(rest),
        }
    )


def streamed(said: Said, request: JsonObject) -> Reply:
    same = {"id": "chatcmpl-ae9ba4b434007f8c", "object": "chat.completion.chunk", "created": CREATED, "model": MODEL}

    def chunk(*, finish: str | None = None, first: bool = False, **delta: Any) -> JsonObject:
        choice: JsonObject = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        if first:
            return {**same, "choices": [choice], "prompt_token_ids": None, "prompt_text": None}
        if finish:
            choice["stop_reason"] = None
        return {**same, "choices": [{**choice, "token_ids": None}]}

    sent = [chunk(first=True, role="assistant", content="")]
    sent += [chunk(reasoning=piece) for piece in pieces(said.thoughts)]
    sent += [chunk(content=piece) for piece in pieces(said.content)]
    for index, (name, arguments) in enumerate(said.calls):
        named = {"id": IDS[index], "type": "function", "index": index, "function": {"name": name}}
        sent.append(chunk(tool_calls=[named]))
        sent += [chunk(tool_calls=[{"index": index, "function": {"arguments": piece}}]) for piece in pieces(arguments, size=1)]
    sent.append(chunk(finish=said.finish_reason, content=""))
    if request.get("stream_options", {}).get("include_usage"):
        sent.append({**same, "choices": [], "usage": usage(), "system_fingerprint": "vllm-0.32.0-940d6dfa"})
    return frames(*sent)


def refuse(request: JsonObject) -> Reply | None:
    bad = unreadable_arguments(request) or unanswered_calls(request)
    if bad:
        return json_reply({"error": {"message": f"{bad}", "type": "BadRequestError", "param": None, "code": 400}}, status=400)
    return None


LISTING = {
    "object": "list",
    "data": [
        {
            "id": MODEL,
            "object": "model",
            "created": CREATED,
            "owned_by": "vllm",
            "root": MODEL,
            "parent": None,
            "max_model_len": 40960,
            "permission": [{"id": "modelperm-8844606b", "object": "model_permission", "allow_sampling": True}],
        }
    ],
}
PEER = Peer(LISTING, whole, streamed, refuse)


@pytest.mark.parametrize("stream", [True, False])
def test_the_clock_goal(stream: bool) -> None:
    requests = check_clock(PEER, stream=stream)
    assert requests[1]["messages"][1]["reasoning"]


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (
            400,
            "This model's maximum context length is 2048 tokens. However, you requested 3000 tokens.",
            ContextOverflow,
        ),
        (404, "The model `m` does not exist.", ServerRefused),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', ServerRefused),
    ],
)
def test_refusals(status: int, message: str, kind: type[ServerRefused]) -> None:
    body = {"error": {"message": message, "type": "BadRequestError", "param": None, "code": status}}
    with (
        ScriptedServer(lambda request: json_reply(body, status=status)) as server,
        pytest.raises(kind) as caught,
    ):
        Client(server.url, model="m").chat([])
    assert type(caught.value) is kind
    assert message in str(caught.value)


def test_the_scripted_server_writes_what_the_real_one_does(shared_dir: Path) -> None:
    real = {
        name: (shared_dir / "wire-samples" / "vllm_cpu" / f"{name}.response").read_bytes()
        for name in ("02_tools", "06_tools_maxtok4_truncated_stream")
    }
    said = Said(content="It is noon.")
    request = {"stream_options": {"include_usage": True}}
    assert shapes(body_of(whole(said, request))) == shapes(real["02_tools"])
    assert shapes(body_of(streamed(said, request))) == shapes(real["06_tools_maxtok4_truncated_stream"])
