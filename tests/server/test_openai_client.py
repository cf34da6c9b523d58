"""The dialect as its own client sees it: a real server with the scripted engine, over a real socket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest

from daneel.cli.local_server import LocalServer
from daneel.wire.accumulate import Accumulator
from daneel.wire.sse import Decoder

MESSAGES: Any = [{"role": "user", "content": "What's the current date and time?"}]
TOOLS: Any = [
    {"type": "function", "function": {"name": "cur_time", "description": "Get current time"}},
    {
        "type": "function",
        "function": {"name": "cur_date", "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}}},
    },
]


def call(name: str, arguments: str = "{}") -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


SCRIPTS = {
    "text": "Hello, wörld 🙂!",
    "reasoning": "<think>\nLet me think.\n</think>\n\nIt is noon.",
    "two calls": "I'll look. " + call("cur_time") + "\n" + call("cur_date", '{"zone": "UTC"}'),
    "failed call": call("cur_time") + call("cur_date", '{"zone": }'),
    "unclosed call": '<tool_call>\n{"name": "cur_da',
    "unknown tool": call("no_such_tool"),
    "wrong arguments": call("cur_date", '{"zone": 5}'),
    "fenced call": '```json\n{"name": "cur_time", "arguments": {}}\n```',
    "nothing": "",
    "broken bytes": "caf\ufffd",
    "markup that is none": "a < b <tool_cal <|im_ <think",
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with LocalServer(None, engine="scripted") as url:
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        yield client


def whole(client: openai.OpenAI, script: str | list[str], **fields: Any) -> dict[str, Any]:
    extra = {"script": script, **fields.pop("extra_body", {})}
    reply = client.chat.completions.create(model="scripted", messages=MESSAGES, extra_body=extra, **fields)
    return reply.model_dump(exclude_unset=True)


def raw_stream(url: str, script: str, **fields: Any) -> tuple[list[dict[str, Any]], str]:
    """The stream's chunks, and everything as text."""
    body = {"messages": MESSAGES, "script": script, "stream": True, **fields}
    text = httpx2.post(f"{url}/chat/completions", json=body, timeout=30).content
    events = [event for event in Decoder().feed(text) if event.kind == "data"]
    assert events[-1].is_done
    return [json.loads(event.text) for event in events[:-1]], text.decode()


