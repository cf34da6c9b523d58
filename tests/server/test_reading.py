"""Conservation is computed from the spans: a parser that loses something is found out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from daneel.formats import registry
from daneel.formats.base import CallEvent, CallProgressEvent, ControlEvent, Event, FailedCallEvent, Span, TextEvent
from daneel.server.reading import conserved, read, spans
from daneel.wire.text_requests import parse_fields

RAW = " hi <c>x!</s>"
TEXT = TextEvent("content", "hi", Span("content", 0, 4))
CALL = CallEvent("c", "{}", "<c>", Span("tool", 4, 7))
FAILED = FailedCallEvent(None, "x", "malformed", "why", 0, Span("failed", 7, 8))
MORE = TextEvent("content", "!", Span("content", 8, 9))
END = ControlEvent(Span("control", 9, 13))
EVENTS: list[Event] = [TEXT, CallProgressEvent(None, 1), CALL, FAILED, MORE, END]


def test_all_of_it_is_there() -> None:
    assert conserved(EVENTS, RAW)
    assert conserved([], "")


@pytest.mark.parametrize(
    "events",
    [
        EVENTS[1:],
        EVENTS[:-1],
        [TEXT, *EVENTS],
        [EVENTS[0], FAILED, CALL, MORE, END],
        [replace(TEXT, text="ho"), *EVENTS[1:]],
        [replace(TEXT, text=""), *EVENTS[1:]],
        [TEXT, replace(CALL, raw="<d>"), FAILED, MORE, END],
        [TEXT, CALL, replace(FAILED, raw="y"), MORE, END],
        [TEXT, CALL, FAILED, MORE, ControlEvent(Span("control", 9, 14))],
    ],
)
def test_what_is_lost_doubled_moved_or_changed(events: list[Event]) -> None:
    assert not conserved(events, RAW)


def test_neighbouring_text_is_one_span_and_calls_are_not() -> None:
    raw = "abcd"
    events: list[Event] = [
        TextEvent("content", "a", Span("content", 0, 1)),
        TextEvent("content", "b", Span("content", 1, 2)),
        CallEvent("f", "{}", "c", Span("tool", 2, 3)),
        CallEvent("f", "{}", "d", Span("tool", 3, 4)),
    ]
    assert [(span.kind, span.text) for span in spans(events, raw)] == [("content", "ab"), ("tool", "c"), ("tool", "d")]


@pytest.mark.parametrize(
    ("field", "names"), [("reasoning_content", {"reasoning_content"}), ("both", {"reasoning", "reasoning_content"})]
)
def test_the_field_of_thoughts_is_the_servers(field: Any, names: set[str]) -> None:
    reply = read(parse_fields({"raw": "<think>a</think>b"}), registry.get("hermes"), reasoning_field=field)
    assert {name for name in ("reasoning", "reasoning_content") if getattr(reply.message, name)} == names


def test_the_same_output_has_the_same_ids() -> None:
    request = parse_fields({"raw": '<tool_call>{"name": "f", "arguments": {}}</tool_call>' * 2})
    first, second = read(request, registry.get("hermes")), read(request, registry.get("hermes"))
    assert first == second
    assert len({call.id for call in first.message.tool_calls}) == 2
