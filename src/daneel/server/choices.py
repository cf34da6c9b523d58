"""Several replies to one request (`n`): their seeds, their steps as they come, and what they come to together.

Each is a sequence of its own in the engine; all but the first share the cells of the prompt, which is evaluated once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

import msgspec

from daneel.server.engines.base import Sampling
from daneel.wire.messages import CacheReport, CompletionTokensDetails, DaneelReport, PromptTokensDetails, Timings, Usage

T = TypeVar("T")

_SEEDS = 2**64


def sampling_of(sampling: Sampling, choice: int) -> Sampling:
    """How choice number `choice` is drawn: as a single reply would be, each with a seed of its own if one was given."""
    if not choice or sampling.seed is None:
        return sampling
    seed = (sampling.seed + choice + _SEEDS // 2) % _SEEDS - _SEEDS // 2
    return msgspec.structs.replace(sampling, seed=seed)


async def interleaved(streams: Sequence[AsyncGenerator[T, None]]) -> AsyncGenerator[tuple[int, T], None]:
    """The items of all streams as they come, each with its stream's number. The first error ends, and closes, them all."""
    if len(streams) == 1:
        async with aclosing(streams[0]) as only:
            async for each in only:
                yield 0, each
        return
    items: asyncio.Queue[tuple[int, T | None, BaseException | None]] = asyncio.Queue()

    async def feed(number: int, stream: AsyncGenerator[T, None]) -> None:
        try:
            async with aclosing(stream):
                async for item in stream:
                    items.put_nowait((number, item, None))
            items.put_nowait((number, None, None))
        except Exception as error:  # noqa: BLE001 (raised below, where somebody waits)
            items.put_nowait((number, None, error))

    tasks = [asyncio.create_task(feed(number, stream)) for number, stream in enumerate(streams)]
    num_open = len(tasks)
    try:
        while num_open:
            number, item, error = await items.get()
            if error is not None:
                raise error
            if item is None:
                num_open -= 1
            else:
                yield number, item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)  # each stream is closed, and so its generation cancelled, before anything else happens


def total(usages: Sequence[Usage]) -> Usage:
    """The usage of one request: its prompt once, the tokens of all replies. What one reply forks from another is not cached."""
    first = usages[0]
    num_completion = sum(usage.completion_tokens for usage in usages)
    names = CompletionTokensDetails.__struct_fields__
    details = [usage.completion_tokens_details for usage in usages]
    return Usage(
        prompt_tokens=first.prompt_tokens,
        completion_tokens=num_completion,
        total_tokens=first.prompt_tokens + num_completion,
        prompt_tokens_details=PromptTokensDetails(min(usage.prompt_tokens_details.cached_tokens for usage in usages)),
        completion_tokens_details=CompletionTokensDetails(*(sum(getattr(each, name) for each in details) for name in names)),
    )


def whole_report(reports: Sequence[DaneelReport]) -> DaneelReport:
    """What stands beside several replies: the longest times, the cache as it was found, then each reply's own."""
    if len(reports) == 1:
        return reports[0]
    times = [each.timings for each in reports]
    cold = min((each.cache for each in reports), key=lambda cache: cache.read_tokens)
    report = DaneelReport(
        Timings(*(max(getattr(each, name) for each in times) for name in Timings.__struct_fields__)),
        CacheReport(cold.read_tokens, cold.source, cold.miss),
        prompt_text=reports[0].prompt_text,
        prompt_token_ids=reports[0].prompt_token_ids,
        tool_result_style=reports[0].tool_result_style,
    )
    report.choices = [
        msgspec.structs.replace(each, prompt_text=None, prompt_token_ids=None, tool_result_style=None) for each in reports
    ]
    return report
