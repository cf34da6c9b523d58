"""What the engine is asked to do, and what is said of the rest."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from tests.support.fake_model import FakeEngine, engine_info, fake_model

from daneel.formats.user_format import UserFamily, UserFormat
from daneel.server.decoding import Decoding, plan_decoding
from daneel.server.engines import byte_tokenizer
from daneel.server.engines.base import Sampling
from daneel.server.prompt import build_prompt
from daneel.server.served_model import ServedModel
from daneel.wire.errors import BadRequest
from daneel.wire.requests import parse_chat_request

TOOL = {"type": "function", "function": {"name": "cur_time"}}
NAMED = {"type": "function", "function": {"name": "cur_time"}}
PROMPT_TOKENS = len("user: Hi\n")


def plan(model: ServedModel | None = None, **fields: Any) -> tuple[Decoding, list[tuple[str, str]]]:
    served = model or fake_model(FakeEngine())

    async def run() -> tuple[Decoding, list[tuple[str, str]]]:
        request, _ = parse_chat_request(json.dumps({"messages": [{"role": "user", "content": "Hi"}], **fields}).encode())
        decoding, warnings = await plan_decoding(request, await build_prompt(request, served), served)
        return decoding, [(warning.field, warning.action) for warning in warnings]

    return asyncio.run(run())


def test_without_wishes_the_rest_of_the_context_and_plain_sampling() -> None:
    decoding, warnings = plan()
    assert decoding.max_tokens == 1000 - PROMPT_TOKENS
    assert decoding.sampling == Sampling()
    assert (decoding.grammar, decoding.use_cache, decoding.script_ids, decoding.stops) == (None, True, None, [])
    assert warnings == []


def test_the_models_own_sampling_holds_where_the_request_says_nothing() -> None:
    served = fake_model(FakeEngine(), sampling={"temperature": 0.2, "top_p": 0.9})
    assert plan(served)[0].sampling == Sampling(temperature=0.2, top_p=0.9)
    assert plan(served, temperature=0, top_k=5)[0].sampling == Sampling(temperature=0.0, top_p=0.9, top_k=5)


def test_what_is_wished_is_passed_on() -> None:
    wishes = {"temperature": 0.5, "top_k": 3, "top_p": 0.9, "min_p": 0.1, "repetition_penalty": 1.1, "seed": 7}
    penalties = {"presence_penalty": 0.2, "frequency_penalty": 0.3}
    decoding, _ = plan(
        **wishes, **penalties, logit_bias={"65": -2}, logprobs=True, top_logprobs=4, max_tokens=5, stop=["a", "b"]
    )
    assert decoding.sampling == Sampling(**wishes, **penalties, logit_bias={65: -2.0}, logprobs=4)  # type: ignore[arg-type]
    assert (decoding.max_tokens, decoding.stops) == (5, ["a", "b"])


def test_a_token_that_does_not_exist_cannot_be_favoured() -> None:
    with pytest.raises(BadRequest, match=r"no token 99999, the last one is \d+"):
        plan(logit_bias={"99999": 1})


def test_more_tokens_than_there_is_room_for_are_cut_and_said() -> None:
    decoding, warnings = plan(max_tokens=5000)
    assert decoding.max_tokens == 1000 - PROMPT_TOKENS
    assert warnings == [("max_tokens", "altered")]
    assert plan(max_tokens=1000 - PROMPT_TOKENS)[1] == []


@pytest.mark.parametrize("choice", ["required", NAMED])
def test_a_forced_call_is_a_grammar(choice: Any) -> None:
    decoding, warnings = plan(tools=[TOOL], tool_choice=choice)
    assert decoding.grammar is not None
    assert "cur_time" in decoding.grammar
    assert warnings == []
    one, _ = plan(tools=[TOOL], tool_choice=choice, parallel_tool_calls=False)
    assert one.grammar != decoding.grammar


def test_a_format_without_a_grammar_refuses_what_it_cannot_enforce() -> None:
    model = fake_model(FakeEngine())
    model = replace(model, family=UserFamily.of(model.family, UserFormat, "mine", print))
    with pytest.raises(BadRequest, match=r"tool_choice 'required' cannot be enforced: .*mine"):
        plan(model, tools=[TOOL], tool_choice="required")


def test_what_is_not_enforced_is_listed() -> None:
    strict = {"type": "function", "function": {"name": "f", "strict": True}}
    assert plan(tools=[strict], parallel_tool_calls=False)[1] == [
        ("tools[0].function.strict", "ignored"),
        ("parallel_tool_calls", "ignored"),
    ]
    assert plan(tools=[strict], tool_choice="required")[1] == []
    assert plan(tools=[strict], tool_choice="none")[1] == []


def test_cache_wishes() -> None:
    assert plan(cache={"mode": "off"})[0].use_cache is False
    assert plan(cache={"mode": "read_write"}) == plan()
    read_only, warnings = plan(cache={"mode": "read"})
    assert (read_only.use_cache, read_only.keep_cache, warnings) == (True, False, [])
    assert plan(cache={"pin_s": 60})[0].pin_s == 60


def test_a_script_is_for_the_scripted_engine() -> None:
    scripted = fake_model(FakeEngine(info=engine_info(engine="scripted")))
    assert plan(scripted, script="a<tool_call>")[0].script_ids == byte_tokenizer.encode("a<tool_call>")
    assert plan(scripted, script=["a", "<tool_", "call>"])[0].script_ids == byte_tokenizer.encode("a") + list(b"<tool_call>")
    with pytest.raises(BadRequest, match="this server runs fake"):
        plan(script="a")


def test_the_scripted_engine_says_that_it_cannot_be_forced() -> None:
    scripted = fake_model(FakeEngine(info=engine_info(engine="scripted")))
    decoding, warnings = plan(scripted, tools=[TOOL], tool_choice="required", script="x")
    assert decoding.grammar is None
    assert warnings == [("tool_choice", "ignored")]
