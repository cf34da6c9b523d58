"""Feeding a parser in pieces and joining what comes out, as the tests compare it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from daneel.formats.base import CallEvent, CallProgressEvent, ControlEvent, Event, FailedCallEvent, Span, TextEvent
from daneel.formats.family import Family
from daneel.formats.validate import ToolSet


@dataclass
class Joined:
    content: str = ""
    reasoning: str = ""
    calls: list[CallEvent] = field(default_factory=list)
    failed: list[FailedCallEvent] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


def parse(
    family: Family,
    text: str,
    cuts: Sequence[int] = (),
    *,
    tools: ToolSet | None = None,
    in_reasoning: bool | None = False,
    prompt: str = "",
    truncated: bool = False,
    rescue: bool = True,
) -> Joined:
    """Feed `text` cut at `cuts`; neighbouring text events of one kind are merged; conservation is asserted."""
    parser = family.parser(tools, prompt=prompt, starts_in_reasoning=in_reasoning, rescue=rescue)
    bounds = [0, *sorted(cuts), len(text)]
    events: list[Event] = []
    for start, end in pairwise(bounds):
        events += parser.feed(text[start:end])
    events += parser.finish(truncated=truncated)
    return join(events, text)


def join(events: Sequence[Event], text: str) -> Joined:
    joined, at = Joined(), 0
    for event in events:
        if isinstance(event, CallProgressEvent):
            continue
        assert event.span.start == at, (event, at, text)
        at = event.span.end
        written = text[event.span.start : event.span.end]
        if isinstance(event, TextEvent):
            assert event.text == written or (event.text == written.lstrip()), event
            if event.kind == "content":
                joined.content += event.text
            else:
                joined.reasoning += event.text
            last = joined.events[-1] if joined.events else None
            if isinstance(last, TextEvent) and last.kind == event.kind:
                merged = Span(event.kind, last.span.start, event.span.end)
                joined.events[-1] = TextEvent(event.kind, last.text + event.text, merged)
                continue
        elif isinstance(event, CallEvent):
            assert event.raw == written
            joined.calls.append(event)
        elif isinstance(event, FailedCallEvent):
            assert event.raw == written
            assert 0 <= event.offset <= len(event.raw), event
            joined.failed.append(event)
        else:
            assert isinstance(event, ControlEvent)
        joined.events.append(event)
    assert at == len(text), (at, text, events)
    return joined
