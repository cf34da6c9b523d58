"""Properties of the one splitter, for every family: whatever the text and the cuts, nothing is lost and nothing raises."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.joined import parse

from daneel.formats.base import Tool
from daneel.formats.registry import FAMILIES, get
from daneel.formats.validate import ToolSet

TOOLS = ToolSet(
    [
        Tool("now"),
        Tool("f", parameters={"type": "object", "properties": {"x": {}}, "required": ["x"]}),
    ]
)
PIECES = [
    "<tool_call>", "</tool_call>", "<|tool_call>", "<tool_call|>", "<think>", "</think>", "<|channel>", "<channel|>",
    "thought", "response", "\n", " ", "  \n", "call:", "call:f{", 'call:f{x:<|"|>', '<|"|>', "}", "{", "[", "]", ",", ":",
    '"', "\\", "```", "```json\n", "```\n", '{"name": "f", "arguments": {"x": 1}}', '{"name": "now", "arguments": {}}',
    '{"name": "g", "arguments": {}}', '{"name": "now"}', '{"name": ', '"arguments": {', "text", "é🎯", "<|im_end|>", "<turn|>",
    "<|tool_response>", "<tool", "<|", "1", "true", "None", "a:", '"x": "', "\\u00", "call:now{}", "`", "<", "x" * 300,
    " " * 300,
]  # fmt: skip

texts = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=14).map("".join),
    st.text(max_size=60),
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=4)), max_size=14).map("".join),
)


@pytest.mark.parametrize("name", sorted(FAMILIES))
@given(text=texts, data=st.data(), truncated=st.booleans(), in_reasoning=st.booleans(), rescue=st.booleans())
def test_any_text_is_conserved_and_cuts_do_not_matter(
    name: str, text: str, data: st.DataObject, truncated: bool, in_reasoning: bool, rescue: bool
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=6))
    how: dict[str, Any] = {"tools": TOOLS, "truncated": truncated, "in_reasoning": in_reasoning, "rescue": rescue}
    whole = parse(FAMILIES[name], text, **how)
    assert parse(FAMILIES[name], text, cuts, **how).events == whole.events
    assert parse(FAMILIES[name], text, range(len(text)), **how).events == whole.events
    for call in whole.calls:
        assert isinstance(json.loads(call.arguments), dict)


keys = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=':{},<" '), min_size=1, max_size=8).filter(
    str.strip
)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=20)
)
values = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)), max_leaves=8
)


def _has(value: Any, text: str) -> bool:
    return text in json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize("name", ["gemma4", "generic", "hermes"])  # the others: test_every_family.py, with schemas
@given(arguments=st.lists(st.dictionaries(keys, values, max_size=4), min_size=1, max_size=3), data=st.data())
def test_calls_that_the_family_writes_are_read_back(name: str, arguments: list[dict[str, Any]], data: st.DataObject) -> None:
    family = FAMILIES[name]
    if family.grammar.key == "gemma":
        arguments = [item for item in arguments if not any(marker in repr(item) for marker in ("<|", "|>"))]
    written = family.call.separator.join(family.write_call("some.name-1", json.dumps(item)) for item in arguments)
    cuts = data.draw(st.lists(st.integers(0, len(written)), max_size=6))
    got = parse(family, "Text. " + written, cuts)
    assert [json.loads(call.arguments) for call in got.calls] == arguments
    assert not got.failed
    assert got.content.strip() == "Text."


@pytest.mark.parametrize(
    ("family", "text", "content"),
    [
        ("hermes", "  a  ", "  a  "),
        ("hermes", "<think>\nwhy\n</think>\n\nHi \n", "Hi \n"),
        ("hermes", '\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>\n', ""),
        ("hermes", 'A \n<tool_call>{"name": "now", "arguments": {}}</tool_call>\n B', "A \n\n B"),
        ("gemma4", "<|channel>thought\n<channel|>Hi<turn|>", "Hi"),
        ("generic", "   ", "   "),
    ],
)
def test_white_space_at_the_seams(family: str, text: str, content: str) -> None:
    assert parse(get(family), text, tools=TOOLS).content == content


@pytest.mark.parametrize(
    ("family", "text", "reasoning", "content"),
    [
        ("hermes", "<think>a</think>b", "a", "b"),
        ("hermes", "x <think>a</think>b", "", "x <think>a</think>b"),
        ("hermes", "</think>b</think>", "", "b</think>"),
        ("hermes", "<think>a", "a", ""),
        ("hermes", "<think>a<think>b</think>c", "ab", "c"),
        ("hermes", "<think>I may write <tool_call></tool_call> tags</think>b", "I may write <tool_call></tool_call> tags", "b"),
        ("gemma4", "<|channel>thought\na<channel|>b<|channel>thought\nc<channel|>d", "ac", "bd"),
        ("gemma4", "<|channel>thoughts of mine<channel|>b", "thoughts of mine", "b"),
        ("gemma4", "<|channel>thought\na\n<|channel>response\nb", "a\n", "b"),
        ("gemma4", "<|channel>response\nb<channel|>c", "", "bc"),
    ],
)
def test_reasoning(family: str, text: str, reasoning: str, content: str) -> None:
    for cut in range(len(text)):
        got = parse(get(family), text, (cut,))
        assert (got.reasoning, got.content, got.calls, got.failed) == (reasoning, content, [], [])


CALL = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'


def test_a_call_in_reasoning_is_reasoning_if_the_block_is_closed_behind_it() -> None:
    got = parse(get("hermes"), f"<think>So {CALL} then </think>Done", tools=TOOLS)
    assert (got.reasoning, got.content, got.calls) == (f"So {CALL} then ", "Done", [])


def test_a_call_in_reasoning_ends_it_if_the_block_is_never_closed() -> None:
    got = parse(get("hermes"), f"<think>So \n{CALL}\n{CALL}", tools=TOOLS)
    assert (got.reasoning, got.content, len(got.calls)) == ("So \n", "", 2)


def test_a_closing_tag_inside_the_arguments_of_a_call_in_reasoning_does_not_count() -> None:
    text = '<think>So <tool_call>{"name": "f", "arguments": {"x": "</think>"}}</tool_call>'
    got = parse(get("hermes"), text, tools=TOOLS)
    assert [call.arguments for call in got.calls] == ['{"x": "</think>"}']


@pytest.mark.parametrize(
    ("body", "offset", "message"),
    [
        ("{'name': 'now'}", 1, "a key or '}'"),
        ('{"name": "now", "arguments": {},}', 32, "a key"),
        ('{"name": "f", "arguments": {"x": NaN}}', 33, "NaN"),
        ('{"name": "f", "arguments": {"x": 1, "x": 2}}', 36, "twice"),
        ('{"name": "f", "arguments": {"x": 1}', 35, "',' or '}'"),
        ('{"name": "f", "arguments": {"x": "a\nb"}}', 35, "line break"),
        ('{"name": "f", "arguments": {"x": "\\q"}}', 34, "escape"),
        ('{"name": "f", "arguments": [1]}', 27, "object"),
        ('{"name": "f", "arguments": "[1]"}', 27, "object"),
        ('{"name": "f"}', 12, "'arguments'"),
        ('{"name": "f", "x": 1}', 14, "'arguments'"),
        ('{"arguments": {}}', 16, "'name'"),
        ('{"name": 1, "arguments": {}}', 9, "'name'"),
        ('{"name": "f", "arguments": {"x": 01}}', 33, "01"),
        ("now()", 0, "'{'"),
        ('{"name": "now", "arguments": {}} and so', 33, "closing marker"),
    ],
)
def test_a_call_that_cannot_be_read_says_where_and_good_ones_beside_it_survive(body: str, offset: int, message: str) -> None:
    text = f"A{CALL}<tool_call>{body}</tool_call>B{CALL}C"
    for cut in range(len(text)):
        got = parse(get("hermes"), text, (cut,), tools=TOOLS)
        assert [call.name for call in got.calls] == ["now", "now"]
        (failed,) = got.failed
        assert failed.raw == f"<tool_call>{body}</tool_call>"
        assert (failed.offset, failed.error_type) == (len("<tool_call>") + offset, "malformed")
        assert message in failed.message
        assert got.content == "ABC"


def test_a_string_that_is_never_closed_does_not_swallow_what_follows() -> None:
    text = f'<tool_call>{{"name": "f", "arguments": {{"x": "a}}}}</tool_call> B {CALL}'
    got = parse(get("hermes"), text, tools=TOOLS)
    assert [call.name for call in got.calls] == ["now"]
    assert len(got.failed) == 1
    assert got.content == " B ".lstrip()


def test_a_closing_marker_inside_a_string_is_part_of_it() -> None:
    text = '<tool_call>{"name": "f", "arguments": {"x": "a</tool_call><tool_call>b"}}</tool_call>'
    assert [call.arguments for call in parse(get("hermes"), text).calls] == ['{"x": "a</tool_call><tool_call>b"}']


@pytest.mark.parametrize(
    ("body", "arguments", "repair"),
    [
        ('{"name": "f", "arguments": {"x": 5.0, "y":1e400 }}', '{"x": 5.0, "y":1e400 }', None),
        ('{"arguments": {"x": 1}, "name": "f"}', '{"x": 1}', None),
        ('{"name": "f", "parameters": {"x": 1}}', '{"x": 1}', "parameters_key"),
        ('{"name": "f", "arguments": "{\\"x\\": 1}"}', '{"x": 1}', "string_arguments"),
        ('{"name": "now"}', "{}", "no_arguments"),
        ('{"name": "f", "arguments": {"x": 1}}}', '{"x": 1}', "extra_braces"),
        ('{"name": "f", "arguments": {"x": 1}, "why": 2}', '{"x": 1}', "extra_keys"),
        ('[{"name": "f", "arguments": {"x": 1}}]', '{"x": 1}', "array_body"),
        ('{"name": "unheard_of", "arguments": {"x": 1}}', '{"x": 1}', None),
    ],
)
def test_what_is_certain_is_repaired_and_listed(body: str, arguments: str, repair: str | None) -> None:
    got = parse(get("hermes"), f"<tool_call>\n{body}\n</tool_call>", tools=TOOLS)
    assert [(call.arguments, call.repair) for call in got.calls] == [(arguments, repair)]
    assert not got.failed


@pytest.mark.parametrize("truncated", [True, False])
@pytest.mark.parametrize("end", ["", "\n", "\n</tool_ca", "\n<|im_end|>", "\n" + CALL])
def test_a_closing_marker_that_is_missing_behind_a_complete_body_is_a_repair(end: str, truncated: bool) -> None:
    text = '<tool_call>{"name": "f", "arguments": {"x": 1}}' + end
    for cut in range(len(text)):
        got = parse(get("hermes"), text, (cut,), tools=TOOLS, truncated=truncated)
        assert (got.calls[0].name, got.calls[0].repair) == ("f", "missing_close_marker")
        assert got.content == ""


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("hermes", "<tool_call>"),
        ("hermes", "<tool_call>\n"),
        ("hermes", '<tool_call>{"name": "f", "argu'),
        ("hermes", '<tool_call>{"name": "f", "arguments": {"x": "\\u00'),
        ("gemma4", "<|tool_call>ca"),
        ("gemma4", '<|tool_call>call:f{x:<|"|>a<|"'),
    ],
)
@pytest.mark.parametrize("by_limit", [True, False])
def test_a_call_that_generation_ended_inside(family: str, text: str, by_limit: bool) -> None:
    got = parse(get(family), "A" + text, truncated=by_limit)
    assert [(failed.raw, failed.error_type, failed.offset) for failed in got.failed] == [(text, "truncated", len(text))]
    assert got.content == "A"


def test_most_of_an_opening_marker_that_is_cut_off() -> None:
    for cut in range(8):
        got = parse(get("hermes"), "A <tool_c", (cut,), truncated=True)
        assert [(failed.raw, failed.error_type) for failed in got.failed] == [("<tool_c", "truncated")]
    assert parse(get("hermes"), "A <tool_c", truncated=False).content == "A <tool_c"
    assert parse(get("hermes"), "A <to", truncated=True).content == "A <to"


def test_an_opening_marker_that_no_call_follows_is_text() -> None:
    text = "Write <tool_call> and then " + "words " * 80
    assert parse(get("hermes"), text, tools=TOOLS).content == text
    assert (
        parse(get("hermes"), "an empty <tool_call></tool_call> pair", tools=TOOLS).content
        == "an empty <tool_call></tool_call> pair"
    )


def test_content_is_passed_on_at_once() -> None:
    parser = get("hermes").parser(TOOLS)
    assert [event.text for event in parser.feed("Hello, ")] == ["Hello, "]  # type: ignore[union-attr]
    assert [event.text for event in parser.feed("a < b\n{")] == ["a < b", "\n"]  # type: ignore[union-attr]
    assert [event.text for event in parser.feed('"x"')] == ['{"x"']  # type: ignore[union-attr]
    assert parser.feed("<tool_c") == []


def test_progress_of_a_call_is_told() -> None:
    parser = get("gemma4").parser(TOOLS)
    events = parser.feed('<|tool_call>call:f{x:<|"|>abc')
    assert events == [type(events[0])("f", 29)]
