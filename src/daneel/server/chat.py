"""READ FIRST. One chat request from its parsed form to the items of its reply.

    begin()     what can refuse a request: render the messages -> encode them -> plan the decoding
    generate()  what produces one reply:   generate tokens -> text -> parse -> deltas, step by step, then the account
    complete()  the whole reply: the join of exactly those deltas
    chunk()     the streamed reply: one chunk for each of them

`app.py` carries these over HTTP; `prompt.py`, `decoding.py` and `reply.py` hold the three steps.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from uuid import uuid4

import msgspec

from daneel.server.choices import interleaved, sampling_of, total, whole_report
from daneel.server.decoding import SCRIPTED, Decoding, plan_decoding
from daneel.server.engine_process import EngineDied, EngineRestarting
from daneel.server.engines.base import StepOutput, private_room
from daneel.server.prompt import Prompt, build_prompt
from daneel.server.reply import Item, Piece, PrefillProgress, ReplyBuilder, ReplyOptions
from daneel.server.served_model import ServedModel
from daneel.server.turn_memory import PastTurn
from daneel.wire.accumulate import join
from daneel.wire.errors import BadRequest, ServerBug, ServerUnavailable
from daneel.wire.messages import (
    CacheReport,
    Choice,
    ChoiceLogprobs,
    Chunk,
    ChunkChoice,
    Completion,
    DaneelReport,
    Delta,
    FinishReason,
    PromptTokensDetails,
    Timings,
    Usage,
    Warning,
)
from daneel.wire.requests import ChatRequest


@dataclass(frozen=True, slots=True)
class Turn:
    """A request that was accepted: everything is known but the tokens. `choice`: which of its replies is meant."""

    request: ChatRequest
    model: ServedModel
    prompt: Prompt
    decoding: Decoding
    warnings: list[Warning]
    tenant: str = ""
    choice: int = 0
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))


@dataclass(frozen=True, slots=True)
class Finish:
    """The last item of every reply that did not fail. `total`: the usage of all replies, with the last of them."""

    finish_reason: FinishReason
    usage: Usage
    report: DaneelReport
    warnings: list[Warning]
    total: Usage | None = None


StepItem = Item | Finish


async def begin(request: ChatRequest, warnings: list[Warning], model: ServedModel, *, tenant: str = "") -> Turn:
    """Check, render, encode, plan. Raises a `WireError` for whatever makes the request impossible."""
    try:
        prompt = await build_prompt(request, model, tenant=tenant)
        decoding, more = await plan_decoding(request, prompt, model)
    except (EngineDied, EngineRestarting) as error:
        raise unavailable(error) from error
    if request.strict_fields and more:
        first = more[0]
        raise BadRequest(f"strict_fields: {first.field} would be {first.action}: {first.detail}", param=first.field)
    return Turn(request, model, prompt, decoding, [*warnings, *more], tenant)


async def generate_all(turn: Turn) -> AsyncGenerator[tuple[Turn, list[StepItem]], None]:
    """All replies to a request: each step's items with the reply they belong to. Closing it cancels all generations.

    Raises what `generate()` raises.
    """
    turns = [_choice(turn, number) for number in range(turn.request.n or 1)]
    usages: list[Usage] = []
    async with aclosing(interleaved([generate(each) for each in turns])) as steps:
        async for number, items in steps:
            if isinstance(finish := items[-1], Finish):
                usages.append(finish.usage)
                if len(usages) == len(turns):
                    items = [*items[:-1], replace(finish, total=total(usages))]
            yield turns[number], items


def _choice(turn: Turn, number: int) -> Turn:
    decoding = replace(turn.decoding, sampling=sampling_of(turn.decoding.sampling, number))
    return replace(turn, choice=number, decoding=decoding)


async def generate(turn: Turn) -> AsyncGenerator[list[StepItem], None]:
    """One reply, one list for each step of the engine; the last list ends with `Finish`. Closing it cancels the generation.

    Raises `ServerUnavailable` when the engine dies, `ToolCallFailed` when the request wants failed calls as errors.
    """
    builder = _reply_builder(turn)
    clock = _Clock()
    opened = False
    async with aclosing(_outputs(turn)) as outputs:
        async for output in outputs:
            clock.see(output)
            items: list[StepItem] = []
            if not output.token_ids and output.finish is None:
                items.append(PrefillProgress(output.prefill_done, output.prefill_total))
            elif not opened:
                opened = True
                items.append(Piece(Delta(role="assistant")))
            items += builder.step(output)
            ended = output.finish is not None or builder.stopped
            if ended:
                truncated = output.finish == "length" and not builder.stopped
                items += builder.finish(truncated=truncated)
                items.append(_finish(turn, builder, clock, output, truncated=truncated))
                _remember(turn, builder)
            if items:
                yield items
            if ended:
                return
    raise ServerBug("the engine ended the generation without saying why")


async def complete(turn: Turn) -> Completion:
    """The whole reply. Raises what `generate()` raises."""
    pieces: list[list[Piece]] = [[] for _ in range(turn.request.n or 1)]
    finishes: dict[int, Finish] = {}
    async with aclosing(generate_all(turn)) as steps:
        async for part, items in steps:
            pieces[part.choice] += [item for item in items if isinstance(item, Piece)]
            if isinstance(finish := items[-1], Finish):
                finishes[part.choice] = finish
    if len(finishes) < len(pieces):
        raise ServerBug("the generation ended without a finish reason")
    ended = [finishes[number] for number in range(len(pieces))]
    return Completion(
        id=turn.id,
        object="chat.completion",
        created=turn.created,
        model=turn.model.name,
        system_fingerprint=turn.model.fingerprint,
        choices=[_whole_choice(turn, *each) for each in zip(range(len(pieces)), pieces, ended, strict=True)],
        usage=total([finish.usage for finish in ended]),
        warnings=turn.warnings,
        daneel=whole_report([finish.report for finish in ended]),
    )


def _whole_choice(turn: Turn, number: int, pieces: list[Piece], finish: Finish) -> Choice:
    told = [piece.logprobs for piece in pieces if piece.logprobs is not None]
    content = [entry for each in told for entry in each.content]
    calls = [entry for each in told for entry in each.tool_calls]
    message = join(piece.delta for piece in pieces)
    return Choice(number, finish.finish_reason, message, ChoiceLogprobs(content, calls) if turn.request.logprobs else None)


def chunks(turn: Turn, item: Piece | Finish) -> list[Chunk]:
    """What a stream sends for one item: a chunk; for the finish also the one with the usage, if it was asked for."""
    if isinstance(item, Piece):
        return [_chunk(turn, [ChunkChoice(turn.choice, item.delta, None, item.logprobs)])]
    last = _chunk(turn, [ChunkChoice(turn.choice, Delta(), item.finish_reason)])
    last.warnings = item.warnings
    last.daneel = item.report
    options = turn.request.stream_options
    if item.total is None or options is None or not options.include_usage:
        return [last]
    usage = _chunk(turn, [])
    usage.usage = item.total
    return [last, usage]


def _chunk(turn: Turn, choices: list[ChunkChoice]) -> Chunk:
    return Chunk(turn.id, "chat.completion.chunk", turn.created, turn.model.name, turn.model.fingerprint, choices)


def _reply_builder(turn: Turn) -> ReplyBuilder:
    request, model = turn.request, turn.model
    family = model.family
    parser = family.parser(turn.prompt.tools, prompt=turn.prompt.text)
    sampling = turn.decoding.sampling
    repeatable = sampling.temperature == 0 or sampling.seed is not None or model.info.engine == SCRIPTED
    facts = (turn.prompt.ids, sampling) if not turn.choice else (turn.prompt.ids, sampling, turn.choice)
    salt = hashlib.sha256(msgspec.msgpack.encode(facts)).digest() if repeatable else None
    options = ReplyOptions(
        format_name=family.name,
        on_failed_tool_call=request.on_failed_tool_call,
        reasoning_field=request.reasoning_field or model.reasoning_field,
        logprobs=request.logprobs,
        call_id_salt=salt,
    )
    return ReplyBuilder(
        parser,
        turn.prompt.tools,
        pieces=model.info.pieces,
        end_ids=model.end_ids,
        stops=turn.decoding.stops,
        options=options,
    )


async def _outputs(turn: Turn) -> AsyncGenerator[StepOutput, None]:
    """The engine's outputs, its failures as the wire's."""
    decoding = turn.decoding
    # replies to one request that wants no cache still fork one prompt, where nobody else can see it
    forks = (turn.request.n or 1) > 1 and not decoding.use_cache
    stream = turn.model.engine.generate(
        prompt_ids=turn.prompt.ids,
        max_tokens=decoding.max_tokens,
        sampling=decoding.sampling,
        grammar=decoding.grammar,
        use_cache=decoding.use_cache or forks,
        keep_cache=decoding.keep_cache,
        pin_s=decoding.pin_s,
        tenant=private_room(turn.tenant, turn.id) if forks else turn.tenant,
        script_ids=decoding.script_ids,
        stop_ids=turn.model.stop_ids,
    )
    try:
        async with aclosing(stream):
            async for output in stream:
                if output.finish == "error" and turn.model.info.engine == SCRIPTED:
                    raise BadRequest(f"the scripted engine has nothing to say: {output.error}", param="script")
                if output.finish == "error":
                    raise ServerBug(f"the engine could not go on: {output.error}")
                if output.finish == "cancelled":
                    raise ServerUnavailable("the engine cancelled the generation", retry_after_s=1.0)
                yield output
    except (EngineDied, EngineRestarting) as error:
        raise unavailable(error) from error
    except ValueError as error:
        raise BadRequest(str(error)) from error


def unavailable(error: EngineDied | EngineRestarting) -> ServerUnavailable:
    """The engine's absence as the wire tells it."""
    retry_after_s = error.retry_after_s if isinstance(error, EngineRestarting) else 1.0
    return ServerUnavailable(str(error), retry_after_s=retry_after_s)


