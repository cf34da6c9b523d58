"""A model's output, read by itself: what `/v1/parse` and `daneel parse` answer. No model is needed, only its format.

The message is made as that of a reply with `on_failed_tool_call: "report"`, by the same parser and the same writer of deltas.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from daneel.formats.base import CallEvent, CallProgressEvent, Event, FailedCallEvent, TextEvent
from daneel.formats.family import Family
from daneel.server.declared_tools import tool_set
from daneel.server.deltas import DeltaOptions, DeltaWriter
from daneel.wire.accumulate import join
from daneel.wire.messages import Message, Warning
from daneel.wire.request_types import ReasoningField
from daneel.wire.text_requests import ParseRequest

_ID_SALT = b"parse"
"""Call ids are made from it and the call's text, so that the same output is always read to the same message."""


class SpanReport(Struct):
    """What the characters `start` to `end` (half-open) of the output are, and their text."""

    kind: str
    start: int
    end: int
    text: str


class ParseReply(Struct, omit_defaults=True):
    """`conserved`: the spans partition the output, and every call's raw text is what stands there."""

    format: str
    message: Message
    conserved: bool
    spans: list[SpanReport] = []
    warnings: list[Warning] = []


def read(request: ParseRequest, family: Family, *, reasoning_field: ReasoningField = "reasoning") -> ParseReply:
    """The output in `request`, read as `family` writes. Raises `BadRequest` when a tool's schema is none."""
    tools = tool_set(request.tools)
    inside = request.starts_in_reasoning or (None if request.gen_prompt else False)
    parser = family.parser(tools, prompt=request.gen_prompt, starts_in_reasoning=inside)
    events: list[Event] = []
    bounds = sorted({0, *request.cuts, len(request.raw)})
    for start, end in pairwise(bounds):
        events += parser.feed(request.raw[start:end])
    events += parser.finish(truncated=request.truncated)
    writer = DeltaWriter(tools, DeltaOptions(family.name, "report", reasoning_field, _ID_SALT))
    deltas = [writer.delta(event) for event in events if not isinstance(event, CallProgressEvent)]
    return ParseReply(
        format=family.name,
        message=join(delta for delta in deltas if delta is not None),
        conserved=conserved(events, request.raw),
        spans=spans(events, request.raw) if request.spans else [],
    )


def conserved(events: Sequence[Event], raw: str) -> bool:
    """Whether the spans partition `raw`, and what the events say of it is what stands there, white space at the ends apart."""
    at = 0
    for event in events:
        if isinstance(event, CallProgressEvent):
            continue
        if event.span.start != at or event.span.end < at:
            return False
        at = event.span.end
        written = raw[event.span.start : at]
        if isinstance(event, CallEvent | FailedCallEvent) and event.raw != written:
            return False
        if isinstance(event, TextEvent) and event.text.strip() != written.strip():
            return False
    return at == len(raw)


def spans(events: Sequence[Event], raw: str) -> list[SpanReport]:
    """The spans in order, neighbouring pieces of text of one kind as one."""
    found: list[SpanReport] = []
    previous: Event | None = None
    for event in events:
        if isinstance(event, CallProgressEvent) or event.span.start == event.span.end:
            continue
        span = event.span
        if found and isinstance(event, TextEvent) and isinstance(previous, TextEvent) and found[-1].kind == span.kind:
            found[-1].end = span.end
            found[-1].text = raw[found[-1].start : span.end]
        else:
            found.append(SpanReport(span.kind, span.start, span.end, raw[span.start : span.end]))
        previous = event
    return found
