"""`/v1/parse`, `/v1/render` and `/v1/tokenize`."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.test_app import ask, error
from tests.support.fake_model import FakeEngine

from daneel.server.engine_process import EngineRestarting
from daneel.server.engines import byte_tokenizer

CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
HI: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}


def post(path: str, **fields: Any) -> dict[str, Any]:
    response = ask("POST", path, json=fields)
    assert response.status_code == 200, response.text
    return dict(response.json())


def test_an_output_is_read_in_the_models_format() -> None:
    answer = post("/v1/parse", raw=f"Look {CALL}<tool_call>\n{{x}}\n</tool_call>")
    assert set(answer) == {"format", "message", "conserved"}
    assert (answer["format"], answer["conserved"]) == ("hermes", True)
    message = answer["message"]
    assert message["content"] == "Look "
    assert message["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a": 1}'}
    assert message["failed_tool_calls"][0]["position"] == 1


def test_or_in_another_with_tools_prompt_and_spans() -> None:
    answer = post(
        "/v1/parse",
        raw="hm<channel|>hi<|tool_call>call:f{a:1}<tool_call|>",
        family="gemma4",
        tools=[{"name": "g"}],
        gen_prompt="<|turn>model\n<|channel>thought\n",
        spans=True,
        cuts=[3, 9],
    )
    assert (answer["format"], answer["message"]["reasoning"], answer["message"]["content"]) == ("gemma4", "hm", "hi")
    assert answer["message"]["tool_call_issues"][0]["type"] == "unknown_tool"
    assert [span["kind"] for span in answer["spans"]] == ["reasoning", "control", "content", "tool"]


def test_the_prompt_of_a_request() -> None:
    answer = post("/v1/render", **HI, odd=1)
    assert answer["prompt"] == "user: Hi\n"
    assert answer["token_ids"] == byte_tokenizer.encode("user: Hi\n")
    assert (answer["num_tokens"], answer["starts_in_reasoning"], answer["format"]) == (9, False, "hermes")
    assert answer["tool_result_style"] == "native"
    assert answer["warnings"] == [{"field": "odd", "action": "ignored", "detail": "unknown field"}]


def test_the_tokens_of_a_text() -> None:
    assert post("/v1/tokenize", text="é<think>") == {"token_ids": byte_tokenizer.encode("é<think>"), "num_tokens": 3}
    assert post("/v1/tokenize", text="a<think>", pieces=True)["pieces"] == ["a", "<think>"]
    assert post("/v1/tokenize", text="") == {"token_ids": [], "num_tokens": 0}


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        ("/v1/parse", {}, "raw"),
        ("/v1/parse", {"raw": 5}, "raw"),
        ("/v1/parse", {"raw": "x", "family": "telepathy"}, "family"),
        ("/v1/parse", {"raw": "x", "cuts": [2]}, "cuts"),
        ("/v1/parse", {"raw": "x", "tools": [5]}, "tools"),
        ("/v1/parse", {"raw": "x", "tools": [{"name": "f", "parameters": {"type": 5}}]}, "tools"),
        ("/v1/parse", {"raw": "x", "starts_in_reasoning": "yes"}, "starts_in_reasoning"),
        ("/v1/render", {}, "messages"),
        ("/v1/render", {"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ("/v1/tokenize", {}, "text"),
        ("/v1/tokenize", {"text": ["a"]}, "text"),
    ],
)
def test_what_is_wrong_is_named(path: str, fields: dict[str, Any], param: str) -> None:
    problem = error(ask("POST", path, json=fields), 400)
    assert problem["param"] == param
    assert param.split("[")[0].removesuffix("s") in problem["message"]


@pytest.mark.parametrize(("path", "fields"), [("/v1/parse", {"raw": ""}), ("/v1/render", HI), ("/v1/tokenize", {"text": ""})])
def test_they_have_the_manners_of_the_other_routes(path: str, fields: dict[str, Any]) -> None:
    assert ask("POST", path, json={**fields, "model": "alias"}).status_code == 200
    assert error(ask("POST", path, json={**fields, "model": "gpt-4"}), 404)["param"] == "model"
    assert "POST" in error(ask("GET", path), 405)["message"]
    error(ask("POST", path, content=b"x", headers={"content-type": "text/plain"}), 415)
    error(ask("POST", path, json={**fields, "odd": "x" * 3000}), 413)
    assert ask("POST", path, json={**fields, "odd": 1}).json()["warnings"][0]["field"] == "odd"


@pytest.mark.parametrize(("path", "fields"), [("/v1/render", HI), ("/v1/tokenize", {"text": "x"})])
def test_an_engine_that_is_away_is_a_503(path: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(_self: FakeEngine, _text: str) -> list[int]:
        raise EngineRestarting(2.0, "it crashed")

    monkeypatch.setattr(FakeEngine, "tokenize", away)
    assert error(ask("POST", path, json=fields), 503)["message"]
