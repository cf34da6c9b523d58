"""Calls written as JSON, as code and as XML of a model's own: what is read is what was written, and what is no call is none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel import tool
from daneel.harness.json_calls import WrittenCall, as_calls, calls_at, other_readings
from daneel.harness.python_calls import action_call, code_calls
from daneel.harness.tools.registry import Tool
from daneel.harness.xml_calls import xml_calls


@tool
def put(text: str, n: int = 0, tags: list[str] | None = None, more: dict[str, Any] | None = None) -> None:
    """Put."""


@tool
def now() -> None:
    """Now."""


@tool
def tag(name: str) -> None:
    """A tool whose argument is called like the key of a call's name."""


TOOLS: list[Tool] = [put, now, tag]
Pairs = list[tuple[str, Any]] | None


def pairs(calls: list[WrittenCall] | None) -> Pairs:
    return None if calls is None else [(call.name, json.loads(call.arguments)) for call in calls]


A = {"text": "a"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"name": "put", "arguments": A}, [("put", A)]),
        ({"name": "put", "arguments": json.dumps(A)}, [("put", A)]),
        ({"name": "put", "arguments": A, "id": "1", "type": "function"}, [("put", A)]),
        ({"function": {"name": "put", "arguments": A}}, [("put", A)]),
        ({"function_call": {"name": "put", "parameters": A}}, [("put", A)]),
        (
            {"tool_calls": [{"function": {"name": "put", "arguments": A}}, {"name": "now", "arguments": {}}]},
            [("put", A), ("now", {})],
        ),
        ({"put": A}, [("put", A)]),
        ({"now": {}}, [("now", {})]),
        ({"name": "now"}, [("now", {})]),
        ({"name": "now", "arguments": None}, [("now", {})]),
        ({"tool": "put", "text": "a"}, [("put", A)]),
        ({"tool": "tag", "name": "x"}, [("tag", {"name": "x"})]),
        ({"tag": {"name": "x"}}, [("tag", {"name": "x"})]),
        ([{"name": "put", "arguments": A}], [("put", A)]),
        # no call, or none that fits
        ({"name": "put", "arguments": {"n": 1}}, None),
        ({"name": "put", "arguments": A, "comment": "x"}, None),
        ({"name": "put"}, None),
        ({"name": "nothing", "arguments": {}}, None),
        ({"name": "Ada", "age": 36}, None),
        ({"put": "a"}, None),
        ({"put": A, "now": {}}, None),
        ([{"name": "put", "arguments": A}, 3], None),
        ([], []),
        ({}, None),
        ("put", None),
        (None, None),
    ],
)
def test_shapes_of_json(value: Any, expected: Pairs) -> None:
    assert as_calls(value, TOOLS) == expected


def test_json_is_read_to_the_last_character_or_not_at_all() -> None:
    one = '{"name": "put", "arguments": {"text": "a"}}'
    assert pairs(calls_at(f"x {one}\n{one};", 2, TOOLS)) == [("put", A), ("put", A)]
    assert calls_at(f"{one} and more", 0, TOOLS) is None
    assert calls_at("", 0, TOOLS) is None
    assert calls_at(one * 1000, 0, TOOLS) is None  # no reply holds so many


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('put(text="a")', [("put", A)]),
        ("put('a')", [("put", A)]),
        ("put('a', 3)", [("put", {"text": "a", "n": 3})]),
        (
            'put("a", tags=["b"], more={"d": [1, -2.5, true, None]})',
            [("put", {**A, "tags": ["b"], "more": {"d": [1, -2.5, True, None]}})],
        ),
        ("put(\n  text='a',\n)", [("put", A)]),
        ("[put('a'), now()]", [("put", A), ("now", {})]),
        ("now()\nput('a')", [("now", {}), ("put", A)]),
        ("print(now())", [("now", {})]),
        ("functions.put(text='a')", [("put", A)]),
        ("put('a');", [("put", A)]),
        ('put{"text": "a"}', [("put", A)]),
        ('put({"text": "a"})', [("put", A)]),
        ("call:put{text: 'a'}", [("put", A)]),
        ('put: {"text": "a"}', [("put", A)]),
        # code that is more than a call, or a call that does not fit
        ("x = now()", None),
        ("now() + 1", None),
        ("put(now())", None),
        ("put('a' + 'b')", None),
        ("put(f'{x}')", None),
        ("put(*x)", None),
        ("put(**x)", None),
        ("put('a', text='b')", None),
        ("put('a', 1, [], {}, 5)", None),
        ("put(n=1)", None),
        ("put(text=b'a')", None),
        ("now(", None),
        ("nothing()", None),
        ("now() is the time", None),
        ("import os; now()", None),
        ("(lambda: now())()", None),
        ("put('\\ud800')", None),
        ("put(text=" + "(" * 500 + "'a'" + ")" * 500 + ")", None),
        ("", None),
    ],
)
def test_code(text: str, expected: Pairs) -> None:
    found = pairs(code_calls(text, TOOLS))
    if expected is not None:
        expected = [(f"functions.{name}" if text.startswith("functions.") else name, given) for name, given in expected]
    assert found == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('Action: put\nAction Input: {"text": "a"}', [("put", A)]),
        ('Thought: x\nAction: put\nAction Input: {"text": "a"}\nObservation: done', [("put", A)]),
        ('Action: put\nAction Input: {"text": "a"}\nFinal Answer: b', None),
        ('Action: put\nAction Input: {"n": 1}', None),
        ("Action: put\nAction Input: a", None),
        ('Action: put\nAction Input: {"text": "a"}\nAction: put\nAction Input: {"text": "b"}', None),
    ],
)
def test_action(text: str, expected: Pairs) -> None:
    assert pairs(action_call(text, TOOLS)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<function name="put"><parameter name="text">a</parameter></function>', [("put", A)]),
        ('<tool_call name="put" arguments=\'{"text": "a"}\'/>', [("put", A)]),
        ('<tool name="put" text="a" n="3" />', [("put", {"text": "a", "n": "3"})]),
        ("<put><text>a</text></put>", [("put", A)]),
        ("<now/>", [("now", {})]),
        ("<now></now>", [("now", {})]),
        ("<put><arguments><text>a &amp; b</text></arguments></put>", [("put", {"text": "a & b"})]),
        ('<put>{"text": "a"}</put>', [("put", A)]),
        ("<tool_calls><now/>\n<put><text>a</text></put></tool_calls>", [("now", {}), ("put", A)]),
        ("<put><text>a</text><text>b</text></put>", None),
        ("<put><n>1</n></put>", None),
        ("<put><text>a</text>", None),
        ("<put>a</put>", None),
        ("<now/> is a tag", None),
        ("<p>now</p>", None),
        ('<function name="nothing"/>', None),
        ("now", None),
    ],
)
def test_xml(text: str, expected: Pairs) -> None:
    assert pairs(xml_calls(text, TOOLS)) == expected


