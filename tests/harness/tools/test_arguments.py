"""Checking arguments: strict, but for conversions that lose nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel import tool
from daneel.harness.tools.arguments import ArgumentsError


@tool
def f(
    n: int = 0,
    x: float = 0.0,
    s: str = "",
    b: bool = False,
    items: list[int] = [],  # noqa: B006
    table: dict[str, int] = {},  # noqa: B006
    maybe: int | None = None,
) -> str:
    """Everything."""
    return ""


@tool
def nothing() -> str:
    """No arguments."""
    return ""


@pytest.mark.parametrize(
    ("given_value", "read"),
    [
        ({"n": "3"}, {"n": 3}),
        ({"n": " -3 "}, {"n": -3}),
        ({"n": 3.0}, {"n": 3}),
        ({"x": 3}, {"x": 3.0}),
        ({"x": "2.5"}, {"x": 2.5}),
        ({"s": 12}, {"s": "12"}),
        ({"b": "True"}, {"b": True}),
        ({"items": "[1, 2]"}, {"items": [1, 2]}),
        ({"items": '["1", 2]'}, {"items": [1, 2]}),
        ({"table": '{"a": "1"}'}, {"table": {"a": 1}}),
        ({"maybe": None}, {"maybe": None}),
        ({"maybe": "4"}, {"maybe": 4}),
        ({"note": "", "n": 1}, {"n": 1}),
        ({}, {}),
    ],
)
def test_what_converts_without_loss(given_value: dict[str, Any], read: dict[str, Any]) -> None:
    bound = f.bind(given_value)
    assert bound.kwargs == read
    assert {name: type(value) for name, value in bound.kwargs.items()} == {name: type(value) for name, value in read.items()}
    assert bool(bound.conversions) == (json.dumps(given_value) != json.dumps(bound.arguments))


@pytest.mark.parametrize(
    ("given_value", "said"),
    [
        ({"n": 3.5}, 'argument "n": expected'),
        ({"n": True}, "got true"),
        ({"n": "three"}, 'got "three"'),
        ({"n": "1e3"}, 'got "1e3"'),
        ({"n": None}, "got null"),
        ({"x": "nan"}, 'got "nan"'),
        ({"s": 1.5}, "got 1.5"),
        ({"s": True}, "got true"),
        ({"b": 1}, "got 1"),
        ({"b": "yes"}, 'got "yes"'),
        ({"items": "1, 2"}, 'got "1, 2"'),
        ({"items": [1, "x"]}, 'argument "items.1"'),
        ({"table": "[]"}, 'argument "table"'),
        ({"extra": 0}, 'there is no argument "extra"'),
        ({"extra": False}, 'there is no argument "extra"'),
        ({"s": "x" * 500 + "\ud800"}, "argument"),
    ],
)
def test_what_does_not(given_value: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentsError) as caught:
        f.bind(given_value)
    assert said in caught.value.message
    assert len(caught.value.message) < 300


def test_several_faults_are_named_at_once() -> None:
    @tool
    def g(a: int, b: int, c: int, d: int, e: int) -> None:
        """G."""

    with pytest.raises(ArgumentsError, match=r'"a" is missing; .*"b" is missing; .*"c" is missing \(and 2 more'):
        g.bind({})


def test_the_echoed_schema_of_a_tool_without_parameters_is_no_argument() -> None:
    bound = nothing.bind({"type": "object", "properties": {}})
    assert (bound.kwargs, len(bound.conversions)) == ({}, 1)
    with pytest.raises(ArgumentsError, match="it takes no arguments"):
        nothing.bind({"timezone": "UTC"})
    with pytest.raises(ArgumentsError):
        nothing.bind({"type": "soft"})


@pytest.mark.parametrize("text", ["", "x", "[1]", "3", '{"n": "x"}'])
def test_validate_takes_json_text(text: str) -> None:
    assert f.validate('{"n": 3}') == {"n": 3}
    with pytest.raises(ArgumentsError):
        f.validate(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["n", "x", "s", "b", "items", "table", "maybe", "other"]), JSON, max_size=4))
def test_anything_is_bound_or_explained_and_never_invented(given_value: dict[str, Any]) -> None:
    before = json.dumps(given_value)
    try:
        bound = f.bind(given_value)
    except ArgumentsError:
        bound = f.bind({})
    assert set(bound.kwargs) <= set(given_value)
    assert type(bound.kwargs.get("n", 0)) is int
    assert type(bound.kwargs.get("s", "")) is str
    assert f.bind(bound.arguments).conversions == ()  # what is put into history is itself valid
    assert json.dumps(given_value) == before