class _Clock:
    """Where the time went, seen from here; the engine's own figures, when the last output brings them, are better."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._first_token: float | None = None

    def see(self, output: StepOutput) -> None:
        if output.token_ids and self._first_token is None:
            self._first_token = time.monotonic()

    def timings(self, last: StepOutput) -> Timings:
        if last.finish is not None:
            return Timings(round(last.queue_ms, 1), round(last.prefill_ms, 1), round(last.decode_ms, 1))
        now = time.monotonic()
        first = self._first_token or now
        return Timings(0.0, round((first - self._begin) * 1000, 1), round((now - first) * 1000, 1))


def _remember(turn: Turn, builder: ReplyBuilder) -> None:
    """Keep the tokens of the turn, for when it comes back. Behind a stop string they are not what the client was told."""
    if builder.stopped or not (turn.decoding.use_cache and turn.decoding.keep_cache):
        return
    model, prompt, ids, text = turn.model, turn.prompt, builder.token_ids, builder.raw_text
    while ids and ids[-1] in model.end_ids:
        text = text.removesuffix(model.info.pieces[ids[-1]].decode(errors="replace"))
        ids = ids[:-1]
    model.turns.remember(PastTurn(prompt.rendered, prompt.text, prompt.ids, ids, text, turn.choice), tenant=turn.tenant)


def _finish(turn: Turn, builder: ReplyBuilder, clock: _Clock, last: StepOutput, *, truncated: bool) -> Finish:
    reason: FinishReason = "length" if truncated else "tool_calls" if builder.num_good_calls else "stop"
    num_prompt, num_completion = len(turn.prompt.ids), len(builder.token_ids)
    cached = last.cached_tokens if turn.decoding.use_cache else 0
    usage = Usage(
        prompt_tokens=num_prompt,
        completion_tokens=num_completion,
        total_tokens=num_prompt + num_completion,
        prompt_tokens_details=PromptTokensDetails(cached),
        completion_tokens_details=builder.token_details(),
    )
    found = CacheReport(cached, last.cache_source, turn.prompt.cache_miss or last.cache_miss)
    report = DaneelReport(clock.timings(last), found if turn.decoding.use_cache else CacheReport(0, None, "off"))
    if turn.request.tools or any(message.get("role") == "tool" for message in turn.request.messages):
        report.tool_result_style = turn.prompt.result_style
    _include(turn, builder, report)
    return Finish(reason, usage, report, turn.warnings)


def _include(turn: Turn, builder: ReplyBuilder, report: DaneelReport) -> None:
    """What the request's `include` asks for."""
    wanted = frozenset(turn.request.include)
    report.prompt_text = turn.prompt.text if "prompt_text" in wanted else None
    report.prompt_token_ids = turn.prompt.ids if "prompt_token_ids" in wanted else None
    report.token_ids = builder.token_ids if "token_ids" in wanted else None
    report.raw_text = builder.raw_text if "raw_text" in wanted else None
    report.token_states = [str(kind) for kind in builder.token_kinds()] if "token_states" in wanted else None
