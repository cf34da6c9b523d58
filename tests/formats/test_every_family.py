"""What holds for every row of the registry: any text is conserved at any cut, and what a family writes it reads back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.joined import parse

from daneel.formats.base import Tool
from daneel.formats.family import Family
from daneel.formats.registry import FAMILIES
from daneel.formats.validate import ToolSet

NAMES = sorted(FAMILIES)
TOOLS = ToolSet(
    [
        Tool("get_weather", parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}),
        Tool("now"),
    ]
)
FRAGMENTS = (
    "get_weather", "now", "functions.get_weather:0", "other", "city", "Paris", "Zürich", "🎉", "1", "null", "true", "x",
    "{", "}", "[", "]", "(", ")", '"', "'", "\\", ",", ":", "=", "<", ">", "</", "/>", "|", "`", "```", "```json", " ", "\n",
    "\n\n", "\t", "\r\n", "\u2028", '{"name": "now", "arguments": {}}', '{"city": "Paris"}', '{"name": "get_weather", ',
    "[get_weather(city='Paris')]", "json", "name", "arguments", "<think>", "</think>",
)  # fmt: skip


def _pieces_of(family: Family) -> tuple[str, ...]:
    """Texts that mean something to the family, whole and broken off."""
    call = family.write_calls([("get_weather", '{"city": "Paris"}')])
    calls = family.write_calls([("now", "{}"), ("get_weather", '{"city": "a\\"b"}')])
    return (*family.markers, call, calls, call[: len(call) // 2], call[len(call) // 3 :])


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_any_text_is_conserved_at_any_cut(name: str, data: st.DataObject) -> None:
    family = FAMILIES[name]
    piece = st.one_of(st.sampled_from(_pieces_of(family)), st.sampled_from(FRAGMENTS), st.text(max_size=5))
    text = "".join(data.draw(st.lists(piece, max_size=12)))
    tools = data.draw(st.sampled_from([None, TOOLS]))
    inside, truncated = data.draw(st.booleans()), data.draw(st.booleans())
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    whole = parse(family, text, tools=tools, in_reasoning=inside, truncated=truncated)
    assert parse(family, text, cuts, tools=tools, in_reasoning=inside, truncated=truncated).events == whole.events
    for call in whole.calls:
        assert isinstance(json.loads(call.arguments), dict)
        assert call.name in text


keys = st.from_regex(r"[a-z][a-z0-9_]{0,7}", fullmatch=True)
TEXT_FREE_OF = {"json": "", "named-json": ""}
"""By grammar: characters that its strings are not given here, because some families cannot write them. Tests of the grammars
themselves say exactly which texts those are."""

ONE_TYPE_PER_ARRAY = {"nested-tags"}
"""By grammar: where an element's type is the schema's to tell, as no quote does, a union of types does not tell it."""


def _arguments(family: Family) -> st.SearchStrategy[dict[str, Any]]:
    without = TEXT_FREE_OF.get(family.grammar.key, "<>|[]`\x85\u2028\u2029")
    text = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=without), max_size=12)
    if without:
        text = text.map(str.strip)
    numbers = st.one_of(st.integers(-(10**12), 10**12), st.floats(-1e9, 1e9, allow_nan=False).map(lambda x: round(x, 3)))
    scalars = st.one_of(st.booleans(), numbers, text)
    elements = [st.booleans(), numbers, text] if family.grammar.key in ONE_TYPE_PER_ARRAY else [scalars]
    nested = st.one_of(*(st.lists(element, max_size=3) for element in elements), st.dictionaries(keys, scalars, max_size=3))
    return st.dictionaries(keys, st.one_of(scalars, nested), max_size=4)


def _schema(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return {"type": "object", "properties": {key: _schema(item) for key, item in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "items": {"anyOf": [_schema(item) for item in value]}} if value else {"type": "array"}
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string"}
    return {"type": kinds[type(value)]}


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_what_a_family_writes_it_reads_back(name: str, data: st.DataObject) -> None:
    family = FAMILIES[name]
    given_calls = data.draw(st.lists(_arguments(family), min_size=1, max_size=3))
    calls = [(f"tool_{number}", arguments) for number, arguments in enumerate(given_calls)]
    tools = ToolSet([Tool(tool, parameters=_schema(arguments)) for tool, arguments in calls])
    written = family.write_calls([(tool, json.dumps(arguments, ensure_ascii=False)) for tool, arguments in calls])
    before = "" if family.call.bare else data.draw(st.sampled_from(["", "Text. "]))
    cuts = data.draw(st.lists(st.integers(0, len(before + written)), max_size=6))
    got = parse(family, before + written, cuts, tools=tools)
    assert [(call.name, json.loads(call.arguments)) for call in got.calls] == calls
    assert not got.failed
    assert got.content.strip() == before.strip()
