"""Declared tools: what is wrong with a call, and with a declaration."""

from __future__ import annotations

from typing import Any

import pytest

from daneel.formats.base import Tool
from daneel.formats.validate import MAX_ISSUES, ToolSet


def _tools(**properties: Any) -> ToolSet:
    return ToolSet([Tool("f", parameters={"type": "object", "properties": properties, "required": ["x"]}), Tool("now")])


def test_a_call_that_may_be_dispatched() -> None:
    assert _tools(x={"type": "integer"}).issues("f", '{"x": 1, "more": 2}') == []
    assert _tools().issues("now", "{}") == []


def test_an_unknown_tool() -> None:
    (issue,) = _tools().issues("g", "{}")
    assert (issue.type, issue.path) == ("unknown_tool", None)
    assert "f, now" in issue.message
    assert not _tools().declared("g")


def test_without_knowledge_of_tools_every_name_is_declared() -> None:
    assert ToolSet(None).declared("g")
    assert ToolSet(None).issues("g", "{}") == []
    assert not ToolSet([]).declared("g")


@pytest.mark.parametrize(
    ("arguments", "path", "message"),
    [
        ("{}", "", '"x" is a required'),
        ('{"x": "1"}', "/x", "integer"),
        ('{"x": 5.5}', "/x", "integer"),
        ('{"x": true}', "/x", "integer"),
        ("[1]", "", "object"),
        ("{", "", "not JSON"),
    ],
)
def test_arguments_that_break_the_schema(arguments: str, path: str, message: str) -> None:
    (issue,) = _tools(x={"type": "integer"}).issues("f", arguments)
    assert (issue.type, issue.path) == ("invalid_arguments", path)
    assert message in issue.message


def test_paths_are_json_pointers_and_messages_short() -> None:
    tools = _tools(x={"type": "object", "properties": {"a/b~": {"type": "array", "items": {"type": "string"}}}})
    (issue,) = tools.issues("f", '{"x": {"a/b~": ["y", {"z": "%s"}]}}' % ("long " * 1000))
    assert issue.path == "/x/a~1b~0/1"
    assert len(issue.message) < 400


def test_issues_are_counted_up_to_a_limit() -> None:
    tools = _tools(x={"type": "array", "items": {"type": "string"}})
    assert len(tools.issues("f", '{{"x": [{}]}}'.format(",".join("1" * 50)))) == MAX_ISSUES


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 5000])
def test_numbers_beyond_a_float_are_numbers(number: str) -> None:
    assert _tools(x={"type": "number"}).issues("f", f'{{"x": {number}}}') == []


@pytest.mark.parametrize(
    "schema", [{"pattern": "("}, {"properties": 3}, {"$ref": "http://localhost:9/x"}, {"$ref": "file:///x"}]
)
def test_a_broken_declaration_names_the_tool(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="'f'"):
        ToolSet([Tool("f", parameters={"type": "object", "properties": {"x": schema}})])


def test_a_tool_declared_twice() -> None:
    with pytest.raises(ValueError, match="twice"):
        ToolSet([Tool("f"), Tool("f")])


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "str"}, '"a"'),
        ({"type": "float"}, "1.5"),
        ({"type": {"$0": "string"}}, "1"),
        ({"type": "string", "nullable": True}, "null"),
        ({"$ref": "#/$defs/y"}, "1"),
        ({"type": ["int", "null"]}, "null"),
    ],
)
def test_spellings_that_people_use(schema: dict[str, Any], value: str) -> None:
    parameters = {"type": "object", "properties": {"x": schema}, "$defs": {"y": {"type": "int"}}}
    assert ToolSet([Tool("f", parameters=parameters)]).issues("f", f'{{"x": {value}}}') == []


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "STRING"}, '"a"'),
        ({"type": "Integer"}, "1"),
        ({"type": "double"}, "1.5"),
        ({"type": "int64"}, "1"),
        ({"type": "tuple"}, "[1]"),
        ({"type": "any"}, "[1]"),
        ({"type": "timestamp"}, '"a"'),
        ({"type": ["str", "none"]}, "null"),
        ({"type": ["str", "timestamp"]}, "1"),
        ({"type": None}, "1"),
        ({"type": "string", "enum": None, "required": True}, '"a"'),
        ("integer", "1"),
        (None, "1"),
        ({"type": "array", "items": {"type": "Str"}}, '["a"]'),
    ],
)
def test_types_by_other_names_and_words_left_empty(schema: Any, value: str) -> None:
    assert _tools(x=schema).issues("f", f'{{"x": {value}}}') == []


@pytest.mark.parametrize("schema", [{"type": "STRING"}, {"type": ["Str", "none"]}, "text", {"enum": [None, "a"]}])
def test_a_type_by_another_name_still_constrains(schema: Any) -> None:
    assert [issue.path for issue in _tools(x=schema).issues("f", '{"x": 1}')] == ["/x"]
