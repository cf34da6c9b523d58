"""Calls that a server left as text in the content, found with the parsers of all families daneel knows.

Only for the tools of this harness: a call in bare or fenced JSON counts when it names one of them; a call between a family's
own markers counts whatever it names (then the model is told that there is no such tool), and one between markers that cannot
be read is a failed call. So is a content that is nothing but JSON of a call gone wrong. The same JSON, quoted in an answer
about a call that was already made, stays text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Literal

from daneel.formats.base import CallEvent, Event, FailedCallEvent, Span, TextEvent, Tool
from daneel.formats.registry import FAMILIES, GENERIC
from daneel.formats.validate import ToolSet
from daneel.harness.definition import Harness
from daneel.harness.json_arguments import read_arguments
from daneel.harness.recovery import find_tool
from daneel.harness.run_record import CallRecord
from daneel.wire.messages import CallError, FailedToolCall, FunctionCall, Message, ToolCall

MAX_TEXT_CHARS = 1_000_000


def rescue(
    message: Message, harness: Harness, *, truncated: bool, made: Sequence[CallRecord]
) -> list[CallEvent | FailedCallEvent]:
    """Turn text calls in `message` into calls, in place; gives what was found, in order.

    Where the content is empty, the thoughts are searched for marked calls. `made`: the run's calls so far.
    """
    toolset = ToolSet([Tool(tool.name, tool.description, tool.parameters) for tool in harness.tools])
    in_thoughts = not (message.content or "").strip()
    text = (message.reasoning if in_thoughts else message.content) or ""
    if len(text) > MAX_TEXT_CHARS or not harness.tools:
        return []
    # markers first, whichever family's; only then JSON without any
    readers = [(family, False) for family in FAMILIES.values()] + ([] if in_thoughts else [(FAMILIES[GENERIC], True)])
    for family, unmarked in readers:
        parser = family.parser(toolset, rescue=unmarked)
        events = [*parser.feed(text), *parser.finish(truncated=truncated)]
        found = [event for event in events if isinstance(event, CallEvent | FailedCallEvent)]
        if found and not _is_quotation(events, made):
            _apply(message, events, family.name, keep_text=not in_thoughts)
            return found
    return [] if in_thoughts else _json_that_is_no_answer(message, harness, truncated=truncated)


_NAME_KEY = re.compile(r"""\b(?:name|function|tool|tool_name|action)\b["']?\s*[:=]\s*["']?([\w.\-]+)""")
_ARGUMENTS_KEY = re.compile(r"""\b(?:arguments|parameters|args|params|input)\b["']?\s*[:=]""")
_FENCE = re.compile(r"\A```\w*\s*(.*?)\s*```\Z", re.DOTALL)


def _json_that_is_no_answer(message: Message, harness: Harness, *, truncated: bool) -> list[CallEvent | FailedCallEvent]:
    """A content that is nothing but JSON of a call, not taken by any parser: an unknown name, broken JSON, or odd keys.

    The first is a call, of which the model will hear that there is no such tool; the others are failed calls.
    """
    raw = (message.content or "").strip()
    fence = _FENCE.match(raw)
    text = fence[1] if fence else raw
    name_key = _NAME_KEY.search(text)
    if not text.startswith(("{", "[")) or not _ARGUMENTS_KEY.search(text) or name_key is None:
        return []
    if not truncated and not text.endswith(("}", "]")):
        return []
    span = Span("failed", 0, len(raw))
    try:
        value = json.loads(text)
    except ValueError as error:
        kind: Literal["malformed", "truncated"] = "truncated" if truncated else "malformed"
        event: CallEvent | FailedCallEvent = FailedCallEvent(name_key[1], raw, kind, f"not valid JSON: {error}", 0, span)
    else:
        written = value if isinstance(value, dict) else {}
        if isinstance(written.get("name"), str) and set(written) == {"name", "arguments"}:
            event = CallEvent(written["name"], json.dumps(written["arguments"]), raw, span)
        else:
            event = FailedCallEvent(name_key[1], raw, "malformed", 'expected {"name": …, "arguments": {…}}', 0, span)
    if isinstance(event, FailedCallEvent) and find_tool(name_key[1], harness.tools, slips=True) is None:
        return []
    _apply(message, [event], "json", keep_text=True)
    return [event]


def _is_quotation(events: Sequence[Event], made: Sequence[CallRecord]) -> bool:
    """Prose around unmarked JSON of calls that were all made already: an answer that tells what was done."""
    prose = "".join(event.text for event in events if isinstance(event, TextEvent) and event.kind == "content").strip()
    calls = [event for event in events if isinstance(event, CallEvent)]
    return bool(prose) and all(call.repair is not None and _was_made(call, made) for call in calls)


def _was_made(call: CallEvent, made: Sequence[CallRecord]) -> bool:
    arguments = read_arguments(call.arguments).arguments
    return any(record.name == call.name and record.arguments == arguments for record in made)


def _apply(message: Message, events: Sequence[Event], format_name: str, *, keep_text: bool) -> None:
    calls: list[ToolCall] = []
    failed: list[FailedToolCall] = []
    for event in events:
        if isinstance(event, CallEvent):
            function = FunctionCall(event.name, event.arguments)
            calls.append(ToolCall(event.call_id or "", function, "function", len(calls)))
        elif isinstance(event, FailedCallEvent):
            error = CallError(event.error_type, event.message, event.offset)
            failed.append(FailedToolCall("", len(calls) + len(failed), event.name, event.raw, error, format_name))
    message.tool_calls, message.failed_tool_calls = calls, failed
    if keep_text:
        message.content = _text(events, "content")
        message.reasoning = message.reasoning or _text(events, "reasoning")


def _text(events: Sequence[Event], kind: str) -> str | None:
    return "".join(event.text for event in events if isinstance(event, TextEvent) and event.kind == kind).strip() or None
