"""Broken calls of `add(a: int, b: int)`, each whole and streamed, from daneel's server and another: none lost, none crashes.

`FIFTEEN` are the kinds that agent stacks are measured with; `MORE` are what else models and servers were seen to send. A call
is *repaired* when it is made without another turn, *told* when the model hears what was wrong and makes it in the next.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.scripted_server import Reply, calls, chunk, sse, text
from tests.support.stage import Stage

from daneel import Harness, tool


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


HARNESS = Harness(tools=[add])
GOOD = calls(("add", {"a": 2, "b": 3}))
ANSWER = text("The sum is 5.")
ARGUMENTS = '{"a": 2, "b": 3}'
CALL = f'{{"name": "add", "arguments": {ARGUMENTS}}}'


def one(function: dict[str, Any], **more: Any) -> Reply:
    """A call as a server sent it, field by field."""
    call = {"id": "c1", "type": "function", "function": function, **more}
    message = {"role": "assistant", "content": None, "tool_calls": [{k: v for k, v in call.items() if v is not ...}]}
    return Reply(message=message, finish_reason="tool_calls")


QWEN_XML = (
    "<tool_call>\n<function=add>\n<parameter=a>\n2\n</parameter>\n<parameter=b>\n3\n</parameter>\n</function>\n</tool_call>"
)

FIFTEEN: dict[str, tuple[Reply, str]] = {
    "trailing comma": (calls(("add", '{"a": 2, "b": 3,}')), "repaired"),
    "single quotes": (calls(("add", "{'a': 2, 'b': 3}")), "repaired"),
    "truncated arguments": (calls(("add", '{"a": 2, "b": ')), "told"),
    "numbers as strings": (calls(("add", {"a": "2", "b": "3"})), "repaired"),
    "extra argument": (calls(("add", {"a": 2, "b": 3, "c": 4})), "told"),
    "missing argument": (calls(("add", {"a": 2})), "told"),
    "empty arguments": (calls(("add", "")), "told"),
    "wrong case of a name": (calls(("ADD", {"a": 2, "b": 3})), "repaired"),
    "unknown tool": (calls(("sum_up", {"a": 2, "b": 3})), "told"),
    "arguments as object": (one({"name": "add", "arguments": {"a": 2, "b": 3}}), "repaired"),
    "no id": (one({"name": "add", "arguments": ARGUMENTS}, id=...), "repaired"),
    "call as JSON text": (text(CALL), "repaired"),
    "call as hermes text": (text(f"<tool_call>\n{CALL}\n</tool_call>"), "repaired"),
    "call as Qwen XML text": (text(QWEN_XML), "repaired"),
    "empty message": (text(""), "told"),
}

MORE: dict[str, tuple[Reply, str]] = {
    # names
    "namespace before the name": (calls(("functions.add", {"a": 2, "b": 3})), "repaired"),
    "namespace and number": (calls(("functions.add:0", {"a": 2, "b": 3})), "repaired"),
    "name in quotes": (calls(("`add`", {"a": 2, "b": 3})), "repaired"),
    "name with brackets": (calls((" add()", {"a": 2, "b": 3})), "repaired"),
    "name with a marker behind it": (calls(("add<|channel|>commentary", {"a": 2, "b": 3})), "repaired"),
    "name that only begins alike": (calls(("add_numbers", {"a": 2, "b": 3})), "told"),
    "name inside another": (calls(("ad", {"a": 2, "b": 3})), "told"),
    "empty name": (calls(("", {"a": 2, "b": 3})), "told"),
    # arguments
    "wrong case of argument names": (calls(("add", {"A": 2, "B": 3})), "repaired"),
    "both cases of an argument's name": (calls(("add", {"a": 2, "A": 4, "b": 3})), "told"),
    "JSON in a string": (calls(("add", json.dumps(ARGUMENTS))), "repaired"),
    "JSON in a string in a string": (calls(("add", json.dumps(json.dumps(ARGUMENTS)))), "repaired"),
    "arguments in an array": (calls(("add", f"[{ARGUMENTS}]")), "repaired"),
    "two sets of arguments in an array": (calls(("add", f'[{ARGUMENTS}, {{"a": 4, "b": 5}}]')), "told"),
    "values in an array": (calls(("add", "[2, 3]")), "told"),
    "arguments in arguments": (calls(("add", {"arguments": {"a": 2, "b": 3}})), "repaired"),
    "arguments in parameters": (calls(("add", {"parameters": {"a": 2, "b": 3}})), "repaired"),
    "arguments in a string in arguments": (calls(("add", {"arguments": ARGUMENTS})), "repaired"),
    "the whole call as its arguments": (calls(("add", CALL)), "repaired"),
    "another tool's call as its arguments": (calls(("add", {"name": "sub", "arguments": {"a": 2, "b": 3}})), "told"),
    "typographic quotes": (calls(("add", "{“a”: 2, “b”: 3}")), "repaired"),
    "trailing text": (calls(("add", f"{ARGUMENTS} I hope that helps.")), "repaired"),
    "trailing bracket": (calls(("add", f"{ARGUMENTS}}}")), "repaired"),
    "trailing arguments": (calls(("add", '{"a": 2}, "b": 3}')), "told"),
    "arguments twice": (calls(("add", ARGUMENTS * 2)), "repaired"),
    "two different arguments": (calls(("add", ARGUMENTS + '{"a": 4, "b": 5}')), "told"),
    "fenced arguments": (calls(("add", f"```json\n{ARGUMENTS}\n```")), "repaired"),
    "numbers with spaces": (calls(("add", {"a": " 2", "b": "3 "})), "repaired"),
    "numbers with a fraction of nothing": (calls(("add", {"a": "2.0", "b": 3.0})), "repaired"),
    "a number in words": (calls(("add", {"a": "two", "b": 3})), "told"),
    "a number with a fraction": (calls(("add", {"a": 2.5, "b": 3})), "told"),
    "a boolean for a number": (calls(("add", {"a": True, "b": 3})), "told"),
    "a boolean in words for a number": (calls(("add", {"a": "true", "b": 3})), "told"),
    "a list for a number": (calls(("add", {"a": [2], "b": 3})), "told"),
    "null for a number": (calls(("add", {"a": None, "b": 3})), "told"),
    "NaN": (calls(("add", '{"a": NaN, "b": 3}')), "told"),
    "an extra argument that is empty": (calls(("add", {"a": 2, "b": 3, "note": ""})), "repaired"),
    "only the closing brace missing": (calls(("add", '{"a": 2, "b": 3')), "told"),
    # text
    "call in the thoughts": (text("", reasoning=f"I add.\n<tool_call>\n{CALL}\n</tool_call>"), "repaired"),
    "JSON in the thoughts": (text("", reasoning=f"I could write {CALL}"), "told"),
    "fenced JSON text": (text(f"Sure:\n```json\n{CALL}\n```"), "repaired"),
    "array of one call": (text(f"[{CALL}]"), "repaired"),
    "Python dict": (text(f"{json.loads(CALL)}"), "repaired"),
    "Python dict in a fence": (text(f"```python\n{json.loads(CALL)}\n```"), "repaired"),
    "Python dict between hermes markers": (text(f"<tool_call>\n{json.loads(CALL)}\n</tool_call>"), "repaired"),
    "parameters for arguments": (text(f'{{"name": "add", "parameters": {ARGUMENTS}}}'), "repaired"),
    "OpenAI's own form": (text(f'{{"type": "function", "function": {CALL}}}'), "repaired"),
    "OpenAI's list": (text(f'{{"tool_calls": [{{"id": "1", "type": "function", "function": {CALL}}}]}}'), "repaired"),
    "tool and args": (text('{"tool": "add", "args": {"a": 2, "b": 3}}'), "repaired"),
    "name as the key": (text('{"add": {"a": 2, "b": 3}}'), "repaired"),
    "arguments beside the name": (text('{"name": "add", "a": 2, "b": 3}'), "repaired"),
    "thought beside the call": (text(f'{{"thought": "I add.", "action": "add", "action_input": {ARGUMENTS}}}'), "repaired"),
    "hermes without its end": (text(f"<tool_call>\n{CALL}"), "repaired"),
    "hermes with a broken body": (text('<tool_call>\n{"name": "add", "arguments": {"a": 2\n</tool_call>'), "told"),
    "XML with attributes": (
        text('<function name="add"><parameter name="a">2</parameter><parameter name="b">3</parameter></function>'),
        "repaired",
    ),
    "XML with the arguments as an attribute": (text("""<tool_call name="add" arguments='{"a": 2, "b": 3}'/>"""), "repaired"),
    "XML with the arguments as attributes": (text('<tool name="add" a="2" b="3"/>'), "repaired"),
    "XML with the tool's own tags": (text("I add.\n<add>\n<a>2</a>\n<b>3</b>\n</add>"), "repaired"),
    "XML with JSON inside": (text(f'<function_call name="add">{ARGUMENTS}</function_call>'), "repaired"),
    "Llama 3.1's tag": (text(f"<function=add>{ARGUMENTS}</function>"), "repaired"),
    "invoke": (
        text('<invoke name="add"><parameter name="a">2</parameter><parameter name="b">3</parameter></invoke>'),
        "repaired",
    ),
    "Qwen XML without markers": (text(QWEN_XML.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>")), "repaired"),
    "Gemma 4": (text("<|tool_call>call:add{a:2,b:3}<tool_call|>"), "repaired"),
    "Gemma 4 without its markers": (text("call:add{a:2,b:3}"), "repaired"),
    "Mistral, array": (text(f"[TOOL_CALLS][{CALL}]"), "repaired"),
    "Mistral, name and arguments": (text(f"[TOOL_CALLS]add[ARGS]{ARGUMENTS}"), "repaired"),
    "GLM": (
        text(
            "<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>2</arg_value>\n<arg_key>b</arg_key>\n<arg_value>3</arg_value>\n</tool_call>"
        ),
        "repaired",
    ),
    "pythonic": (text("add(a=2, b=3)"), "repaired"),
    "pythonic, positional": (text("add(2, 3)"), "repaired"),
    "pythonic, list": (text("[add(a=2, b=3)]"), "repaired"),
    "pythonic in a fence": (text("```tool_code\nprint(add(a=2, b=3))\n```"), "repaired"),
    "pythonic, a line among prose": (text("I add them now.\n\nadd(a=2, b=3)"), "repaired"),
    "pythonic with an expression": (text("add(a=1+1, b=3)"), "told"),
    "name and JSON": (text(f"add {ARGUMENTS}"), "repaired"),
    "action and its input": (text(f"Thought: I add.\nAction: add\nAction Input: {ARGUMENTS}\nObservation: 6"), "repaired"),
    "announced": (text("I will call the add tool with 2 and 3."), "told"),
    # structure
    "no type": (one({"name": "add", "arguments": ARGUMENTS}, type=...), "repaired"),
    "no index": (one({"name": "add", "arguments": ARGUMENTS}, index=None), "repaired"),
    "null arguments": (one({"name": "add", "arguments": None}), "told"),
    "the wrong finish reason": (GOOD.but(finish_reason="stop"), "repaired"),
    "cut off by the limit": (calls(("add", '{"a": 2, "b": ')).but(finish_reason="length"), "told"),
    "whole, though the limit was reached": (GOOD.but(finish_reason="length"), "repaired"),
    "blank message": (text(" \n "), "told"),
    "only thoughts": (text("", reasoning="What do I do?"), "told"),
}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


def outcome(stage: Stage, reply: Reply, *, stream: bool, owned_by: str) -> str:
    """`repaired`, `told` or `lost`. Whatever else comes of it is an error."""
    script: list[Any] = [
        reply,
        lambda request: ANSWER if request["messages"][-1]["role"] == "tool" and _is_five(request) else GOOD,
    ]
    result, requests = stage.play([*script, ANSWER], HARNESS, owned_by=owned_by, stream=stream)
    assert result.stop_reason == "answered", result.detail
    for request in requests:  # arguments that are no JSON are never replayed
        for message in request["messages"]:
            for call in message.get("tool_calls", ()):
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
    made = [call for call in result.calls if call.result is not None]
    assert {json.dumps(call.arguments) for call in made} <= {ARGUMENTS}, "made with arguments that were not given"
    if not made:
        return "lost"
    return "repaired" if result.turns == 2 else "told"


def _is_five(request: dict[str, Any]) -> bool:
    return request["messages"][-1]["content"] == "5"


@pytest.mark.parametrize("owned_by", ["daneel", "someone"])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", [*FIFTEEN, *MORE])
def test_no_call_is_lost(stage: Stage, kind: str, stream: bool, owned_by: str) -> None:
    reply, expected = {**FIFTEEN, **MORE}[kind]
    assert outcome(stage, reply, stream=stream, owned_by=owned_by) == expected


def test_nine_of_the_fifteen_are_repaired_without_a_turn(stage: Stage) -> None:
    for stream in (True, False):
        outcomes = [outcome(stage, reply, stream=stream, owned_by="someone") for reply, _ in FIFTEEN.values()]
        assert len(outcomes) == 15
        assert outcomes.count("lost") == 0
        assert outcomes.count("repaired") >= 9


TWO = calls(("add", {"a": 2, "b": 3}), ("add", {"a": 4, "b": 5}))
SECOND = CALL.replace("2", "4").replace("3}", "5}")
SEVERAL = {
    "as calls": (TWO, ["5", "9"]),
    "in one fence": (text(f"```json\n{CALL}\n{SECOND}\n```"), ["5", "9"]),
    "in two fences": (text(f"```json\n{CALL}\n```\nand\n```json\n{SECOND}\n```"), ["5", "9"]),
    "as lines of JSON": (text(f"{CALL}\n{SECOND}"), ["5", "9"]),
    "as an array": (text(f"[{CALL}, {SECOND}]"), ["5", "9"]),
    "as Python dicts": (text(f"[{json.loads(CALL)}, {json.loads(SECOND)}]"), ["5", "9"]),
    "as Python": (text("add(a=2, b=3)\nadd(a=4, b=5)"), ["5", "9"]),
    "as Python in a list": (text("[add(a=2, b=3), add(4, 5)]"), ["5", "9"]),
    "as hermes text": (text(f"<tool_call>\n{CALL}\n</tool_call>\n<tool_call>\n{SECOND}\n</tool_call>"), ["5", "9"]),
    "one call twice": (calls(("add", {"a": 2, "b": 3}), ("add", {"a": 2, "b": 3})), ["5", "5"]),
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", SEVERAL)
def test_several_calls_in_one_reply_are_all_made(stage: Stage, kind: str, stream: bool) -> None:
    reply, results = SEVERAL[kind]
    result, _ = stage.play([reply, ANSWER], HARNESS, owned_by="someone", stream=stream)
    assert (result.stop_reason, [call.result for call in result.calls]) == ("answered", results)


def test_a_model_that_does_not_stop_calling_is_told_so(stage: Stage) -> None:
    many = text("\n".join(f"add(a={n}, b=3)" for n in range(500)))
    result, requests = stage.play([many, ANSWER], HARNESS, owned_by="someone")
    assert result.stop_reason == "answered"
    limit = HARNESS.recovery.max_calls_per_reply
    assert [call.result is not None for call in result.calls] == [n < limit for n in range(len(result.calls))]
    assert f"only the first {limit}" in requests[1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    "answer",
    [
        "The sum is 5.",
        f"To add, write {CALL} in your reply.",
        '{"sum": 5}',
        '{"name": "Ada", "age": 36}',
        '```json\n{"result": 5}\n```',
        "```python\ndef add(a, b):\n    return a + b\n```",
        "```python\nx = add(2, 3)\nprint(x)\n```",
        "5 = 2 + 3",
        "[2, 3]",
        "The tags <tool_call> and </tool_call> mark a call.",
        "Action: none is needed",
    ],
)
def test_an_answer_is_no_call(stage: Stage, answer: str) -> None:
    result, _ = stage.play([GOOD, text(answer)], HARNESS, owned_by="someone")
    assert (result.stop_reason, result.answer, len(result.calls)) == ("answered", answer, 1)


def test_an_endless_loop_ends_by_the_sixth_call(stage: Stage) -> None:
    for reply in (GOOD, text(CALL), calls(("Add", "{'a': 2, 'b': 3,}"))):
        for stream in (True, False):
            for owned_by in ("daneel", "someone"):
                result, _ = stage.play([reply] * 20, HARNESS.with_changes(max_turns=None), owned_by=owned_by, stream=stream)
                assert result.stop_reason == "loop"
                assert len(result.calls) <= 6
                assert [event.data["grade"] for event in result.events if event.kind == "detected"][-1] == "stop"


@pytest.mark.parametrize("kind", ["reasoning", "content"])
def test_a_reply_that_only_repeats_itself_is_ended_while_it_streams(stage: Stage, kind: str) -> None:
    line = "I will think about it once more. "
    frames = [chunk({kind: "Let me see. "}), *[chunk({kind: line}) for _ in range(5000)], chunk({}, finish_reason="stop")]
    result, requests = stage.play([sse(*frames), ANSWER], HARNESS)
    assert (result.stop_reason, result.answer, result.turns) == ("answered", "The sum is 5.", 2)
    (firing,) = [event.data for event in result.events if event.kind == "detected"]
    assert (firing["detector"], firing["grade"]) == ("repeating_text", "note")
    kept = requests[1]["messages"][1][kind]
    assert kept.startswith("Let me see. I will think")
    assert len(kept) < 200
    assert "repeated yourself" in requests[1]["messages"][2]["content"]
    assert ("chat_template_kwargs" in requests[1]) == (kind == "reasoning")


def test_a_model_that_only_repeats_itself_ends_as_a_loop(stage: Stage) -> None:
    frames = [*[chunk({"content": "la " * 50}) for _ in range(100)], chunk({}, finish_reason="stop")]
    result, _ = stage.play([sse(*frames)] * 9, HARNESS)
    assert (result.stop_reason, result.turns) == ("loop", 3)


def test_a_whole_reply_that_repeats_itself_up_to_the_limit_is_found_as_well(stage: Stage) -> None:
    endless = text("Well. " + "I think so. " * 500).but(finish_reason="length")
    result, requests = stage.play([endless, ANSWER], HARNESS, stream=False)
    assert result.answer == "The sum is 5."
    assert len(requests[1]["messages"][1]["content"]) < 100


def test_a_call_before_the_repetition_is_made(stage: Stage) -> None:
    endless = text(f"<tool_call>\n{CALL}\n</tool_call>\n" * 400).but(finish_reason="length")
    result, _ = stage.play([endless, ANSWER], HARNESS, owned_by="someone", stream=False)
    assert {call.result for call in result.calls} == {"5"}
    assert len(result.calls) <= 2
