"""Calls that a server left as text in the content, found with the formats that are common on such servers.

Only for the tools of this turn. Between a family's own markers a call counts whatever it names (then the model is told that
there is no such tool), and one that cannot be read is a failed call. Without markers (JSON of any shape, bare or fenced; code;
a name with arguments behind it) it counts when it names a tool of this turn, fits its schema, and stands on lines of its own. A
content that is nothing but JSON of a call gone wrong is a failed call. What is told of a call that was already made stays text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal

from daneel.formats.base import CallEvent, Event, FailedCallEvent, Span, TextEvent, Tool
from daneel.formats.family import Family
from daneel.formats.registry import GENERIC, get
from daneel.formats.validate import ToolSet
from daneel.harness.definition import Harness
from daneel.harness.json_arguments import read_arguments, unfenced
from daneel.harness.json_calls import WrittenCall, calls_at
from daneel.harness.names import find_tool
from daneel.harness.python_calls import action_call, code_calls
from daneel.harness.run_record import CallRecord
from daneel.harness.xml_calls import xml_calls
from daneel.wire.messages import CallError, FailedToolCall, FunctionCall, Message, ToolCall

MAX_TEXT_CHARS = 1_000_000
MAX_UNMARKED_CHARS = 100_000
MAX_LINES = 100
"""Lines of code that are read as calls; more than any reply has."""
MAX_STARTS = 20
"""Lines of a text at which calls may begin."""

MARKED = (
    "gemma4",
    "functiongemma",
    "qwen3-coder",
    "hermes",
    "glm4.6",
    "mistral",
    "gpt-oss",
    "kimi-k2",
    "deepseek-v3.1",
    "deepseek-v3.2",
    "minimax-m2",
    "minimax-m3",
    "minicpm5",
    "lfm2",
    "olmo3",
    "phi4-mini",
    "llama3-json",
    "nemotron-nano-v2",
    "hunyuan-a13b",
    "granite-20b-fc",
    "longcat",
    "apertus",
    "command4",
    "internlm2",
)
"""The families whose markers are looked for, in this order: those that open models on foreign servers leave in the text."""

_FRAMES = ("<|channel|>",)
"""What shows messages in frames, whose first header the prompt has already opened."""

Found = list[CallEvent | FailedCallEvent]


class TextCallReader:
    """Reads replies of one run. What it learns of a set of tools it keeps: schemas are compiled once."""

    def __init__(self) -> None:
        self._toolsets: dict[tuple[str, ...], ToolSet] = {}
        self._families = [get(name) for name in MARKED]
        self._generic = get(GENERIC)

    def rescue(self, message: Message, harness: Harness, *, truncated: bool, made: Sequence[CallRecord]) -> Found:
        """Turn text calls in `message` into calls, in place; gives what was found, in order.

        Where the content is empty, the thoughts are searched for marked calls. `made`: the run's calls so far.
        """
        in_thoughts = not (message.content or "").strip()
        text = (message.reasoning if in_thoughts else message.content) or ""
        if len(text) > MAX_TEXT_CHARS or not harness.tools:
            return []
        found = self._marked(message, text, harness, truncated=truncated, keep_text=not in_thoughts)
        if found or in_thoughts:
            return found
        events = _parse(self._generic, text, self._toolset(harness), truncated=truncated, unmarked=True)
        found = _calls(events)
        if found and not _is_quotation(events, made):
            _apply(message, events, "json", keep_text=True)
            return found
        written = None if found or truncated else _written(text, harness)
        if written and not _is_told_again(text, written, made):
            return _take(message, text, written)
        return [] if found else _json_that_is_no_answer(message, harness, truncated=truncated)

    def _marked(self, message: Message, text: str, harness: Harness, *, truncated: bool, keep_text: bool) -> Found:
        """Calls between markers, as the family reads them that makes most of them."""
        best: tuple[int, Family, list[Event]] | None = None
        for family in self._families:
            markers = _FRAMES if family.framing is not None else (*family.call.opens, *family.call.body_opens)
            if not any(marker in text for marker in markers):
                continue
            events = _parse(family, text, self._toolset(harness), truncated=truncated, unmarked=False)
            found = _calls(events)
            known = sum(isinstance(event, CallEvent) and harness.tool(event.name) is not None for event in events)
            score = 1000 * known + len(found)
            spoken_of = all(_is_spoken_of(event, text, harness) for event in found)
            if not spoken_of and (best is None or score > best[0]):
                best = score, family, events
        if best is None:
            return []
        _, family, events = best
        if not any(isinstance(event, CallEvent) for event in events) and keep_text and not truncated:
            written = _written(text, harness)  # tags that are like a family's, and are none of it
            if written:
                return _take(message, text, written)
        _apply(message, events, family.name, keep_text=keep_text)
        return _calls(events)

    def _toolset(self, harness: Harness) -> ToolSet:
        names = tuple(tool.name for tool in harness.tools)
        if names not in self._toolsets:
            self._toolsets[names] = ToolSet([Tool(tool.name, tool.description, tool.parameters) for tool in harness.tools])
        return self._toolsets[names]


def rescue(message: Message, harness: Harness, *, truncated: bool, made: Sequence[CallRecord]) -> Found:
    """`TextCallReader.rescue`, for one message."""
    return TextCallReader().rescue(message, harness, truncated=truncated, made=made)


def _parse(family: Family, text: str, toolset: ToolSet, *, truncated: bool, unmarked: bool) -> list[Event]:
    parser = family.parser(toolset, rescue=unmarked)
    return [*parser.feed(text), *parser.finish(truncated=truncated)]


def _calls(events: Sequence[Event]) -> Found:
    return [event for event in events if isinstance(event, CallEvent | FailedCallEvent)]


def _is_spoken_of(event: CallEvent | FailedCallEvent, text: str, harness: Harness) -> bool:
    """A word or a sentence between two markers, as in an answer about them: nothing of a call is in it."""
    inside = re.sub(r"<[^<>]*>|\[/?[A-Z_]+\]", "", event.raw)
    if not inside.strip() or any(sign in inside for sign in "{[(=<") or any(tool.name in inside for tool in harness.tools):
        return False
    goes_on = text[text.find(event.raw) + len(event.raw.rstrip()) :].partition("\n")[0].strip()
    return isinstance(event, FailedCallEvent) or (inside.strip().isalpha() and bool(goes_on))


_LINE = re.compile(r"^[ \t]*(?=\S)", re.MULTILINE)


def _fences(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and inside of each code fence, whole lines of the text."""
    position, opened, inside = 0, -1, ""
    for line in text.splitlines(keepends=True):
        mark = line.strip().startswith("```")
        if mark and opened < 0:
            opened, inside = position, ""
        elif mark and line.strip() == "```":
            yield opened, position + len(line), inside
            opened = -1
        elif opened >= 0:
            inside += line
        position += len(line)


