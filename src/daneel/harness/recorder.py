"""What happens in a run, told once: to the transcript, to whoever watches, and to the record if out of the ordinary."""

from __future__ import annotations

import sqlite3
from typing import Any, Protocol

from daneel.harness.run_record import Event, JsonObject, Run

ORDINARY = frozenset({"message", "request", "reply", "call", "result", "stop"})
"""Kinds that every run has. They are in the transcript; a run's `events` hold the others."""

DURABLE = frozenset({"reply", "stop"})
"""Kinds that end a turn: written through to the disk, so that a power cut loses less than one turn."""


class Observer(Protocol):
    """Watches a run, for a terminal or a page. `on_delta` has the pieces of a reply while it streams."""

    def on_event(self, event: Event) -> None: ...

    def on_delta(self, delta: Any) -> None: ...


class RunWriter(Protocol):
    """Keeps one run. Each call is one transaction; sqlite3.Error or OSError when it could not be kept."""

    def append(self, event: Event, *, durable: bool) -> None: ...

    def end(self, run: Run) -> None: ...


class TranscriptSink(Protocol):
    """Opens a place to keep one run."""

    def begin(self, run_id: str, about: JsonObject) -> RunWriter: ...


class Recorder:
    """Fans events out. A transcript that cannot be written does not end the run: that is said once, as an event of its own."""

    def __init__(self, observer: Observer | None, transcript: TranscriptSink | None) -> None:
        self.events: list[Event] = []
        self.turn = 0
        self._observer = observer
        self._transcript = transcript
        self._writer: RunWriter | None = None

    def begin(self, run_id: str, about: JsonObject) -> None:
        if self._transcript is not None:
            try:
                self._writer = self._transcript.begin(run_id, about)
            except (sqlite3.Error, OSError) as error:
                self._transcript_failed(error)

    def event(self, kind: str, /, **data: Any) -> None:
        """Record one event of the turn that is on."""
        event = Event(kind, self.turn, data)
        if kind not in ORDINARY:
            self.events.append(event)
        if self._writer is not None:
            try:
                self._writer.append(event, durable=kind in DURABLE)
            except (sqlite3.Error, OSError) as error:
                self._transcript_failed(error)
        if self._observer is not None:
            self._observer.on_event(event)

    def delta(self, delta: Any) -> None:
        if self._observer is not None:
            self._observer.on_delta(delta)

    def end(self, run: Run) -> None:
        if self._writer is not None:
            try:
                self._writer.end(run)
            except (sqlite3.Error, OSError) as error:
                self._transcript_failed(error)

    def _transcript_failed(self, error: Exception) -> None:
        self._writer = None
        self.event("transcript_failed", error=f"{type(error).__name__}: {error}")
