"""Calls that a server left in the text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel import Harness, tool
from daneel.harness.run_record import CallRecord
from daneel.harness.text_calls import TextCallReader, rescue
from daneel.harness.tools.arguments import ArgumentsError, Bound
from daneel.harness.tools.registry import Tool
from daneel.wire.messages import Message


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


HARNESS = Harness(tools=[add])
CALL = '{"name": "add", "arguments": {"a": 1, "b": 2}}'


def read(content: str | None, *, reasoning: str | None = None, made: list[CallRecord] | None = None) -> Message:
    message = Message(role="assistant", content=content, reasoning=reasoning)
    rescue(message, HARNESS, truncated=False, made=made or [])
    return message


@pytest.mark.parametrize(
    ("content", "left"),
    [
        (CALL, None),
        (f"```json\n{CALL}\n```", None),
        (f"Let me add.\n<tool_call>\n{CALL}\n</tool_call>", "Let me add."),
        ("<|tool_call>call:add{a:1,b:2}<tool_call|>", None),
    ],
)
def test_a_call_is_taken_out_of_the_text(content: str, left: str | None) -> None:
    message = read(content)
    assert [(call.function.name, call.index) for call in message.tool_calls] == [("add", 0)]
    assert message.content == left


@pytest.mark.parametrize(
    "content",
    [
        "The sum is 3.",
        '{"sum": 3}',
        '{"name": "Ada", "age": 36}',
        '{"name": "job", "parameters": {"n": 1}}',
        '{"name": "Ada", "input": "text"}',
        'Write {"name": "add", "args": {}} to call it.',
        '{"name": "add", "args": {}} is how to call it.',
        "add(1, 2) is 3",
        "",
        None,
    ],
)
def test_text_that_is_no_call_is_left_alone(content: str | None) -> None:
    message = read(content)
    assert (message.content, message.tool_calls, message.failed_tool_calls) == (content, [], [])


@pytest.mark.parametrize(
    "content",
    [
        '[{name: "add", arguments: {a: 1}}}',
        '{"name": "add", "arguments": {"a": 1, "b": }}',
        '```json\n{"tool": "add", "args": {"a": 1}}\n```',
    ],
)
def test_json_of_a_call_gone_wrong_is_a_failed_call(content: str) -> None:
    message = read(content)
    (failed,) = message.failed_tool_calls
    assert (failed.name, failed.raw, failed.error.type, message.content) == ("add", content, "malformed", None)


def test_bare_json_that_was_cut_off_is_a_truncated_call() -> None:
    message = Message(role="assistant", content='{"name": "add", "arguments": {"a": 1')
    rescue(message, HARNESS, truncated=True, made=[])
    assert [call.error.type for call in message.failed_tool_calls] == ["truncated"]


def test_bare_json_of_an_unknown_tool_is_a_call() -> None:
    message = read('{"name": "sum_up", "arguments": {"a": 1}}')
    assert [(call.function.name, call.function.arguments) for call in message.tool_calls] == [("sum_up", '{"a": 1}')]


def test_good_and_failed_calls_keep_their_order() -> None:
    message = read(f"<tool_call>\n{CALL}\n</tool_call>\n<tool_call>\n{{oops\n</tool_call>\n<tool_call>\n{CALL}\n</tool_call>")
    assert [call.function.name for call in message.tool_calls] == ["add", "add"]
    assert [call.position for call in message.failed_tool_calls] == [1]


def test_unmarked_json_in_the_thoughts_is_only_thought() -> None:
    assert read("", reasoning=CALL).tool_calls == []
    assert len(read("", reasoning=f"<tool_call>\n{CALL}\n</tool_call>").tool_calls) == 1
    assert read("Done.", reasoning=f"<tool_call>\n{CALL}\n</tool_call>").tool_calls == []


def test_a_call_told_again_in_prose_is_no_call() -> None:
    made = [CallRecord("add", {"a": 1, "b": 2}, "3")]
    told = f"I called\n```json\n{CALL}\n```\nand got 3."
    assert read(told, made=made).content == told
    assert len(read(told).tool_calls) == 1
    assert len(read(CALL, made=made).tool_calls) == 1  # bare: it wants the call again


PIECES = [
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    "```json\n",
    "\n```",
    CALL,
    "{",
    "}",
    '"name"',
    ": ",
    "text ",
    "\n",
]
PIECES += ["<|tool_call>", "call:add{", "a:1", "<tool_call|>", "\x00", "ü"]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.booleans())
def test_any_text_is_read_and_keeps_its_calls_readable(content: str, truncated: bool) -> None:
    message = Message(role="assistant", content=content)
    found = rescue(message, HARNESS, truncated=truncated, made=[])
    assert len(found) == len(message.tool_calls) + len(message.failed_tool_calls)
    assert found or message.content == content
    assert [call.index for call in message.tool_calls] == list(range(len(message.tool_calls)))


def tool_of(function: dict[str, Any]) -> Tool:
    """A tool with a schema of its own, checked as such."""
    schema = function.get("parameters") or {"type": "object", "properties": {}}

    def bind(arguments: dict[str, Any]) -> Bound:
        try:
            fault = next(iter(jsonschema_rs.validator_for(schema).iter_errors(arguments)), None)
        except (ValueError, jsonschema_rs.ValidationError):
            fault = None  # a schema that is none constrains nothing
        if fault is not None:
            raise ArgumentsError(str(fault.message))
        return Bound(arguments, arguments)

    return Tool(function["name"], function.get("description") or "", schema, lambda **_: None, "", binder=bind)


UNREAD = {"glimmer", "inkling", "gigachat3", "deepseek-v4", "llama4-pythonic"}
"""Families whose markers are not looked for, or whose special forms are read by daneel's own server only."""


def test_outputs_of_real_models_are_read_and_answers_are_left_alone(shared_dir: Path) -> None:
    reader = TextCallReader()
    seen = 0
    for line in (shared_dir / "cases" / "outputs.jsonl").read_text("utf-8").splitlines():
        case = json.loads(line)
        functions = [entry.get("function", entry) for entry in case.get("tools") or case.get("tools_suggested") or []]
        if not functions or case.get("malformed") or any("name" not in function for function in functions):
            continue
        harness = Harness(tools=[tool_of(function) for function in {entry["name"]: entry for entry in functions}.values()])
        message = Message(role="assistant", content=case["raw"])
        found = reader.rescue(message, harness, truncated=False, made=[])
        expected = case["expect"].get("tool_calls") or []
        seen += 1
        if not expected and "tool_calls" in case["asserts"]:
            assert not message.tool_calls, case["id"]
        if expected and case["family"] not in UNREAD:
            assert found, case["id"]
    assert seen > 400
