"""Real templates, rendered as the transformers library renders them: byte for byte, for the message shapes that matter."""

from __future__ import annotations

import copy
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from daneel.server import template_child
from daneel.server.template_child import Failed, Rendered, compile_template, render

SHARED_TEMPLATES = Path(__file__).resolve().parents[3] / "shared" / "templates"
CITY = {"type": "object", "properties": {"city": {"type": "string", "description": "s"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Tool get_weather", "parameters": CITY}}]
USER = {"role": "user", "content": "U1"}
NEXT = {"role": "user", "content": "U2"}
THOUGHT = {"reasoning_content": "R1", "reasoning": "R1"}
RESULT = {"role": "tool", "tool_call_id": "callid000", "name": "get_weather", "content": '{"temp": 21}'}
THINKING = {"enable_thinking": True}


def _tool_turn(arguments: Any) -> dict[str, Any]:
    call = {"id": "callid000", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
    messages = [USER, {"role": "assistant", "content": "C1", **THOUGHT, "tool_calls": [call]}, RESULT]
    return {"messages": messages, "tools": TOOLS, "add_generation_prompt": True, **THINKING}


SHAPES: dict[str, dict[str, Any]] = {
    "plain": {"messages": [USER], "add_generation_prompt": False},
    "gen_default": {"messages": [USER], "add_generation_prompt": True},
    "gen_think_off": {"messages": [USER], "add_generation_prompt": True, "enable_thinking": False},
    "gen_think_on": {"messages": [USER], "add_generation_prompt": True, **THINKING},
    "tool_turn_dict": _tool_turn({"city": "Paris"}),
    "tool_turn_str": _tool_turn('{"city": "Paris"}'),
    "history": {"messages": [USER, {"role": "assistant", "content": "C1", **THOUGHT}, NEXT], **THINKING},
    "history_inline": {"messages": [USER, {"role": "assistant", "content": "<think>\nR1\n</think>\n\nC1"}, NEXT], **THINKING},
}


def _examples() -> list[dict[str, Any]]:
    path = SHARED_TEMPLATES / "rendered_examples.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


@pytest.mark.parametrize("example", _examples(), ids=lambda example: str(example["file"]))
def test_a_real_template_renders_byte_for_byte(example: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_child, "_strftime_now", lambda pattern: datetime(2026, 8, 1).strftime(pattern))
    template = compile_template((SHARED_TEMPLATES / example["file"]).read_text(encoding="utf-8"))
    for shape, given in SHAPES.items():
        variables = {"tools": None, "add_generation_prompt": True, "bos_token": "<BOS>", "eos_token": "<EOS>", **given}
        reply = render(template, copy.deepcopy(variables))
        if example[shape].startswith("ERR "):
            assert isinstance(reply, Failed), shape
            continue
        assert reply == Rendered(example[shape]), shape


def test_a_template_may_collect_in_a_list_of_its_own() -> None:
    template = compile_template(
        "{% set found = [] %}{% for m in messages %}{% set _ = found.append(m) %}{% endfor %}{{ found }}"
    )
    assert render(template, {"messages": [1, 2]}) == Rendered("[1, 2]")


@pytest.mark.parametrize("change", ["messages.clear()", "messages[0].update({'a': 1})", "messages.extend([1])"])
def test_other_changes_stay_forbidden(change: str) -> None:
    reply = render(compile_template("{{ " + change + " }}"), {"messages": [{}]})
    assert isinstance(reply, Failed)
    assert "SecurityError" in reply.message
