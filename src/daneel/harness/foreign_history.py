"""A conversation with daneel's server, as any other server can take it: a run may go on elsewhere when its server fails."""

from __future__ import annotations

from collections.abc import Sequence

from daneel.wire.accumulate import REASONING_FIELDS
from daneel.wire.messages import JsonObject


def foreign_history(messages: Sequence[JsonObject], *, reasoning_field: str | None = None) -> list[JsonObject]:
    """The messages without daneel's additions, nothing lost; those without any are given as they are.

    Failed calls become content where they are not part of it, and the `tool` messages that answer them user messages.
    Thoughts get the name that the server uses, once that is known.
    """
    sent: list[JsonObject] = []
    told: list[str] = []
    failed_ids: set[str] = set()
    for message in messages:
        role = message.get("role")
        if role == "tool" and message.get("tool_call_id") in failed_ids:
            told.append(str(message.get("content") or ""))
            continue
        if told and role != "tool":
            message = _with_told(sent, told, message)
            told = []
        if message.get("failed_tool_calls"):
            failed_ids.update(str(call.get("id")) for call in message["failed_tool_calls"])
            message = _without_failed_calls(message)
        sent.append(_renamed(message, reasoning_field))
    if told:
        sent.append({"role": "user", "content": "\n\n".join(told)})
    return sent


def _with_told(sent: list[JsonObject], told: list[str], message: JsonObject) -> JsonObject:
    """What was told of failed calls goes before what the user says next, in one message: many templates want that."""
    text = "\n\n".join(told)
    if message.get("role") == "user" and isinstance(message.get("content"), str):
        return {**message, "content": f"{text}\n\n{message['content']}"}
    sent.append({"role": "user", "content": text})
    return message


def _without_failed_calls(message: JsonObject) -> JsonObject:
    content = message.get("content")
    content = content if isinstance(content, str) else ""
    raws = [str(call.get("raw") or "") for call in message["failed_tool_calls"]]
    parts = [content, *(raw for raw in raws if raw not in content)]
    kept = {name: value for name, value in message.items() if name != "failed_tool_calls"}
    return {**kept, "content": "\n".join(part for part in parts if part)}


def _renamed(message: JsonObject, reasoning_field: str | None) -> JsonObject:
    if reasoning_field not in REASONING_FIELDS or message.get("role") != "assistant":
        return message
    if not any(name in message for name in REASONING_FIELDS if name != reasoning_field):
        return message
    return {reasoning_field if name in REASONING_FIELDS else name: value for name, value in message.items()}
