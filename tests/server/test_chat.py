"""One request from begin to finish, on an engine whose outputs are given."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from tests.support.fake_model import FakeEngine, engine_info, fake_model, step

from daneel.server import chat
from daneel.server.engine_process import EngineDied, EngineRestarting
from daneel.server.engines import byte_tokenizer
from daneel.server.engines.base import StepOutput
from daneel.server.reply import Piece, PrefillProgress
from daneel.server.served_model import ServedModel
from daneel.wire.accumulate import join
from daneel.wire.errors import BadRequest, ServerBug, ServerUnavailable, WireError
from daneel.wire.messages import Completion
from daneel.wire.requests import parse_chat_request

GOOD = '<tool_call>\n{"name": "cur_time", "arguments": {}}\n</tool_call>'
TOOLS = [{"type": "function", "function": {"name": "cur_time"}}]
EVERYTHING = ["prompt_text", "prompt_token_ids", "token_ids", "raw_text", "token_states"]


async def begin(model: ServedModel, **fields: Any) -> chat.Turn:
    body = {"messages": [{"role": "user", "content": "Hi"}], **fields}
    request, warnings = parse_chat_request(json.dumps(body).encode())
    return await chat.begin(request, warnings, model)


async def items(turn: chat.Turn) -> list[chat.StepItem]:
    async with aclosing(chat.generate_all(turn)) as steps:
        return [item async for _, step_items in steps for item in step_items]


def complete(outputs: list[StepOutput | Exception], model: ServedModel | None = None, **fields: Any) -> Completion:
    async def run() -> Completion:
        return await chat.complete(await begin(model or fake_model(FakeEngine(outputs)), **fields))

    return asyncio.run(run())


def failure(outputs: list[StepOutput | Exception], **fields: Any) -> WireError:
    with pytest.raises(WireError) as caught:
        complete(outputs, **fields)
    return caught.value


def test_a_whole_reply() -> None:
    cached = {"cached_tokens": 3, "cache_source": "memory", "cache_miss": "cold"}
    done = step("<|end|>", finish="stop", queue_ms=1.26, prefill_ms=2.0, decode_ms=3.0, **cached)
    reply = complete([step("Hel"), step("lo"), done], unknown_field=1)
    [choice] = reply.choices
    assert (choice.finish_reason, choice.message.content, choice.logprobs) == ("stop", "Hello", None)
    assert (reply.object, reply.model, reply.system_fingerprint) == ("chat.completion", "fake", "daneel-test")
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.total_tokens) == (9, 6, 15)
    assert reply.usage.prompt_tokens_details.cached_tokens == 3
    assert [(warning.field, warning.action) for warning in reply.warnings] == [("unknown_field", "ignored")]
    expected = {"timings": {"queue_ms": 1.3, "prefill_ms": 2.0, "decode_ms": 3.0}}
    expected["cache"] = {"read_tokens": 3, "source": "memory", "miss": "cold"}  # type: ignore[dict-item]
    assert msgspec.to_builtins(reply.daneel) == expected


def test_what_was_not_asked_for_is_not_there() -> None:
    reply = msgspec.to_builtins(complete([step("a<|end|>", finish="stop")]))
    assert set(reply["choices"][0]["message"]) == {"role", "content"}
    assert "warnings" not in reply
    assert set(reply["daneel"]) == {"timings", "cache"}


def test_include_shows_what_went_in_and_came_out() -> None:
    report = complete([step("a"), step("<think><|end|>", finish="stop")], include=EVERYTHING).daneel
    assert report is not None
    assert report.prompt_text == "user: Hi\n"
    assert report.prompt_token_ids == byte_tokenizer.encode("user: Hi\n")
    assert report.token_ids == byte_tokenizer.encode("a<think><|end|>")
    assert report.raw_text == "a<think><|end|>"
    assert report.token_states == ["content", "content", "control"]


def test_the_stream_is_the_whole_reply_in_pieces() -> None:
    texts = ["<think>", "why", "</think>", "Hel", "lo ", GOOD[:9], GOOD[9:], " bye", "<tool_call>\n{}\n</tool_call>", "<|end|>"]
    outputs = [*(step(text) for text in texts[:-1]), step(texts[-1], finish="stop")]
    fields: dict[str, Any] = {"tools": TOOLS, "seed": 1, "logprobs": False, "include": EVERYTHING}

    async def run() -> tuple[list[chat.StepItem], Completion]:
        streamed = await items(await begin(fake_model(FakeEngine(outputs)), **fields))
        return streamed, await chat.complete(await begin(fake_model(FakeEngine(outputs)), **fields))

    streamed, whole = asyncio.run(run())
    finish = streamed[-1]
    assert isinstance(finish, chat.Finish)
    pieces = [item for item in streamed if isinstance(item, Piece)]
    assert pieces[0].delta.role == "assistant"
    assert join(piece.delta for piece in pieces) == whole.choices[0].message
    assert whole.choices[0].message.tool_calls
    assert whole.choices[0].message.failed_tool_calls
    assert finish.finish_reason == whole.choices[0].finish_reason == "tool_calls"
    assert finish.usage == whole.usage
    assert finish.report.raw_text == "".join(texts)


def test_prefill_is_shown_while_it_lasts() -> None:
    waiting = [StepOutput(1, [], 0, done, 9) for done in (0, 4)]
    streamed = asyncio.run(_streamed([*waiting, step("a<|end|>", finish="stop")]))
    assert streamed[:2] == [PrefillProgress(0, 9), PrefillProgress(4, 9)]


async def _streamed(outputs: list[StepOutput | Exception], **fields: Any) -> list[chat.StepItem]:
    return await items(await begin(fake_model(FakeEngine(outputs)), **fields))


@pytest.mark.parametrize(
    ("texts", "finish", "reason"),
    [
        (["Hello", "<|end|>"], "stop", "stop"),
        (["Hello"], "length", "length"),
        ([GOOD, "<|end|>"], "stop", "tool_calls"),
        ([GOOD, "more"], "length", "length"),
        (["<tool_call>\n{}\n</tool_call>", "<|end|>"], "stop", "stop"),
        (["<tool_call>\n{"], "length", "length"),
        (["<|end|>"], "stop", "stop"),
    ],
)
def test_why_it_ended(texts: list[str], finish: Any, reason: str) -> None:
    outputs: list[StepOutput | Exception] = [*map(step, texts[:-1]), step(texts[-1], finish=finish)]
    assert complete(outputs, tools=TOOLS).choices[0].finish_reason == reason


def test_cut_off_inside_a_call_gives_a_truncated_failed_call_with_its_text() -> None:
    message = complete([step("<tool_call>\n{"), step('"na', finish="length")], tools=TOOLS).choices[0].message
    [failed] = message.failed_tool_calls
    assert (failed.error.type, failed.raw, failed.token_span) == ("truncated", '<tool_call>\n{"na', (0, 6))
    assert message.content == failed.raw


def test_a_stop_string_ends_the_generation_and_closes_the_engines_stream() -> None:
    engine = FakeEngine([step("one EN"), step("D two"), step("never")], hangs=True)
    reply = complete([], fake_model(engine), stop=["END"], include=["raw_text"])
    assert reply.choices[0].message.content == "one "
    assert reply.choices[0].finish_reason == "stop"
    assert reply.daneel is not None
    assert reply.daneel.raw_text == "one END two"
    assert reply.usage.completion_tokens == 11
    assert engine.num_open == 0


def test_a_stop_string_in_the_last_step_beats_the_length() -> None:
    assert complete([step("one END", finish="length")], stop="END").choices[0].finish_reason == "stop"


def test_closing_the_reply_closes_the_engines_stream() -> None:
    async def run() -> int:
        engine = FakeEngine([step("a")], hangs=True)
        turn = await begin(fake_model(engine))
        async with aclosing(chat.generate(turn)) as steps:
            await anext(steps)
            assert engine.num_open == 1
        return engine.num_open

    assert asyncio.run(run()) == 0


def test_log_probabilities_come_with_the_content() -> None:
    output = step("a<|end|>", finish="stop")
    output = msgspec.structs.replace(output, logprobs=[chat_alternatives(-0.5), chat_alternatives(-0.1)])
    logprobs = complete([output], logprobs=True, top_logprobs=1).choices[0].logprobs
    assert logprobs is not None
    [entry] = logprobs.content
    assert (entry.token, entry.logprob, entry.bytes, entry.top_logprobs[0].token) == ("a", -0.5, [97], "b")


def chat_alternatives(logprob: float) -> Any:
    from daneel.server.engines.base import TokenAlternatives

    return TokenAlternatives(logprob, [(98, -0.2)])


def test_the_engine_dies_before_the_first_output_or_later() -> None:
    for outputs in ([EngineDied("killed")], [step("a"), EngineDied("killed")]):
        error = failure(list(outputs))
        assert isinstance(error, ServerUnavailable)
        assert (error.message, error.retry_after_s) == ("killed", 1.0)


def test_the_engine_restarts() -> None:
    error = failure([EngineRestarting(7.0, "it crashed")])
    assert isinstance(error, ServerUnavailable)
    assert error.retry_after_s == 7.0
    assert "it crashed" in error.message


def test_the_engine_refuses_the_request() -> None:
    assert isinstance(failure([ValueError("top_k is -1")]), BadRequest)


def test_the_engine_fails() -> None:
    error = failure([step("a"), step("", finish="error", error="decode failed with 1")])
    assert isinstance(error, ServerBug)
    assert "decode failed with 1" in error.message


def test_a_script_that_is_exhausted_is_the_requests_fault() -> None:
    engine = FakeEngine([step("", finish="error", error="the script is exhausted")], info=engine_info(engine="scripted"))
    with pytest.raises(BadRequest, match="the script is exhausted"):
        complete([], fake_model(engine))


def test_an_engine_that_ends_in_silence_is_a_bug_not_an_answer() -> None:
    assert isinstance(failure([step("a")]), ServerBug)


def test_strict_fields_refuse_what_only_the_model_shows() -> None:
    error = failure([], strict_fields=True, max_tokens=10_000)
    assert isinstance(error, BadRequest)
    assert error.param == "max_tokens"


def test_the_same_seeded_request_gives_the_same_ids_and_an_unseeded_one_others() -> None:
    def ids(**fields: Any) -> str:
        return complete([step(GOOD), step("<|end|>", finish="stop")], tools=TOOLS, **fields).choices[0].message.tool_calls[0].id

    assert ids(seed=1) == ids(seed=1) != ids(seed=2)
    assert ids(temperature=0) == ids(temperature=0)
    assert ids() != ids()


def test_usage_is_streamed_when_asked_for_in_a_chunk_of_its_own() -> None:
    async def run(**fields: Any) -> list[chat.Chunk]:
        turn = await begin(fake_model(FakeEngine([step("a<|end|>", finish="stop")])), stream=True, **fields)
        finish = (await items(turn))[-1]
        assert isinstance(finish, chat.Finish)
        return chat.chunks(turn, finish)

    [last] = asyncio.run(run())
    assert last.daneel is not None
    assert last.usage is None
    last, usage = asyncio.run(run(stream_options={"include_usage": True}))
    assert usage.choices == []
    assert usage.usage is not None
    assert usage.usage.completion_tokens == 2


@pytest.mark.parametrize(
    ("fields", "tenant", "recalls"), [({}, "a", True), ({}, "b", False), ({"cache": {"mode": "off"}}, "a", False)]
)
def test_a_turn_is_recalled_for_its_own_tenant_that_wants_the_cache(fields: dict[str, Any], tenant: str, recalls: bool) -> None:
    generated = "assistant: Hello   "  # the template writes it without the white space at its end

    async def run() -> str:
        engine = FakeEngine([step(generated), step("<|end|>", finish="stop")])
        model = fake_model(engine)

        async def begin_as(tenant: str, messages: list[dict[str, str]], **fields: Any) -> chat.Turn:
            request, _ = parse_chat_request(json.dumps({"messages": messages, **fields}).encode())
            return await chat.begin(request, [], model, tenant=tenant)

        asked = {"role": "user", "content": "Hi"}
        await chat.complete(await begin_as("a", [asked]))
        assert engine.asked["tenant"] == "a"
        turn = await begin_as(tenant, [asked, {"role": "assistant", "content": "Hello<|end|>"}], **fields)
        return turn.prompt.text

    assert (generated in asyncio.run(run())) == recalls
