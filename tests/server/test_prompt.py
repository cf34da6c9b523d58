"""From messages to the prompt: whose word wins, what the template is given, and what does not fit."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.support.fake_model import FakeEngine, engine_info, fake_model

from daneel.server.prompt import Prompt, build_prompt
from daneel.server.prompt_writer import template_options
from daneel.server.served_model import ServedModel
from daneel.wire.errors import BadRequest, ContextTooLong
from daneel.wire.requests import ChatRequest, parse_chat_request

USER = {"role": "user", "content": "Hi"}
TOOL = {"type": "function", "function": {"name": "cur_time", "description": "Get current time"}}


def request(**fields: Any) -> ChatRequest:
    return parse_chat_request(json.dumps({"messages": [USER], **fields}).encode())[0]


def build(model: ServedModel, **fields: Any) -> Prompt:
    return asyncio.run(build_prompt(request(**fields), model))


@pytest.mark.parametrize(
    ("fields", "defaults", "opens", "continues"),
    [
        ({}, {}, True, False),
        ({"add_generation_prompt": False}, {}, False, False),
        ({"continue_final_message": True}, {}, False, True),
        ({"chat_template_kwargs": {"continue_final_message": True}}, {}, False, True),
        ({"continue_final_message": True, "chat_template_kwargs": {"add_generation_prompt": False}}, {}, False, True),
        ({}, {"add_generation_prompt": False}, False, False),
        ({}, {"continue_final_message": True}, False, True),
        ({"add_generation_prompt": True}, {"continue_final_message": True}, True, False),
        ({"continue_final_message": True}, {"add_generation_prompt": True}, False, True),
        ({"continue_final_message": False}, {"add_generation_prompt": False}, True, False),
    ],
)
def test_the_two_flags(fields: dict[str, Any], defaults: dict[str, Any], opens: bool, continues: bool) -> None:
    assert template_options(request(**fields), defaults)[1:] == (opens, continues)


def test_defaults_that_contradict_each_other_name_both_flags() -> None:
    with pytest.raises(BadRequest, match="add_generation_prompt and continue_final_message"):
        template_options(request(), {"add_generation_prompt": True, "continue_final_message": True})


def test_the_requests_variables_win_over_the_servers_and_flags_are_not_among_them() -> None:
    kwargs = {"enable_thinking": False, "add_generation_prompt": False}
    defaults = {"enable_thinking": True, "style": "x", "continue_final_message": False}
    assert template_options(request(chat_template_kwargs=kwargs), defaults)[0] == {"enable_thinking": False, "style": "x"}


def test_the_template_gets_tools_as_the_dialect_has_them() -> None:
    model = fake_model(FakeEngine())
    prompt = build(model, tools=[TOOL])
    asked = model.renderer.asked  # type: ignore[attr-defined]
    function = {"name": "cur_time", "description": "Get current time", "parameters": {"type": "object", "properties": {}}}
    assert asked["tools"] == [{"type": "function", "function": function}]
    assert prompt.tools.declared("cur_time")


def test_a_tool_without_parameters_takes_no_arguments() -> None:
    prompt = build(fake_model(FakeEngine()), tools=[TOOL])
    assert prompt.tools.issues("cur_time", "{}") == []
    assert [issue.type for issue in prompt.tools.issues("cur_time", '{"zone": "UTC"}')] == ["invalid_arguments"]


def test_a_template_that_knows_no_tools_gets_them_in_words() -> None:
    model = fake_model(FakeEngine(), family="generic", template_knows_tools=False)
    prompt = build(model, tools=[TOOL])
    assert not model.renderer.asked["tools"]  # type: ignore[attr-defined]
    assert "cur_time" in prompt.text


def test_tool_choice_none_shows_no_tools() -> None:
    model = fake_model(FakeEngine())
    prompt = build(model, tools=[TOOL], tool_choice="none")
    assert not model.renderer.asked["tools"]  # type: ignore[attr-defined]
    assert not prompt.tools.declared("cur_time")


@pytest.mark.parametrize(
    ("family", "style", "expected"),
    [
        ("generic", "auto", "plain"),
        ("hermes", "auto", "native"),
        ("hermes", "plain", "plain"),
        ("generic", "native", "native"),
    ],
)
def test_results_are_told_in_the_style_of_the_request_or_the_family(family: str, style: str, expected: str) -> None:
    assert build(fake_model(FakeEngine(), family=family), tool_result_style=style).result_style == expected


def test_the_first_token_of_the_model_is_there_once() -> None:
    model = fake_model(FakeEngine(info=engine_info(add_bos=True)))
    assert build(model).text == "<bos>user: Hi\n"
    without = fake_model(FakeEngine(info=engine_info(add_bos=False)))
    assert build(without).text == "user: Hi\n"
    by_template = fake_model(FakeEngine(info=engine_info(add_bos=True, bos_text="user")))
    assert build(by_template).text == "user: Hi\n"


def test_a_prompt_that_fills_the_context_is_refused_with_both_numbers() -> None:
    fits = fake_model(FakeEngine(info=engine_info(context_tokens=10)))
    assert len(build(fits).ids) == 9
    full = fake_model(FakeEngine(info=engine_info(context_tokens=9)))
    with pytest.raises(ContextTooLong, match="the prompt has 9 tokens, but the model's context holds 9 tokens"):
        build(full)


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([USER, {"role": "wizard", "content": "x"}], "messages[1].role"),
        ([{"role": "user", "content": 5}], "messages[0].content"),
    ],
)
def test_a_broken_history_names_the_message(messages: list[dict[str, Any]], param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        build(fake_model(FakeEngine()), messages=messages)
    assert caught.value.param == param
    assert param.partition(".")[0] in caught.value.message


def test_a_tool_whose_schema_is_none_is_refused_by_name() -> None:
    tool = {
        "type": "function",
        "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": 5}}}},
    }
    with pytest.raises(BadRequest, match="'f'"):
        build(fake_model(FakeEngine()), tools=[tool])
