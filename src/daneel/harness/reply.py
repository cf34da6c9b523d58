"""What a server answered, whatever its dialect: the client's result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from daneel.wire.accumulate import Accumulator
from daneel.wire.messages import JsonObject, Message, Usage, Warning


@dataclass(frozen=True)
class Reply:
    """One whole reply, joined from a stream or not.

    `finish_reason` is the server's own word. Thoughts are in `message.reasoning`; `reasoning_field` is the name the server gave
    them (`None` if there were none). `cached_tokens` is `None` if the server did not say. `warnings` are the server's, and one
    for every field that was not sent to it. `notes` tells in words what was out of the ordinary in the reply's form.
    `num_retries` counts the attempts before this one; `ttft_s` is the time to the first token, `duration_s` to the end, both
    of the last attempt.
    """

    message: Message
    finish_reason: str
    usage: Usage | None = None
    cached_tokens: int | None = None
    warnings: list[Warning] = field(default_factory=list)
    daneel: JsonObject | None = None
    reasoning_field: str | None = None
    refusal: str | None = None
    model: str | None = None
    system_fingerprint: str | None = None
    notes: list[str] = field(default_factory=list)
    num_retries: int = 0
    ttft_s: float | None = None
    duration_s: float = 0.0

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
        sent[reasoning_field or "reasoning"] = message.reasoning
    if message.tool_calls:
        sent["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": call.function.arguments}}
            for call in message.tool_calls
        ]
    if message.failed_tool_calls:
        failed: Any = msgspec.to_builtins(message.failed_tool_calls)
        sent["failed_tool_calls"] = failed
    return sent


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
        model=read.model,
        system_fingerprint=read.system_fingerprint,
        notes=read.notes,
        **more,
    )
