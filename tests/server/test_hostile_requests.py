"""Whatever JSON a client sends is answered or refused: a 500 would be a bug."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.fake_model import FakeEngine, fake_model, step

from daneel.formats import registry
from daneel.server import chat
from daneel.wire.errors import ServerBug, WireError
from daneel.wire.requests import parse_chat_request

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["\ud800", "\x00"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
FAILED = {
    "id": "c2",
    "position": 1,
    "name": "f",
    "raw": "<tool_call>{",
    "error": {"type": "malformed", "message": "no", "offset": 1},
}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "description": "A."}}, "required": ["a"]}
VALID: dict[str, Any] = {
    "model": "fake",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": "So:", "reasoning": "why", "tool_calls": [CALL], "failed_tool_calls": [FAILED]},
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
        {"role": "tool", "tool_call_id": "c2", "content": "2"},
        {"role": "user", "content": "And?"},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "description": "F.", "parameters": SCHEMA, "strict": False}}],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "max_tokens": 5,
    "stop": ["END"],
    "temperature": 0.5,
    "logit_bias": {"65": 1},
    "logprobs": True,
    "top_logprobs": 1,
    "chat_template_kwargs": {"enable_thinking": True},
    "add_generation_prompt": True,
    "tool_result_style": "native",
    "cache": {"mode": "read_write"},
    "include": ["raw_text"],
}


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, item in inner for found in paths(item, (*path, key)))]


@st.composite
def broken_bodies(draw: st.DrawFn) -> dict[str, Any]:
    """The valid request with one or two places replaced, or made to hold something more."""
    body = copy.deepcopy(VALID)
    for _ in range(draw(st.integers(1, 2))):
        *way, last = draw(st.sampled_from([path for path in paths(body) if path]))
        place = body
        for key in way:
            place = place[key]
        if isinstance(place[last], dict) and draw(st.booleans()):
            place[last][draw(st.text(max_size=6))] = draw(JSON)
        else:
            place[last] = draw(JSON | st.sampled_from(["required", "none", "plain", "tool", "assistant", True, 0, {}, [], ""]))
    return body


OUTPUTS = [
    step("<think>a</think>b"),
    step('<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call><tool_call>{</tool_call>'),
    step("<|end|>", finish="stop"),
]


async def outcome(body: bytes, family: str = "hermes", knows_tools: bool = True) -> int:
    try:
        model = fake_model(FakeEngine(OUTPUTS), family=family, template_knows_tools=knows_tools)
        request, warnings = parse_chat_request(body)
        reply = await chat.complete(await chat.begin(request, warnings, model))
        assert reply.usage.completion_tokens > 0
        return 200
    except ServerBug:
        raise
    except WireError as error:
        return error.status if error.message else 0


@given(broken_bodies(), st.sampled_from(sorted(registry.FAMILIES)), st.booleans())
def test_any_request_is_answered_or_refused(body: dict[str, Any], family: str, knows_tools: bool) -> None:
    assert asyncio.run(outcome(json.dumps(body).encode(), family, knows_tools)) in (200, 400, 422)


def test_unbroken_it_is_answered() -> None:
    assert asyncio.run(outcome(json.dumps(VALID).encode())) == 200
