"""Detectors on stored runs: the same firings as in the live run, and scores against labels."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.scripted_server import calls, text
from tests.support.stage import Stage

from daneel import Harness, tool
from daneel.harness.detectors.base import Firing
from daneel.harness.detectors.replay import ANY, Fired, Score, replay_detectors, score
from daneel.harness.policy import Recovery
from daneel.harness.run_record import Event, Run
from daneel.harness.transcript import TranscriptStore


@tool
def look(n: int) -> str:
    """Look."""
    if n == 9:
        raise ValueError("nothing there")
    return f"saw {n}"


@tool(repeats=True)
def wait() -> str:
    """Wait."""
    return "not yet"


TICKS = iter(range(10**9))


@tool
def tick() -> int:
    """Count."""
    return next(TICKS)


HARNESS = Harness(tools=[look, wait, tick], max_turns=40)
REPLIES: list[Any] = [
    calls(("look", {"n": 1})),
    calls(("look", {"n": 2})),
    calls(("look", {"n": "1"}), ("look", {"n": 9})),
    calls(("look", {"n": "x"})),
    calls(("wait", {})),
    calls(("tick", {})),
    calls(("nothing", {})),
    text(""),
    text("Well. " + "I think so. " * 300).but(finish_reason="length"),
]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


def live(run: Run) -> list[tuple[int, str, str, int]]:
    return [(e.turn, e.data["detector"], e.data["grade"], e.data["times"]) for e in run.events if e.kind == "detected"]


def stored(fired: list[Fired]) -> list[tuple[int, str, str, int]]:
    return [(found.turn, found.firing.detector, found.firing.grade, found.firing.times) for found in fired]


def without_last_notes(firings: list[tuple[int, str, str, int]]) -> list[tuple[int, str, str, int]]:
    """Notes of the turn that ends a run are not told any more."""
    ends = {turn for turn, _, grade, _ in firings if grade == "stop"}
    return sorted(firing for firing in firings if firing[0] not in ends or firing[2] == "stop")


@pytest.mark.parametrize("seed", range(40))
def test_a_stored_run_gives_the_firings_of_the_live_one(stage: Stage, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    few = dice.sample(REPLIES, dice.randint(1, 4))
    policy = Recovery(max_consecutive_failures=20, stale_note_at=4, stale_hide_at=6, stale_stop_at=9)
    script = [dice.choice(few) for _ in range(40)]
    with TranscriptStore(tmp_path / "t.db") as store:
        run, _ = stage.play(script, HARNESS.with_changes(recovery=policy), transcript=store)
        row, events = store.find(run.id), [entry.event for entry in store.events(run.id)]
    assert without_last_notes(stored(replay_detectors(row.about, events, policy))) == without_last_notes(live(run))


def test_other_thresholds_show_what_would_have_fired(stage: Stage, tmp_path: Path) -> None:
    with TranscriptStore(tmp_path / "t.db") as store:
        run, _ = stage.play([calls(("look", {"n": 1}))] * 3 + [text("done")], HARNESS, transcript=store)
        row, events = store.find(run.id), [entry.event for entry in store.events(run.id)]
    assert run.stop_reason == "answered"
    assert [f.firing.grade for f in replay_detectors(row.about, events, Recovery(repeat_stop_at=3))][-1] == "stop"
    assert replay_detectors(row.about, events, Recovery(repeat_note_at=9, repeat_hide_at=9, repeat_stop_at=9)) == []


@pytest.mark.parametrize(
    "event",
    [
        Event("result", 1, {}),
        Event("result", 1, {"id": "a", "name": None, "result": None, "error": 3}),
        Event("call", 1, {"id": "a", "arguments": "text"}),
        Event("told", 1, {"name": "look", "raw": "look("}),
        Event("reply", 1, {"message": None}),
        Event("reply", 1, {}),
        Event("unheard of", 1, {"x": 1}),
    ],
)
def test_a_record_that_lacks_fields_is_no_error(event: Event) -> None:
    assert replay_detectors({}, [event] * 3, Recovery()) in ([], replay_detectors({}, [event], Recovery()))


def fired(detector: str, grade: Any) -> Fired:
    return Fired(1, Firing(detector, grade, 3, ("look",), ""))


def by_name(scores: list[Score], detector: str, grade: str) -> Score:
    return next(found for found in scores if (found.detector, found.grade) == (detector, grade))


def test_scores() -> None:
    runs = [
        ({ANY: True}, [fired("repeated_call", "stop")]),
        ({ANY: True}, []),
        ({ANY: True, "cycle": True}, [fired("repeated_call", "note")]),
        ({ANY: False}, [fired("repeated_call", "note")]),
        ({ANY: False}, []),
        ({"cycle": False}, []),
    ]
    scores = score(runs)
    notes = by_name(scores, ANY, "note")
    assert (notes.right, notes.false_alarms, notes.missed, notes.quiet) == (2, 1, 1, 1)
    assert (notes.precision, notes.recall) == (2 / 3, 2 / 3)
    stops = by_name(scores, ANY, "stop")
    assert (stops.right, stops.false_alarms, stops.missed, stops.quiet) == (1, 0, 2, 2)
    repeated = by_name(scores, "repeated_call", "note")
    assert (repeated.right, repeated.false_alarms, repeated.missed) == (2, 1, 0)
    cycle = by_name(scores, "cycle", "note")
    assert (cycle.right, cycle.missed, cycle.quiet, cycle.precision) == (0, 1, 3, None)
