"""Gemma 4's argument grammar: what its templates write, and where what they do not write is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.formats.joined import parse

from daneel.formats.base import Tool
from daneel.formats.registry import get
from daneel.formats.validate import ToolSet

OPEN, CLOSE = "<|tool_call>call:", "<tool_call|>"


def _written(value: str) -> str:
    return value.replace("'", '<|"|>')


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ("f{}", {}),
        ("f{ }", {}),
        ("f{a:'x',b:-7,c:3.14,d:1e+20,e:true,f:null}", {"a": "x", "b": -7, "c": 3.14, "d": 1e20, "e": True, "f": None}),
        (
            "f{o:{k:'v',n:{z:1}},l:[1,'two',{x:true},[false],[]]}",
            {"o": {"k": "v", "n": {"z": 1}}, "l": [1, "two", {"x": True}, [False], []]},
        ),
        ("f{a b:1,x-y:2}", {"a b": 1, "x-y": 2}),
        ("f{a: 'x', b: [ 1 , 2 ] , c : {} }", {"a": "x", "b": [1, 2], "c": {}}),
        ("f{a:''}", {"a": ""}),
        ("f{a:'\"\\n{}[],:<tool_call|>\n'}", {"a": '"\\n{}[],:<tool_call|>\n'}),
        ("f{a:'<|\"|'}", {"a": '<|"|'}),
        ("ns.get-it{a:1}", {"a": 1}),
    ],
)
def test_arguments(body: str, arguments: dict[str, Any]) -> None:
    text = OPEN + _written(body) + CLOSE
    for cut in range(len(text)):
        (call,) = parse(get("gemma4"), text, (cut,)).calls
        assert json.loads(call.arguments) == arguments
        assert (call.name, call.repair) == (body.split("{")[0], None)


def test_numbers_stay_as_written() -> None:
    (call,) = parse(get("gemma4"), OPEN + "f{a:5.0,b:1e400}" + CLOSE).calls
    assert call.arguments == '{"a": 5.0, "b": 1e400}'


def test_the_older_templates_none_is_read_and_listed() -> None:
    (call,) = parse(get("gemma4"), OPEN + "f{a:None}" + CLOSE).calls
    assert (call.arguments, call.repair) == ('{"a": null}', "python_none")


@pytest.mark.parametrize(
    ("body", "at", "message"),
    [
        ("f{a:Paris}", "Paris", "a value"),
        ('f{"a":1}', '"', "without quotes"),
        ("f{a:1,}", "}", "a key"),
        ("f{a:1,a:2}", "a:2", "twice"),
        ("f{a:'x'y'}", "y", "','"),
        ("f{a:1", "<tool_call|>", "','"),
        ("f{:1}", ":1", "a key or '}'"),
        ("f{a:}", "}", "a value"),
        ("f(a=1)", "(", "'{'"),
        ("{}", "{}", "name"),
        ("f{a:[1 2]}", "2]", "','"),
        ("f{a:nan}", "nan", "a value"),
    ],
)
def test_what_cannot_be_read_says_where(body: str, at: str, message: str) -> None:
    text = OPEN + _written(body) + CLOSE
    for cut in range(len(text)):
        got = parse(get("gemma4"), text + "Then", (cut,))
        (failed,) = got.failed
        assert (failed.raw, failed.offset) == (text, text.index(at, len(OPEN)))
        assert message in failed.message
        assert got.content == "Then"


def test_what_models_were_seen_to_add() -> None:
    call = OPEN + "f{}" + CLOSE
    for text, names in [
        (call + CLOSE + "<|tool_response>", ["f"]),
        (call + call + "<turn|>", ["f", "f"]),
        (OPEN + "f{}call:g{}" + CLOSE, ["f", "g"]),
        ("<|channel>thought<channel|><|channel>" + call, ["f"]),
    ]:
        got = parse(get("gemma4"), text)
        assert ([item.name for item in got.calls], got.content, got.failed) == (names, "", [])


DELIMITED = ToolSet(
    [
        Tool(
            "f",
            parameters={
                "type": "object",
                "properties": {
                    "s": {"type": "string"},
                    "n": {"type": "integer"},
                    "b": {"type": "boolean"},
                    "o": {"type": "object", "properties": {"n": {"type": "number"}}},
                    "l": {"type": "array", "items": {"type": "integer"}},
                    "free": {},
                },
            },
        )
    ]
)


@pytest.mark.parametrize(
    ("body", "arguments", "repair"),
    [
        ("f{s:'5',n:5,b:true}", {"s": "5", "n": 5, "b": True}, None),
        ("f{s:'5',n:'5',b:'True'}", {"s": "5", "n": 5, "b": True}, "delimited_value"),
        ("f{o:{n:'1.5'},l:['1',2],free:'7'}", {"o": {"n": 1.5}, "l": [1, 2], "free": "7"}, "delimited_value"),
        ("f{o:'{\"n\": 1}',l:'[1, 2]'}", {"o": {"n": 1}, "l": [1, 2]}, "delimited_value"),
        ("f{n:'five',unknown:'1'}", {"n": "five", "unknown": "1"}, None),
    ],
)
def test_functiongemma_delimits_every_value_and_the_schema_says_what_it_is(
    body: str, arguments: dict[str, Any], repair: str | None
) -> None:
    text = "<start_function_call>call:" + body.replace("'", "<escape>") + "<end_function_call><end_of_turn>"
    for cut in range(len(text)):
        (call,) = parse(get("functiongemma"), text, (cut,), tools=DELIMITED).calls
        assert (json.loads(call.arguments), call.repair) == (arguments, repair)


def test_gemma4_coerces_nothing() -> None:
    text = OPEN + _written("f{n:'5'}") + CLOSE
    (call,) = parse(get("gemma4"), text, tools=DELIMITED).calls
    assert json.loads(call.arguments) == {"n": "5"}
    assert DELIMITED.issues("f", call.arguments)


def test_nothing_is_known_of_the_types_without_tools() -> None:
    text = "<start_function_call>call:g{l:[<escape>5<escape>,{a:<escape>x<escape>}],n:1}<end_function_call>"
    (call,) = parse(get("functiongemma"), text).calls
    assert json.loads(call.arguments) == {"l": ["5", {"a": "x"}], "n": 1}