WORDS = [
    "put",
    "now",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "<put>",
    "</put>",
    "<now/>",
    '"text"',
    "text",
    "=",
    ":",
    ",",
    "'a'",
    "\n",
    " ",
    "1",
]


@given(st.lists(st.sampled_from(WORDS), max_size=14).map("".join))
def test_any_text_is_read_or_left_alone(text: str) -> None:
    for found in (calls_at(text, 0, TOOLS), code_calls(text, TOOLS), xml_calls(text, TOOLS), action_call(text, TOOLS)):
        for call in found or ():
            assert 0 <= call.start < call.end <= len(text)
            assert isinstance(json.loads(call.arguments), dict)


@given(
    st.dictionaries(
        st.sampled_from(["text", "Text", "n", "N", "x", "arguments", "name", "put"]), st.sampled_from([1, "a", "put", A])
    )
)
def test_another_reading_holds_only_what_was_given(arguments: dict[str, Any]) -> None:
    given = json.dumps(arguments)
    for _, reading in other_readings(put, arguments):
        for value in reading.values():
            assert json.dumps(value) in given


@given(
    st.dictionaries(st.sampled_from(["text", "more"]), st.just({"a": [1, {}]}) | st.text('a}]{[" ,', max_size=5), min_size=1),
    st.sampled_from(["now", "put"]),
    st.booleans(),
)
def test_a_call_that_lacks_only_its_own_end_is_read(given_: dict[str, Any], first: str, in_a_list: bool) -> None:
    arguments = {"text": str(given_.get("text", "x")), "more": {"a": given_}}
    call = json.dumps({"name": "put", "arguments": arguments})
    before = json.dumps({"name": first, "arguments": {"text": "b"} if first == "put" else {}}) + ", " if in_a_list else ""
    expected = ([(first, {"text": "b"} if first == "put" else {})] if in_a_list else []) + [("put", arguments)]
    for text in [f"[{before}{call[:-1]}]", f"[{before}{call}", f"[{before}{call[:-1]}"] if in_a_list else [call[:-1]]:
        assert pairs(calls_at(text, 0, TOOLS)) == expected
    for cut in range(1, len(call) - 1):
        assert pairs(calls_at(before + call[:cut], 0, TOOLS)) is None, "arguments that are cut off are not whole"


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "put", "text": {"a": 1}',  # arguments beside the name: more of them may have been meant
        '{"name": "put", "arguments": {"text": "a"',
        '{"name": "put", "arguments": {"more": {"a": 1}',
        '{"name": "put", "arguments": {"text": "a"}}}',
        '{"name": "put", "arguments": {"text": "a"}] and so on',
        '{"name": "put", "arguments": {"text": "a"}, "id": "3"',
        "[[[[{",
        "]",
        "{",
        "",
    ],
)
def test_what_lacks_more_than_an_end_is_no_call(text: str) -> None:
    assert calls_at(text, 0, TOOLS) is None
