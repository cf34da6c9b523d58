"""What the detectors say of runs that are on record, and how often they are right where a person has said what was the case.

The detectors are pure, so a stored run gives the same firings as the live one did; with other thresholds it shows what they
would have said. (What the model would then have done is another question: a run is the answer to that.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from daneel.harness.detect import Detectors
from daneel.harness.detectors.base import GRADES, Firing, Grade, Seen
from daneel.harness.detectors.repeating_text import Kind, find_repetition
from daneel.harness.json_arguments import read_arguments
from daneel.harness.policy import Recovery
from daneel.harness.run_record import Event, JsonObject

DETECTORS = ("repeated_call", "cycle", "no_progress", "repeating_text")
ANY = "any"


@dataclass(frozen=True, slots=True)
class Fired:
    """A firing and the turn it came in."""

    turn: int
    firing: Firing


def replay_detectors(about: JsonObject, events: Iterable[Event], policy: Recovery) -> list[Fired]:
    """Every firing of one run, in order. `about`: what the run said of itself when it began."""
    detectors = Detectors(policy)
    repeating = frozenset(about.get("repeating_tools") or ())
    found: list[Fired] = []
    in_a_row = 0
    for turn, of_turn in _turns(events):
        if any(event.kind == "compacted" for event in of_turn):
            detectors.forget_results()
        calls = seen_calls(of_turn, repeating)
        text = _text_firing(of_turn, in_a_row, policy) if not calls else None
        in_a_row = in_a_row + 1 if text is not None else 0
        if text is not None:
            found.append(Fired(turn, text))
        found += [Fired(turn, firing) for firing in detectors.turn(calls)]
    return found


def _turns(events: Iterable[Event]) -> Iterable[tuple[int, list[Event]]]:
    turns: dict[int, list[Event]] = {}
    for event in events:
        turns.setdefault(event.turn, []).append(event)
    return turns.items()


def seen_calls(events: Sequence[Event], repeating: frozenset[str] = frozenset()) -> list[Seen]:
    """The calls of one turn as the detectors saw them."""
    calls = {str(event.data.get("id")): event.data for event in events if event.kind == "call"}
    found = []
    for event in events:
        data = event.data
        name = str(data.get("name") or "")
        if event.kind == "result":
            arguments = (calls.get(str(data.get("id"))) or {}).get("arguments")
            given = arguments if isinstance(arguments, dict) else {}
            result, error = str(data.get("result") or ""), data.get("error")
            found.append(Seen(name, given, result, error is not None, name in repeating))
        elif event.kind == "told":
            raw = str(data.get("raw") or "")
            written = read_arguments(raw.removeprefix(name).strip("()")).arguments if raw.startswith(name) else None
            found.append(Seen(name, written if written is not None else {"": raw}, "", True, name in repeating, was_made=False))
    return found


def _text_firing(events: Sequence[Event], in_a_row: int, policy: Recovery) -> Firing | None:
    for event in events:
        message: Mapping[str, Any] = event.data.get("message") or {} if event.kind == "reply" else {}
        kinds: tuple[Kind, ...] = ("content", "reasoning")
        for kind in kinds:
            repetition = find_repetition(message.get(kind), kind)
            if repetition is not None:
                grade: Grade = "stop" if in_a_row + 1 >= policy.repetition_stop_at else "note"
                return Firing("repeating_text", grade, repetition.times, (), f"the {kind} repeated {repetition.unit[:200]!r}")
    return None


@dataclass(slots=True)
class Score:
    """How often one detector, from one grade on, was right over the labelled runs."""

    detector: str
    grade: Grade
    right: int = 0
    false_alarms: int = 0
    missed: int = 0
    quiet: int = 0
    """Runs that were not stuck, and it did not fire."""

    @property
    def precision(self) -> float | None:
        """The share of its firings that were right; None when it never fired."""
        fired = self.right + self.false_alarms
        return self.right / fired if fired else None

    @property
    def recall(self) -> float | None:
        """The share of stuck runs that it found; None when none was stuck."""
        stuck = self.right + self.missed
        return self.right / stuck if stuck else None

    def to_dict(self) -> JsonObject:
        return {
            "detector": self.detector,
            "grade": self.grade,
            "right": self.right,
            "false_alarms": self.false_alarms,
            "missed": self.missed,
            "quiet": self.quiet,
            "precision": self.precision,
            "recall": self.recall,
        }


Labels = Mapping[str, bool]
"""By detector: whether the run was stuck in its way; under `any`, whether it was stuck at all."""


def score(runs: Iterable[tuple[Labels, Sequence[Fired]]]) -> list[Score]:
    """Scores of every detector and of all together, by grade. A detector is judged by its own label, else by the general one.

    Missing a run is held against a detector only where a label names it: a run that was stuck in another way is none of its.
    """
    scores = {(name, grade): Score(name, grade) for name in (ANY, *DETECTORS) for grade in GRADES}
    for labels, fired in runs:
        for (name, grade), counted in scores.items():
            grades = GRADES[GRADES.index(grade) :]
            fires = any(f.firing.grade in grades and name in (ANY, f.firing.detector) for f in fired)
            stuck = labels.get(name, labels.get(ANY))
            if stuck is None:
                continue
            if fires:
                counted.right += stuck
                counted.false_alarms += not stuck
            elif not stuck:
                counted.quiet += 1
            elif name == ANY or name in labels:
                counted.missed += 1
    return list(scores.values())
