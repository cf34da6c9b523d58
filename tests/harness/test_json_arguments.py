"""Arguments text: what is repaired is certain, and what is not certain is not repaired."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.harness.json_arguments import read_arguments


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('{"a": 1,}', {"a": 1}),
        ("{'a': 'x'}", {"a": "x"}),
        ("{'a': 'it\\'s \"so\"'}", {"a": 'it\'s "so"'}),
        ('{a: 1, "b": [1, 2,],}', {"a": 1, "b": [1, 2]}),
        ("{'a': True, 'b': False, 'c': None}", {"a": True, "b": False, "c": None}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('{"a": 1 /* one */, // end\n}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ("{'}': ',]'}", {"}": ",]"}),
        ("{'a': -1.5e3, }", {"a": -1500.0}),
    ],
)
def test_a_wider_grammar_is_read(text: str, arguments: dict[str, Any]) -> None:
    read = read_arguments(text)
    assert (read.arguments, read.repair) == (arguments, "json")
    assert read_arguments(text, repair=False).arguments is None


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "b":',
        '{"a": 1, "b": "x',
        '{"a": 1',
        '{"a": {"b": 1}',
        "{'a': 'it's'}",
        '{"a": "he said "hi" to me"}',
        '{"a": 1 "b": 2}',
        '{"a": 1}{"a": 2}',
        '{"a": 1}, "b": 2}',
        '{"a": 1} "b": 2',
        '{"a": 1} {"b"',
        '{"a": 1} b: 2',
        "{“a”: “x}",
        '{"a": “x"}',
        '{"a": 1, "a": 2}',
        "{'a': 1, 'a': 2}",
        '{"a": NaN}',
        '{"a": 01}',
        '{"a": 1_000}',
        '{"a": yes}',
        '{"a"}',
        "{,}",
        "{]",
        "hello",
        "[1, 2]",
        "3",
        '"text"',
        '{"a": "\\ud800"}',
        '{"a": 1e999}',
        "{'a': 1e999}",
        "[" * 100_000,
        "{'a':" * 500,
    ],
)
def test_what_has_several_readings_or_none_is_an_error(text: str) -> None:
    read = read_arguments(text)
    assert read.arguments is None
    assert read.error


@pytest.mark.parametrize(
    ("text", "arguments", "repair"),
    [
        ('{“a”: 2, ‘b’: “it\'s "so"”}', {"a": 2, "b": 'it\'s "so"'}, "json"),
        ('{"a"：2，"b"：[3]｝', {"a": 2, "b": [3]}, "json"),
        ("{'a': 'caf\\xe9'}", {"a": "café"}, "json"),
        ('{"a": 1} and more', {"a": 1}, "trailing_text"),
        ('{"a": 1}\n\nI hope that\'s all: a "sum".', {"a": 1}, "trailing_text"),
        ('{"a": {"b": 1}}}', {"a": {"b": 1}}, "trailing_text"),
        ('{"a": 1}</tool_call>', {"a": 1}, "trailing_text"),
        ('{"a": 1}<|im_end|>', {"a": 1}, "trailing_text"),
        ('{"a": 1}\n```', {"a": 1}, "trailing_text"),
        ('{"a": 1}{"a": 1}', {"a": 1}, "said_twice"),
        ('[{"a": 1}]', {"a": 1}, "list_of_one"),
        (json.dumps(json.dumps('{"a": 1}')), {"a": 1}, "json_in_string"),
        (json.dumps("{'a': 1}"), {"a": 1}, "json_in_string"),
    ],
)
def test_what_stands_around_the_object_says_nothing_of_it(text: str, arguments: dict[str, Any], repair: str) -> None:
    read = read_arguments(text)
    assert (read.arguments, read.repair) == (arguments, repair)
    assert read_arguments(text, repair=False).arguments is None


@pytest.mark.parametrize("text", ["", " \n", "null"])
def test_absent_arguments_are_none_given(text: str) -> None:
    assert read_arguments(text).arguments == {}


def test_json_inside_a_string() -> None:
    read = read_arguments(json.dumps('{"a": 1}'))
    assert (read.arguments, read.repair) == ({"a": 1}, "json_in_string")
    assert read_arguments(json.dumps("")).arguments is None


OBJECTS = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


@given(OBJECTS)
def test_json_is_read_as_it_is(value: dict[str, Any]) -> None:
    read = read_arguments(json.dumps(value))
    assert (read.arguments, read.repair) == (value, None)


@given(OBJECTS)
def test_pythons_own_notation_is_read_or_refused_but_never_misread(value: dict[str, Any]) -> None:
    read = read_arguments(repr(value))
    assert read.arguments in (value, None)


@given(OBJECTS, st.data())
def test_a_text_cut_anywhere_is_never_repaired(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value)
    cut = data.draw(st.integers(1, len(text) - 1))
    assert read_arguments(text[:cut]).arguments is None


@given(st.text(alphabet="{}[]:,\"'\\ab1 \ntruenl/*`", max_size=40))
def test_any_text_is_read_or_explained(text: str) -> None:
    read = read_arguments(text)
    assert (read.arguments is None) == (read.error is not None)
