"""Calls without markers, in families that write them so: a call at the start of the output, content everywhere else."""

from __future__ import annotations

import json

import pytest
from tests.formats.joined import Joined, parse
from tests.formats.test_call_grammar import _accepts as accepts

from daneel.formats.base import Tool
from daneel.formats.registry import get
from daneel.formats.validate import ToolSet

SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
TOOLS = ToolSet([Tool("now"), Tool("f", parameters=SCHEMA)])
NOW, F = '{"name": "now", "parameters": {}}', '{"name": "f", "parameters": {"x": 1}}'
XNOW, XF = NOW.replace("parameters", "arguments"), F.replace("parameters", "arguments")


def read(family: str, text: str, *, tools: ToolSet | None = TOOLS, truncated: bool = False) -> Joined:
    """The same at every single cut, and character by character."""
    whole = parse(get(family), text, tools=tools, truncated=truncated)
    for cuts in [*((cut,) for cut in range(1, len(text))), tuple(range(1, len(text)))]:
        assert parse(get(family), text, cuts, tools=tools, truncated=truncated).events == whole.events, cuts
    return whole


def names(got: Joined) -> list[str]:
    return [call.name for call in got.calls]


@pytest.mark.parametrize(
    ("family", "text", "called", "content"),
    [
        ("llama3-json", NOW, ["now"], ""),
        ("llama3-json", f"\n {NOW}\n<|eot_id|>", ["now"], ""),
        ("llama3-json", f"{NOW}; {F};{NOW}", ["now", "f", "now"], ""),
        ("llama3-json", f"{NOW}\n{F}", ["now", "f"], ""),
        ("llama3-json", f"{NOW}; and more", ["now"], "; and more"),
        ("llama3-json", f"{NOW} Done.", ["now"], "Done."),
        ("llama3-json", f"<|python_tag|>{NOW}; {F}<|eom_id|>", ["now", "f"], ""),
        ("llama3-json", f"{NOW}<|python_tag|>{F}", ["now", "f"], ""),
        ("llama3-json", f'Well:<function=f>{{"x": 1}}</function> and{NOW}', ["f"], f"Well: and{NOW}"),
        ("llama3-json", '<function=f>{"x": 1}</function><function=now>{}</function>', ["f", "now"], ""),
        ("llama3-json", f"<|start_header_id|>assistant<|end_header_id|>\n\n{F}", ["f"], ""),
        ("llama3-json", f"[{NOW}, {F}]", ["now", "f"], ""),
        ("llama4-json", f"{F}\n<|eot|>", ["f"], ""),
        ("functionary-v3.1", '<function=f>{"x": 1}</function><function=now>{}<|eom_id|>', ["f", "now"], ""),
        ("xlam", f"[{XNOW}, {XF}]", ["now", "f"], ""),
        ("xlam", f"<think>Now.</think>\n\n[{XNOW}]", ["now"], ""),
        ("xlam", f"So:[TOOL_CALLS][{XNOW}]", ["now"], "So:"),
        ("xlam", f"So:<tool_call>[{XNOW}]</tool_call> now", ["now"], "So: now"),
        ("phi4-mini", f"So: functools[{XNOW}]\nDone.", ["now"], "So: \nDone."),
        ("phi4-mini", f"<|tool_call|>[{XNOW}]<|/tool_call|>", ["now"], ""),
        ("firefunction-v2", f" functools[{XNOW}, {XF}]<|eot_id|>", ["now", "f"], ""),
        ("generic", f"{XNOW}\n\n{XF}\nDone.", ["now", "f"], "Done."),
        ("generic", f"[{XNOW}, {XF}", ["now", "f"], ""),
        ("pythonic", "[now(), f(x=1)]", ["now", "f"], ""),
        ("pythonic", "[now()]\n[f(x=1)]<|eot_id|>", ["now", "f"], ""),
        ("pythonic", "[now(), f(x=1)", ["now", "f"], ""),
        ("pythonic", "Sure: [now()]", [], "Sure: [now()]"),
        ("gemma3-pythonic", '[f(x=1, y=[true, null])]<end_of_turn>', ["f"], ""),
        ("llama4-pythonic", "<|python_start|>[now()]<|python_end|><|eot|>", ["now"], ""),
        ("llama4-pythonic", "[now()]<|python_end|>", ["now"], ""),
        ("llama4-pythonic", "[now()]\n\nDone.", ["now"], "Done."),
    ],
)  # fmt: skip
def test_calls(family: str, text: str, called: list[str], content: str) -> None:
    got = read(family, text)
    assert (names(got), got.content.strip(), got.failed) == (called, content.strip(), [])


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("llama3-json", '{"name": "Ann", "parameters": {}}'),
        ("llama3-json", '{"name": "Ann", "age": 3}'),
        ("llama3-json", '{"answer": {"name": "now", "parameters": {}}}'),
        ("llama3-json", '{"name": "now"}'),
        ("llama3-json", "{}"),
        ("llama3-json", "[]"),
        ("llama3-json", "[1, 2]"),
        ("llama3-json", "[1] says so."),
        ("llama3-json", "{x} is a set"),
        ("llama3-json", "{"),
        ("llama3-json", f"As in {NOW}"),
        ("llama3-json", f"Use <function=NAME> and </function> for that, {NOW}"),
        ("xlam", "[]\n"),
        ("xlam", "```json\n[1, 2]\n```"),
        ("phi4-mini", "functools.partial is a function"),
        ("pythonic", "[link](https://a.b)"),
        ("pythonic", "[1, 2]"),
        ("pythonic", "[x for x in f(1)]"),
        ("pythonic", "[unheard(1)] is how you call it"),
        ("pythonic", "f(x=1)"),
        ("pythonic", "[" + "a" * 1000 + "("),
        ("pythonic", "[" + " " * 1000 + "f(x=1)]"),
    ],
)
def test_what_is_no_call_is_given_back(family: str, text: str) -> None:
    got = read(family, text)
    assert (got.content, got.calls, got.failed) == (text, [], [])


