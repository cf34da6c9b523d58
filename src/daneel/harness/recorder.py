"""What happens in a run, told once: to the transcript, to whoever watches, and to the record if out of the ordinary."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from daneel.harness.limits import Meter
from daneel.harness.past import ORDINARY, Past
from daneel.harness.recovery import Attempt
from daneel.harness.run_record import CallRecord, Event, JsonObject, Run

DURABLE = frozenset({"reply", "stop", "resumed", "rerun", "unknown_outcome"})
"""Kinds that end a turn: written through to the disk, so that a power cut loses less than one turn."""

MAX_WAITING = 1000
"""Events held back while the transcript cannot be written. One more, and it is given up."""

Redact = Callable[[JsonObject], JsonObject]
"""Takes an event's data before it is kept or shown, and gives what may be."""


def is_durable(event: Event) -> bool:
    """Whether the event is written through to the disk before the run goes on.

    So is the intent to call a tool that changes something: after a power cut it must be known that it may have run.
    """
    return event.kind in DURABLE or (event.kind == "call" and not set(event.data.get("effects", ())) <= {"read"})


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
    """Fans events out. A transcript that cannot be written does not end the run: that is said once, as an event of its own.

    Events that could not be written are kept and written, in order, as soon as there is room again. `redact` has every
    event's data first. `past`: what is on record of this run already, when it is being resumed or replayed.
    """

    def __init__(
        self,
        observer: Observer | None,
        transcript: TranscriptSink | None,
        *,
        past: Past | None = None,
        redact: Redact | None = None,
    ) -> None:
        self.events: list[Event] = []
        self.turn = 0
        self.past = past
        self._observer = observer
        self._transcript = transcript
        self._redact = redact
        self._writer: RunWriter | None = None
        self._waiting: list[Event] = []
        self._failed = False
        self._lock = threading.RLock()
        self.on_wake: Callable[[], object] | None = None
        """Called when a run that is resumed goes on."""

    def begin(self, run_id: str, about: JsonObject) -> None:
        if self.past is not None:
            self.events.extend(self.past.out_of_the_ordinary)
        if self._transcript is not None:
            try:
                self._writer = self._transcript.begin(run_id, self._redact(about) if self._redact else about)
            except (sqlite3.Error, OSError) as error:
                self._transcript_failed(error)

    def event(self, kind: str, /, **data: Any) -> None:
        """Record one event of the turn that is on. Raises Diverged when a past says that it cannot be."""
        with self._lock:
            event = Event(kind, self.turn, self._redact(data) if self._redact else data)
            on_record = self.past is not None and self.past.holds(event)
            if not on_record:
                self.wake()
                if kind not in ORDINARY:
                    self.events.append(event)
                self._tell(event)

    def wake(self) -> None:
        """Something comes that is not on record: the run goes on from here. Said once."""
        if self.past is not None and not self.past.awake:
            self.past.awake = True
            if self.on_wake is not None:
                self.on_wake()
            self.event("resumed", after_turns=self.past.num_turns)

    def recall(self, attempts: Sequence[Attempt], meter: Meter) -> dict[str, CallRecord]:
        """The outcomes of calls that are on record already, by call id; none unless there is a past.

        A call that had begun, and is not to be made again, gets the policy's `unknown_outcome` for a result.
        """
        if self.past is None:
            return {}
        records, unknown = self.past.recall(attempts, meter)
        for attempt, again in unknown:
            self.event("rerun" if again else "unknown_outcome", id=attempt.id, name=attempt.name)
            if not again:
                arguments = attempt.bound.arguments if attempt.bound else {}
                text = meter.harness.recovery.unknown_outcome.format(name=attempt.name)
                records[attempt.id] = CallRecord(attempt.name, arguments, text, "outcome unknown: interrupted", attempt.id)
        return records

    def delta(self, delta: Any) -> None:
        if self._observer is not None:
            self._observer.on_delta(delta)

    def end(self, run: Run) -> None:
        with self._lock:
            for _ in range(2):  # nothing comes after this that would try it again
                self._write_waiting()
                if self._writer is None or self._waiting:
                    return
                try:
                    self._writer.end(run)
                    return
                except (sqlite3.Error, OSError) as error:
                    self._transcript_failed(error)

    def _tell(self, event: Event) -> None:
        if self._writer is not None:
            self._waiting.append(event)
            self._write_waiting()
        if self._observer is not None:
            self._observer.on_event(event)

    def _write_waiting(self) -> None:
        """Write what waits, oldest first: a transcript has no gaps."""
        if self._writer is None:
            return
        try:
            while self._waiting:
                self._writer.append(self._waiting[0], durable=is_durable(self._waiting[0]))
                del self._waiting[0]
        except (sqlite3.Error, OSError) as error:
            self._transcript_failed(error)

    def _transcript_failed(self, error: Exception) -> None:
        locked = getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
        if locked or len(self._waiting) > MAX_WAITING:
            # waiting for another process once more at every event would take longer than the run
            self._writer = None
            self._waiting.clear()
        if not self._failed:
            self._failed = True
            self.event("transcript_failed", error=f"{type(error).__name__}: {error}")
