"""Values without quotes: the schema decides what they are, and nothing is guessed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.formats.typed_value import argument_schema, item_schema, kinds_of, read_typed

STRING: dict[str, Any] = {"type": "string"}
INTEGER: dict[str, Any] = {"type": "integer"}
OBJECT: dict[str, Any] = {"type": "object"}
ANY: dict[str, Any] = {}
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "schema", "expected"),
    [
        ("5", STRING, "5"),
        ("null", STRING, "null"),
        ('"quoted"', STRING, '"quoted"'),
        (" spaced\n", STRING, " spaced\n"),
        ("5", None, "5"),
        ("5", ANY, 5),
        ("plain", ANY, "plain"),
        ("5", INTEGER, 5),
        (" 5\n", INTEGER, 5),
        ("five", INTEGER, "five"),
        ("", INTEGER, ""),
        ("05", INTEGER, "05"),
        ("null", INTEGER, None),
        ("1e5", {"type": "number"}, 1e5),
        ("NaN", {"type": "number"}, "NaN"),
        ("True", {"type": "boolean"}, True),
        ("false", {"type": "boolean"}, False),
        ("yes", {"type": "boolean"}, "yes"),
        ("{'a': [1, None, 'it\\'s']}", OBJECT, {"a": [1, None, "it's"]}),
        ('{"a": 1, "a": 2}', OBJECT, '{"a": 1, "a": 2}'),
        ("['a', \"b\",]", {"type": "array"}, ["a", "b"]),
        ("[1, 2", {"type": "array"}, "[1, 2"),
        ("{1: 2}", OBJECT, "{1: 2}"),
    ],
)
def test_one_type(text: str, schema: dict[str, Any] | None, expected: Any) -> None:
    got = json.loads(read_typed(text, schema))
    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize(
    ("text", "schema", "expected"),
    [
        ("null", {"type": ["string", "null"]}, None),
        ("None", {"anyOf": [STRING, {"type": "null"}]}, None),
        ("none", {"type": ["string", "null"]}, "none"),
        ("1.50", {"anyOf": [STRING, OBJECT]}, "1.50"),
        ('{"a": 1}', {"anyOf": [STRING, OBJECT]}, {"a": 1}),
        ("5", {"oneOf": [STRING, INTEGER]}, "5"),
        ("5", {"oneOf": [INTEGER, STRING]}, 5),
        ("5", {"anyOf": [{"type": "integer", "minimum": 10}, STRING]}, "5"),
        ("1.5", {"type": ["integer", "string"]}, "1.5"),
        ("celsius", {"enum": ["celsius", "fahrenheit"]}, "celsius"),
        ("5", {"enum": ["5", 5]}, "5"),
        ("6", {"enum": ["5", 6]}, 6),
        ("7", {"const": 7}, 7),
        ("3", {"allOf": [{"$ref": "#/$defs/n"}], "$defs": {"n": INTEGER}}, 3),
        ("3", {"$ref": "#/$defs/s", "$defs": {"s": STRING}}, "3"),
        ("{}", {"properties": {"a": INTEGER}}, {}),
        ("x", {"$ref": "#"}, "x"),
    ],
)
def test_unions_take_the_first_branch_that_the_value_satisfies(text: str, schema: dict[str, Any], expected: Any) -> None:
    got = json.loads(read_typed(text, schema))
    assert got == expected
    assert type(got) is type(expected)


def test_numbers_stay_as_they_are_written() -> None:
    assert read_typed("1.50", {"type": "number"}) == "1.50"
    assert read_typed("9" * 6000, INTEGER) == "9" * 6000


def test_depth_is_limited() -> None:
    assert json.loads(read_typed("[" * 5000 + "]" * 5000, {"type": "array"})) == "[" * 5000 + "]" * 5000
    assert json.loads(read_typed("{'a': " * 5000, OBJECT)) == "{'a': " * 5000


def test_lookup_follows_unions_and_references() -> None:
    schema = {
        "anyOf": [{"$ref": "#/$defs/one"}, {"type": "object", "properties": {"b": STRING}}],
        "$defs": {"one": {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}, "b": INTEGER}}, "n": INTEGER},
    }
    assert kinds_of(argument_schema(schema, "a")) == ("integer",)
    assert set(kinds_of(argument_schema(schema, "b"))) == {"integer", "string"}
    assert argument_schema(schema, "c") is None
    assert argument_schema({"additionalProperties": INTEGER}, "c") == INTEGER
    assert argument_schema({"properties": {"a": True}}, "a") == ANY
    assert argument_schema({"$ref": "#"}, "a") is None
    assert item_schema({"type": "array", "items": STRING}) == STRING
    assert kinds_of(None) == ("string",)


@given(JSON_VALUES)
def test_json_of_any_value_is_read_where_the_schema_wants_it(value: Any) -> None:
    kinds = {dict: "object", list: "array", bool: "boolean", type(None): "null", int: "integer", float: "number"}
    kind = kinds.get(type(value), "string")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    assert json.loads(read_typed(text, {"type": kind})) == value


@given(JSON_VALUES.filter(lambda value: not isinstance(value, str)))
def test_python_s_repr_is_read_as_the_value_or_left_as_text(value: Any) -> None:
    kinds = {dict: "object", list: "array", bool: "boolean", type(None): "null", int: "integer", float: "number"}
    got = json.loads(read_typed(repr(value), {"type": kinds[type(value)]}))
    assert got in (value, repr(value))


@given(st.text(), st.sampled_from([None, ANY, STRING, INTEGER, OBJECT, {"type": ["null", "array", "string"]}]))
def test_any_text_gives_json(text: str, schema: dict[str, Any] | None) -> None:
    json.loads(read_typed(text, schema))
