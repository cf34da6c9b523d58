"""What a chat request may hold, and what becomes of the rest."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from daneel.wire.errors import BadRequest
from daneel.wire.ledger import NOT_HONOURED
from daneel.wire.request_checks import RANGES
from daneel.wire.requests import ChatRequest, parse_chat_request

MESSAGES = [{"role": "user", "content": "hi"}]


def body(**fields: Any) -> bytes:
    return json.dumps({"messages": MESSAGES, **fields}).encode()


def parsed(**fields: Any) -> ChatRequest:
    request, warnings = parse_chat_request(body(**fields))
    assert warnings == []
    return request


def refusal(**fields: Any) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        parse_chat_request(body(**fields))
    return caught.value


def ignored(**fields: Any) -> list[str]:
    _, warnings = parse_chat_request(body(**fields))
    assert {warning.action for warning in warnings} <= {"ignored"}
    return [warning.field for warning in warnings]


def tool(name: str, **function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **function}}


def test_the_plainest_request() -> None:
    request = parsed()
    assert request.messages == MESSAGES
    assert (request.stream, request.tools, request.tool_choice, request.temperature) == (False, [], "auto", None)


def test_null_is_absent() -> None:
    nulls = {name: None for name in ChatRequest.__struct_fields__ if name != "messages"}
    assert parsed(**nulls) == parsed()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"messages": None}, "messages: missing"),
        ({"messages": []}, "messages: empty"),
        ({"messages": "hi"}, "messages: must be an array, not a string"),
        ({"messages": [MESSAGES[0], "hi"]}, 'messages[1]: must be an object, not a string; got "hi"'),
        ({"temperature": "hot"}, 'temperature: expected float, got str: "hot"'),
        ({"temperature": True}, "temperature: expected float, got bool: true"),
        ({"max_tokens": 1.5}, "max_tokens: expected int, got float: 1.5"),
        ({"model": 7}, "model: expected str, got int: 7"),
        ({"stream": "yes"}, 'stream: expected bool, got str: "yes"'),
        ({"tools": {}}, "tools: expected array, got object: {}"),
        ({"tools": [{"type": "function"}]}, "tools[0]: object missing required field function"),
        ({"tools": [tool("f"), tool(3)]}, "tools[1].function.name: expected str, got int: 3"),  # type: ignore[arg-type]
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens (5) and max_completion_tokens (6) differ"),
        ({"n": 17}, "n: must be between 1 and 16; got 17"),
        ({"n": 0}, "n: must be between 1 and 16; got 0"),
        ({"top_logprobs": 3}, "top_logprobs: needs logprobs: true; got 3"),
        ({"stop": [""]}, "stop: string 0 is empty"),
        ({"stop": ""}, "stop: string 0 is empty"),
        ({"stop": ["x"] * 17}, "stop: 17 strings, at most 16"),
        ({"logit_bias": {"a": 1}}, 'logit_bias: the key "a" is no token id'),
        ({"logit_bias": {"-1": 1}}, 'logit_bias: the key "-1" is no token id'),
        ({"logit_bias": {"5": 100.5}}, "logit_bias.5: must be between -100 and 100; got 100.5"),
        ({"logit_bias": {"5": "x"}}, "logit_bias: expected float, got str"),
        ({"tools": [tool("f"), tool("f")]}, 'tools[1].function.name: is declared twice; got "f"'),
        ({"tools": [tool("a b")]}, "tools[0].function.name: must be 1 to 128"),
        ({"tools": [tool("")]}, "tools[0].function.name: must be 1 to 128"),
        ({"tools": [tool("<|im_end|>")]}, "tools[0].function.name: must be 1 to 128"),
        ({"tools": [{"type": "web", "function": {"name": "f"}}]}, 'tools[0].type: must be "function"; got "web"'),
        (
            {"tools": [tool("f", parameters={"type": "array"})]},
            'tools[0].function.parameters.type: must be "object"; got "array"',
        ),
        ({"tool_choice": "always"}, 'got "always"'),
        ({"tool_choice": "required"}, 'tool_choice: "required", but the request declares no tools'),
        ({"tool_choice": {"type": "function", "function": {"name": "g"}}, "tools": [tool("f")]}, "the request declares f"),
        ({"tool_choice": {"type": "function", "name": "f"}, "tools": [tool("f")]}, "must name a tool as function.name"),
        ({"tool_choice": {"type": "allowed_tools"}}, 'tool_choice.type: must be "function"; got "allowed_tools"'),
        (
            {"response_format": {"type": "xml"}},
            'response_format.type: must be "text", "json_object" or "json_schema"; got "xml"',
        ),
        ({"on_failed_tool_call": "hide"}, 'on_failed_tool_call: must be one of content, report, error; got "hide"'),
        ({"tool_result_style": "x"}, 'tool_result_style: must be one of auto, native, plain; got "x"'),
        ({"reasoning_field": "x"}, 'must be one of reasoning, reasoning_content, both; got "x"'),
        ({"cache": {"mode": "x"}}, 'cache.mode: must be one of read_write, read, off; got "x"'),
        ({"cache": {"mood": "x"}}, "cache: object contains unknown field mood"),
        ({"cache": {"pin_s": -1}}, "cache.pin_s: must be at least 0 seconds; got -1"),
        ({"include": ["raw_text", "weights"]}, "include[1]: must be one of"),
        ({"add_generation_prompt": "yes"}, 'add_generation_prompt: expected bool, got str: "yes"'),
        ({"chat_template_kwargs": {"add_generation_prompt": "yes"}}, 'must be true or false; got "yes"'),
        ({"chat_template_kwargs": {"continue_final_message": 1}}, "must be true or false; got 1"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages: not allowed"),
        ({"chat_template_kwargs": []}, "chat_template_kwargs: expected object, got array: []"),
    ],
)
def test_refused(fields: dict[str, Any], said: str) -> None:
    assert said in refusal(**fields).message


@pytest.mark.parametrize("name", RANGES)
def test_every_number_has_its_range(name: str) -> None:
    lowest, highest, _ = RANGES[name]
    beside = {"logprobs": True} if name == "top_logprobs" else {}
    whole = isinstance(lowest, int) and name not in ("temperature", "min_p", "presence_penalty", "frequency_penalty")
    for good in (lowest, highest):
        assert getattr(parsed(**{name: good}, **beside), name) == good
    step = 1 if whole else 0.001
    for bad in (lowest - step, highest + step):
        error = refusal(**{name: bad}, **beside)
        assert error.param == name
        assert error.message.startswith(f"{name}: must be ")
        assert error.message.endswith(f"got {json.dumps(bad)}")


def test_both_names_of_the_limit() -> None:
    assert parsed(max_completion_tokens=7).max_tokens == 7
    assert parsed(max_tokens=7, max_completion_tokens=7).max_tokens == 7
    assert parsed(max_tokens=7).max_tokens == 7


def test_stop_becomes_a_list() -> None:
    assert parsed(stop="x").stop == ["x"]
    assert parsed(stop=["x", "y"]).stop == ["x", "y"]
    assert parsed(stop=[]).stop is None


# --- the two prompt flags ---------------------------------------------------------------------------------------------

FLAGS = ("add_generation_prompt", "continue_final_message")


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("value", [True, False])
def test_a_flag_counts_in_either_place(name: str, value: bool) -> None:
    for fields in (
        {name: value},
        {"chat_template_kwargs": {name: value}},
        {name: value, "chat_template_kwargs": {name: value, "thinking": True}},
    ):
        request = parsed(**fields)
        assert getattr(request, name) is value
        assert name not in request.chat_template_kwargs
    assert request.chat_template_kwargs == {"thinking": True}


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_that_differs_in_the_two_places(name: str) -> None:
    error = refusal(**{name: True}, chat_template_kwargs={name: False})
    assert error.message == f"{name} is true and chat_template_kwargs.{name} is false: give one"


@pytest.mark.parametrize("places", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_both_true_names_both(places: tuple[int, int]) -> None:
    fields: dict[str, Any] = {"chat_template_kwargs": {}}
    for name, place in zip(FLAGS, places, strict=True):
        (fields["chat_template_kwargs"] if place else fields)[name] = True
    message = refusal(**fields).message
    assert all(name in message for name in FLAGS)


def test_flags_that_do_not_contradict() -> None:
    request = parsed(add_generation_prompt=False, chat_template_kwargs={"continue_final_message": True})
    assert (request.add_generation_prompt, request.continue_final_message) == (False, True)
    assert (parsed().add_generation_prompt, parsed().continue_final_message) == (UNSET, UNSET)


# --- the ledger -------------------------------------------------------------------------------------------------------


def test_every_field_is_honoured_or_listed_in_the_order_of_the_request() -> None:
    assert ignored(foo=1, user="me", temperature=1, reasoning_effort="low", bar=None) == [
        "foo",
        "user",
        "reasoning_effort",
        "bar",
    ]


@pytest.mark.parametrize("name", NOT_HONOURED)
def test_known_fields_that_are_not_honoured(name: str) -> None:
    assert ignored(**{name: "something"}) == [name]
    assert ignored(**{name: None}) == []
    error = refusal(**{name: "something"}, strict_fields=True)
    assert error.param == name
    assert name in error.message
    for neutral in NOT_HONOURED[name][1]:
        assert ignored(**{name: neutral}, strict_fields=True) == []


def test_one_is_not_true() -> None:
    assert ignored(best_of=True) == ["best_of"]
    assert ignored(store=0) == ["store"]


def test_nested_fields_are_in_the_ledger() -> None:
    tools = [tool("f"), {**tool("g", cache_control={}), "x": 1}]
    choice = {"type": "function", "function": {"name": "f", "y": 1}, "z": 1}
    fields = {
        "tools": tools,
        "tool_choice": choice,
        "stream": True,
        "stream_options": {"include_usage": True, "include_obfuscation": False, "w": 1},
    }
    expected = ["tools[1].x", "tools[1].function.cache_control", "tool_choice.z", "tool_choice.function.y", "stream_options.w"]
    assert ignored(**fields) == expected
    assert refusal(**fields, strict_fields=True).param == expected[0]


def test_options_of_a_stream_that_is_none() -> None:
    assert ignored(stream_options={"include_usage": True}) == ["stream_options"]


@pytest.mark.parametrize("kind", ["json_object", "json_schema"])
def test_a_response_format_is_never_dropped_in_silence(kind: str) -> None:
    assert ignored(response_format={"type": kind}) == ["response_format"]
    assert refusal(response_format={"type": kind}, strict_fields=True).param == "response_format"
    assert ignored(response_format={"type": "text"}, strict_fields=True) == []


NAMES = [*ChatRequest.__struct_fields__, *NOT_HONOURED, "foo"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "function", "name", "parameters", "mode", "5"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6))
def test_any_request_is_read_or_refused_and_nothing_vanishes(fields: dict[str, Any]) -> None:
    fields = {"messages": MESSAGES, **fields}
    try:
        request, warnings = parse_chat_request(json.dumps(fields).encode())
    except BadRequest as error:
        assert error.message  # noqa: PT017 - either outcome is right, silence is not
        return
    assert not (request.strict_fields and warnings)
    listed = {warning.field.partition("[")[0].partition(".")[0] for warning in warnings}
    for name, value in fields.items():
        honoured = name in ChatRequest.__struct_fields__ or value is None or value in NOT_HONOURED.get(name, ("", ()))[1]
        assert honoured or name in listed
