"""The broken calls that models and servers are known for: none is lost, most are repaired without another turn.

Each kind comes whole and streamed, from daneel's server and from another.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.scripted_server import Reply, calls, error, failed_call, text
from tests.support.stage import Stage

from daneel import Harness, tool
from daneel.harness.policy import Recovery


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


HARNESS = Harness(tools=[add])
GOOD = calls(("add", {"a": 2, "b": 3}))
ANSWER = text("The sum is 5.")


def raw_call(call: dict[str, Any]) -> Reply:
    return Reply(message={"role": "assistant", "content": None, "tool_calls": [call]}, finish_reason="tool_calls")


REPAIRED = {
    "trailing comma": calls(("add", '{"a": 2, "b": 3,}')),
    "single quotes": calls(("add", "{'a': 2, 'b': 3}")),
    "unquoted keys": calls(("add", "{a: 2, b: 3}")),
    "comment": calls(("add", '{"a": 2, // the first\n "b": 3}')),
    "fenced arguments": calls(("add", '```json\n{"a": 2, "b": 3}\n```')),
    "JSON inside a string": calls(("add", json.dumps('{"a": 2, "b": 3}'))),
    "numbers as strings": calls(("add", {"a": "2", "b": "3"})),
    "whole floats": calls(("add", {"a": 2.0, "b": 3.0})),
    "an extra argument that is empty": calls(("add", {"a": 2, "b": 3, "note": None})),
    "wrong case of the name": calls(("Add", {"a": 2, "b": 3})),
    "separator in the name": calls(("a_dd", {"a": 2, "b": 3})),
    "arguments as an object": raw_call(
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": 2, "b": 3}}}
    ),
    "no id": raw_call({"type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'}}),
    "empty id": raw_call({"id": "", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'}}),
    "JSON text": text('{"name": "add", "arguments": {"a": 2, "b": 3}}'),
    "fenced JSON text": text('Sure:\n```json\n{"name": "add", "arguments": {"a": 2, "b": 3}}\n```'),
    "hermes text": text('<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 3}}\n</tool_call>'),
    "Gemma 4 text": text("<|tool_call>call:add{a:2,b:3}<tool_call|>"),
    "hermes text in the thoughts, and nothing else": text(
        "", reasoning='I add.\n<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 3}}\n</tool_call>'
    ),
}

TOLD = {
    "truncated arguments": (calls(("add", '{"a": 2, "b": ')), "could not be read"),
    "arguments cut by the limit": (calls(("add", '{"a": 2, "b": ')).but(finish_reason="length"), "cut off"),
    "extra argument": (calls(("add", {"a": 2, "b": 3, "c": 4})), 'there is no argument "c"'),
    "missing argument": (calls(("add", {"a": 2})), '"b" is missing'),
    "empty arguments": (calls(("add", "")), '"a" is missing'),
    "null arguments": (
        raw_call({"id": "c1", "type": "function", "function": {"name": "add", "arguments": None}}),
        '"a" is missing',
    ),
    "a number in words": (calls(("add", {"a": 2, "b": "three"})), 'expected a valid integer, got "three"'),
    "a fraction for a whole number": (calls(("add", {"a": 2, "b": 3.5})), "got 3.5"),
    "a key twice": (calls(("add", '{"a": 2, "b": 3, "b": 4}')), "given twice"),
    "a list of arguments": (calls(("add", "[2, 3]")), "not a JSON object"),
    "unknown tool": (calls(("sum_up", {"a": 2, "b": 3})), "there is no tool sum_up"),
    "unknown tool as hermes text": (text('<tool_call>\n{"name": "sum_up", "arguments": {}}\n</tool_call>'), "no tool sum_up"),
    "malformed hermes text": (text('<tool_call>\n{"name": "add", "arguments": {"a": 2\n</tool_call>'), "could not be read"),
    "failed call": (failed_call('<tool_call>{"name": "add", "arg', name="add"), "could not be read"),
    "failed call of no name": (failed_call("<tool_call>???</tool_call>"), "could not be read"),
    "truncated failed call": (failed_call("<tool_call>{", error_type="truncated", finish_reason="length"), "cut off"),
    "empty message": (text(""), "Your reply was empty"),
    "blank message": (text(" \n"), "Your reply was empty"),
    "only thoughts": (text("", reasoning="What to do?"), "your reply was empty"),
    "announced call": (text("I will call `add` with 2 and 3."), "You have not called add"),
    "thoughts cut off": (text("", reasoning="What to").but(finish_reason="length"), "thought too long"),
}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


@pytest.mark.parametrize("owned_by", ["daneel", "someone"])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", REPAIRED)
def test_what_is_certain_is_repaired_without_a_turn(stage: Stage, kind: str, stream: bool, owned_by: str) -> None:
    result, requests = stage.play([REPAIRED[kind], ANSWER], HARNESS, owned_by=owned_by, stream=stream)
    assert (result.stop_reason, result.turns) == ("answered", 2)
    assert [(call.name, call.arguments, call.result) for call in result.calls] == [("add", {"a": 2, "b": 3}, "5")]
    (call,) = requests[1]["messages"][1]["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("add", {"a": 2, "b": 3})
    assert requests[1]["messages"][2] == {"role": "tool", "tool_call_id": call["id"], "content": "5"}
    assert call["id"]
    silent = ("arguments as an object", "no id", "empty id", "JSON inside a string")  # servers' habits, not models' mistakes
    expected = [] if kind in silent else ["text_call"] if "text" in kind else ["repaired"]
    assert [event.kind for event in result.events] == expected


@pytest.mark.parametrize("owned_by", ["daneel", "someone"])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", TOLD)
def test_what_is_not_certain_is_told_to_the_model(stage: Stage, kind: str, stream: bool, owned_by: str) -> None:
    reply, expected = TOLD[kind]
    result, requests = stage.play([reply, GOOD, ANSWER], HARNESS, owned_by=owned_by, stream=stream)
    assert (result.stop_reason, result.answer, result.turns) == ("answered", "The sum is 5.", 3)
    assert [call.result for call in result.calls if call.result is not None] == ["5"]
    assert expected in requests[1]["messages"][-1]["content"]
    assert len([event for event in result.events if event.kind != "text_call"]) == 1


CUT = text("The sum of two and\n").but(finish_reason="length")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("content", ["three is 5.", " three is 5."])
def test_a_text_that_was_cut_off_goes_on_where_it_stopped(stage: Stage, content: str, stream: bool) -> None:
    rest = text(content, daneel={"raw_text": " three is 5.<|im_end|>"})
    result, requests = stage.play([CUT, rest], HARNESS, stream=stream)
    assert (result.stop_reason, result.answer, result.turns) == ("answered", "The sum of two and three is 5.", 2)
    assert requests[1]["messages"][-1] == {"role": "assistant", "content": "The sum of two and"}
    assert (requests[1]["continue_final_message"], requests[1]["add_generation_prompt"]) == (True, False)
    assert requests[1]["max_tokens"] == 2 * requests[0]["max_tokens"]
    assert [message["role"] for message in result.messages] == ["user", "assistant"]


def test_thoughts_before_a_text_that_goes_on_are_kept(stage: Stage) -> None:
    first = text("The sum", reasoning="2 and 3").but(finish_reason="length")
    result, _ = stage.play([first, text(" is 5.")], HARNESS)
    assert (result.answer, result.messages[-1]["reasoning"]) == ("The sum is 5.", "2 and 3")


@pytest.mark.parametrize("stream", [True, False])
def test_a_call_whose_beginning_was_cut_off_as_text_goes_on_as_well(stage: Stage, stream: bool) -> None:
    first = text('I add: {"name": "add", "argu').but(finish_reason="length")
    rest = text('ments": {"a": 2, "b": 3}}')
    result, _ = stage.play([first, rest, ANSWER], HARNESS, stream=stream)
    assert [call.error for call in result.calls] in ([None], [])  # prose before it: a call, or a text that was completed


@pytest.mark.parametrize("owned_by", ["daneel", "someone"])
def test_a_text_that_cannot_go_on_is_asked_for_again_shorter(stage: Stage, owned_by: str) -> None:
    script = [CUT, CUT, CUT, CUT, ANSWER] if owned_by == "daneel" else [CUT, ANSWER]
    result, requests = stage.play(script, HARNESS, owned_by=owned_by)
    assert result.answer == "The sum is 5."
    last = requests[-1]
    assert "shorter" in last["messages"][-1]["content"]
    factors = [request["max_tokens"] // requests[0]["max_tokens"] for request in requests]
    assert factors == ([1, 2, 4, 4, 4] if owned_by == "daneel" else [1, 2])
    assert "continue_final_message" not in last


def test_a_server_that_cannot_go_on_with_a_text_is_asked_again(stage: Stage) -> None:
    result, requests = stage.play([CUT, error(400, "no"), ANSWER], HARNESS)
    assert (result.answer, result.turns) == ("The sum is 5.", 2)
    assert [message["role"] for message in requests[2]["messages"]] == ["user", "assistant", "user"]
    assert requests[2]["messages"][1]["content"] == "The sum of two and"
    assert "continue_final_message" not in requests[2]


def test_what_a_reply_without_an_answer_changes_in_the_next_request(stage: Stage) -> None:
    """The changes are for one turn; template variables go to daneel's server, and where the harness sends them itself."""
    off = {"enable_thinking": False, "thinking": False}
    own = HARNESS.with_changes(sampling={"chat_template_kwargs": {"x": 1}})
    thought = text("", reasoning="Hm")
    _, requests = stage.play([thought, GOOD, ANSWER], HARNESS)
    assert [request.get("chat_template_kwargs") for request in requests] == [None, off, None]
    _, requests = stage.play([thought, ANSWER], HARNESS, owned_by="someone")
    assert "chat_template_kwargs" not in requests[1]
    _, requests = stage.play([thought, ANSWER], own, owned_by="someone")
    assert requests[1]["chat_template_kwargs"] == {"x": 1, **off}
    cut = thought.but(finish_reason="length")
    _, requests = stage.play([cut, cut, ANSWER], HARNESS)
    assert [request["max_tokens"] for request in requests] == [2048, 4096, 8192]
    cut_call = calls(("add", '{"a": 2, "b": ')).but(finish_reason="length")
    _, requests = stage.play([cut_call, GOOD, ANSWER], HARNESS)
    assert [request["max_tokens"] for request in requests] == [2048, 4096, 2048]


