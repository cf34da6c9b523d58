"""Calls that a server left in the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel import Harness, tool
from daneel.harness.run_record import CallRecord
from daneel.harness.text_calls import rescue
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
