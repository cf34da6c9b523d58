"""Decoding grammars of Gemma's arguments: they admit what the schema does, as the parser reads it."""

from __future__ import annotations

import json
from typing import Any

import llguidance
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.joined import parse
from tests.formats.test_call_grammar import TOKENIZER, _accepts

from daneel.formats.base import Tool
from daneel.formats.registry import get
from daneel.formats.validate import ToolSet

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "unit": {"enum": ["c", "f", None, 3]},
        "nested": {"type": "object", "properties": {"k": {"type": ["string", "null"]}}, "required": ["k"]},
        "tree": {"type": "array", "items": {"$ref": "#/$defs/node"}, "minItems": 1, "maxItems": 2},
        "Any": {},
        "free": {"type": "object"},
        "flags": {"type": "object", "additionalProperties": {"type": "boolean"}},
    },
    "required": ["city"],
    "$defs": {"node": {"anyOf": [{"type": "number"}, {"type": "array", "items": {"$ref": "#/$defs/node"}}]}},
}
TOOL = Tool("weather", parameters=SCHEMA)
FAMILIES = ["gemma4", "functiongemma"]


def _written(family: str, arguments: dict[str, Any]) -> str:
    """The arguments in the order in which the family decodes them."""
    order = sorted(SCHEMA["properties"], key=str.lower) if family == "gemma4" else list(SCHEMA["properties"])
    ordered = {key: arguments[key] for key in sorted(arguments, key=lambda key: order.index(key) if key in order else 99)}
    return get(family).write_calls([("weather", json.dumps(ordered, ensure_ascii=False))])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("arguments", "admitted"),
    [
        ({"city": 'Pa"ris\n{},:\\'}, True),
        ({"city": ""}, True),
        ({}, False),
        ({"city": 5}, False),
        ({"city": "x", "days": -3}, True),
        ({"city": "x", "days": 1.5}, False),
        ({"city": "x", "days": "1"}, False),
        ({"city": "x", "unit": 3}, True),
        ({"city": "x", "unit": "f"}, True),
        ({"city": "x", "unit": "k"}, False),
        ({"city": "x", "nested": {"k": None}}, True),
        ({"city": "x", "nested": {}}, False),
        ({"city": "x", "tree": [1, [2.5, []]]}, True),
        ({"city": "x", "tree": []}, False),
        ({"city": "x", "tree": [1, 2, 3]}, False),
        ({"city": "x", "tree": ["1"]}, False),
        ({"city": "x", "Any": {"x": [1, None, {"y": "z"}, True]}, "free": {"a": "b"}, "flags": {"f": False}}, True),
        ({"city": "x", "flags": {"f": 1}}, False),
        ({"city": "x", "other": 1}, False),
    ],
)
def test_arguments(family: str, arguments: dict[str, Any], admitted: bool) -> None:
    grammar = get(family).call_grammar([TOOL], choice="required", parallel=False, marker=json.dumps)
    text = _written(family, arguments)
    assert _accepts(grammar, text) is admitted
    if admitted:
        (call,) = parse(get(family), text, tools=ToolSet([TOOL])).calls
        assert json.loads(call.arguments) == arguments
        assert not ToolSet([TOOL]).issues("weather", call.arguments)


@pytest.mark.parametrize("family", FAMILIES)
def test_markers_may_be_special_tokens(family: str) -> None:
    grammar = get(family).call_grammar([TOOL], choice="required", parallel=True, marker=lambda text: f"<[{len(text)}]>")
    assert f"<[{len(get(family).grammar.delimiter)}]>" in grammar  # type: ignore[attr-defined]
    assert not llguidance.LLMatcher.validate_grammar(grammar, TOKENIZER)


schemas = st.recursive(
    st.sampled_from(
        [{}, True, {"type": "string"}, {"type": "integer"}, {"type": "null"}, {"const": [1, "x"]}, {"$ref": "#/nowhere"}]
    ),
    lambda inner: st.one_of(
        st.builds(lambda item: {"type": "array", "items": item}, inner),
        st.builds(lambda items: {"anyOf": items}, st.lists(inner, max_size=3)),
        st.builds(
            lambda found, needed: {"properties": found, "required": needed},
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.lists(st.sampled_from("abcd"), max_size=2),
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(["a", "b b", "C"]), schemas, max_size=3))
def test_any_schema_has_a_valid_grammar(properties: dict[str, Any]) -> None:
    tool = Tool("f", parameters={"type": "object", "properties": properties})
    grammar = get("gemma4").call_grammar([tool], choice="f", parallel=True, marker=json.dumps)
    assert not llguidance.LLMatcher.validate_grammar(grammar, TOKENIZER)
