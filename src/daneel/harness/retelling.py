"""Messages told in short: one line for a call and its result, a few words of a text, a transcript to be summarised.

Results that were fenced as other people's words are never quoted outside their fence: only their length is told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from daneel.harness.run_record import JsonObject
from daneel.harness.safety.untrusted import FENCE_CLOSE, FENCE_OPEN
from daneel.wire.accumulate import REASONING_FIELDS

SHOWN_CHARS = 160
SHOWN_DATA = "characters of data)"
"""How a line ends that tells of fenced data, behind their number."""
_FENCE_START = FENCE_OPEN.partition("{")[0]


def is_fenced(text: str) -> bool:
    """Whether a text holds other people's words in their fence."""
    return _FENCE_START in text or FENCE_CLOSE in text


def shown(text: str, max_chars: int = SHOWN_CHARS) -> str:
    """The beginning of a text, on one line; of fenced data only how long it is."""
    if is_fenced(text):
        return f"({len(text)} {SHOWN_DATA}"
    flat = " ".join(text[: 4 * max_chars].split())
    return flat if len(flat) <= max_chars and len(text) <= 4 * max_chars else flat[:max_chars].rstrip() + "…"


def calls_of(message: JsonObject) -> dict[str, JsonObject]:
    """The calls of a reply by id: `{"name", "arguments"}`; of one that could not be read, the arguments are its raw text."""
    calls: dict[str, JsonObject] = {}
    for call in message.get("tool_calls") or ():
        function = call["function"]
        calls[call["id"]] = {"name": function.get("name"), "arguments": _as_text(function.get("arguments"))}
    for call in message.get("failed_tool_calls") or ():
        calls[call["id"]] = {"name": call.get("name") or "a tool", "arguments": str(call.get("raw") or "")}
    return calls


def line_of(message: JsonObject, calls: Mapping[str, JsonObject], *, is_heard: bool) -> str | None:
    """One message of an old turn as a line, if it is worth one. `calls`: those of the turn. A call is told with its result."""
    text = str(message.get("content") or "")
    role = message["role"]
    if role == "tool":
        call = calls.get(str(message.get("tool_call_id")), {})
        arguments = shown(str(call.get("arguments") or "{}"), SHOWN_CHARS // 2)
        return f"- {call.get('name') or 'a tool'} {arguments}: {shown(text)}"
    if not text.strip():
        return None
    if role == "assistant":
        return f"- I said: {shown(text)}"
    return f"- The user said: {shown(text)}" if is_heard else None


def without_thoughts(message: JsonObject) -> JsonObject:
    """The reply without the thoughts in fields of their own; the same object if it has none."""
    if not any(name in message for name in REASONING_FIELDS):
        return message
    return {name: value for name, value in message.items() if name not in REASONING_FIELDS}


def transcript(messages: Sequence[JsonObject], max_chars: int) -> str:
    """Messages as text for a reader who was not there: each cut so that all of them fit."""
    parts = [_told(message) for message in messages]
    parts = [part for part in parts if part]
    if not parts or max_chars <= 0:
        return ""
    share = max(40, max_chars // len(parts))
    spare = max_chars - sum(min(share, len(part)) for part in parts)
    longer = sum(len(part) > share for part in parts)
    share += max(0, spare) // longer if longer else 0
    cut = [part if len(part) <= share else part[: share - 1] + "…" for part in parts]
    while sum(len(part) + 1 for part in cut) > max_chars and len(cut) > 1:
        del cut[len(cut) // 2]  # the first and the last tell most
    return "\n".join(cut)


def _told(message: JsonObject) -> str:
    text = str(message.get("content") or "")
    if message["role"] == "tool":
        return f"Result: {text}"
    if message["role"] != "assistant":
        return f"User: {text}"
    calls = [f"{call['name']} {call['arguments']}" for call in calls_of(message).values()]
    return "\n".join([*([f"Assistant: {text}"] if text.strip() else []), *(f"Call: {call}" for call in calls)])


def _as_text(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