@pytest.mark.parametrize("stream", [True, False])
def test_arguments_that_are_no_json_are_never_replayed(stage: Stage, stream: bool) -> None:
    script = [calls(("add", {"a": 1, "b": 1}), ("add", '{"a": 2, "b": ')), ANSWER]
    for owned_by in ("daneel", "someone"):
        result, requests = stage.play(script, HARNESS, owned_by=owned_by, stream=stream)
        assert [call.result for call in result.calls] == ["2", None]
        _, assistant, *answers = requests[1]["messages"]
        for call in assistant["tool_calls"]:
            json.loads(call["function"]["arguments"])
        if owned_by == "daneel":
            (failed,) = assistant["failed_tool_calls"]
            assert [answer["tool_call_id"] for answer in answers] == [assistant["tool_calls"][0]["id"], failed["id"]]
            assert failed["position"] == 1
        else:
            assert "failed_tool_calls" not in assistant
            assert '{"a": 2, "b": ' in assistant["content"]
            assert [answer["role"] for answer in answers] == ["tool", "user"]


def test_what_the_model_wrote_and_the_schema_are_in_the_reply(stage: Stage) -> None:
    _, requests = stage.play([calls(("add", {"a": "x", "b": 3})), ANSWER], HARNESS, owned_by="daneel")
    told = requests[1]["messages"][-1]["content"]
    assert '"a": "x"' in told
    assert '"type": "integer"' in told


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("owned_by", ["daneel", "someone"])
def test_a_call_without_a_name_is_never_replayed_as_a_call(stage: Stage, owned_by: str, stream: bool) -> None:
    finished, requests = stage.play([calls(("", {"a": 2})), GOOD, ANSWER], HARNESS, owned_by=owned_by, stream=stream)
    assert finished.stop_reason == "answered"
    assert [message.get("tool_calls") for message in requests[1]["messages"]] == [None] * 3
    assert "does not name a tool" in requests[1]["messages"][2]["content"]


