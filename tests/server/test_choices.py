"""Several replies to one request: interleaved as they come, each with its index and seed, paid for once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from tests.support.fake_model import FakeEngine, fake_model, step

from daneel.server import chat
from daneel.server.choices import interleaved, sampling_of
from daneel.server.engines.base import Sampling, StepOutput, owner_of
from daneel.wire.errors import ServerUnavailable
from daneel.wire.requests import parse_chat_request


class ChoiceEngine(FakeEngine):
    """Answers its nth request with the nth list of outputs."""

    def __init__(self, *replies: list[StepOutput | Exception], hangs: bool = False) -> None:
        super().__init__(hangs=hangs)
        self.replies = list(replies)
        self.all_asked: list[dict[str, Any]] = []

    async def generate(self, **asked: Any) -> AsyncGenerator[StepOutput, None]:
        self.all_asked.append(asked)
        self.outputs = self.replies[len(self.all_asked) - 1]
        async with aclosing(super().generate(**asked)) as outputs:
            async for output in outputs:
                yield output


def says(text: str, **facts: Any) -> list[StepOutput | Exception]:
    return [step(text), step("<|end|>", finish="stop", **facts)]


async def begin(engine: FakeEngine, **fields: Any) -> chat.Turn:
    body = {"messages": [{"role": "user", "content": "Hi"}], **fields}
    request, warnings = parse_chat_request(json.dumps(body).encode())
    return await chat.begin(request, warnings, fake_model(engine), tenant="t")


def test_a_whole_reply_with_three_choices() -> None:
    engine = ChoiceEngine(
        says("One", cached_tokens=1, cache_source="memory", cache_miss="evicted", decode_ms=3.0),
        says("Two!", cached_tokens=3, cache_source="memory", decode_ms=9.0),
        says("Three", cached_tokens=3, cache_source="memory"),
    )

    async def run() -> Any:
        return await chat.complete(await begin(engine, n=3, include=["raw_text", "prompt_text"], logprobs=True))

    reply = asyncio.run(run())
    assert [(choice.index, choice.message.content) for choice in reply.choices] == [(0, "One"), (1, "Two!"), (2, "Three")]
    assert all(choice.logprobs is not None for choice in reply.choices)
    assert (reply.usage.completion_tokens, reply.usage.completion_tokens_details.control_tokens) == (15, 3)
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + 15
    assert reply.usage.prompt_tokens_details.cached_tokens == 1  # what the others forked was evaluated for this request
    assert (reply.daneel.cache.read_tokens, reply.daneel.cache.miss) == (1, "evicted")
    assert reply.daneel.timings.decode_ms == 9.0
    assert reply.daneel.prompt_text == "user: Hi\n"
    assert [part.raw_text for part in reply.daneel.choices] == ["One<|end|>", "Two!<|end|>", "Three<|end|>"]
    assert {part.prompt_text for part in reply.daneel.choices} == {None}
    assert {asked["tenant"] for asked in engine.all_asked} == {"t"}


def test_one_choice_has_no_list_of_reports() -> None:
    async def run() -> Any:
        return await chat.complete(await begin(ChoiceEngine(says("One")), n=1))

    reply = asyncio.run(run())
    assert len(reply.choices) == 1
    assert reply.daneel.choices is None


def test_each_chunk_has_its_index_and_the_usage_comes_once() -> None:
    engine = ChoiceEngine(says("One"), says("Two!"))

    async def run() -> list[dict[str, Any]]:
        turn = await begin(engine, n=2, stream=True, stream_options={"include_usage": True})
        async with aclosing(chat.generate_all(turn)) as steps:
            return [
                chunk
                async for part, items in steps
                for item in items
                if isinstance(item, chat.Piece | chat.Finish)
                for chunk in chat.chunks(part, item)
            ]

    chunks: Any = asyncio.run(run())
    texts = {0: "", 1: ""}
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == {0: "One", 1: "Two!"}
    assert sorted(choice.index for chunk in chunks for choice in chunk.choices if choice.finish_reason) == [0, 1]
    assert [chunk.usage.completion_tokens for chunk in chunks if chunk.usage] == [9]
    assert chunks[-1].usage
    assert len({chunk.id for chunk in chunks}) == 1


def test_a_choice_that_fails_ends_them_all() -> None:
    engine = ChoiceEngine(says("One"), [step("x"), step("", finish="cancelled")])

    async def run() -> None:
        with pytest.raises(ServerUnavailable):
            await chat.complete(await begin(engine, n=2))
        assert engine.num_open == 0

    asyncio.run(run())


def test_closing_cancels_every_generation() -> None:
    engine = ChoiceEngine([step("a")], [step("b")], hangs=True)

    async def run() -> None:
        async with aclosing(chat.generate_all(await begin(engine, n=2))) as steps:
            await anext(steps)
            await anext(steps)
            assert engine.num_open == 2
        assert engine.num_open == 0

    asyncio.run(run())


def test_all_choices_are_remembered_for_their_next_turn() -> None:
    async def run() -> None:
        turn = await begin(ChoiceEngine(says("One"), says("Two!")), n=2)
        await chat.complete(turn)
        for said in ("One", "Two!"):
            text = f"{turn.prompt.rendered}{said}<|end|>"
            assert turn.model.turns.recall(text, turn.prompt.tools, tenant="t").text == turn.prompt.text + said
            assert turn.model.turns.recall(text, turn.prompt.tools, tenant="other").ids == ()

    asyncio.run(run())


@pytest.mark.parametrize("seed", [0, 7, -1, 2**63 - 1, -(2**63)])
def test_choices_have_seeds_of_their_own_within_64_bits(seed: int) -> None:
    seeds = [sampling_of(Sampling(seed=seed), choice).seed for choice in range(4)]
    assert seeds[0] == seed
    assert len(set(seeds)) == 4
    assert all(each is not None and -(2**63) <= each < 2**63 for each in seeds)
    assert sampling_of(Sampling(), 3).seed is None


def test_items_come_as_they_are_there() -> None:
    async def stream(*items: Any) -> AsyncGenerator[Any, None]:
        for item in items:
            if isinstance(item, asyncio.Event):
                await item.wait()
            else:
                yield item

    async def run() -> list[tuple[int, Any]]:
        later = asyncio.Event()
        found = []
        async with aclosing(interleaved([stream(later, "slow"), stream("a", "b"), stream()])) as items:
            async for number, item in items:
                found.append((number, item))
                if item == "b":
                    later.set()
        return found

    assert asyncio.run(run()) == [(1, "a"), (1, "b"), (0, "slow")]


def test_replies_that_want_no_cache_fork_where_nobody_else_reads() -> None:
    engine = ChoiceEngine(says("One"), says("Two!"), says("Three"))

    async def run() -> None:
        await chat.complete(await begin(engine, n=2, cache={"mode": "off"}))
        await chat.complete(await begin(engine, cache={"mode": "off"}))

    asyncio.run(run())
    first, second, alone = engine.all_asked
    assert first["tenant"] == second["tenant"] != "t"
    assert owner_of(first["tenant"]) == "t"
    assert (first["use_cache"], first["keep_cache"]) == (True, False)
    assert (alone["tenant"], alone["use_cache"]) == ("t", False)
