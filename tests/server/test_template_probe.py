"""What templates do with messages, found by trying; and that with it no real template loses anything."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import pytest

from daneel.formats import registry
from daneel.formats.base import Tool
from daneel.formats.history import check, for_template
from daneel.formats.template_traits import TemplateTraits
from daneel.server.template import TemplateRenderer
from daneel.server.template_child import Rendered, compile_template, render
from daneel.server.template_probe import probe
from daneel.wire.errors import BadRequest

TEMPLATES = Path(__file__).resolve().parents[3] / "shared" / "templates"
NAMES = sorted(path.name for path in TEMPLATES.glob("*.jinja"))
FIND = {"type": "object", "properties": {"text": {"type": "string", "description": "What to look for."}}}
TOOLS = [Tool("now", "Get the time.", {"type": "object", "properties": {}}), Tool("find", "Find.", FIND)]
DECLARED = [
    {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}}
    for tool in TOOLS
]


class LocalRenderer:
    """Renders in this process; a template of a test's own needs no limits."""

    def __init__(self, source: str) -> None:
        self._template = compile_template(source)

    async def render(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Any] = (), variables: Mapping[str, Any] | None = None
    ) -> str:
        given = {
            "messages": list(messages),
            "tools": list(tools) or None,
            "add_generation_prompt": True,
            "bos_token": "<s>",
            "functions": "[]",
            "datetime": "2026",
        }
        reply = render(self._template, copy.deepcopy({"eos_token": "</s>", **given, **(variables or {})}))
        if not isinstance(reply, Rendered):
            raise BadRequest(reply.message)
        return reply.text

    knows_tools = TemplateRenderer.knows_tools


@lru_cache
def traits_of(source: str, split_role: str = "assistant") -> TemplateTraits:
    return asyncio.run(probe(cast(TemplateRenderer, LocalRenderer(source)), split_role=split_role))


def _template(
    *,
    start: str = "",
    told: bool = True,
    loop: str = "for m in messages",
    body: str = "{{ m.content }}CALLS",
    arguments: str = "",
) -> str:
    """A small template. `CALLS` in the body writes the calls, each with `arguments`."""
    arguments = arguments or "c.function.arguments | tojson"
    calls = f"{{% for c in m.tool_calls or [] %}}[{{{{ c.function.name }}}}{{{{ {arguments} }}}}]{{% endfor %}}"
    tools = "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}" if told else ""
    return f"{start}{tools}{{% {loop} %}}{body.replace('CALLS', calls)}{{% endfor %}}"


REFUSES_BOTH = "{% if m.tool_calls and m.reasoning and m.content %}{{ raise_exception('both') }}{% endif %}"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (_template(), {}),
        (_template(told=False), {"knows_tools": False}),
        (_template(body="{{ m.content }}"), {"calls": "none", "content_with_calls": "text"}),
        (_template(body="CALLS{{ m.content }}"), {"content_with_calls": "apart"}),
        (_template(body="CALLS{{ m.content if not m.tool_calls }}"), {"content_with_calls": "apart"}),
        (_template(body="{{ m.thinking }}{{ m.content }}CALLS"), {"reasoning_field": "thinking"}),
        (
            _template(body=REFUSES_BOTH + "{{ m.content }}{{ m.reasoning }}CALLS"),
            {"reasoning_field": "reasoning", "reasoning_with_content": False},
        ),
        (_template(arguments="c.function.arguments + ''"), {"calls": "string"}),
        (
            _template(body="{{ m.content }}CALLS".replace("CALLS", "{{ m.tool_calls[0] if m.tool_calls }}")),
            {"several_calls": False},
        ),
        (
            _template(
                body="{% if m.tool_calls and m.tool_calls[0].id | length != 9 %}{{ 1 / 0 }}{% endif %}{{ m.content }}CALLS"
            ),
            {"call_ids": "nine"},
        ),
        (_template(loop="for m in messages if m.role != 'system'"), {"system": "dropped"}),
        (_template(start="{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}"), {"system": "refused"}),
        (
            _template(body="{% if m.role != 'tool' or loop.previtem.tool_calls %}{{ m.content }}{% endif %}CALLS"),
            {"orphan_results": False},
        ),
    ],
)
def test_traits_are_found_by_trying(source: str, found: dict[str, Any]) -> None:
    assert traits_of(source) == TemplateTraits(**{"reasoning_field": None, **found})


def _called(name: str, arguments: dict[str, Any], call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


RAW = "<<half a call>>"
HISTORY = [
    {"role": "user", "content": "Q1"},
    {
        "role": "assistant",
        "content": "C1",
        "tool_calls": [_called("now", {}, "call_now-000001"), _called("find", {"text": "needle"}, "callid002")],
    },
    {"role": "tool", "tool_call_id": "call_now-000001", "name": "now", "content": "12:00"},
    {"role": "tool", "tool_call_id": "callid002", "name": "find", "content": "found"},
    {"role": "assistant", "content": "C2"},
    {"role": "user", "content": "Q2"},
]
FAILED = [
    {"role": "user", "content": "Q1"},
    {"role": "assistant", "content": "C1", "failed_tool_calls": [{"id": "callid003", "position": 0, "name": None, "raw": RAW}]},
    {"role": "tool", "tool_call_id": "callid003", "name": "unknown", "content": "not read"},
]


@pytest.mark.parametrize("file", NAMES)
@pytest.mark.parametrize("style", ["native", "plain"])
def test_no_real_template_loses_or_reorders_anything(file: str, style: Any) -> None:
    source = (TEMPLATES / file).read_text(encoding="utf-8")
    family = registry.detect(source)
    traits = traits_of(source, family.split_role)
    calls = (
        ["now", "needle", "12:00", "found"] if traits.several_calls or style == "plain" else ["now", "12:00", "needle", "found"]
    )
    for history, wanted in (
        (HISTORY, ["Q1", "C1", *calls, "C2", "Q2"]),
        (FAILED, ["Q1", "C1", RAW, "not read"]),
    ):
        told = for_template(check(history), family=family, tools=TOOLS, style=style, traits=traits)
        text = asyncio.run(LocalRenderer(source).render(told, tools=DECLARED if traits.knows_tools else ()))
        at = text.index("Q1")
        for piece in wanted:
            assert piece in text[at:], (piece, json.dumps(told), text)
            at = text.index(piece, at)