def test_a_name_is_never_mapped_onto_another_tool(stage: Stage) -> None:
    @tool
    def add_up(a: int, b: int) -> int:
        """Add."""
        return 0

    @tool
    def addup(a: int, b: int) -> int:
        """Add."""
        return 0

    harness = Harness(tools=[add_up, addup])
    result, _ = stage.play([calls(("AddUp", {"a": 2, "b": 3})), ANSWER], harness, owned_by="daneel")
    assert [(call.name, call.result) for call in result.calls] == [("AddUp", None)]


def test_repair_can_be_switched_off(stage: Stage) -> None:
    harness = HARNESS.with_changes(recovery=Recovery(repair=False))
    for kind in ("trailing comma", "numbers as strings", "wrong case of the name"):
        result, _ = stage.play([REPAIRED[kind], ANSWER], harness, owned_by="daneel")
        assert [call.result for call in result.calls] == [None], kind


def test_json_quoted_in_an_answer_about_a_made_call_is_no_call(stage: Stage) -> None:
    quoted = 'I ran this:\n```json\n{"name": "add", "arguments": {"a": 2, "b": 3}}\n```\nand the sum is 5.'
    result, _ = stage.play([GOOD, text(quoted)], HARNESS, owned_by="someone")
    assert (result.stop_reason, result.answer, len(result.calls)) == ("answered", quoted, 1)


def test_thoughts_in_think_tags_are_no_part_of_the_answer(stage: Stage) -> None:
    for content in ("<think>2 and 3</think>\nIt is 5.", "2 and 3</think>\n\nIt is 5."):
        result, _ = stage.play([text(content)], HARNESS, owned_by="someone")
        assert result.answer == "It is 5."


def test_repairs_of_the_server_are_on_record(stage: Stage) -> None:
    repair = {"tool_call_id": "call_0_add", "kind": "fenced_json", "raw": "```json ...```"}
    issue = {"tool_call_id": "call_0_add", "type": "invalid_arguments", "message": "not an integer", "path": "/a"}
    flagged = calls(("add", {"a": "2", "b": 3}))
    flagged.message.update(repairs=[repair], tool_call_issues=[issue])
    result, _ = stage.play([flagged, ANSWER], HARNESS)
    assert [(event.data["repair"], event.data.get("by")) for event in result.events] == [
        ("fenced_json", "server"),
        ("values", None),
    ]
    assert [call.result for call in result.calls] == ["5"]  # "2" is 2: the harness decides, not the server's flag
