"""Variations of what models write, over families: kinds of output that a family alone does not show."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.formats.joined import Joined, parse

from daneel.formats.base import Tool
from daneel.formats.registry import get
from daneel.formats.validate import ToolSet

TOOLS = ToolSet(
    [
        Tool("now"),
        Tool("f", parameters={"type": "object", "properties": {"x": {"type": "string"}, "n": {"type": "integer"}}}),
    ]
)


def _read(family: str, text: str, **how: Any) -> Joined:
    """The message, the same at every cut."""
    every = {"tools": TOOLS, **how}
    whole = parse(get(family), text, **every)
    for cut in range(1, len(text)):
        assert parse(get(family), text, (cut,), **every).events == whole.events, cut
    assert parse(get(family), text, range(len(text)), **every).events == whole.events
    return whole


def _calls(got: Joined) -> list[tuple[str, Any, str | None]]:
    return [(call.name, json.loads(call.arguments), call.repair) for call in got.calls]


# -- arrays of calls, one of them broken ----------------------------------------------------------------------------------

ARRAYS = {
    "apertus": ("<|tools_prefix|>", '{"NAME": ARGS}', "<|tools_suffix|>"),
    "command4": ("<|START_ACTION|>", '{"tool_call_id": "0", "tool_name": "NAME", "parameters": ARGS}', "<|END_ACTION|>"),
    "mistral": ("[TOOL_CALLS]", '{"name": "NAME", "arguments": ARGS}', "</s>"),
    "nemotron-nano-v2": ("<TOOLCALL>", '{"name": "NAME", "arguments": ARGS}', "</TOOLCALL>"),
    "xlam": ("", '{"name": "NAME", "arguments": ARGS}', ""),
    "lfm2": ("<|tool_call_start|>", '{"name": "NAME", "arguments": ARGS}', "<|tool_call_end|>"),
}


def _array(family: str, *calls: tuple[str, str]) -> str:
    opening, item, closing = ARRAYS[family]
    items = [item.replace("NAME", name).replace("ARGS", arguments) for name, arguments in calls]
    return f"{opening}[{', '.join(items)}]{closing}"


@pytest.mark.parametrize("family", ARRAYS)
@pytest.mark.parametrize("broken", ["{x: 1}", '{"x": 15:30}', '{"x": "say "hi""}', '{"x": }'])
def test_the_good_calls_of_an_array_survive_on_both_sides_of_a_broken_one(family: str, broken: str) -> None:
    text = _array(family, ("f", '{"x": "a"}'), ("f", broken), ("now", "{}"), ("f", '{"n": 1}'))
    got = _read(family, text)
    assert _calls(got) == [("f", {"x": "a"}, None), ("now", {}, None), ("f", {"n": 1}, None)]
    (failed,) = got.failed
    assert (failed.name, broken in failed.raw, "now" in failed.raw) == ("f", True, False)
    spans = [event.span.kind for event in got.events if event.span.kind in ("tool", "failed")]
    assert spans == ["tool", "failed", "tool", "tool"]


@pytest.mark.parametrize("family", ARRAYS)
@pytest.mark.parametrize(
    "text",
    [
        '{"x": "a "b"}, {"y": "c"}',  # what follows is no call
        '{"x": "say "now"}}, {"z": 5',  # the rest is not the end of an array
        '{"x": [1}, {"x": 2}]',
    ],
)
def test_nothing_is_read_behind_a_broken_call_unless_all_of_it_fits(family: str, text: str) -> None:
    got = _read(family, _array(family, ("f", text)))
    assert (got.calls, len(got.failed) or bool(got.content)) == ([], 1)


# -- one pair of markers, several calls -------------------------------------------------------------------------------------


@pytest.mark.parametrize("between", [",", ", ", ";", "; ", "\n,\n"])
@pytest.mark.parametrize(
    ("family", "first", "second"),
    [
        ("hermes", '<tool_call>{"name": "now", "arguments": {}}', '{"name": "f", "arguments": {"n": 1}}</tool_call>'),
        ("gemma4", "<|tool_call>call:now{}", "call:f{n:1}<tool_call|>"),
    ],
)
def test_a_comma_may_stand_between_calls_of_one_pair(family: str, first: str, second: str, between: str) -> None:
    assert _calls(_read(family, first + between + second)) == [("now", {}, "shared_markers"), ("f", {"n": 1}, None)]


@pytest.mark.parametrize(
    ("family", "opening", "closing"),
    [
        ("apertus", "<|tools_prefix|>", "<|tools_suffix|>"),
        ("command-r7b", "<|START_ACTION|>", "<|END_ACTION|>"),
        ("gemma4", "<|tool_call>", "<tool_call|>"),
        ("kimi-k2", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
        ("lfm2", "<|tool_call_start|>", "<|tool_call_end|>"),
        ("minimax-m2", "<minimax:tool_call>", "</minimax:tool_call>"),
    ],
)
def test_markers_of_tokens_around_nothing_vanish_both(family: str, opening: str, closing: str) -> None:
    for white in ("", "\n"):
        got = _read(family, f"a{opening}{white}{closing}b")
        assert (got.content.replace("\n", ""), got.calls, got.failed) == ("ab", [], [])


@pytest.mark.parametrize("family", [name for name in ARRAYS if name != "xlam"] + ["hermes", "laguna"])
def test_an_array_of_no_calls_is_as_markers_around_nothing(family: str) -> None:
    opening, _, closing = ARRAYS.get(family, ("<tool_call>", "", "</tool_call>"))
    for array in ("[]", " [ ]\n"):
        got = _read(family, f"a{opening}{array}{closing}b")
        assert (got.content.replace("\n", ""), got.calls, got.failed) == ("ab", [], [])
    assert _read("xlam", "[]").content == "[]"


def test_tags_around_nothing_are_text() -> None:
    assert _read("hermes", "a<tool_call></tool_call>b").content == "a<tool_call></tool_call>b"


def test_text_before_the_calls_of_a_section_is_content() -> None:
    got = _read("minimax-m2", '<minimax:tool_call>\ntext\n<invoke name="now">\n</invoke>\n</minimax:tool_call>')
    assert (got.content.strip(), _calls(got)) == ("text", [("now", {}, None)])


@pytest.mark.parametrize(
    ("family", "text"),
    [
        (
            "deepseek-v3.1",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>a b<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        ),
        (
            "kimi-k2",
            "<|tool_calls_section_begin|><|tool_call_begin|>a b:0<|tool_call_argument_begin|>{}"
            "<|tool_call_end|><|tool_calls_section_end|>",
        ),
    ],
)
def test_a_call_between_its_markers_that_names_no_tool_failed(family: str, text: str) -> None:
    got = _read(family, text)
    assert (got.content, got.calls, [failed.error_type for failed in got.failed]) == ("", [], ["malformed"])
    assert "a b" in got.failed[0].raw


# -- turns and thoughts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "header"),
    [
        ("hermes", "<|im_start|>assistant\n"),
        ("qwen3-coder", "<|im_start|>assistant\n"),
        ("olmo3", "<|im_start|>assistant\n"),
        ("smollm3", "<|im_start|>assistant\n"),
        ("minicpm5", "<|im_start|>assistant\n"),
        ("bielik", "<|im_start|>assistant\n"),
        ("internlm2", "<|im_start|>assistant\n"),
        ("ernie4.5", "<|im_start|>assistant\n"),
        ("lfm2", "<|im_start|>assistant\n"),
        ("xlam", "<|im_start|>assistant\n"),
        ("gemma4", "<|turn>model\n"),
        ("gemma2", "<start_of_turn>model\n"),
        ("functiongemma", "<start_of_turn>model\n"),
        ("kimi-k2", "<|im_assistant|>assistant<|im_middle|>"),
        ("minimax-m2", "]~b]ai\n"),
        ("minimax-m3", "]~b]ai\n"),
        ("granite3", "<|start_of_role|>assistant<|end_of_role|>"),
        ("granite4", "<|start_of_role|>assistant<|end_of_role|>"),
        ("seed-oss", "<seed:bos>assistant\n"),
        ("nemotron-nano-v2", "<SPECIAL_11>Assistant\n"),
        ("laguna", "<assistant>\n"),
        ("gigachat3", "<|message_sep|>\n\nassistant<|role_sep|>\n"),
        ("gigachat3.1", "assistant<|role_sep|>\n"),
    ],
)
def test_the_header_of_its_own_turn_is_no_content(family: str, header: str) -> None:
    assert _read(family, f"{header}hi").content == "hi"


@pytest.mark.parametrize(
    ("family", "opening", "closing"),
    [
        ("apertus", "<|inner_prefix|>", "<|inner_suffix|>"),
        ("command-r7b", "<|START_THINKING|>", "<|END_THINKING|>"),
        ("command4", "<|START_THINKING|>", "<|END_THINKING|>"),
        ("ministral3", "[THINK]", "[/THINK]"),
        ("mistral", "[THINK]", "[/THINK]"),
    ],
)
def test_thoughts_marked_by_tokens_may_open_anywhere(family: str, opening: str, closing: str) -> None:
    got = _read(family, f"Before\n{opening}a{closing}\nafter{opening}b{closing} end")
    assert (got.content, got.reasoning) == ("Before\n\nafter end", "ab")
    assert _read(family, f"{closing}x").content == "x"


# -- calls that are cut off ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("gpt-oss", "<|channel|>commentary to=functions.now<|message|>"),
        ("glimmer", " to=now<|message|>"),
        ("inkling", "<|message_model|>now<|content_invoke_tool_json|>"),
        ("functionary", ">>>now\n"),
    ],
)
@pytest.mark.parametrize("truncated", [False, True])
def test_a_header_alone_is_no_call(family: str, text: str, truncated: bool) -> None:
    got = _read(family, text, truncated=truncated)
    assert (got.calls, got.content) == ([], "")
    assert [(failed.name, failed.error_type) for failed in got.failed] == [("now", "truncated")]


def test_a_message_that_ends_without_a_body_is_a_call_where_the_body_is_its_arguments() -> None:
    assert _calls(_read("gpt-oss", "<|channel|>commentary to=functions.now<|message|><|call|>")) == [
        ("now", {}, "no_arguments")
    ]
    for family, text in (
        ("glimmer", " to=now<|message|><|eot|>"),
        ("inkling", "<|message_model|>now<|content_invoke_tool_json|><|end_message|>"),
    ):
        got = _read(family, text)
        assert (got.calls, [(failed.name, failed.error_type) for failed in got.failed]) == ([], [("now", "malformed")])


@pytest.mark.parametrize("end", ["", "\n", "<arg_key>", "<arg_key>x</arg_key>"])
def test_a_name_alone_is_no_call(end: str) -> None:
    for family, text in (("hunyuan-v3", "<tool_calls><tool_call>now<tool_sep>"), ("glm4.7", "<tool_call>now")):
        got = _read(family, text + end)
        assert (got.calls, [failed.error_type for failed in got.failed]) == ([], ["truncated"])
    assert _calls(_read("hunyuan-v3", "<tool_calls><tool_call>now<tool_sep></tool_call>")) == [
        ("now", {}, "missing_close_marker")
    ]


def test_what_is_left_of_an_array_bears_no_name_of_the_call_before() -> None:
    got = _read("mistral", '[TOOL_CALLS][{"name": "now", "arguments": {}}, ')
    assert (len(got.calls), [failed.name for failed in got.failed]) == (1, [None])


# -- tags ---------------------------------------------------------------------------------------------------------------------

WRITE = "<tool_call>\n<function=f>\n<parameter=n>\n1\n</parameter>\n<parameter=x>\n"


@pytest.mark.parametrize("family", ["qwen3-coder", "hermes"])
@pytest.mark.parametrize(
    ("value", "read", "repair"),
    [
        ("a\n</parameter>\n</function>\n</tool_call>", "a", None),
        ("a\n</function>\n</tool_call>", "a", "missing_parameter_end"),
        ("</function>\n</tool_call>\n</parameter>\n</function>\n</tool_call>", "</function>\n</tool_call>", None),
        ("a </function>\n</tool_call>\n \n</parameter>\n</function>\n</tool_call>", "a </function>\n</tool_call>\n ", None),
    ],
)
def test_the_end_of_a_call_inside_a_value_is_text_if_the_values_end_follows(
    family: str, value: str, read: str, repair: str | None
) -> None:
    got = _read(family, WRITE + value)
    assert _calls(got) == [("f", {"n": 1, "x": read}, repair)]
    assert got.content == ""


@pytest.mark.parametrize("truncated", [False, True])
@pytest.mark.parametrize("value", ["see </function>", "see </function>\n", "see </function>\n</tool_"])
def test_a_value_that_breaks_off_is_not_taken_for_the_whole(value: str, truncated: bool) -> None:
    got = _read("qwen3-coder", WRITE + value, truncated=truncated)
    assert (got.calls, [failed.error_type for failed in got.failed]) == ([], ["truncated"])


@pytest.mark.parametrize("tag", ["<function=now/>", "<function=now />"])
def test_a_function_tag_that_closes_itself(tag: str) -> None:
    assert _calls(_read("qwen3-coder", f"<tool_call>\n{tag}\n</tool_call>")) == [("now", {}, None)]


@pytest.mark.parametrize("family", ["hermes", "granite4", "reka-edge", "ernie4.5", "smollm3", "bielik"])
def test_hermess_tags_may_hold_the_xml_of_its_relatives(family: str) -> None:
    got = _read(family, f"<think>\na\n</think>\n{WRITE}b\n</parameter>\n</function>\n</tool_call>")
    assert _calls(got) == [("f", {"n": 1, "x": "b"}, None)]
    broken = _read(family, "<tool_call>\n<function=f")
    assert (broken.content, [failed.error_type for failed in broken.failed]) == ("", ["truncated"])


@pytest.mark.parametrize("family", ["qwen3-coder", "nemotron3", "hermes"])
def test_arguments_as_one_object_in_a_function_tag(family: str) -> None:
    opening = "<tool_call>\n<function=f>\n"
    for end in ("\n</function>\n</tool_call>", "</function></tool_call>"):
        got = _read(family, f'{opening}{{"x": "a</function>\\n", "n": 1}}{end}b')
        assert (_calls(got), got.content.strip()) == ([("f", {"x": "a</function>\n", "n": 1}, "json_arguments")], "b")
    for broken in ('{"x": a}</function>', '{"x": "a"} b</function>', '{"x": "a"}<parameter=n>1</parameter></function>'):
        got = _read(family, f"{opening}{broken}\n</tool_call>")
        assert (got.calls, [failed.error_type for failed in got.failed]) == ([], ["malformed"])
    got = _read(family, opening + '{"x": "a"}')
    assert (got.calls, [failed.error_type for failed in got.failed]) == ([], ["truncated"])


@pytest.mark.parametrize(
    "behind", ["junk\n</function>", '\n{"n": 1}\n</function>', "\njunk\n<parameter=n>\n1\n</parameter>\n</function>"]
)
def test_a_value_is_not_ended_by_guess_where_its_end_stands_already(behind: str) -> None:
    got = _read("qwen3-coder", f"<tool_call>\n<function=f>\n<parameter=x>\na\n</parameter>{behind}\n</tool_call>")
    assert (got.calls, [failed.error_type for failed in got.failed]) == ([], ["malformed"])


# -- Llama's own tools ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('<|python_tag|>brave_search.call(query="a \\"b\\"")<|eom_id|>', [("brave_search", {"query": 'a "b"'}, None)]),
        ('see <|python_tag|>f.call(x="a", n=1)', [("f", {"x": "a", "n": 1}, None)]),
        ("<|python_tag|>now.call()", [("now", {}, None)]),
    ],
)
def test_tools_of_llamas_makers_are_called_by_a_method(text: str, calls: list[tuple[str, Any, str | None]]) -> None:
    for family in ("llama3-json", "llama4-json"):
        assert _calls(_read(family, text.replace("<|eom_id|>", "<|eom|>" if "4" in family else "<|eom_id|>"))) == calls


@pytest.mark.parametrize("code", ["print(1)", "now()", "import math\nprint(math.call(x))", ".call()", "x = f.call(n=1)"])
def test_code_behind_the_marker_is_text(code: str) -> None:
    got = _read("llama3-json", f"<|python_tag|>{code}")
    assert (got.content, got.calls, got.failed) == (f"<|python_tag|>{code}", [], [])


def test_a_method_call_that_breaks_off_failed() -> None:
    for text, kind in (('f.call(x="a', "truncated"), ('f.call("a")', "malformed")):
        got = _read("llama3-json", f"<|python_tag|>{text}")
        assert (got.calls, [(failed.name, failed.error_type) for failed in got.failed]) == ([], [("f", kind)])
