"""Histories as people have them, and as templates must see them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.formats.base import Tool
from daneel.formats.history import HistoryError, check, for_template
from daneel.formats.registry import detect, get
from daneel.formats.template_traits import TemplateTraits

Message = dict[str, Any]
TOOLS = [
    Tool("now", "Get the time."),
    Tool(
        "find",
        parameters={
            "properties": {
                "text": {"type": "string", "description": "What to look for."},
                "kind": {"enum": ["a", 1]},
                "n": {"type": ["integer", "null"]},
            },
            "required": ["text"],
        },
    ),
]


def _call(name: str, arguments: Any = "{}", call_id: str | None = "c1") -> Message:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


GEMMA = TemplateTraits(orphan_results=False, content_with_calls="apart")


def _template(messages: list[Message], family: str = "hermes", **how: Any) -> list[Message]:
    traits = replace(GEMMA if family == "gemma4" else TemplateTraits(), knows_tools=how.pop("template_knows_tools", True))
    return for_template(check(messages), family=get(family), **{"tools": (), "style": "native", "traits": traits, **how})


ASKED = {"role": "user", "content": "What time?"}
CALLED = {"role": "assistant", "content": "I look.", "tool_calls": [_call("now"), _call("find", '{"text": "x"}', "c2")]}
RESULTS = [{"role": "tool", "tool_call_id": "c1", "content": "12:00"}, {"role": "tool", "tool_call_id": "c2", "content": None}]
FAILED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [_call("now")],
    "failed_tool_calls": [{"id": "f1", "position": 0, "raw": "<RAW>", "name": None}],
}
FAILED_RESULTS = [
    {"role": "tool", "tool_call_id": "f1", "content": "not read"},
    {"role": "tool", "tool_call_id": "c1", "content": "12:00"},
]


def test_roles_and_content_as_people_have_them() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}, "c"]
    got = check(
        [
            {"role": "developer", "content": "s"},
            {"role": "user", "content": parts, "name": "kept"},
            {"role": "model", "content": None, "reasoning_content": "why"},
            {"role": "function", "name": "now", "content": {"time": 12}},
        ]
    )
    assert got == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "abc", "name": "kept"},
        {"role": "assistant", "content": "", "reasoning": "why"},
        {"role": "tool", "name": "now", "content": '{"time": 12}', "tool_call_id": ""},
    ]


@pytest.mark.parametrize("arguments", ['{"text": "x"}', {"text": "x"}])
def test_arguments_become_objects(arguments: Any) -> None:
    (message,) = check([{"role": "assistant", "tool_calls": [_call("find", arguments, None)]}])
    assert message["tool_calls"] == [_call("find", {"text": "x"}, "call_0_0")]
    (old,) = check([{"role": "assistant", "function_call": {"name": "find", "arguments": arguments}}])
    assert old["tool_calls"] == message["tool_calls"]


def test_googles_results_become_tool_messages() -> None:
    responses = [
        {"name": "find", "response": {"found": 1}},
        {"name": "now", "response": "12"},
        {"name": "other", "response": None},
    ]
    got = check([{"role": "model", "tool_calls": [_call("now"), _call("find", None, "c2")], "tool_responses": responses}])
    assert [(message["tool_call_id"], message["name"], message["content"]) for message in got[1:]] == [
        ("c2", "find", '{"found": 1}'),
        ("c1", "now", "12"),
        ("", "other", ""),
    ]
    assert "tool_responses" not in got[0]


@pytest.mark.parametrize(
    ("message", "field", "says"),
    [
        ("hello", "", "an object"),
        ({"role": "narrator", "content": "x"}, "role", "'narrator'"),
        ({"content": "x"}, "role", "None"),
        ({"role": "user", "content": 5}, "content", "a number"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {}}]}, "content[0]", "'image_url'"),
        ({"role": "assistant", "tool_calls": {}}, "tool_calls", "a list"),
        ({"role": "assistant", "tool_calls": [5]}, "tool_calls[0]", "a number"),
        ({"role": "assistant", "tool_calls": [_call("")]}, "tool_calls[0].function.name", "a name"),
        ({"role": "assistant", "tool_calls": [_call("f", "{")]}, "tool_calls[0].function.arguments", "not JSON"),
        ({"role": "assistant", "tool_calls": [_call("f", "[]")]}, "tool_calls[0].function.arguments", "a list"),
        ({"role": "assistant", "tool_calls": [_call("f", '{"x": NaN}')]}, "tool_calls[0].function.arguments", "NaN"),
        ({"role": "assistant", "tool_calls": [_call("f", '{"x": 1e999}')]}, "tool_calls[0].function.arguments", "range"),
        ({"role": "assistant", "reasoning": 5}, "reasoning", "a number"),
        ({"role": "assistant", "failed_tool_calls": [{}]}, "failed_tool_calls[0].raw", "null"),
        ({"role": "assistant", "failed_tool_calls": [{"raw": "x", "position": -1}]}, "failed_tool_calls[0].position", "-1"),
        ({"role": "tool", "tool_call_id": 5}, "tool_call_id", "a number"),
        ({"role": "user", "content": "x", "tool_calls": [_call("f")]}, "tool_calls", "user"),
    ],
)
def test_what_cannot_be_used_names_message_and_field(message: Any, field: str, says: str) -> None:
    with pytest.raises(HistoryError) as caught:
        check([ASKED, message])
    assert (caught.value.index, caught.value.field) == (1, field)
    assert says in caught.value.message
    assert str(caught.value).startswith("messages[1]")


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)
fields = [
    "role",
    "content",
    "tool_calls",
    "failed_tool_calls",
    "tool_responses",
    "tool_call_id",
    "name",
    "reasoning",
    "function_call",
]


@given(
    messages=st.lists(st.one_of(json_values, st.dictionaries(st.sampled_from(fields), json_values)), max_size=3),
    role=st.sampled_from(["assistant", "tool"]),
)
def test_any_json_is_either_read_or_refused(messages: list[Any], role: str) -> None:
    messages = [{**message, "role": role} if isinstance(message, dict) else message for message in messages]
    try:
        checked = check(messages)
    except HistoryError:
        return
    for knows in (True, False):
        for style in ("native", "plain"):
            for message in for_template(
                checked, family=get("hermes"), tools=TOOLS, style=style, traits=TemplateTraits(knows_tools=knows)
            ):
                assert isinstance(message["content"], str)


def test_native_calls_stay_calls_and_reasoning_gets_the_field_templates_read() -> None:
    got = _template([ASKED, {**CALLED, "content": "I look.\n", "reasoning": "R"}, *RESULTS])
    assert (got[1]["content"], got[1]["reasoning_content"]) == ("I look.", "R")
    assert got[1]["tool_calls"][1]["function"]["arguments"] == {"text": "x"}
    assert [(message["name"], message["content"]) for message in got[2:]] == [("now", "12:00"), ("find", "")]


def test_a_failed_call_stands_where_it_stood() -> None:
    got = _template([ASKED, FAILED, *FAILED_RESULTS])
    assert got[1] == {"role": "assistant", "content": '<RAW>\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'}
    assert [message["content"] for message in got[2:]] == ["not read", "12:00"]


def test_where_only_calls_may_have_results_a_failed_one_is_answered_by_a_user_message_behind_them() -> None:
    got = _template([ASKED, FAILED, *FAILED_RESULTS, {"role": "user", "content": "So?"}], "gemma4")
    assert [(message["role"], message["content"]) for message in got[1:]] == [
        ("assistant", "<RAW>"),
        ("assistant", ""),
        ("tool", "12:00"),
        ("user", "<tool_response>\nunknown: not read\n</tool_response>"),
        ("user", "So?"),
    ]


AGAIN = [
    {"role": "assistant", "content": "", "tool_calls": [_call("now", "{}", "c3")]},
    {"role": "tool", "tool_call_id": "c3", "content": "12:01"},
]


ANSWER_OR_CALL = (
    "Call the next tools if the task needs more. If not, answer the question with a full sentence, "
    "using all these results: What time?"
)


def test_plain_results_stand_behind_each_turn_that_called_with_the_question_again() -> None:
    got = _template([ASKED, CALLED, *RESULTS, *AGAIN], "generic", style="plain")
    calls = '[{"name": "now", "arguments": {}}, {"name": "find", "arguments": {"text": "x"}}]'
    assert got == [
        ASKED,
        {"role": "assistant", "content": "I look.\n" + calls},
        {"role": "user", "content": f"Tool results:\nnow: 12:00\nfind: \n\n{ANSWER_OR_CALL}"},
        {"role": "assistant", "content": '[{"name": "now", "arguments": {}}]'},
        {"role": "user", "content": f"Tool results:\nnow: 12:01\n\n{ANSWER_OR_CALL}"},
    ]


def test_what_was_told_plainly_stays_as_it_was_on_later_turns() -> None:
    history = [ASKED, CALLED, *RESULTS, *AGAIN]
    later = _template(history, "generic", style="plain")
    assert later[:3] == _template(history[:4], "generic", style="plain")


def test_a_notice_of_the_harness_is_not_the_question_and_joins_the_results_before_it() -> None:
    notice = {"role": "user", "content": "Answer now.", "name": "harness"}
    got = _template([ASKED, CALLED, *RESULTS, notice], "generic", style="plain")
    assert [message["role"] for message in got] == ["user", "assistant", "user"]
    assert got[-1]["content"].endswith(f"{ANSWER_OR_CALL}\n\nAnswer now.")
    announced = {"role": "assistant", "content": "I will call now."}
    got = _template([ASKED, announced, notice, CALLED, *RESULTS], "generic", style="plain")
    assert got[2]["content"] == "Answer now."
    assert got[-1]["content"].endswith("What time?")


SMOLLM = detect("You are a helpful AI assistant named SmolLM, trained by Hugging Face")


def _smollm(history: list[Message]) -> list[Message]:
    return for_template(check(history), family=SMOLLM, tools=TOOLS, style="plain", traits=TemplateTraits(knows_tools=False))


def test_plain_results_in_the_place_of_the_question_for_models_that_want_it() -> None:
    got = _smollm([ASKED, CALLED, *RESULTS, *AGAIN])
    assert got[0]["content"].startswith(
        "You are a helpful AI assistant named SmolLM, trained by Hugging Face\n\nYou can call these tools:\n- now()"
    )
    assert got[1:] == [{"role": "user", "content": "What time?\n\nTool results:\nnow: 12:00\nfind: \nnow: 12:01"}]


def test_a_failed_call_stays_where_it_stood_even_where_calls_are_left_out() -> None:
    got = _smollm([ASKED, FAILED, *FAILED_RESULTS])
    assert [message["role"] for message in got] == ["system", "user", "assistant", "user"]
    assert got[2]["content"] == '<RAW>\n[{"name": "now", "arguments": {}}]'
    assert got[3]["content"] == "What time?\n\nTool results:\nunknown: not read\nnow: 12:00"
    again = _smollm([ASKED, FAILED, *FAILED_RESULTS, {"role": "user", "content": "And now?"}, CALLED, *RESULTS])
    assert again[-1]["content"] == "And now?\n\nTool results:\nnow: 12:00\nfind:"


@pytest.mark.parametrize("style", ["native", "plain"])
@pytest.mark.parametrize("family", ["hermes", "gemma4", "generic"])
@pytest.mark.parametrize("knows", [True, False])
def test_the_text_of_a_failed_call_is_not_told_twice(family: str, style: str, knows: bool) -> None:
    both = {**FAILED, "content": "Well: <RAW>"}
    got = _template([ASKED, both, *FAILED_RESULTS], family, style=style, template_knows_tools=knows)
    assert sum(message["content"].count("<RAW>") for message in got) == 1


def test_a_worked_example_stands_before_a_question_without_results() -> None:
    got = _smollm([{"role": "system", "content": "Be kind."}, ASKED])
    assert [message["role"] for message in got] == ["system", "user", "assistant", "user"]
    assert got[0]["content"] == "Be kind."
    assert got[1]["content"].startswith("How is the weather and how many people live here?\n\nYou can call these tools:\n")
    assert got[2]["content"] == '[{"name": "get_weather", "arguments": {}}, {"name": "get_population", "arguments": {}}]'
    assert got[3]["content"].startswith("What time?\n\nYou can call these tools:\n- now(): Get the time.\n")


def test_each_question_is_told_the_tools_afresh() -> None:
    answer = {"role": "assistant", "content": "Noon."}
    got = _smollm([ASKED, CALLED, *RESULTS, answer, {"role": "user", "content": "And now?"}])
    assert got[-1]["content"].startswith("And now?\n\nYou can call these tools:")
    assert sum("You can call these tools:" in message["content"] for message in got) == 2


def test_plain_results_belong_to_the_question_they_answer() -> None:
    answer = {"role": "assistant", "content": "Noon."}
    got = _template([ASKED, CALLED, *RESULTS, answer, {"role": "user", "content": "Thanks"}], "generic", style="plain")
    assert [message["role"] for message in got] == ["user", "assistant", "user", "assistant", "user"]
    assert got[-1]["content"] == "Thanks"


def test_a_template_without_tools_gets_them_in_the_system_message() -> None:
    got = _template(
        [{"role": "system", "content": "Be kind."}, ASKED, CALLED, *RESULTS], "generic", tools=TOOLS, template_knows_tools=False
    )
    assert [message["role"] for message in got] == ["system", "user", "assistant", "user"]
    system = got[0]["content"]
    assert system.startswith("Be kind.\n\n")
    assert (
        '- now(): Get the time.\n- find(text: string, kind?: "a" or 1, n?: integer or null)\n  text: What to look for.\n'
        in system
    )
    assert '[{"name": "<tool name>", "arguments": {<arguments>}}, ...]' in system
    assert got[2]["content"] == 'I look.\n[{"name": "now", "arguments": {}}, {"name": "find", "arguments": {"text": "x"}}]'
    assert got[3]["content"] == "<tool_response>\nnow: 12:00\n</tool_response>\n<tool_response>\nfind: \n</tool_response>"
    assert _template([ASKED], "generic", tools=TOOLS, template_knows_tools=False)[0]["role"] == "system"


def test_the_checked_history_is_not_changed() -> None:
    checked = check([ASKED, CALLED, *RESULTS, FAILED])
    before = json.dumps(checked)
    for style in ("native", "plain"):
        for_template(checked, family=get("gemma4"), tools=TOOLS, style=style, traits=GEMMA)
    assert json.dumps(checked) == before
