"""Runs a stored run's harness again with the replies on record, without a server, and says what comes out otherwise.

    replayed = replay(row, store.events(row.id), harness)
    for found in replayed.differences:
        print(found.turn, found.what, found.recorded, found.now)

Tools that only read run again; of one that changes something the result on record stands, and a call of it that is not on
record is not made, unless `all_tools`. Nothing is written to the store.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from daneel.harness.client_errors import ClientError, RequestCancelled
from daneel.harness.definition import Harness
from daneel.harness.limits import Meter
from daneel.harness.loop import run
from daneel.harness.past import Past
from daneel.harness.recorder import Observer
from daneel.harness.recovery import Attempt
from daneel.harness.reply import Reply
from daneel.harness.resume import changes_something
from daneel.harness.run_record import CallRecord, Event, JsonObject, Run
from daneel.harness.safety.approvals import ApprovalRequest, Approver
from daneel.harness.transcript import EventRow, RunRow

VOLATILE = frozenset({"duration_s", "ttft_s"})
"""Data that is another each time, and says nothing about the harness."""

COMPARED = frozenset({"message", "request", "call", "result", "told", "stop"})
"""Kinds that are compared in full. Of any other kind that stands for a decision, that it came at all."""


NOT_MADE = "a replay does not make a new call that changes something"


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it was. None: it was not there at all."""

    turn: int
    what: str
    recorded: Any
    now: Any

    def to_dict(self) -> JsonObject:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Replayed:
    """The run as it went this time, and where it differs from the one on record."""

    run: Run
    differences: list[Difference]


def replay(
    row: RunRow,
    events: Sequence[EventRow],
    harness: Harness,
    *,
    all_tools: bool = False,
    approver: Approver | None = None,
    observer: Observer | None = None,
) -> Replayed:
    """Run the harness on the run's prompt with the replies on record. Raises UserError when the record cannot be read.

    `all_tools`: also tools that change something run again; `approver` is then asked as in a run.
    """
    past = _Compared(row.id, events, all_tools=all_tools)
    about = row.about
    finished = run(
        harness,
        str(about.get("prompt", "")),
        client=_NoServer(is_daneel=bool(past.is_daneel)),
        observer=observer,
        approver=approver if all_tools else _Yes(),
        seed=about.get("seed"),
        stream=bool(about.get("stream", True)),
        inbox=past.inbox(None) if past.is_conversation else None,
        past=past,
    )
    return Replayed(finished, past.all_differences())


class _Yes:
    """Approves all: asked only of tools that read, whose results go nowhere."""

    def ask(self, request: ApprovalRequest, /) -> bool:
        return True


@dataclass
class _NoServer:
    """The client when nobody is there to answer: the record is used up."""

    is_daneel: bool

    def chat(self, messages: Sequence[JsonObject], **_: Any) -> Reply:
        raise RequestCancelled("there is no further reply on record")


class _Compared(Past):
    """A past that notes differences instead of refusing them."""

    def __init__(self, run_id: str, rows: Sequence[EventRow], *, all_tools: bool) -> None:
        super().__init__(run_id, rows, decide=lambda _: False, strict=False)
        self.awake = True  # nothing is gone on with
        self.out_of_the_ordinary = []
        self.found: list[Difference] = []
        self._all_tools = all_tools
        self._told_results: set[str] = set()
        self._ran_out = False

    def answer(self) -> Reply | ClientError | None:
        answer = super().answer()
        self._ran_out = answer is None
        return answer

    def finish(self) -> None:
        """What is left over is told at the end."""

    def holds(self, event: Event) -> bool:
        stored = self._take(event)
        if self._ran_out:
            return False  # how it ends without replies says nothing
        if stored is None and event.kind in COMPARED:
            self._note(event.turn, event.kind, None, event.data)
        elif stored is not None and event.kind in COMPARED:
            self._compare(stored, event)
        return False

    def recall(self, attempts: Sequence[Attempt], meter: Meter) -> tuple[dict[str, CallRecord], list[tuple[Attempt, bool]]]:
        records, unknown = super().recall(attempts, meter)
        if unknown:
            self._ran_out = True  # the record ends in the middle of these
        for attempt in attempts:
            if self._all_tools or not changes_something(attempt):
                records.pop(attempt.id, None)
            elif attempt.tool is not None and attempt.id not in records:
                arguments = attempt.bound.arguments if attempt.bound else {}
                records[attempt.id] = CallRecord(attempt.name, arguments, f"Error: {NOT_MADE}", NOT_MADE, attempt.id)
        return records, []

    def _stands(self, told: Event) -> bool:
        return bool(told.data.get("problem") == "not_allowed")  # a person's word

    def all_differences(self) -> list[Difference]:
        """Those found on the way, and what is on record and did not come again."""
        left = [event for event in self._left_over() if event.kind in COMPARED]
        missing = [Difference(event.turn, event.kind, _plain(event.data), None) for event in left]
        return sorted([*self.found, *missing], key=lambda difference: difference.turn)

    def _left_over(self) -> Iterator[Event]:
        queues: dict[str, deque[Event]] = self._queues
        for queue in queues.values():
            yield from queue
        yield from self._by_id.values()

    def _compare(self, stored: Event, event: Event) -> None:
        was, now = _plain(stored.data), _plain(event.data)
        if event.kind == "message" and self._follows_from_result(now):
            return
        if was != now:
            if event.kind == "result":
                self._told_results.add(str(event.data.get("id")))
            self._note(event.turn, event.kind, was, now)

    def _follows_from_result(self, data: JsonObject) -> bool:
        """Whether a message is another only because of a result that was told of already."""
        return (data.get("message") or {}).get("tool_call_id") in self._told_results

    def _note(self, turn: int, what: str, was: Any, now: Any) -> None:
        self.found.append(Difference(turn, what, was, now if now is None else _plain(now)))


def _plain(data: JsonObject) -> JsonObject:
    """Data as it is after a stay in the store, without what is another each time."""
    plain: JsonObject = json.loads(json.dumps(data, default=str))
    return {name: value for name, value in plain.items() if name not in VOLATILE}
