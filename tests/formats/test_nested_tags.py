"""Calls as nested tags behind a prefix: what the tool's schema makes of them, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from daneel.formats.base import Tool
from daneel.formats.nested_tags import NestedTagGrammar
from daneel.formats.scan import MAX_DEPTH
from daneel.formats.validate import ToolSet

GRAMMAR = NestedTagGrammar("]~[", "tool_call")
UNKNOWN = ToolSet(None)


def tags(text: str) -> str:
    """`text` with the prefix before every tag; a tag that is text is written with `‹` and `›`."""
    return text.replace("<", "]~[<").replace("‹", "<").replace("›", ">")


def scan(text: str, tools: ToolSet) -> tuple[str | None, tuple[str, ...], str]:
    """The arguments, the repairs and what is wrong, as one piece and character by character."""
    found = []
    for size in (len(text), 1):
        scanner = GRAMMAR.scanner(tools)
        rest, read = "", 0
        for at in range(0, len(text), size):
            rest += text[at : at + size]
            end = scanner.feed(rest, 0)
            read, rest = read + end, rest[end:]
            if scanner.done or scanner.error:
                break
        if scanner.done:
            [item] = scanner.calls(text[:read])
            found.append((item.arguments, item.repairs, text[read:]))  # type: ignore[union-attr]
        else:
            scanner.finish()
            assert not scanner.done
            error = scanner.error
            found.append((None, (), f"{error.offset}: {error.message}" if error else scanner.expected))
    assert found[0] == found[1]
    return found[0]


def value(inside: str, schema: dict[str, Any] | None) -> Any:
    """The one argument `a` of a call, of this schema."""
    properties = {"a": schema} if schema is not None else {}
    tools = ToolSet([Tool("f", parameters={"type": "object", "properties": properties})])
    arguments, repairs, rest = scan(tags(f'<invoke name="f"><a>{inside}</a></invoke>'), tools)
    assert (repairs, rest) == ((), "")
    return json.loads(arguments or "")["a"]


STRINGS = {"type": "array", "items": {"type": "string"}}
OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}


@pytest.mark.parametrize(
    ("inside", "schema", "expected"),
    [
        ("x", {"type": "string"}, "x"),
        (" x\n\n", {"type": "string"}, " x\n\n"),
        ("", {"type": "string"}, ""),
        ("\n", {"type": "string"}, "\n"),
        ("‹b›x‹/b›‹/a› ]~ ]‹", {"type": "string"}, "<b>x</b></a> ]~ ]<"),
        ("1", {"type": "string"}, "1"),
        ("1", {"type": "integer"}, 1),
        ("one", {"type": "integer"}, "one"),
        ("true", {"type": "boolean"}, True),
        ("1", None, "1"),
        ("<item>1</item><item>2</item>", STRINGS, ["1", "2"]),
        ("\n<item>1</item>\n<item>2</item>\n", STRINGS, ["1", "2"]),
        ("<item>1</item>", STRINGS, ["1"]),
        ("<item>1</item>", None, ["1"]),
        ("<item>1</item>", OBJECT, {"item": "1"}),
        ("<item>1</item>", {"type": "object", "properties": {"item": {"type": "integer"}}}, {"item": 1}),
        ("", STRINGS, []),
        ("\n", OBJECT, {}),
        ('["x"]', STRINGS, ["x"]),
        ("<n>1</n><s>1</s><t>1</t>", OBJECT, {"n": 1, "s": "1", "t": "1"}),
        ("<n>1</n>", {"anyOf": [{"type": "integer"}, OBJECT]}, {"n": 1}),
        ("1", {"anyOf": [{"type": "integer"}, OBJECT]}, 1),
        ("<item><n>1</n></item>", {"type": "array", "items": OBJECT}, [{"n": 1}]),
        ("<n>1</n><item>2</item>", OBJECT, {"n": 1, "item": "2"}),
        ("null", {"type": ["string", "null"]}, None),
    ],
)
def test_the_schema_tells_what_tags_mean(inside: str, schema: dict[str, Any] | None, expected: Any) -> None:
    assert value(inside, schema) == expected


@pytest.mark.parametrize(
    "inside",
    [
        "<a>1</b></a>",
        "<a>1</a><a>2</a>",
        "<a>x<b>1</b></a>",
        "<a><b>1</b>x</a>",
        "<a><item>1</item><item>2</item><b>1</b></a>",
        "<a><b>1</b><item>1</item><item>2</item></a>",
        "<a>1</invoke>",
        "x",
        "<a>1</a>x",
        "< >1</ >",
    ],
)
def test_what_is_not_certain_is_malformed(inside: str) -> None:
    arguments, _, said = scan(tags(f'<invoke name="f">{inside}</invoke>'), UNKNOWN)
    assert arguments is None
    assert said[0].isdigit()


def test_a_prefix_that_begins_no_tag_is_malformed() -> None:
    assert scan(tags('<invoke name="f"><a>1') + "]~[x" + tags("</a></invoke>"), UNKNOWN)[0] is None
    assert scan(tags('<invoke name="f"><') + "x" * 2000, UNKNOWN)[0] is None


def test_only_the_call_s_own_end_may_be_missing() -> None:
    for following in ('<invoke name="g">', "</tool_call>"):
        arguments, repairs, rest = scan(tags(f'<invoke name="f"><a>1</a>\n{following}'), UNKNOWN)
        assert (arguments, repairs, rest) == ('{"a": "1"}', ("missing_end_tag",), tags(following))
        assert scan(tags(f'<invoke name="f"><a>1{following}'), UNKNOWN)[0] is None
    assert scan(tags('<invoke name="f"><a>1</a>'), UNKNOWN)[0] is None


def test_a_parameter_may_be_called_invoke() -> None:
    assert scan(tags('<invoke name="f"><invoke>1</invoke></invoke>'), UNKNOWN) == ('{"invoke": "1"}', (), "")


def test_depth_is_limited() -> None:
    def deep(levels: int) -> str:
        return tags('<invoke name="f">' + "<a>" * levels + "</a>" * levels + "</invoke>")

    assert scan(deep(MAX_DEPTH), UNKNOWN)[0] is not None
    assert "deeper" in scan(deep(MAX_DEPTH + 1), UNKNOWN)[2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (' \n]~[<invoke name="f">', "yes"),
        ("]~", "more"),
        ("]~[<invoke ", "more"),
        ("]~[<invoke>", "no"),
        ("<invoke name=", "no"),
    ],
)
def test_head(text: str, expected: str) -> None:
    assert GRAMMAR.head(text, 0) == expected


def test_what_is_written_is_read() -> None:
    given = '{"n": 1e400, "s": "<b>\\n", "list": ["a", "1"], "o": {"k": {"x": true}, "none": null}, "e": [], "z": {}}'
    inner = {"type": "object", "properties": {"x": {"type": "boolean"}}}
    properties = {
        "n": {"type": "number"},
        "s": {"type": "string"},
        "list": STRINGS,
        "o": {"type": "object", "properties": {"k": inner, "none": {"type": "null"}}},
        "e": {"type": "array"},
        "z": {"type": "object"},
    }
    tools = ToolSet([Tool("f", parameters={"type": "object", "properties": properties})])
    assert scan(GRAMMAR.write("f", given), tools) == (given, (), "")
