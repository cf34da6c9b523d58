"""What is left on record where a run was interrupted and then went on, and what of it counts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from daneel.harness.run_record import CallRecord, Event
from daneel.harness.transcript import EventRow

OWN = frozenset({"resumed", "rerun", "unknown_outcome", "transcript_failed"})
"""Kinds that tell of one attempt at the run, not of the run itself."""

PAUSES = frozenset({"cancelled", "invalid"})
"""Stop reasons that end one attempt at a run and leave the run itself open."""

INTERRUPTED = "interrupted"
"""The error of a call that Ctrl-C found before its outcome was known."""


def is_interrupted(record: CallRecord | None) -> bool:
    """Whether Ctrl-C found the call before its outcome was known."""
    return record is not None and record.result is None and record.error == INTERRUPTED


def without_pauses(events: Sequence[Event]) -> list[Event]:
    """The events without what only a pause left, and was done again since: its stop, results nobody saw, failed requests."""
    kept: list[Event] = []
    for event in events:
        is_pause = event.kind == "stop" and event.data.get("reason") in PAUSES
        if is_pause or event.kind == "resumed":
            _drop_unseen(kept)
        if not is_pause:
            kept.append(event)
    _drop_unseen(kept)
    return kept


def _drop_unseen(kept: list[Event]) -> None:
    """Take from the end what nothing followed from."""
    own: list[Event] = []
    while kept and (kept[-1].kind in OWN or kept[-1].kind == "request_failed" or _is_unseen(kept[-1])):
        event = kept.pop()
        if event.kind in OWN:
            own.insert(0, event)
    kept.extend(own)


def _is_unseen(event: Event) -> bool:
    return event.kind == "result" and event.data.get("result") is None and event.data.get("error") == INTERRUPTED


def active_s(rows: Sequence[EventRow]) -> float:
    """Seconds that attempts at the run were at work: the time between them does not count."""
    pairs = itertools.pairwise(rows)
    return sum(max(0.0, after.at - before.at) for before, after in pairs if after.event.kind != "resumed")