def _written(text: str, harness: Harness) -> list[WrittenCall] | None:
    """Calls without markers that the strict reading of JSON does not find: in fences, at the end, or on lines of their own."""
    tools = harness.tools
    if len(text) > MAX_UNMARKED_CHARS:
        return None
    fences = list(islice(_fences(text), MAX_STARTS))
    if fences:
        found: list[WrittenCall] = []
        for start, end, inside in fences:
            body = inside.strip()
            calls = calls_at(body, 0, tools) or code_calls(body, tools) or xml_calls(body, tools) or []
            found += [WrittenCall(call.name, call.arguments, start, end) for call in calls]
        return found or None
    for match in islice(_LINE.finditer(text), MAX_STARTS):
        start = match.end()
        at_start = None
        if text[start] in "{[":
            at_start = calls_at(text, start, tools) or code_calls(text[start:], tools, offset=start)
        elif text[start] == "<":
            at_start = xml_calls(text[start:], tools, offset=start)
        if at_start:
            return at_start
    return action_call(text, tools) or code_calls(text.strip("` \n"), tools, offset=_offset(text)) or _code_lines(text, harness)


def _offset(text: str) -> int:
    return len(text) - len(text.lstrip("` \n"))


def _code_lines(text: str, harness: Harness) -> list[WrittenCall] | None:
    """Lines that are a call each, among lines of prose."""
    found: list[WrittenCall] = []
    position = 0
    for line in text.splitlines(keepends=True):
        if len(found) < MAX_LINES and any(tool.name in line for tool in harness.tools):
            bare = line.strip().strip("`")
            calls = code_calls(bare, harness.tools) or []
            found += [WrittenCall(call.name, call.arguments, position, position + len(line)) for call in calls]
        position += len(line)
    return found or None


def _take(message: Message, text: str, written: Sequence[WrittenCall]) -> Found:
    """Make calls of them, and leave the text around them."""
    events: list[Event] = []
    at = 0
    for call in written:
        if call.start > at:
            events.append(TextEvent("content", text[at : call.start], Span("content", at, call.start)))
        raw = text[call.start : call.end]
        events.append(CallEvent(call.name, call.arguments, raw, Span("tool", call.start, call.end), "text"))
        at = max(at, call.end)
    events.append(TextEvent("content", text[at:], Span("content", at, len(text))))
    _apply(message, events, "json", keep_text=True)
    return _calls(events)


def _is_told_again(text: str, written: Sequence[WrittenCall], made: Sequence[CallRecord]) -> bool:
    prose = text[: written[0].start].strip() or text[written[-1].end :].strip()
    return bool(prose) and all(_was_made(call.name, call.arguments, made) for call in written)


_NAME_KEY = re.compile(r"""\b(?:name|function|tool|tool_name|action)\b["']?\s*[:=]\s*["']?([\w.\-]+)""")
_ARGUMENTS_KEY = re.compile(r"""\b(?:arguments|parameters|args|params|input)\b["']?\s*[:=]""")
_BARE_CALL = re.compile(r"\Acall:([\w.\-]+)\s*\{")


def _json_that_is_no_answer(message: Message, harness: Harness, *, truncated: bool) -> Found:
    """A content that is nothing but JSON of a call, not taken by any reader: an unknown name, broken JSON, or odd keys.

    The first is a call, of which the model will hear that there is no such tool; the others are failed calls.
    """
    raw = (message.content or "").strip()
    text = unfenced(raw) or raw
    bare = _BARE_CALL.match(text)
    name_key = bare or _NAME_KEY.search(text)
    if name_key is None or not (bare or (text.startswith(("{", "[")) and _ARGUMENTS_KEY.search(text))):
        return []
    if not truncated and not text.endswith(("}", "]")):
        return []
    span = Span("failed", 0, len(raw))
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
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
    return bool(prose) and all(call.repair is not None and _was_made(call.name, call.arguments, made) for call in calls)


def _was_made(name: str, arguments_text: str, made: Sequence[CallRecord]) -> bool:
    arguments = read_arguments(arguments_text).arguments
    return any(record.name == name and record.arguments == arguments for record in made)


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
