"""What a server answered, whatever its dialect: the client's result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from daneel.harness.inline_thoughts import lone_closing_tags, thought_tags
from daneel.wire.accumulate import Accumulator
from daneel.wire.messages import JsonObject, Message, Usage, Warning


@dataclass(frozen=True)
class Failover:
    """A request that went on to another server. `model` is the one asked there, if known; `error` what was wrong here."""

    server: str
    to: str
    model: str | None
    error: str


@dataclass(frozen=True)
class Reply:
    """One whole reply, joined from a stream or not.

    `finish_reason` is the server's own word. Thoughts are in `message.reasoning`; `reasoning_field` is the name the server gave
    them (`None` if there were none), or the tag that set them off where they stood in the content. `cached_tokens` is `None` if
    the server did not say. `warnings` are the server's, and one for every field that was not sent to it. `notes` tells in words
    what was out of the ordinary in the reply's form. `num_retries` counts the attempts before this one; `ttft_s` is the time to
    the first token, `duration_s` to the end, both of the last attempt. `server` is the address that answered, `failovers` tells
    of those that did not since the last reply.
    """

    message: Message
    finish_reason: str
    usage: Usage | None = None
    cached_tokens: int | None = None
    warnings: list[Warning] = field(default_factory=list)
    daneel: JsonObject | None = None
    reasoning_field: str | None = None
    refusal: str | None = None
    logprobs: list[JsonObject] = field(default_factory=list)
    model: str | None = None
    system_fingerprint: str | None = None
    notes: list[str] = field(default_factory=list)
    num_retries: int = 0
    ttft_s: float | None = None
    duration_s: float = 0.0
    server: str = ""
    failovers: list[Failover] = field(default_factory=list)

    def as_history(self) -> JsonObject:
        """The message to send back in the next request: thoughts under the server's own name, failed calls as it gave them."""
        return as_history(self.message, self.reasoning_field)


def as_history(message: Message, reasoning_field: str | None) -> JsonObject:
    """An assistant message for a request's history. Content is "" rather than null when there is no call beside it."""
    content = message.content
    if content is None and not message.tool_calls:
        content = ""
    sent: JsonObject = {"role": "assistant", "content": content}
    if message.reasoning:
        put_thoughts(sent, message.reasoning, reasoning_field)
    if message.tool_calls:
        sent["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": call.function.arguments}}
            for call in message.tool_calls
        ]
    if message.failed_tool_calls:
        failed: Any = msgspec.to_builtins(message.failed_tool_calls)
        sent["failed_tool_calls"] = failed
    return sent


def put_thoughts(sent: JsonObject, thoughts: str, reasoning_field: str | None) -> None:
    """Put thoughts into an assistant message where the server had them: in a field, or before the content, tags and all."""
    content = sent.get("content") or ""
    if reasoning_field in thought_tags():
        sent["content"] = f"{reasoning_field}{thoughts}{thought_tags()[reasoning_field]}{content}"
    elif reasoning_field in lone_closing_tags():
        sent["content"] = f"{thoughts}{reasoning_field}{content}"
    else:
        sent[reasoning_field or "reasoning"] = thoughts


def from_accumulator(read: Accumulator, finish_reason: str, **more: Any) -> Reply:
    """The reply that an accumulator has collected."""
    return Reply(
        message=read.message(),
        finish_reason=finish_reason,
        usage=read.usage,
        cached_tokens=read.cached_tokens,
        warnings=read.warnings,
        daneel=read.daneel,
        reasoning_field=read.reasoning_field,
        refusal=read.refusal,
        logprobs=read.logprobs,
        model=read.model,
        system_fingerprint=read.system_fingerprint,
        notes=read.notes,
        **more,
    )
