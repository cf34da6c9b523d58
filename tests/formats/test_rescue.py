"""Calls without markers: what is certain is taken, what merely looks like a call stays content, byte for byte."""

from __future__ import annotations

import pytest
from tests.formats.joined import parse

from daneel.formats.base import Tool
from daneel.formats.registry import get
from daneel.formats.validate import ToolSet

TOOLS = ToolSet(
    [Tool("now"), Tool("f", parameters={"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]})]
)
NOW = '{"name": "now", "arguments": {}}'
F = '{"name": "f", "arguments": {"x": 1}}'


@pytest.mark.parametrize(
    ("text", "names", "content", "kind"),
    [
        (NOW, ["now"], "", "bare_json"),
        (f"  {NOW}\n", ["now"], "", "bare_json"),
        (f"{NOW}\n\n{F}", ["now", "f"], "", "bare_json"),
        (f"I will call it:\n{NOW}\n{F}\nDone.", ["now", "f"], "I will call it:\n\n\nDone.", "bare_json"),
        (f"[{NOW}, {F}]", ["now", "f"], "", None),
        (f"```json\n{NOW}\n```", ["now"], "", "fenced_json"),
        (f"So:\n```\n{NOW}\n{F}\n```\nand\n```json\n{F}\n```", ["now", "f", "f"], "So:\n\nand\n", "fenced_json"),
        (f"```json\n[{NOW},\n{F}]\n```", ["now", "f"], "", "fenced_json"),
        (f"```json\n{NOW}\n", ["now"], "", "fenced_json"),
        ('{"arguments": {"x": 1}, "name": "f"}', ["f"], "", "bare_json"),
        ('{"name": "f", "parameters": {"x": 1}}', ["f"], "", "bare_json+parameters_key"),
        ('{"name": "f", "arguments": "{\\"x\\": 1}"}', ["f"], "", "bare_json+string_arguments"),
        (f"{NOW}\n</tool_call>", ["now"], "", "bare_json"),
    ],
)
def test_certain_calls(text: str, names: list[str], content: str, kind: str) -> None:
    for cut in range(len(text)):
        got = parse(get("generic"), text, (cut,), tools=TOOLS)
        assert [call.name for call in got.calls] == names
        assert {call.repair for call in got.calls} == {kind}
        assert got.content == content
    assert parse(get("generic"), text, tools=TOOLS, rescue=False).content == text


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "unheard_of", "arguments": {}}',
        '{"name": "f", "arguments": {"x": "no integer"}}',
        '{"name": "f", "arguments": {}}',
        '{"name": "now"}',
        '{"name": "now", "arguments": {}, "why": 1}',
        '{"city": "Paris", "name": "now", "arguments": {}}',
        f"As in {NOW} here",
        f"```json\n{NOW}\nand more\n```",
        f'```json\n{NOW}\n{{"name": "g", "arguments": {{}}}}\n```',
        f"```python\n{NOW}\n```",
        f"```python\nprint(1)\n```\nand `{NOW}`",
        '{"name": "now", "arguments": {}',
        "[]",
        "[1, 2]",
        "{}",
        '[{"name": "now", "arguments": {}}, 3]',
        '{"list": [\n{"name": "now", "arguments": {}}\n]}',
        "``",
        "```",
        "```json",
        "{",
    ],
)
def test_what_merely_looks_like_a_call_is_content(text: str) -> None:
    for cut in range(len(text)):
        got = parse(get("hermes"), text, (cut,), tools=TOOLS)
        assert (got.content, got.calls, got.failed) == (text, [], [])


def test_marked_calls_inside_what_was_held_back_are_still_found() -> None:
    text = '{"name": "f", "arguments": {"x": 1}, \n<tool_call>' + NOW + "</tool_call>"
    got = parse(get("hermes"), text, tools=TOOLS)
    assert [call.name for call in got.calls] == ["now"]
    assert got.content == '{"name": "f", "arguments": {"x": 1}, \n'


def test_nothing_is_rescued_without_tools() -> None:
    assert parse(get("hermes"), NOW).content == NOW
    assert parse(get("hermes"), NOW, tools=ToolSet([])).content == NOW


@pytest.mark.parametrize(
    "text",
    [
        '[{"',
        '[{"na',
        '[{"name": "no',
        '[{"name": "now", "arguments": {}}, {"name": "f", "arguments": {"x',
        '{"name": "',
        "```json\n" + F[:-3],
    ],
)
def test_what_the_length_limit_cuts_off_while_it_can_only_become_a_call_is_a_truncated_one(text: str) -> None:
    for cut in range(len(text)):
        got = parse(get("generic"), "So:\n" + text, (cut,), tools=TOOLS, truncated=True)
        assert [(failed.raw, failed.error_type, failed.offset) for failed in got.failed] == [(text, "truncated", len(text))]
        assert got.content == "So:\n"
    assert parse(get("generic"), "So:\n" + text, tools=TOOLS, truncated=False).content == "So:\n" + text


@pytest.mark.parametrize("text", ["[", "[{", "{", '{"x": 1, ', '{"name": "unheard_of", "argu', "```json\n", '[{"x', '{"na'])
def test_what_is_cut_off_and_may_be_anything_is_content(text: str) -> None:
    assert parse(get("generic"), text, tools=TOOLS, truncated=True).content == text
