"""What a stored run has done so far, given again to a loop that runs it anew.

The loop is the same as ever: it asks, and gets the replies on record; it calls tools, and gets the results on record. So
conversation, limits and detectors come to be what they were, whatever they are made of. When the record is used up, the run
goes on with the real server and the real tools. A tool that had begun and whose result is not on record may have had its
effect: `decide` says whether it runs again; if not, the model is told that nobody knows.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from daneel.errors import UserError
from daneel.harness.client_errors import ClientError
from daneel.harness.limits import Meter
from daneel.harness.pauses import OWN, active_s, without_pauses
from daneel.harness.peer import ChatClient, error_from, reply_from
from daneel.harness.recovery import Attempt, Problem, ProblemKind
from daneel.harness.reply import Reply
from daneel.harness.run_record import CallRecord, Event, JsonObject
from daneel.harness.stop import Stop
from daneel.harness.transcript import EventRow

if TYPE_CHECKING:
    from daneel.harness.inbox import Inbox

Decide = Callable[[Attempt], bool]
"""Whether a call that had begun, and whose outcome is not on record, is made again."""

ORDINARY = frozenset({"message", "peer", "request", "reply", "call", "result", "stop", "context"})
"""Kinds that every run has. They are in the transcript; a run's `events` hold the others."""

BY_ID = frozenset({"call", "result", "told"})
ESSENTIAL = frozenset({"reply", "message", "call"})
"""Kinds that make the run what it is: these must come again as they are on record, and in full."""

ANSWERS = frozenset({"reply", "request_failed"})
INPUTS = ANSWERS | {"heard", "paused"}
"""Kinds that came from outside, from the server or a person: what the loop is given again."""


class Diverged(UserError):
    """Run anew, the harness does something else than is on record."""


class Past:
    """The record of a run, used up as the loop goes through it. One of these serves one rebuild.

    `strict`: the messages must come out as they are on record. Calls always must.
    """

    def __init__(self, run_id: str, rows: Sequence[EventRow], *, decide: Decide, strict: bool = True) -> None:
        self.run_id = run_id
        self.elapsed_s = active_s(rows)
        self.awake = False
        """Whether something has happened that was not on record."""
        self._decide = decide
        self._strict = strict
        events = without_pauses([row.event for row in rows])
        self.num_turns = sum(event.kind == "reply" for event in events)
        self.out_of_the_ordinary = [event for event in events if event.kind not in ORDINARY]
        self._queues: dict[str, deque[Event]] = {}
        self._by_id: dict[tuple[str, str], Event] = {}
        for event in events:
            if event.kind in BY_ID:
                self._by_id[event.kind, str(event.data.get("id"))] = event
            elif event.kind not in OWN:
                self._queues.setdefault(event.kind, deque()).append(event)
        self._inputs = deque(event for event in events if event.kind in INPUTS)
        self._began = {key[1] for key in self._by_id if key[0] == "call"}

    @property
    def is_daneel(self) -> bool | None:
        """Whether the run's server was daneel's; None when it had not been asked yet."""
        queue = self._queues.get("peer")
        return bool(queue[0].data.get("is_daneel")) if queue else None

    def client(self, live: ChatClient, *, on_live: Callable[[], object]) -> ChatClient:
        """The replies on record, then `live`'s. `on_live` is called before the first of these is asked for."""
        return cast(ChatClient, _PastClient(self, live, on_live))

    @property
    def has_answer(self) -> bool:
        """Whether what the server answered to a further request is on record."""
        return any(event.kind in ANSWERS for event in self._inputs)

    def answer(self) -> Reply | ClientError | None:
        """What the server answered to the next request; None when that is not on record.

        Raises KeyboardInterrupt where a person interrupted the request, and then said something.
        """
        if not self._inputs:
            return None
        if self._inputs[0].kind == "paused" and self._inputs[0].data.get("reason") == "cancelled":
            raise KeyboardInterrupt
        event = self._inputs.popleft()
        while event.kind not in ANSWERS and self._inputs:
            event = self._inputs.popleft()
        if event.kind not in ANSWERS:
            return None
        return reply_from(event.data) if event.kind == "reply" else error_from(event.data)

    def heard(self) -> list[str]:
        """What a person said next, before anything else came."""
        texts: list[str] = []
        while self._inputs and self._inputs[0].kind == "heard":
            texts.append(str(self._inputs.popleft().data.get("text")))
        return texts

    def paused(self) -> bool:
        """Whether the run then waited for what a person would say."""
        is_next = bool(self._inputs) and self._inputs[0].kind == "paused"
        if is_next:
            self._inputs.popleft()
        return is_next

    @property
    def is_conversation(self) -> bool:
        """Whether a person had a part in it."""
        return any(event.kind in ("heard", "paused") for event in self._inputs)

    def inbox(self, live: Inbox | None) -> Inbox:
        """What a person said on record, then what comes in at `live`; without it, nothing more."""
        return _PastInbox(self, live)

    def next_of(self, kind: str) -> Event | None:
        """The next event of this kind on record. It stays there."""
        queue = self._queues.get(kind)
        return queue[0] if queue else None

    def holds(self, event: Event) -> bool:
        """Whether the event is on record already. Raises Diverged when it cannot be what happened."""
        stored = self._take(event)
        if stored is not None:
            self._compare(stored, event)
            return True
        if event.kind in OWN or event.kind == "result":
            return False
        left = self._left()
        if left and (event.kind in ESSENTIAL or event.kind == "stop"):
            raise Diverged(self._sentence(event, f"{event.kind} {_short(event)}", f"{left[0].kind} {_short(left[0])}"))
        # while there is more on record, it is the record that counts
        return bool(left)

    def finish(self) -> None:
        """The record must be used up now: what comes next is new. Raises Diverged when it is not."""
        left = self._left() + [event for (kind, _), event in self._by_id.items() if kind == "result"]
        if left:
            raise Diverged(self._sentence(left[0], "another request", f"{left[0].kind} {_short(left[0])}"))

    def recall(self, attempts: Sequence[Attempt], meter: Meter) -> tuple[dict[str, CallRecord], list[tuple[Attempt, bool]]]:
        """Outcomes on record by call id; and the calls whose outcome is not known, each with whether it is made again.

        A call that was refused then is refused again, in the same words, and does not count against its tool's limit.
        """
        records: dict[str, CallRecord] = {}
        unknown: list[tuple[Attempt, bool]] = []
        for attempt in attempts:
            if attempt.tool is None or attempt.bound is None:
                continue
            told, result = self._by_id.get(("told", attempt.id)), self._by_id.get(("result", attempt.id))
            if told is not None and self._stands(told):
                kind = cast(ProblemKind, told.data["problem"])
                attempt.problem = Problem(kind, told.data["error"], told.data.get("text") or told.data["error"])
                meter.calls[attempt.tool.name] -= 1
                attempt.tool = attempt.bound = None
            elif result is not None:
                records[attempt.id] = _record(attempt, result.data)
            elif attempt.id in self._began:
                if self.has_answer:
                    raise Diverged(f"run {self.run_id} cannot be rebuilt: it went on, but there is no result of {attempt.name}")
                unknown.append((attempt, self._decide(attempt)))
        return records, unknown

    def _stands(self, told: Event) -> bool:
        """Whether a call that was not made then is not made now, whatever the harness says today."""
        return True

    def _take(self, event: Event) -> Event | None:
        if event.kind in BY_ID:
            return self._by_id.pop((event.kind, str(event.data.get("id"))), None)
        queue = self._queues.get(event.kind)
        return queue.popleft() if queue else None

    def _left(self) -> list[Event]:
        """What is on record and has not come again; results apart, which may be there out of order."""
        queued = [event for kind, queue in self._queues.items() if kind in ESSENTIAL for event in queue]
        by_id = [event for (kind, _), event in self._by_id.items() if kind in ESSENTIAL]
        return sorted([*queued, *by_id], key=lambda event: event.turn)

    def _compare(self, stored: Event, event: Event) -> None:
        names = {"call": ("name", "arguments"), "message": ("message",) if self._strict else ()}.get(event.kind, ())
        if any(_json(stored.data.get(name)) != _json(event.data.get(name)) for name in names):
            raise Diverged(self._sentence(event, f"{event.kind} {_short(event)}", _short(stored)))

    def _sentence(self, event: Event, now: str, was: str) -> str:
        differs = f"in turn {event.turn} the harness now has {now}, on record is {was}"
        return f"run {self.run_id} cannot be rebuilt from its record: {differs}"


