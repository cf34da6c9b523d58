"""The request path on the small real model, end to end over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from daneel.cli.local_server import LocalServer
from daneel.wire.accumulate import Accumulator
from daneel.wire.sse import Decoder

pytestmark = pytest.mark.model

TOOLS = [
    {"type": "function", "function": {"name": "cur_time", "description": "Get current time"}},
    {"type": "function", "function": {"name": "cur_date", "description": "Get current date"}},
]
NAMED = {"type": "function", "function": {"name": "cur_date"}}
QUESTION = [{"role": "user", "content": "What is the current date and time?"}]


@pytest.fixture(scope="module")
def url(smollm2_path: Path) -> Iterator[str]:
    with LocalServer(smollm2_path, extra_args=["--context", "2048"]) as url:
        yield url


def ask(url: str, **fields: Any) -> dict[str, Any]:
    body = {"messages": QUESTION, "temperature": 0, "max_tokens": 60, "include": ["raw_text", "prompt_text"], **fields}
    response = httpx2.post(f"{url}/chat/completions", json=body, timeout=110)
    assert response.status_code == 200, response.text
    return dict(response.json())


def ask_streamed(url: str, **fields: Any) -> Accumulator:
    body = {"messages": QUESTION, "temperature": 0, "max_tokens": 60, "stream": True, **fields}
    joined = Accumulator()
    for event in Decoder().feed(httpx2.post(f"{url}/chat/completions", json=body, timeout=110).content):
        if event.kind == "data" and not event.is_done:
            joined.add(json.loads(event.text))
    return joined


def test_a_sampled_reply_is_the_same_streamed_and_whole(url: str) -> None:
    fields: dict[str, Any] = {"temperature": 0.9, "seed": 11, "max_tokens": 30}
    whole, joined = Accumulator(), ask_streamed(url, **fields)
    whole.add(ask(url, **fields))
    assert joined.message() == whole.message()
    assert joined.message().content
    assert joined.finish_reason == whole.finish_reason


@pytest.mark.parametrize(("choice", "names"), [("required", {"cur_time", "cur_date"}), (NAMED, {"cur_date"})])
def test_a_forced_call_is_a_call_of_the_tools_allowed(url: str, choice: Any, names: set[str]) -> None:
    reply = ask(url, tools=TOOLS, tool_choice=choice, parallel_tool_calls=False)
    assert reply["choices"][0]["finish_reason"] == "tool_calls"
    [call] = reply["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] in names
    assert call["function"]["arguments"].replace(" ", "").replace("\n", "") == "{}"


def test_a_model_whose_template_knows_no_tools_is_told_of_them_in_words(url: str) -> None:
    assert httpx2.get(f"{url}/models").json()["data"][0]["tool_prompt"] == "generic"
    assert "Get current date" in ask(url, tools=TOOLS, max_tokens=1)["daneel"]["prompt_text"]


@pytest.mark.parametrize("max_tokens", [4, 8])
def test_max_tokens_inside_a_forced_call(url: str, max_tokens: int) -> None:
    reply = ask(url, tools=TOOLS, tool_choice="required", max_tokens=max_tokens)
    choice = reply["choices"][0]
    assert choice["finish_reason"] == "length"
    [failed] = choice["message"]["failed_tool_calls"]
    assert failed["error"]["type"] == "truncated"
    assert failed["raw"] == reply["daneel"]["raw_text"] == choice["message"]["content"]
    assert failed["token_span"] == [0, max_tokens]


def test_a_stop_string_split_over_tokens(url: str) -> None:
    text = ask(url)["choices"][0]["message"]["content"]
    stop = text[5:16]
    cut = ask(url, stop=stop)
    assert cut["choices"][0]["message"]["content"] == text[: text.index(stop)]
    assert cut["choices"][0]["finish_reason"] == "stop"
    assert ask_streamed(url, stop=stop).message().content == text[: text.index(stop)]


def test_the_prompt_is_read_from_the_cache_the_second_time(url: str) -> None:
    first = ask(url, max_tokens=2)
    second = ask(url, max_tokens=2)
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == first["usage"]["prompt_tokens"] - 1
    assert second["choices"] == first["choices"]
    assert ask(url, max_tokens=2, cache={"mode": "off"})["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
