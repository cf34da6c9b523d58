"""Where the splitter's events gather: white space at the seams, and what is held back until it is known to be reasoning.

White space: content is verbatim but for the white space between a marker (or the start) and the content's first character,
which its span holds and its text does not. At the start of an output it is kept if text follows rather than a marker.
"""

from __future__ import annotations

from dataclasses import dataclass

from daneel.formats.base import (
    CallEvent,
    CallProgressEvent,
    ControlEvent,
    Event,
    FailedCallEvent,
    Span,
    TextEvent,
)


@dataclass(slots=True)
class _ContentState:
    blank: bool = True
    """No content but white space so far."""
    after_marker: bool = False
    line_start: bool = True
    """Nothing but spaces and tabs since a line break or marker."""
    after_call: bool = False
    """Nothing but white space since a call."""


class Output:
    """Collects the events of one generation."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._state = _ContentState()
        self._white: list[str] = []
        self._white_start = 0
        self._thinking_blank = True
        self._held: list[tuple[Event, str]] | None = None
        self._held_start = 0
        self._before_hold = _ContentState()

    @property
    def blank(self) -> bool:
        """No content but white space so far."""
        return self._state.blank

    @property
    def line_start(self) -> bool:
        return self._state.line_start

    @property
    def after_call(self) -> bool:
        return self._state.after_call

    @property
    def holding(self) -> bool:
        return self._held is not None

    def take(self) -> list[Event]:
        """The events since the last time."""
        events, self._events = self._events, []
        return events

    def content(self, text: str, start: int) -> None:
        state = self._state
        if not text:
            return
        line = text.rstrip(" \t")
        state.line_start = line.endswith("\n") if line else state.line_start
        if state.blank and not text.strip() and not state.after_marker:
            if not self._white:
                self._white_start = start
            self._white.append(text)
            return
        shown = text
        if state.blank and state.after_marker:
            shown = text.lstrip()
        elif self._white:
            start, shown = self._white_start, "".join(self._white) + text
            text, self._white = shown, []
        if shown.strip():
            state.blank = state.after_call = False
        self._emit(TextEvent("content", shown, Span("content", start, start + len(text))), text)

    def reasoning(self, text: str, start: int) -> None:
        if not text:
            return
        shown = text.lstrip() if self._thinking_blank else text
        self._thinking_blank = self._thinking_blank and not shown
        self._emit(TextEvent("reasoning", shown, Span("reasoning", start, start + len(text))), text)

    def control(self, text: str, start: int) -> None:
        self._marker()
        self._emit(ControlEvent(Span("control", start, start + len(text))), text)

    def call(self, event: CallEvent | FailedCallEvent) -> None:
        self._marker()
        self._state.after_call = True
        self._emit(event, event.raw)

    def progress(self, name: str | None, num_chars: int) -> None:
        """A call grows. Not said while it may yet turn out to be reasoning."""
        if self._held is None:
            self._events.append(CallProgressEvent(name, num_chars))

    def hold(self, start: int) -> None:
        """A call begins inside reasoning: keep everything back until the block's end shows what it is."""
        self._held, self._held_start = [], start
        self._before_hold, self._state = self._state, _ContentState(self._state.blank, True)

    def collapse(self) -> None:
        """The block's closing marker came: what was held is reasoning."""
        self._marker()
        held, self._held = self._held or [], None
        self._state = self._before_hold
        self.reasoning("".join(raw for _, raw in held), self._held_start)

    def release(self) -> None:
        """No closing marker came: what was held is what it seemed to be."""
        held, self._held = self._held or [], None
        self._events.extend(event for event, _ in held)

    def close(self) -> None:
        """The end of the text."""
        if self._white:
            text, self._white = "".join(self._white), []
            self._emit(TextEvent("content", text, Span("content", self._white_start, self._white_start + len(text))), text)
        self.release()

    def _marker(self) -> None:
        if self._white:
            text, self._white = "".join(self._white), []
            self._emit(TextEvent("content", "", Span("content", self._white_start, self._white_start + len(text))), text)
        self._state.after_marker = self._state.line_start = True

    def _emit(self, event: Event, raw: str) -> None:
        if self._held is None:
            self._events.append(event)
        else:
            self._held.append((event, raw))