def test_chat(client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(model="scripted", messages=MESSAGES, extra_body={"script": SCRIPTS["text"]})
    assert reply.choices[0].message.content == "Hello, wörld 🙂!"
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage is not None
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens


def test_tools(client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(
        model="scripted", messages=MESSAGES, tools=TOOLS, extra_body={"script": SCRIPTS["two calls"]}
    )
    message = reply.choices[0].message
    assert reply.choices[0].finish_reason == "tool_calls"
    assert message.content is not None
    assert message.content.strip() == "I'll look."
    calls: Any = message.tool_calls
    assert [(each.function.name, each.function.arguments) for each in calls] == [
        ("cur_time", "{}"),
        ("cur_date", '{"zone": "UTC"}'),
    ]
    # and the results go back in the way the client has them
    history = [*MESSAGES, message.to_dict(), *({"role": "tool", "tool_call_id": each.id, "content": "12:00"} for each in calls)]
    answer = client.chat.completions.create(
        model="scripted", messages=history, tools=TOOLS, extra_body={"script": "It is noon.", "include": ["prompt_text"]}
    )
    assert answer.choices[0].message.content == "It is noon."
    assert answer.to_dict()["daneel"]["prompt_text"].count("12:00") == 2  # type: ignore[index]


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("style", ["content", "report"])
def test_streamed_equals_whole(client: openai.OpenAI, url: str, name: str, style: str) -> None:
    fields: dict[str, Any] = {"tools": TOOLS, "extra_body": {"on_failed_tool_call": style}}
    reply = whole(client, SCRIPTS[name], **fields)
    assert list(_sdk_stream(client, SCRIPTS[name], **fields))
    chunks, _ = raw_stream(url, SCRIPTS[name], tools=TOOLS, on_failed_tool_call=style, stream_options={"include_usage": True})
    joined, read = Accumulator(), Accumulator()
    for chunk in chunks:
        joined.add(chunk)
    read.add(reply)
    assert joined.message() == read.message()
    assert joined.finish_reason == reply["choices"][0]["finish_reason"]
    assert joined.usage == read.usage
    assert chunks[-1]["choices"] == []


def _sdk_stream(client: openai.OpenAI, script: str, **fields: Any) -> Iterator[Any]:
    """Through the client's own accumulating helper, which fails on calls without a dense index."""
    extra = {"script": script, **fields["extra_body"]}
    with client.chat.completions.stream(model="scripted", messages=MESSAGES, tools=fields["tools"], extra_body=extra) as stream:
        yield from stream
        stream.get_final_completion()


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_account_adds_up(client: openai.OpenAI, name: str) -> None:
    include = ["raw_text", "token_ids", "token_states"]
    reply = whole(client, SCRIPTS[name], tools=TOOLS, extra_body={"include": include})
    details = reply["usage"]["completion_tokens_details"]
    kinds = ("reasoning", "content", "tool", "failed", "control")
    assert sum(details[f"{kind}_tokens"] for kind in kinds) == reply["usage"]["completion_tokens"]
    states = reply["daneel"]["token_states"]
    assert {kind: states.count(kind) for kind in kinds} == {kind: details[f"{kind}_tokens"] for kind in kinds}
    assert len(states) == len(reply["daneel"]["token_ids"]) == reply["usage"]["completion_tokens"]
    assert reply["daneel"]["raw_text"] == SCRIPTS[name] + "<|end|>"


def test_each_kind_of_reply(client: openai.OpenAI) -> None:
    def message(name: str, **extra: Any) -> dict[str, Any]:
        return dict(whole(client, SCRIPTS[name], tools=TOOLS, extra_body=extra)["choices"][0]["message"])

    assert message("reasoning")["reasoning"].strip() == "Let me think."
    assert message("reasoning", reasoning_field="reasoning_content")["reasoning_content"].strip() == "Let me think."
    failed = message("failed call", on_failed_tool_call="report")
    assert failed["content"] is None
    [broken] = failed["failed_tool_calls"]
    assert (broken["position"], broken["name"], broken["error"]["type"], broken["format"]) == (
        1,
        "cur_date",
        "malformed",
        "hermes",
    )
    assert broken["raw"] in SCRIPTS["failed call"]
    assert message("failed call")["content"] == broken["raw"]
    assert [issue["type"] for issue in message("unknown tool")["tool_call_issues"]] == ["unknown_tool"]
    [issue] = message("wrong arguments")["tool_call_issues"]
    assert (issue["type"], issue["path"]) == ("invalid_arguments", "/zone")
    fenced = message("fenced call")
    assert fenced["repairs"][0]["tool_call_id"] == fenced["tool_calls"][0]["id"]
    assert fenced["repairs"][0]["raw"] == SCRIPTS["fenced call"]
    assert set(message("text")) == {"role", "content"}


def test_max_tokens_in_the_middle_of_a_call(client: openai.OpenAI) -> None:
    reply = whole(client, SCRIPTS["two calls"].removeprefix("I'll look. "), tools=TOOLS, max_tokens=4)
    choice = reply["choices"][0]
    assert choice["finish_reason"] == "length"
    [failed] = choice["message"]["failed_tool_calls"]
    assert failed["error"]["type"] == "truncated"
    assert failed["raw"] == '<tool_call>\n{"'
    assert failed["token_span"] == [0, 4]


@pytest.mark.parametrize("stream", [True, False])
def test_stop_strings_also_when_split_over_tokens(client: openai.OpenAI, url: str, stream: bool) -> None:
    script = "one two END three"
    if stream:
        joined = Accumulator()
        for chunk in raw_stream(url, script, stop=["END"])[0]:
            joined.add(chunk)
        content, reason = joined.message().content, joined.finish_reason
    else:
        choice = whole(client, script, stop=["END"])["choices"][0]
        content, reason = choice["message"]["content"], choice["finish_reason"]
    assert (content, reason) == ("one two ", "stop")


def test_log_probabilities_are_the_same_in_both_forms(client: openai.OpenAI, url: str) -> None:
    reply = whole(client, SCRIPTS["two calls"], tools=TOOLS, logprobs=True, top_logprobs=1)
    entries = reply["choices"][0]["logprobs"]["content"]
    assert bytes(byte for entry in entries for byte in entry["bytes"]).decode().startswith("I'll look. ")
    chunks, _ = raw_stream(url, SCRIPTS["two calls"], tools=TOOLS, logprobs=True, top_logprobs=1)
    streamed = [choice["logprobs"]["content"] for chunk in chunks for choice in chunk["choices"] if "logprobs" in choice]
    assert [entry for part in streamed for entry in part] == entries
    calls = reply["choices"][0]["logprobs"]["tool_calls"]
    assert b"cur_time" in bytes(byte for entry in calls for byte in entry["bytes"])
    parts = [
        choice["logprobs"].get("tool_calls", []) for chunk in chunks for choice in chunk["choices"] if "logprobs" in choice
    ]
    assert [entry for part in parts for entry in part] == calls


def test_ignored_fields_are_warnings_or_errors(client: openai.OpenAI, url: str) -> None:
    reply = whole(client, "x", extra_body={"temprature": 1}, user="me")
    assert {warning["field"] for warning in reply["warnings"]} == {"temprature", "user"}
    chunks, _ = raw_stream(url, "x", temprature=1)
    assert [chunk["warnings"][0]["field"] for chunk in chunks if "warnings" in chunk] == ["temprature"]
    with pytest.raises(openai.BadRequestError, match="temprature"):
        whole(client, "x", extra_body={"temprature": 1, "strict_fields": True})


def test_a_failed_call_as_an_error(client: openai.OpenAI, url: str) -> None:
    with pytest.raises(openai.UnprocessableEntityError, match="cur_date"):
        whole(client, SCRIPTS["failed call"], tools=TOOLS, extra_body={"on_failed_tool_call": "error"})
    chunks, _ = raw_stream(url, SCRIPTS["failed call"], tools=TOOLS, on_failed_tool_call="error")
    assert chunks[-1]["error"]["type"] == "tool_call_error"
    extra = {"script": SCRIPTS["failed call"], "on_failed_tool_call": "error"}
    stream = client.chat.completions.create(model="scripted", messages=MESSAGES, tools=TOOLS, extra_body=extra, stream=True)
    with pytest.raises(openai.APIError, match="cur_date"):
        list(stream)


def test_the_other_errors_as_the_client_sees_them(client: openai.OpenAI, url: str) -> None:
    with pytest.raises(openai.NotFoundError, match="gpt-4"):
        client.chat.completions.create(model="gpt-4", messages=MESSAGES)
    with pytest.raises(openai.BadRequestError, match=r"messages\[0\]"):
        client.chat.completions.create(model="scripted", messages=[{"role": "wizard", "content": "x"}])  # type: ignore[list-item]
    with pytest.raises(openai.BadRequestError, match="32768"):
        client.chat.completions.create(model="scripted", messages=[{"role": "user", "content": "x" * 40_000}])
    with pytest.raises(openai.BadRequestError, match="add_generation_prompt and continue_final_message"):
        whole(client, "x", extra_body={"add_generation_prompt": True, "continue_final_message": True})
    assert httpx2.get(f"{url}/chat/completions").status_code == 405
    assert httpx2.post(f"{url}/chat/completions", content=b"{}").status_code == 415


def test_the_prompt_can_be_continued_or_left_open(client: openai.OpenAI) -> None:
    def prompt(messages: Any, **extra: Any) -> str:
        extra = {"script": "x", "include": ["prompt_text"], **extra}
        reply = client.chat.completions.create(model="scripted", messages=messages, extra_body=extra)
        return str(reply.to_dict()["daneel"]["prompt_text"])  # type: ignore[index]

    begun = [*MESSAGES, {"role": "assistant", "content": "It is "}]
    assert prompt(MESSAGES).endswith("<|im_start|>assistant\n")
    assert prompt(MESSAGES, add_generation_prompt=False).endswith("<|im_end|>\n")
    assert prompt(begun, continue_final_message=True).endswith("<|im_start|>assistant\nIt is ")
    assert prompt(begun, chat_template_kwargs={"continue_final_message": True, "add_generation_prompt": False}).endswith(
        "It is "
    )


def test_the_models(client: openai.OpenAI) -> None:
    [model] = client.models.list().data
    assert model.id == client.models.retrieve("scripted").id == "scripted"
    assert model.to_dict()["format"] == "hermes"


def test_a_second_request_reads_from_the_cache(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "a question of its own"}]
    replies = [
        client.chat.completions.create(model="scripted", messages=messages, extra_body={"script": "x"}) for _ in range(2)
    ]
    usage: Any = replies[1].usage
    assert usage.prompt_tokens_details.cached_tokens == usage.prompt_tokens - 1
    assert replies[1].to_dict()["daneel"]["cache"]["read_tokens"] == usage.prompt_tokens - 1  # type: ignore[index]