class _PastClient:
    """A client that gives the replies on record first. All else it leaves to the real one."""

    def __init__(self, past: Past, live: ChatClient, on_live: Callable[[], object]) -> None:
        self._past = past
        self._live = live
        self._on_live = on_live
        known = past.is_daneel
        self._is_daneel = known

    @property
    def is_daneel(self) -> bool:
        return self._live.is_daneel if self._is_daneel is None else self._is_daneel

    def chat(self, messages: Sequence[JsonObject], **more: Any) -> Reply:
        answer = self._past.answer()
        if answer is None:
            self._past.finish()
            self._on_live()
            return self._live.chat(messages, **more)
        if isinstance(answer, ClientError):
            raise answer
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._live, name)


@dataclass(frozen=True)
class _PastInbox:
    """An inbox that has what was said on record first."""

    past: Past
    live: Inbox | None

    def take(self) -> list[str]:
        said = self.past.heard()
        if said or self.live is None or self.past.has_answer:
            return said
        return self.live.take()

    def wait(self, stop: Stop) -> list[str]:
        if self.past.paused() and (said := self.past.heard()):
            return said
        return self.live.wait(stop) if self.live is not None else []


def _record(attempt: Attempt, result: JsonObject) -> CallRecord:
    arguments = attempt.bound.arguments if attempt.bound else {}
    record = CallRecord(attempt.name, arguments, result.get("result"), result.get("error"), attempt.id)
    record.returned, record.notes = result.get("returned"), tuple(result.get("notes") or ())
    record.duration_s = result.get("duration_s") or 0.0
    record.returned, record.notes = result.get("returned"), tuple(result.get("notes") or ())
    return record


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _short(event: Event) -> str:
    data = event.data.get("message") or {name: value for name, value in event.data.items() if name != "id"}
    text = repr(data)
    return text if len(text) <= 200 else text[:199] + "…"
