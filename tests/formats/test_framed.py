"""Families that write framed messages: headers, channels, recipients, and what becomes of broken ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.joined import Joined, parse

from daneel.formats.base import ControlEvent, Tool
from daneel.formats.registry import get
from daneel.formats.validate import ToolSet

TOOLS = ToolSet(
    [
        Tool("now"),
        Tool("f", parameters={"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}),
        Tool("ns.g", parameters={"type": "object", "properties": {"n": {"type": "integer"}}}),
    ]
)


def _read(family: str, text: str, *, prompt: str = "", tools: ToolSet | None = TOOLS, **how: Any) -> Joined:
    """The message, the same at every cut."""
    every = {"tools": tools, "prompt": prompt, "in_reasoning": None, **how}
    whole = parse(get(family), text, **every)
    for cut in range(1, len(text)):
        assert parse(get(family), text, (cut,), **every).events == whole.events, cut
    assert parse(get(family), text, range(1, len(text)), **every).events == whole.events
    return whole


def _calls(got: Joined) -> list[tuple[str, str, str | None]]:
    return [(call.name, call.arguments, call.repair) for call in got.calls]


@pytest.mark.parametrize(
    "header",
    [
        "<|channel|>commentary to=functions.f <|constrain|>json<|message|>",
        "<|channel|>commentary to=functions.f<|constrain|>json<|message|>",
        "<|channel|>commentary <|constrain|>json to=functions.f<|message|>",
        " to=functions.f<|channel|>commentary json<|message|>",
        " to=functions.f<|channel|>analysis<|message|>",
        "<|start|>assistant to=functions.f<|channel|>commentary<|message|>",
        "<|start|>assistant<|channel|>analysis to=functions.f code<|message|>",
        "<|channel|>commentary to=functions.f\n<|constrain|>json\n<|message|>",
        "<|channel|>commentary to=f<|message|>",
        "\n<|start|><|channel|>commentary to=functions.f<|message|>",
    ],
)
@pytest.mark.parametrize("end", ["<|call|>", "<|end|>", "", "\n", " <|call|>"])
def test_a_harmony_header_tells_the_call_in_any_order(header: str, end: str) -> None:
    got = _read("gpt-oss", header + '{"x": "<|end|> \\" }"}' + end)
    assert _calls(got) == [("f", '{"x": "<|end|> \\" }"}', None)]
    assert (got.content, got.reasoning, got.failed) == ("", "", [])


@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>", "a", "b"),
        ("<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>b", "a", "b"),
        ("<|channel|>analysis<|message|>a<|channel|>final<|message|>b", "a", "b"),
        ("<|channel|>analysis<|message|>a<|end|>\n<|channel|>analysis<|message|>b<|end|>", "ab", ""),
        ("<|channel|>commentary<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b", "", "ab"),
        ("<|channel|>final <|constrain|>json<|message|>[1]<|return|>", "", "[1]"),
        ("<|channel|>thoughts<|message|>a", "", "a"),
        ("<|message|>a<|end|>", "", "a"),
        ("<|channel|>commentary to=assistant<|channel|>analysis<|message|>a<|end|>", "a", ""),
        ("Hi, no header", "", "Hi, no header"),
        ("  Hi  ", "", "  Hi  "),
        (" to=day (or not", "", " to=day (or not"),
        ("<|channel|>final<|message|>Use `<|start|>` and <|start|>user here", "", "Use `<|start|>` and <|start|>user here"),
        ('<|channel|>final {"a": 1}<|return|>', "", '<|channel|>final {"a": 1}'),
        ("<|channel|>final<|message|><|return|>", "", ""),
    ],
)
def test_channels(text: str, reasoning: str, content: str) -> None:
    got = _read("gpt-oss", text)
    assert (got.reasoning, got.content, got.calls, got.failed) == (reasoning, content, [], [])


@pytest.mark.parametrize(
    ("family", "prompt", "text", "reasoning", "content", "calls"),
    [
        ("gpt-oss", "<|start|>assistant<|channel|>analysis<|message|>I", " am<|end|>", "am", "", []),
        ("gpt-oss", "<|start|>assistant<|channel|>analysis", "<|message|>I am<|end|>", "I am", "", []),
        ("gpt-oss", "<|start|>assistant<|channel|>", "final<|message|>Hi", "", "Hi", []),
        ("gpt-oss", "<|start|>assistant<|channel|>final<|message|>", "Hi<|return|>", "", "Hi", []),
        ("gpt-oss", "<|start|>assistant to=functions.now<|channel|>commentary json<|message|>", "{}<|call|>", "", "", ["now"]),
        ("gpt-oss", "<|start|>user<|message|>Say <|channel|><|end|><|start|>assistant", "Hi", "", "Hi", []),
        ("gpt-oss", "<|start|>assistant<|channel|>analysis<|message|>a<|end|>", "Hi", "", "Hi", []),
        ("glimmer", "<|start|>assistant to=self<|message|>", "I am<|eot|>", "I am", "", []),
        ("glimmer", "<|start|>assistant to=se", "lf<|message|>I am<|eot|>", "I am", "", []),
        ("inkling", "<|message_model|>", 'now<|content_invoke_tool_json|>{"name":"now","args":{}}', "", "", ["now"]),
        ("glimmer", "<|start|>assistant", "<|message|><|eot|>", "", "", []),
        ("glimmer", "<|start|>assistant<|message|>", "", "", "", []),
        ("glimmer", "<|start|>assistant", "<|message|>Hi<|eom|><|start|>assistant<|message|>!", "", "Hi!", []),
        ("inkling", "<|message_model|><|content_thinking|>", "I am<|end_message|>", "I am", "", []),
        ("functionary", ">>>${recipient}\n>>>", "all\nHi", "", "Hi", []),
        ("functionary", ">>>now\n", "{}<|eot_id|>", "", "", ["now"]),
        ("functionary", ">>>all\nBye<|eot_id|>", "Hi", "", "Hi", []),
    ],
)
def test_the_prompt_sets_the_state(family: str, prompt: str, text: str, reasoning: str, content: str, calls: list[str]) -> None:
    got = _read(family, text, prompt=prompt)
    assert (got.reasoning, got.content, [call.name for call in got.calls], got.failed) == (reasoning, content, calls, [])
    inside = ("<|channel|>analysis<|message|>I", "<|start|>assistant to=self<|message|>", "<|content_thinking|>")
    assert get(family).starts_in_reasoning(prompt) is prompt.endswith(inside)


@pytest.mark.parametrize(
    ("family", "text"),
    [
        (
            "gpt-oss",
            "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>commentary<|message|>Pre<|end|>"
            "<|start|>assistant to=functions.now<|channel|>commentary json<|message|><|call|>"
            '<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"x": 1}<|call|>'
            '<|start|>assistant<|channel|>commentary to=python code<|message|>print("<|end|>\n'
            "<|start|>assistant<|channel|>final<|message|>End",
        ),
        (
            "glimmer",
            " to=self<|message|>Hm<|eom|><|start|>assistant to=user<|message|>Pre<|eom|>"
            '<|start|>assistant to=now<|message|><atem:function_calls><atem:invoke name="now"/></atem:function_calls><|eom|>'
            '<|start|>assistant to=f<|message|><atem:function_calls>\n<atem:invoke name="f">\n<atem:parameter name="x">1'
            '</atem:parameter>\n</atem:invoke>\n</atem:function_calls><|start|>assistant to=python<|message|>print("<|eom|>'
            "<|start|>assistant to=user<|message|>End<|eot|>",
        ),
        (
            "inkling",
            "<|content_thinking|>Hm<|end_message|><|message_model|><|content_text|>Pre<|end_message|>"
            '<|message_model|><|content_invoke_tool_json|>{"name":"now"}<|end_message|>'
            '<|message_model|>f<|content_invoke_tool_json|>{"args":{"x":1},"name":"f"}<|end_message|>'
            '<|message_model|>python<|content_invoke_tool_json|>print("<|end_message|>'
            "<|message_model|><|content_text|>End<|content_model_end_sampling|>",
        ),
    ],
)
def test_a_turn_of_every_kind_of_message(family: str, text: str) -> None:
    got = _read(family, text)
    assert (got.reasoning, got.content) == ("Hm", "PreEnd")
    assert [(call.name, str(json.loads(call.arguments).get("x"))) for call in got.calls] == [("now", "None"), ("f", "1")]
    assert [(call.error_type, "print(" in call.raw, "End" in call.raw) for call in got.failed] == [("malformed", True, False)]


@pytest.mark.parametrize(
    ("body", "message", "at"),
    [
        ('{"x": "a\n"}<|call|>', "a raw line break", 8),
        ('{"x": "a"', "expected ',' or '}'", 9),
        ('{"x": "a', "the message ends before", 8),
        ("print(1)<|call|>", "expected '{'", 0),
        ("[1]<|call|>", "expected '{'", 0),
        ('{"x": "a"} or so<|call|>', "text behind the call", 11),
        ('{"x": "a"}{"x": "b"}<|call|>', "text behind the call", 10),
        ('"no object"<|call|>', "expected an object", 0),
        ('"\\ud800"<|call|>', "not text", 0),
        ("<|call|>", "expected the key 'arguments'", None),
    ],
)
def test_a_body_that_cannot_be_read_fails_with_its_header(body: str, message: str, at: int | None) -> None:
    header = "<|channel|>commentary to=functions.f<|message|>"
    got = _read("gpt-oss", header + body + '<|start|>assistant<|channel|>final<|message|>Say "hi"')
    (failed,) = got.failed
    assert failed.name == "f"
    assert failed.raw.startswith(header)
    assert failed.message.startswith(message)
    assert at is None or failed.offset == len(header) + at
    assert (got.calls, got.content) == ([], 'Say "hi"')


def test_a_call_that_the_length_limit_cuts_off_is_truncated() -> None:
    for text in ("<|channel|>commentary to=functions.f", " to=functions.f<|channel|>comm", " to=functions.f<|message|>{",
                 " to=functions.f<|message|>", ' to=functions.f<|message|>{"x": "<|end|>'):  # fmt: skip
        (failed,) = _read("gpt-oss", text, truncated=True).failed
        assert (failed.name, failed.error_type, failed.raw) == ("f", "truncated", text)
    for text in ("<|channel|>anal", "<|start|>assistant", "<|start|>"):
        got = _read("gpt-oss", text, truncated=True)
        assert [type(event) for event in got.events] == [ControlEvent]


def test_undeclared_recipients_are_calls_to_undeclared_tools() -> None:
    got = _read("gpt-oss", '<|channel|>commentary to=browser.search<|message|>{"q": "x"}<|call|>')
    assert _calls(got) == [("browser.search", '{"q": "x"}', None)]


def test_repairs_are_listed() -> None:
    assert _calls(_read("gpt-oss", ' to=functions.f<|message|>"{\\"x\\": \\"a\\"}"<|call|>')) == [
        ("f", '{"x": "a"}', "string_arguments")
    ]
    assert _calls(_read("gpt-oss", ' to=functions.f<|message|>{"x": "a"}}<|call|>')) == [("f", '{"x": "a"}', "extra_braces")]
    bare = '{"name": "f", "arguments": {"x": "a"}}'
    assert _calls(_read("gpt-oss", f"<|channel|>final<|message|>{bare}<|return|>")) == [("f", '{"x": "a"}', "bare_json")]
    got = _read("gpt-oss", f"<|channel|>commentary<|message|>So:\n```json\n{bare}\n```\n<|end|>")
    assert _calls(got) == [("f", '{"x": "a"}', "fenced_json")]
    assert _read("gpt-oss", f"<|channel|>final<|message|>{bare}", rescue=False).content == bare
    assert _read("gpt-oss", f"<|channel|>analysis<|message|>{bare}").calls == []


@pytest.mark.parametrize(
    ("text", "calls", "failed", "content"),
    [
        ('all\nSee:\n>>> print(1)\n>>>x\ny>>>f\n{"x": "\\n>>>now\\n{}"}>>>now\n{}<|eot_id|>', ["f", "now"], 0,
         "See:\n>>> print(1)\n>>>x\ny"),
        ('other\n{"x": 1}', ["other"], 0, ""),
        ('>>>f\n{"x": "a"}\n \n', ["f"], 0, ""),
        ("Hello\nworld", [], 0, "Hello\nworld"),
        ("f\nprint(1)\n>>>all\nHi", [], 1, "Hi"),
        (">>>\nHi", [], 0, ">>>\nHi"),
    ],
)  # fmt: skip
def test_functionary(text: str, calls: list[str], failed: int, content: str) -> None:
    got = _read("functionary", text)
    assert ([call.name for call in got.calls], len(got.failed), got.content) == (calls, failed, content)


def test_inkling_names_must_agree_and_its_markers_may_be_text() -> None:
    got = _read("inkling", '<|message_model|>g<|content_invoke_tool_json|>{"name":"f","args":{"x":"a"}}<|end_message|>')
    assert (got.calls, [failed.message for failed in got.failed]) == ([], ["the header names 'g', the call 'f'"])
    got = _read("inkling", '<|content_invoke_tool_json|>{"name":"f","args":{},"arguments":{}}<|end_message|>')
    assert (got.calls, len(got.failed)) == ([], 1)
    got = _read("inkling", "<|content_text|>a <|message_model|> b<|content_thinking|>c<|end_message|>")
    assert (got.content, got.reasoning) == ("a <|message_model|> b", "c")
    assert _read("inkling", "<|content_invoke_tool_text|>do it<|end_message|>").content == "do it"


PIECES = [
    "<|start|>", "<|start|>assistant", "assistant", "<|channel|>", "analysis", "final", "commentary", "<|constrain|>", "json",
    "<|message|>", "<|end|>", "<|call|>", "<|return|>", " to=functions.f", " to=", "f", "{", "}", '{"x": "', '"}', '"', "\n",
    " ",
    '{"x": "a"}', '{"name": "f", "arguments": {"x": "a"}}', "```", " to=self", " to=user", " to=f", "<|eom|>", "<|eot|>",
    "<atem:function_calls>", "</atem:function_calls>", '<atem:invoke name="f">', "</atem:invoke>", '<atem:parameter name="x">',
    "</atem:parameter>", '<atem:invoke name="', '"/>', "<|message_model|>", "<|content_text|>", "<|content_thinking|>",
    "<|content_invoke_tool_json|>", "<|end_message|>", '{"name":"f","args":{"x":"a"}}', ">>>", "all", "now", "<|eot_id|>", "<|",
    " " * 500, "x" * 500,
]  # fmt: skip
PROMPTS = ["", "<|start|>assistant", "<|start|>assistant<|channel|>analysis<|message|>", "<|start|>assistant to=f<|message|>",
           "<|start|>assistant to", "<|message_model|>f", ">>>", ">>>f\n",
           "<|message_model|><|content_invoke_tool_json|>"]  # fmt: skip


@pytest.mark.parametrize("name", ["gpt-oss", "glimmer", "inkling", "functionary"])
@given(data=st.data())
def test_any_pieces_behind_any_prompt_are_conserved_at_any_cut(name: str, data: st.DataObject) -> None:
    text = "".join(data.draw(st.lists(st.sampled_from(PIECES), max_size=20)))
    how: dict[str, Any] = {
        "prompt": data.draw(st.sampled_from(PROMPTS)),
        "tools": data.draw(st.sampled_from([None, TOOLS])),
        "truncated": data.draw(st.booleans()),
        "in_reasoning": data.draw(st.sampled_from([None, False, True])),
    }
    whole = parse(get(name), text, **how)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    assert parse(get(name), text, cuts, **how).events == whole.events
    assert parse(get(name), text, range(len(text)), **how).events == whole.events
    for call in whole.calls:
        assert isinstance(json.loads(call.arguments), dict)
