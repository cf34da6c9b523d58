"""What a run that goes on for days keeps in memory: its last part. The transcript has all of it.

Nothing is let go of that can still be sent, shown to a gate, or summarised: of the messages only those that stand in a list or
a summary of old turns, of the calls only those of tools that no gate asks about. How much was let go of is in the run's record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from daneel.harness.run_record import CallRecord, Event

if TYPE_CHECKING:
    from daneel.harness.session import Session

EVERY_TURNS = 100
KEPT_CALLS = 1000
KEPT_MESSAGES = 1000
KEPT_EVENTS = 1000


class LongRun:
    """Keeps one run's memory within bounds. `dropped` counts what was let go of."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.dropped = {"calls": 0, "made_calls": 0, "messages": 0, "events": 0}
        self.called: set[str] = set()
        """Tools that were called by calls which are let go of."""
        self._released_to = 0
        gates = [(tool.name, tool.gates) for tool in session.harness.tools if tool.gates]
        self._asked_about = {name for name, _ in gates} | {after.tool for _, gate in gates for after in gate.after}
        self._keeps_all_calls = any(gate.hidden_until is not None for _, gate in gates)

    def tidy(self) -> None:
        """Let go of what lies far back. Called after every turn; looks at the run now and then."""
        if self._session.meter.turns % EVERY_TURNS:
            return
        self._calls()
        self._messages()
        self._events()

    def _calls(self) -> None:
        calls = self._session.calls
        if self._keeps_all_calls or len(calls) <= KEPT_CALLS:
            return
        old = calls[:-KEPT_CALLS]
        kept = [call for call in old if call.name in self._asked_about]
        for call in old:
            if call.name not in self._asked_about:
                self._drop(call)
        calls[:-KEPT_CALLS] = kept

    def _drop(self, call: CallRecord) -> None:
        self.dropped["calls"] += 1
        if call.result is not None and call.name is not None:
            self.dropped["made_calls"] += 1
            self.called.add(call.name)

    def _messages(self) -> None:
        conversation = self._session.conversation
        limit = len(conversation.messages) - KEPT_MESSAGES
        for first, end in self._session.context.told_again():
            for place in range(max(first, self._released_to), min(end, limit)):
                self.dropped["messages"] += conversation.release(place)
                self._released_to = place + 1

    def _events(self) -> None:
        events = self._session.recorder.events
        if len(events) > KEPT_EVENTS:
            self.dropped["events"] += len(events) - KEPT_EVENTS
            del events[:-KEPT_EVENTS]
        for place, event in enumerate(events):
            if "view" in event.data:  # what a compaction sends instead: a rebuilt run reads it from the transcript
                data = {name: value for name, value in event.data.items() if name != "view"}
                events[place] = Event(event.kind, event.turn, data)