@pytest.mark.parametrize(
    ("family", "text", "raw", "kind"),
    [
        ("llama3-json", '{"name": "f", "parameters": {{}}', None, "malformed"),
        ("llama3-json", '{"name": "f", "parameters": {"x": 1}', None, "truncated"),
        ("llama3-json", '{"name": "f", "parameters": {"x": 1<|eot_id|>', '{"name": "f", "parameters": {"x": 1', "malformed"),
        ("llama3-json", '{"name": "f", "parameters": "1"}', None, "malformed"),
        ("llama3-json", f'{NOW}; {{"name": "f", "parameters": [1]}}', '; {"name": "f", "parameters": [1]}', "malformed"),
        ("llama3-json", f'{NOW}\n{{"name": "f", "parameters": [1', '{"name": "f", "parameters": [1', "truncated"),
        ("llama3-json", '<function=f>{"x": }</function> Done.', '<function=f>{"x": }</function>', "malformed"),
        ("functionary-v3.1", '<function=f>{"x"<|eom_id|>', '<function=f>{"x"', "malformed"),
        ("pythonic", "[f(1)]", None, "malformed"),
        ("pythonic", "[f(x=1, ", None, "truncated"),
        ("pythonic", "[now(), f(x=1", " f(x=1", "truncated"),
        ("pythonic", "[unheard(x=y)]", None, "malformed"),
        ("llama4-pythonic", "[f(x=)]<|python_end|>", None, "malformed"),
    ],
)
def test_what_can_only_be_a_call_and_is_broken_failed(family: str, text: str, raw: str | None, kind: str) -> None:
    (failed,) = read(family, text).failed
    assert (failed.raw.lstrip(","), failed.error_type) == (raw or text, kind)
    assert failed.name in ("f", "unheard")


@pytest.mark.parametrize(
    ("family", "text", "cut_off"),
    [
        ("llama3-json", '{"name": "f', True),
        ("llama3-json", '{"na', False),
        ("xlam", '[{"na', True),
        ("llama3-json", '{"name": "Ann", "par', False),
        ("pythonic", "[unheard(", True),
        ("pythonic", "[unheard", False),
        ("pythonic", "[", False),
    ],
)
def test_what_the_length_limit_cuts_off(family: str, text: str, cut_off: bool) -> None:
    got = read(family, text, truncated=True)
    assert [(failed.raw, failed.error_type) for failed in got.failed] == ([(text, "truncated")] if cut_off else [])
    assert got.content == ("" if cut_off else text)
    assert read(family, text).content == text


