"""Turns that brought a run no further, each put down to one cause. Read from a run's events, live or stored; no model judges.

Every turn of a run is labelled. Without calls it is an `answer`, or `narration` (a call was announced and not made), or
`no_reply` (empty, only thoughts, cut off, or repeating itself). With calls it is a `step` if any of them was made, worked and
brought something new; else it is lost to the cause of its first call:

    parse_retry        it could not be read as a call, or was cut off
    unknown_tool       it named a tool there is none of
    invalid_arguments  its arguments did not fit the tool
    gate               it was not allowed, or not yet, or not once more
    tool_error         the tool failed
    repeated_call      the same call had been made before, and brought the same
    verification       what it asked had been said already by another tool, or it looked at what had just been written

Of steps and answers, as many are *kept* as the goal needs: its `min_turns`, or else `SHORTEST`, the turns that E counts as
free. The rest of them is lost to `other`: steps that did bring something new, and would be saved only by a shorter way. So

    turns = kept + turns lost, over all causes
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from daneel.bench.diagnose.verification import verifies
from daneel.bench.diagnose.view import CallView, RunView
from daneel.bench.finding import Evidence
from daneel.bench.record import Trial
from daneel.harness.run_record import Event, Run

CAUSES = (
    "parse_retry",
    "unknown_tool",
    "invalid_arguments",
    "gate",
    "tool_error",
    "repeated_call",
    "verification",
    "narration",
    "no_reply",
    "other",
)
STEP, ANSWER, OTHER = "step", "answer", "other"
SHORTEST = 2
"""One turn that calls and one that answers."""
MAX_EVIDENCE = 3

IN_WORDS = {
    "parse_retry": "call could not be read",
    "unknown_tool": "no such tool",
    "invalid_arguments": "arguments did not fit",
    "gate": "call not allowed then",
    "tool_error": "tool failed",
    "repeated_call": "same call, same result",
    "verification": "asked what was known",
    "narration": "announced a call, made none",
    "no_reply": "empty, cut off or repeating",
    "other": "further steps",
}

_OF_PROBLEM = {
    "malformed": "parse_retry",
    "truncated": "parse_retry",
    "unknown_tool": "unknown_tool",
    "invalid_arguments": "invalid_arguments",
    "gated": "gate",
    "not_allowed": "gate",
    "call_limit": "gate",
}
_NO_REPLY = frozenset(
    {"empty_reply", "only_thoughts", "truncated_reply", "truncated_thought", "repeating_reply", "continued", "detected"}
)


class Loss(Struct, kw_only=True):
    """What one cause took: turns in all, in how many trials, and what they cost of E had they alone been saved.

    `cost` is the mean over all scored trials; those that failed count as failing still.
    """

    cause: str
    turns: int = 0
    trials: int = 0
    cost: float = 0.0
    evidence: list[Evidence] = field(default_factory=list)


class LostTurns(Struct, kw_only=True):
    """The turns of some trials: `turns` = `kept` + the turns of all `losses`, which come the largest first.

    `unread`: trials whose events are not there; they are in none of the other numbers.
    """

    trials: int
    turns: int
    kept: int
    losses: list[Loss]
    unread: int = 0


def turn_labels(events: Iterable[Event], *, repeating: Collection[str] = ()) -> dict[int, str]:
    """For each turn of a run: `step`, `answer`, or the cause that it was lost to. `repeating`: tools that may be asked again.

    `events` are all of a run in order, see `events_of` and `TranscriptStore.events`; what cannot be made out is `other`.
    """
    replies: dict[int, None] = {}
    kinds: dict[int, set[str]] = {}
    calls: list[CallView] = []
    open_calls: dict[str, CallView] = {}
    for event in events:
        data = event.data
        if event.kind == "reply":
            replies[event.turn] = None
        elif event.kind == "call":
            calls.append(_begun(event.turn, data))
            open_calls[str(data.get("id"))] = calls[-1]
        elif event.kind == "result" and (found := open_calls.get(str(data.get("id")))) is not None:
            found.result = _text(data.get("result"))
            found.error = None if data.get("error") is None else str(data["error"])
        elif event.kind == "told":
            problem = str(data.get("problem"))
            calls.append(CallView(event.turn, str(data.get("name")), {}, error=str(data.get("error")), problem=problem))
        else:
            kinds.setdefault(event.turn, set()).add(event.kind)
    of_calls = _call_labels(calls, frozenset(repeating))
    return {turn: _label(of_calls.get(turn, []), kinds.get(turn, set())) for turn in replies}


def _begun(turn: int, data: Mapping[str, Any]) -> CallView:
    arguments, effects = data.get("arguments"), data.get("effects")
    given = arguments if isinstance(arguments, dict) else {"": arguments}
    return CallView(
        turn, str(data.get("name")), given, frozenset(map(str, effects)) if isinstance(effects, list) else frozenset()
    )


def _label(calls: list[str], kinds: set[str]) -> str:
    if calls:
        return STEP if STEP in calls else calls[0]
    if "announced_call" in kinds:
        return "narration"
    return "no_reply" if kinds & _NO_REPLY else ANSWER


def _call_labels(calls: list[CallView], repeating: frozenset[str]) -> dict[int, list[str]]:
    run = RunView("", "", "", "", "", [], repeating, calls=calls)
    made: set[tuple[str, str, str | None]] = set()
    labels: dict[int, list[str]] = {}
    for index, call in enumerate(calls):
        key = call.name, json.dumps(call.arguments, sort_keys=True, default=str), call.result
        may_repeat = call.name in repeating
        if call.problem is not None:
            label = _OF_PROBLEM.get(call.problem, OTHER)
        elif call.failed:
            label = "tool_error"
        elif not may_repeat and not call.is_empty and not call.changes and verifies(run, index):
            label = "verification"
        elif not may_repeat and key in made:
            label = "repeated_call"
        else:
            label = STEP
        made.add(key)
        labels.setdefault(call.turn, []).append(label)
    return labels


def events_of(run: Run) -> list[Event]:
    """The events of a finished run as far as its record tells them: replies, calls with their results, and what was unusual.

    Of a very long run the first turns are not in the record: what they were cannot be told.
    """
    events: list[tuple[int, Event]] = [(turn, Event("reply", turn)) for turn in range(1, run.turns + 1)]
    for number, call in enumerate(run.calls):
        if call.result is not None:
            id_ = f"{number} {call.id}"
            events.append((call.turn, Event("call", call.turn, {"id": id_, "name": call.name, "arguments": call.arguments})))
            events.append((call.turn, Event("result", call.turn, {"id": id_, "result": call.result, "error": call.error})))
    events += [(event.turn, event) for event in run.events]
    return [event for _, event in sorted(events, key=lambda pair: pair[0])]


def lost(labels: Mapping[int, str], min_turns: int | None = None) -> dict[str, list[int]]:
    """The turns that a run lost to each cause. Of its steps the last are those that were too many; its answer is kept."""
    good = [turn for turn, label in labels.items() if label in (STEP, ANSWER)]
    needed = SHORTEST if min_turns is None else max(1, min_turns)
    if good and labels[good[-1]] == ANSWER:
        needed, good = needed - 1, good[:-1]
    spare = set(good[needed:])
    found: dict[str, list[int]] = {}
    for turn, label in labels.items():
        if turn in spare or label not in (STEP, ANSWER):
            found.setdefault(OTHER if turn in spare else label, []).append(turn)
    return found


class LossCounter:
    """Adds up the lost turns of the scored trials of one harness: `add` each, then `total`."""

    def __init__(self) -> None:
        self._losses: dict[str, Loss] = {}
        self._trials = self._turns = self._kept = self._unread = 0

    def add(self, trial: Trial, labels: Mapping[int, str] | None, min_turns: int | None = None) -> None:
        """One trial; without labels if its events are not there. One that is not scored is left out."""
        if not trial.scored:
            return
        if not labels:
            self._unread += 1
            return
        by_cause = lost(labels, min_turns)
        self._trials += 1
        self._turns += len(labels)
        self._kept += len(labels) - sum(map(len, by_cause.values()))
        for cause, turns in by_cause.items():
            loss = self._losses.setdefault(cause, Loss(cause=cause))
            loss.turns += len(turns)
            loss.trials += 1
            if trial.achieved:
                without = max(1, trial.turns - len(turns) - 1)
                loss.cost += 1 / without - 1 / max(1, trial.turns - 1)
            if len(loss.evidence) < MAX_EVIDENCE and trial.run_id is not None:
                loss.evidence.append(Evidence(trial.run_id, turns[0]))

    def total(self) -> LostTurns:
        """The sum. Costs are given per scored trial."""
        losses = [
            Loss(cause=one.cause, turns=one.turns, trials=one.trials, cost=one.cost / self._trials, evidence=one.evidence)
            for one in sorted(self._losses.values(), key=lambda loss: (-loss.turns, CAUSES.index(loss.cause)))
        ]
        return LostTurns(trials=self._trials, turns=self._turns, kept=self._kept, losses=losses, unread=self._unread)


def _text(result: Any) -> str:
    return result if isinstance(result, str) else "" if result is None else json.dumps(result, default=str)
