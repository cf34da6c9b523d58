"""The steps of a chat request, each by itself: what `/v1/parse`, `/v1/render` and `/v1/tokenize` answer.

For whoever wants to see what the model is given, and what is made of what it wrote.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct

from daneel.errors import UserError
from daneel.formats import registry
from daneel.formats.family import Family
from daneel.server.auth import Caller
from daneel.server.chat import unavailable
from daneel.server.engine_process import EngineDied, EngineRestarting
from daneel.server.prompt import build_prompt
from daneel.server.reading import ParseReply, read
from daneel.server.served_model import ServedModel
from daneel.wire.errors import BadRequest
from daneel.wire.messages import Warning
from daneel.wire.requests import parse_chat_request
from daneel.wire.text_requests import parse_request, tokenize_request


class Rendered(Struct, omit_defaults=True):
    """The prompt that a chat request makes. `starts_in_reasoning`: it ends inside a thought that it opened."""

    prompt: str
    token_ids: list[int]
    num_tokens: int
    starts_in_reasoning: bool
    format: str
    tool_result_style: str
    warnings: list[Warning] = []


class Tokenized(Struct, omit_defaults=True):
    """The tokens of a text. `pieces`, if asked for, are their texts; bytes that are no whole character show as U+FFFD."""

    token_ids: list[int]
    num_tokens: int
    pieces: list[str] | None = None
    warnings: list[Warning] = []


async def parse(body: bytes, model: ServedModel, _caller: Caller) -> ParseReply:
    """A model's output as the message a client would get; the format is this model's unless the request names another."""
    request, warnings = parse_request(body)
    model.check_name(request.model)
    family = _family(request.family) if request.family else model.family
    # a long output takes long: other requests go on meanwhile
    reply = await asyncio.to_thread(read, request, family, reasoning_field=model.reasoning_field)
    reply.warnings = warnings
    return reply


async def render(body: bytes, model: ServedModel, caller: Caller) -> Rendered:
    """The prompt that this body makes at `/v1/chat/completions`, refused for the same reasons."""
    request, warnings = parse_chat_request(body)
    model.check_name(request.model)
    try:
        prompt = await build_prompt(request, model, tenant=caller.tenant)
    except (EngineDied, EngineRestarting) as error:
        raise unavailable(error) from error
    return Rendered(
        prompt=prompt.text,
        token_ids=list(prompt.ids),
        num_tokens=len(prompt.ids),
        starts_in_reasoning=prompt.starts_in_reasoning,
        format=model.family.name,
        tool_result_style=prompt.result_style,
        warnings=warnings,
    )


async def tokenize(body: bytes, model: ServedModel, _caller: Caller) -> Tokenized:
    """The tokens of a text as they would be in a prompt: special tokens are recognised, nothing is put in front."""
    request, warnings = tokenize_request(body)
    model.check_name(request.model)
    try:
        ids = await model.engine.tokenize(request.text)
    except (EngineDied, EngineRestarting) as error:
        raise unavailable(error) from error
    pieces = [model.info.pieces[token_id].decode("utf-8", "replace") for token_id in ids] if request.pieces else None
    return Tokenized(ids, len(ids), pieces, warnings)


def _family(name: str) -> Family:
    try:
        return registry.get(name)
    except UserError as error:
        raise BadRequest(f"family: {error}", param="family") from error