def test_a_call_that_breaks_the_schema_or_names_no_tool_beside_one_that_does_is_a_call() -> None:
    assert names(read("llama3-json", '{"name": "f", "parameters": {"x": "one"}}')) == ["f"]
    assert names(read("llama3-json", f'[{NOW}, {{"name": "unheard", "parameters": {{}}}}]')) == ["now", "unheard"]
    assert names(read("pythonic", "[unheard(x=1)]")) == ["unheard"]
    got = read("xlam", '```json\n[{"name": "f", "arguments": {}}]\n```')
    assert (names(got), got.calls[0].repair) == (["f"], "fenced_json")


def test_with_nothing_known_of_the_tools_every_name_counts_and_with_no_tools_none() -> None:
    for family, text in (("llama3-json", NOW), ("pythonic", "[now()]"), ("xlam", f"```json\n[{XNOW}]\n```"), ("generic", XNOW)):
        assert names(read(family, text, tools=None)) == ["now"]
        assert read(family, text, tools=ToolSet([])).content == text
        assert parse(get(family), text, rescue=False).content == text


def test_repairs_are_listed() -> None:
    extra = '{"type": "function", "name": "f", "parameters": {"x": 1}, "why": "so"}'
    assert [call.repair for call in read("llama3-json", f"{extra}; [{NOW}]").calls] == ["extra_keys", "array_body"]
    assert [call.repair for call in read("llama3-json", f"{NOW}; {XF}").calls] == [None, "arguments_key"]
    assert [call.repair for call in read("xlam", f"[{XNOW}]").calls] == [None]
    assert [call.repair for call in read("generic", XNOW).calls] == ["bare_json"]


def test_an_answer_in_json_is_not_held_back() -> None:
    parser = get("llama3-json").parser(TOOLS)
    events = parser.feed('{"summary": "It was a')
    assert [event.span.end for event in events if hasattr(event, "span")] == [21]


def test_a_long_call_is_told_of_while_it_is_written() -> None:
    parser = get("pythonic").parser(TOOLS)
    progress = [event for _ in range(20) for event in parser.feed("[f(x='" if _ == 0 else "abcdefgh")]
    assert [getattr(event, "name", None) for event in progress] == ["f"] * len(progress)
    assert len(progress) >= 9


def test_a_call_in_reasoning_that_is_closed_stays_reasoning() -> None:
    got = read("xlam", f"<think>I'd call [{XNOW}]</think>[{XF}]")
    assert (got.reasoning, names(got)) == (f"I'd call [{XNOW}]", ["f"])


def test_long_arguments_come_out_as_they_were_written() -> None:
    content = "x = '\\n' # \"\n" * 2000
    written = get("llama3-json").write_calls([("f", json.dumps({"content": content})), ("now", "{}")])
    (first, second) = parse(get("llama3-json"), written, tools=TOOLS).calls
    assert (json.loads(first.arguments), second.name) == ({"content": content}, "now")


@pytest.mark.parametrize("name", ["llama3-json", "llama4-json", "functionary-v3.1", "xlam", "phi4-mini", "firefunction-v2"])
def test_what_may_be_decoded_is_what_is_read(name: str) -> None:
    grammar = get(name).call_grammar(TOOLS.tools, choice="required", parallel=True, marker=json.dumps)
    for calls, admitted in (
        ([("now", {})], True),
        ([("now", {}), ("f", {"x": 1}), ("f", {"x": -2})], True),
        ([("f", {"x": "1"})], False),
        ([("g", {})], False),
    ):
        text = get(name).write_calls([(tool, json.dumps(arguments)) for tool, arguments in calls])
        assert accepts(grammar, text) is admitted
        got = parse(get(name), text, tools=TOOLS)
        if admitted:
            assert [(call.name, json.loads(call.arguments), call.repair) for call in got.calls] == [
                (*call, None) for call in calls
            ]
