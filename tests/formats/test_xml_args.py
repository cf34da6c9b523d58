"""`<function=NAME>` blocks: what ends a value, what may be missing, and what is no call."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.joined import Joined, parse

from daneel.formats.base import Tool
from daneel.formats.registry import get
from daneel.formats.validate import ToolSet
from daneel.formats.xml_args import XmlGrammar

TOOLS = ToolSet(
    [
        Tool("now", parameters={"type": "object", "properties": {}}),
        Tool(
            "f",
            parameters={
                "type": "object",
                "properties": {
                    "s": {"type": "string"},
                    "t": {"type": "string"},
                    "n": {"type": "integer"},
                    "b": {"type": "boolean"},
                    "o": {"type": "object"},
                },
            },
        ),
    ]
)


def _read(text: str, *, tools: ToolSet | None = TOOLS, truncated: bool = False) -> Joined:
    """Read whole, by single characters, and at every single cut: always the same."""
    family = get("qwen3-coder")
    whole = parse(family, text, tools=tools, truncated=truncated)
    for cuts in [tuple(range(1, len(text))), *((cut,) for cut in range(1, len(text)))]:
        assert parse(family, text, cuts, tools=tools, truncated=truncated).events == whole.events
    return whole


def _calls(got: Joined) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in got.calls]


def _block(*parameters: tuple[str, str]) -> str:
    body = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters)
    return f"<tool_call>\n<function=f>\n{body}</function>\n</tool_call>"


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "\n",
        "\n\n  x\n\n",
        "<",
        "</",
        "</param",
        "a < b && c </ d",
        "x</parameter>y",
        "</parameter>",
        "</parameter>\ntext",
        "</parameter> </parameter>",
        "</function>",
        "</function>\nmore",
        "</tool_call>",
        "<tool_call>",
        "<tool_call>\n<other>",
        "<function=g>",
        "see <parameter=t> there",
        "<parameter=unknown>\n1",
        "text\n<parameter=s>\n1",
        "text\n<parameter=t",
        "text\n<parameter=t\n>",
        "<parameter=>",
        "<think>no</think>",
        "<|im_end|>",
        '{"name": "now", "arguments": {}}',
        "é 你好 🎉 \u2028 \\n \\u00e9 \"quoted\" 'single'",
        "<tool_call>\n<function=g>\n<parameter=t>\n1\n</parameter>\n</function>\n</tool_call>",
        "before\n<tool_call><function=now></function></tool_call>\nafter",
        "<tool_call>\n<function=g>\n<parameter=s>\n<tool_call>\n<function=h>\n</function>\n</tool_call>\n</parameter>\n"
        "</function>\n</tool_call>",
    ],
)
def test_a_text_is_what_the_model_wrote(value: str) -> None:
    got = _read(f"Text.\n{_block(('s', value), ('n', '5'))}\n{_block()} End.")
    assert _calls(got) == [("f", {"s": value, "n": 5}), ("f", {})]
    assert [call.repair for call in got.calls] == [None, None]
    assert not got.failed
    assert got.content.split() == ["Text.", "End."]


@pytest.mark.parametrize(
    ("body", "arguments", "repair"),
    [
        ("<function=f>\n<parameter=s>\na\n<parameter=n>\n1\n</parameter>\n</function>", {"s": "a", "n": 1},
         "missing_parameter_end"),
        ("<function=f>\n<parameter=n>\n1\n</function>", {"n": 1}, "missing_parameter_end"),
        ("<function=f>\n<parameter=s>\na\n<parameter=t>\nb\n</function>", {"s": "a", "t": "b"}, "missing_parameter_end"),
        ("<function=f>\n<parameter=s>\na\n</parameter>", {"s": "a"}, "missing_function_end"),
        ("<function=f>", {}, "missing_function_end"),
        ("<function=f></function>", {}, None),
        ("<function=f><parameter=n>1</parameter><parameter=s>x</parameter></function>", {"n": 1, "s": "x"}, None),
        ("\n\n <function= f >\n\n<parameter= s >\nx\n</parameter>  \n</function>\n\n", {"s": "x"}, None),
        ("<function=f><parameter=b>True</parameter><parameter=o>{'a': None}</parameter></function>",
         {"b": True, "o": {"a": None}}, None),
        ("<function=f><parameter=n>five</parameter></function>", {"n": "five"}, None),
        ("<function=f><parameter=extra>5</parameter></function>", {"extra": "5"}, None),
    ],
)  # fmt: skip
def test_what_may_be_missing(body: str, arguments: dict[str, Any], repair: str | None) -> None:
    got = _read(f"<tool_call>{body}</tool_call>")
    assert _calls(got) == [("f", arguments)]
    assert got.calls[0].repair == repair
    assert not got.content


@pytest.mark.parametrize("name", ["a.b-c", "get current temperature", "mcp__x__y", "größe", "a/b:c"])
def test_names_and_keys_are_any_text(name: str) -> None:
    got = _read(f"<tool_call>\n<function={name}>\n<parameter={name}>\nx\n</parameter>\n</function>\n</tool_call>", tools=None)
    assert _calls(got) == [(name, {name: "x"})]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("<tool_call><function=f><parameter=s>1</parameter>\n<parameter=s>\n2\n</parameter>\n</function></tool_call>", "twice"),
        ("<tool_call>\n<function=f>\njunk\n</function>\n</tool_call>", "expected <parameter= or </function>"),
        ("<tool_call>\n<function=f\n<parameter=s>\n1\n</parameter>\n</function>\n</tool_call>", "the function's name"),
        ("<tool_call>\n<function=>\n</function>\n</tool_call>", "the function's name"),
        ("<tool_call>\n<function=f>\n<parameter=s\n1\n</parameter>\n</function>\n</tool_call>", "the parameter's name"),
        ("<tool_call>\n<function=f>\n<parameter=s>\n1\n</tool_call>", "ends before"),
        ("<tool_call>\n<function=f>\n<parameter=s>\n1<|im_end|>", "ends before"),
        ("<tool_call>\nin a call\n</tool_call>", "expected <function= or '{'"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_a_failed_call_and_its_neighbours_survive(raw: str, message: str) -> None:
    got = _read(f"Before.\n{raw}\n{_block(('n', '1'))}")
    assert _calls(got) == [("f", {"n": 1})]
    assert len(got.failed) == 1
    assert message in got.failed[0].message
    assert got.failed[0].error_type == "malformed"
    assert got.failed[0].raw in raw
    assert got.content.strip() == "Before."


@pytest.mark.parametrize("truncated", [False, True])
def test_a_call_that_is_cut_off_is_no_call(truncated: bool) -> None:
    whole = "<tool_call>\n<function=f>\n<parameter=s>\nab\n</parameter>\n</function>"
    for size in range(len("<tool_call>\n<function="), len(whole)):
        got = parse(get("qwen3-coder"), whole[:size], tools=TOOLS, truncated=truncated)
        assert not got.calls
        assert [failed.error_type for failed in got.failed] == ["truncated"], whole[:size]
        assert not got.content
    got = parse(get("qwen3-coder"), whole, tools=TOOLS, truncated=truncated)
    assert [call.repair for call in got.calls] == ["missing_close_marker"]


def test_without_the_opening_marker() -> None:
    got = _read("<function=f>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>\n" + _block(("n", "2")))
    assert _calls(got) == [("f", {"n": 1}), ("f", {"n": 2})]
    assert [call.repair for call in got.calls] == ["missing_open_marker", None]
    assert not got.content


@pytest.mark.parametrize(
    "text",
    [
        "Write <function=NAME> first.",
        "`<function=f>` and `<parameter=x>` are tags.",
        "<function=>\n</function>",
        "<function=f\n>",
        "The tag is <tool_call>.",
        "a <functional> style",
    ],
)
def test_text_that_speaks_of_the_tags_is_text(text: str) -> None:
    got = _read(text)
    assert got.content == text
    assert not got.failed


def test_a_call_in_reasoning_is_one_only_if_the_block_stays_open() -> None:
    family, call = get("qwen3.5"), _block(("n", "1"))
    got = parse(family, f"Hm.\n{call}", in_reasoning=True, tools=TOOLS)
    assert (got.reasoning.strip(), _calls(got)) == ("Hm.", [("f", {"n": 1})])
    got = parse(family, f"Hm.\n{call}\n</think>\nSo.", in_reasoning=True, tools=TOOLS)
    assert (got.reasoning, got.calls, got.content) == (f"Hm.\n{call}\n", [], "So.")
    got = parse(family, "Hm. <function=f>\n<parameter=n>\n1\n</parameter>\n</function>", in_reasoning=True, tools=TOOLS)
    assert (got.reasoning.strip(), _calls(got)) == ("Hm.", [("f", {"n": 1})])


def test_json_between_the_markers_is_read_too() -> None:
    text = '<tool_call>\n{"name": "f", "arguments": {"s": "</tool_call> <function=", "n": 1}}\n</tool_call>\n'
    got = _read(text + _block(("n", "2")) + '<tool_call>\n{"nam')
    assert _calls(got) == [("f", {"s": "</tool_call> <function=", "n": 1}), ("f", {"n": 2})]
    assert [failed.error_type for failed in got.failed] == ["truncated"]


def test_seed_writes_values_without_line_breaks() -> None:
    family = get("seed-oss")
    written = family.write_calls([("f", '{"s": "\\nx\\n", "o": {"a": [true, null, "it\'s"]}, "b": false}'), ("now", "{}")])
    assert "<parameter=s>\nx\n</parameter>" in written
    assert "{'a': [True, None, \"it's\"]}" in written
    for cuts in itertools.chain([()], ((cut,) for cut in range(len(written))), [range(len(written))]):
        got = parse(family, written, cuts, tools=TOOLS)
        assert _calls(got) == [("f", {"s": "\nx\n", "o": {"a": [True, None, "it's"]}, "b": False}), ("now", {})]


@pytest.mark.parametrize(
    ("values", "written"),
    [("json", ["true", "[1, null]"]), ("words", ["True", "[1, null]"]), ("python", ["True", "[1, None]"])],
)
def test_values_are_written_as_the_template_does(values: Any, written: list[str]) -> None:
    text = XmlGrammar(values=values).write("f", '{"b": true, "o": [1, null]}')
    assert text == (
        f"<function=f>\n<parameter=b>\n{written[0]}\n</parameter>\n<parameter=o>\n{written[1]}\n</parameter>\n</function>"
    )


PIECES = st.sampled_from(
    ["<tool_call>", "</tool_call>", "<function=", "f>", "</function>", "<parameter=", "s>", "n>", "</parameter>", "\n", " ",
     "1", "x", "<function=f>\n", "<parameter=s>\n", "<parameter=t>\n", "\n</parameter>\n", "</function>\n</tool_call>", "<",
     "</", "<|im_end|>"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=25).map("".join), st.data())
def test_any_sequence_of_tags_is_conserved_at_any_cut(text: str, data: st.DataObject) -> None:
    family, truncated = get("qwen3-coder"), data.draw(st.booleans())
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    whole = parse(family, text, tools=TOOLS, truncated=truncated)
    for places in (cuts, range(len(text))):
        assert parse(family, text, places, tools=TOOLS, truncated=truncated).events == whole.events
    for call in whole.calls:
        assert all(str(value) in text for value in json.loads(call.arguments).values())


def test_a_long_value_in_single_characters_is_read_once() -> None:
    grammar = XmlGrammar()
    scanner = grammar.scanner(TOOLS)
    head = "<function=f>\n<parameter=s>\n"
    assert scanner.feed(head, 0) == len(head)
    for number in range(20_000):
        assert scanner.feed("x" if number % 3 else "\n", 0) == 1
    rest = "\n</parameter>\n</function>"
    assert scanner.feed(rest, 0) == len(rest)
    assert scanner.done
    [call] = scanner.calls("")
    assert len(json.loads(call.arguments or "")["s"]) == 20_000


def test_nothing_but_openings_is_not_read_again_and_again() -> None:
    """Each of them runs to the end of the text; past a limit, one failed call holds the rest."""
    text = "<tool_call>\n<function=f>\n<parameter=s>\n" * 1500
    got = parse(get("qwen3-coder"), text, tools=TOOLS)
    assert 8 < len(got.failed) < 100
    assert parse(get("qwen3-coder"), text, range(0, len(text), 997), tools=TOOLS).events == got.events
