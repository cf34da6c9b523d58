"""Arguments against a tool's own JSON schema: what converts without loss does, and all else is said."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.harness.tools.arguments import ArgumentsError
from daneel.harness.tools.json_schema import SchemaError, binder

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "name": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "list": {"type": "array", "items": {"type": "number"}},
        "flag": {"type": "boolean"},
        "deep": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
    },
    "required": ["n"],
    "additionalProperties": False,
}
BIND = binder(SCHEMA)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"n": 1}, {"n": 1}),
        ({"n": "3"}, {"n": 3}),
        ({"n": 1, "name": 5}, {"n": 1, "name": "5"}),
        ({"n": 1, "name": None}, {"n": 1, "name": None}),
        ({"n": 1, "flag": None}, {"n": 1}),
        ({"n": 1, "flag": "true"}, {"n": 1, "flag": True}),
        ({"n": 1, "list": '["1", 2]'}, {"n": 1, "list": [1.0, 2]}),
        ({"n": 1, "deep": '{"x": "2"}'}, {"n": 1, "deep": {"x": 2}}),
        ({"n": 1, "more": ""}, {"n": 1}),
    ],
)
def test_conversions(written: dict[str, Any], read: dict[str, Any]) -> None:
    before = repr(written)
    bound = BIND(written)
    assert bound.kwargs == bound.arguments == read
    assert bool(bound.conversions) == (repr(read) != before)
    assert repr(written) == before, "what the model wrote stays as it was"


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ({}, 'argument "n" is missing'),
        ({"n": None}, 'argument "n" is missing'),
        ({"n": 1.5}, 'argument "n": 1.5 is not of type "integer"'),
        ({"n": "x"}, 'argument "n": "x" is not of type "integer"'),
        ({"n": 1, "more": 2}, 'there is no argument "more" (there are "n", "name", "list", "flag", "deep")'),
        ({"n": 1, "more": 0}, 'there is no argument "more"'),
        ({"n": 1, "deep": {}}, 'argument "deep.x" is missing'),
    ],
)
def test_complaints(written: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ArgumentsError) as caught:
        BIND(written)
    assert complaint in caught.value.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["n", "name", "list", "flag", "deep", "more"]), JSON))
def test_what_is_bound_fits_the_schema_and_binds_again_as_it_is(written: dict[str, Any]) -> None:
    try:
        bound = BIND(written)
    except ArgumentsError:
        return
    again = BIND(bound.arguments)
    assert again.arguments == bound.arguments
    assert again.conversions == ()


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "no such type"},
        {"properties": {"x": {"$ref": "http://127.0.0.1:9/x"}}},
        {"properties": {"x": {"$ref": "file:///etc/passwd"}}},
        {"properties": {"x": {"pattern": "("}}},
    ],
)
def test_schemas_that_cannot_be_used(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        binder(schema)


def test_a_pattern_that_backtracks_for_ever_ends() -> None:
    bind = binder({"type": "object", "properties": {"x": {"type": "string", "pattern": r"^(?=a)(a|aa)+\1$"}}})
    with pytest.raises(ArgumentsError):
        bind({"x": "a" * 5000 + "!"})
