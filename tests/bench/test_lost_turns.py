"""Each cause planted in a real run of the loop, read from the finished run and from its stored transcript alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.scripted_server import calls, failed_call, text
from tests.support.stage import Stage
from tests.support.trials import make_trial

from daneel import Harness, tool
from daneel.bench.lost_turns import ANSWER, CAUSES, STEP, LossCounter, events_of, lost, turn_labels
from daneel.harness.run_record import Event
from daneel.harness.safety.policy import SafetyPolicy
from daneel.harness.tools.gating import Gate
from daneel.harness.transcript import TranscriptStore

NOTES: dict[str, str] = {}


@tool
def the_time() -> str:
    """Get the time"""
    return "14:03:27"


@tool
def the_date() -> str:
    """Get the date"""
    return "2026-12-01"


@tool
def date_and_time() -> str:
    """Get both"""
    return "2026-12-01 14:03:27"


@tool
def look_up(word: str) -> str:
    """Look a word up"""
    if word == "broken":
        raise RuntimeError("the dictionary is gone")
    return f"{word} means something rather long"


@tool(effects={"write"})
def write_note(name: str, words: str) -> str:
    """Write a note"""
    NOTES[name] = words
    return "done"


@tool(effects={"read"})
def read_note(name: str) -> str:
    """Read a note"""
    return NOTES[name]


@tool(requires="the_date", gate=Gate(mode="refused"))
def add_days(days: int) -> str:
    """Add days"""
    return "2026-12-05"


HARNESS = Harness(tools=[the_time, the_date, date_and_time, look_up, write_note, read_note, add_days],
                  max_turns=12, safety=SafetyPolicy(allow=["tool:write_note", "tool:read_note"]))  # fmt: skip
DONE = text("It is done.")
WORD = calls(("look_up", {"word": "first"}))
PLANTED = {
    "nothing": ([WORD, DONE], [STEP, ANSWER]),
    "an answer alone": ([DONE], [ANSWER]),
    "parse_retry": ([failed_call("<tool_call>{"), WORD, DONE], ["parse_retry", STEP, ANSWER]),
    "unknown_tool": ([calls(("no_such_tool", {})), WORD, DONE], ["unknown_tool", STEP, ANSWER]),
    "invalid_arguments": ([calls(("look_up", {"number": 3})), WORD, DONE], ["invalid_arguments", STEP, ANSWER]),
    "gate": ([calls(("add_days", {"days": 4})), calls(("the_date", {})), DONE], ["gate", STEP, ANSWER]),
    "tool_error": ([calls(("look_up", {"word": "broken"})), WORD, DONE], ["tool_error", STEP, ANSWER]),
    "repeated_call": ([WORD, WORD, DONE], [STEP, "repeated_call", ANSWER]),
    "verification by another tool": (
        [calls(("date_and_time", {})), calls(("the_date", {})), DONE],
        [STEP, "verification", ANSWER],
    ),
    "narration": ([text("I will call the_time now."), calls(("the_time", {})), DONE], ["narration", STEP, ANSWER]),
    "no_reply, empty": ([text(""), WORD, DONE], ["no_reply", STEP, ANSWER]),
    "no_reply, thoughts only": ([text("", reasoning="Hm."), WORD, DONE], ["no_reply", STEP, ANSWER]),
    "one good call is enough": ([calls(("no_such_tool", {}), ("look_up", {"word": "a"})), DONE], [STEP, ANSWER]),
    "several steps": ([WORD, calls(("the_time", {})), calls(("the_date", {})), DONE], [STEP, STEP, STEP, ANSWER]),
}


@pytest.fixture(scope="module")
def stage():
    with Stage() as stage:
        yield stage


@pytest.mark.parametrize("name", PLANTED)
def test_every_planted_cause_is_found_live_and_stored(name, stage, tmp_path):
    script, expected = PLANTED[name]
    with TranscriptStore(tmp_path / "t.db") as store:
        run, _ = stage.play(script, HARNESS, transcript=store)
        stored = [row.event for row in store.events(run.id)]
    assert run.stop_reason == "answered"
    assert list(turn_labels(events_of(run)).values()) == expected
    assert list(turn_labels(stored).values()) == expected


def test_a_read_after_a_write_is_told_by_the_tools_effects(stage, tmp_path):
    with TranscriptStore(tmp_path / "t.db") as store:
        script = [calls(("write_note", {"name": "todo", "words": "milk"})), calls(("read_note", {"name": "todo"})), DONE]
        run, _ = stage.play(script, HARNESS, transcript=store)
        stored = [row.event for row in store.events(run.id)]
    assert list(turn_labels(stored).values()) == [STEP, "verification", ANSWER]


def test_a_tool_that_may_be_asked_again_loses_no_turn():
    script = [Event("reply", turn) for turn in (1, 2)]
    asked = [Event(kind, turn, {"id": str(turn), "name": "poll", "arguments": {}, "result": "wait"})
             for turn in (1, 2) for kind in ("call", "result")]  # fmt: skip
    events = sorted(script + asked, key=lambda event: event.turn)
    assert turn_labels(events) == {1: STEP, 2: "repeated_call"}
    assert turn_labels(events, repeating={"poll"}) == {1: STEP, 2: STEP}


@pytest.mark.parametrize(
    ("labels", "min_turns", "expected"),
    [
        ([STEP, ANSWER], None, {}),
        ([ANSWER], None, {}),
        ([STEP, STEP, STEP, ANSWER], None, {"other": [2, 3]}),
        ([STEP, STEP, STEP, ANSWER], 4, {}),
        ([STEP, STEP, STEP, ANSWER], 3, {"other": [3]}),
        ([STEP, "gate", STEP, STEP], 2, {"gate": [2], "other": [4]}),
        (["narration", "narration"], None, {"narration": [1, 2]}),
        ([STEP, ANSWER], 1, {"other": [1]}),
        ([], None, {}),
    ],
)
def test_what_a_goal_needs_is_kept_and_the_rest_is_lost(labels, min_turns, expected):
    assert lost(dict(enumerate(labels, start=1)), min_turns) == expected


@given(
    st.lists(st.lists(st.sampled_from([STEP, ANSWER, *CAUSES]), min_size=1, max_size=9), max_size=6),
    st.none() | st.integers(1, 5),
)
def test_every_turn_is_kept_or_lost_to_one_cause(runs, min_turns):
    counter = LossCounter()
    for labels in runs:
        counter.add(make_trial(turns=len(labels)), dict(enumerate(labels, start=1)), min_turns)
    total = counter.total()
    assert (total.trials, total.turns) == (len(runs), sum(map(len, runs)))
    assert total.kept + sum(loss.turns for loss in total.losses) == total.turns
    assert len({loss.cause for loss in total.losses}) == len(total.losses)
    assert all(loss.cost >= 0 for loss in total.losses)


def test_costs_are_what_the_scored_trials_would_have_gained():
    counter = LossCounter()
    counter.add(make_trial(turns=3, run_id="r1"), {1: "gate", 2: STEP, 3: ANSWER})
    counter.add(make_trial(turns=3, achieved=False), {1: "gate", 2: STEP, 3: ANSWER})
    counter.add(make_trial(turns=3, achieved=None, stop_reason="invalid"), {1: "tool_error"})
    counter.add(make_trial(turns=3), None)
    total = counter.total()
    (gate,) = total.losses
    assert (gate.cause, gate.turns, gate.trials, gate.cost, total.unread) == ("gate", 2, 2, 0.25, 1)
    assert (gate.evidence[0].run_id, gate.evidence[0].turn) == ("r1", 1)


events = st.builds(
    Event,
    st.sampled_from(["reply", "call", "result", "told", "detected", "announced_call", "stop", "nonsense"]),
    st.integers(0, 4),
    st.dictionaries(
        st.sampled_from(["id", "name", "arguments", "result", "error", "problem", "effects"]),
        st.none() | st.text(max_size=3) | st.integers() | st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    ),
)


@given(st.lists(events, max_size=20))
def test_whatever_is_stored_every_reply_has_a_label(stored):
    labels = turn_labels(stored)
    assert set(labels) == {event.turn for event in stored if event.kind == "reply"}
    assert set(labels.values()) <= {STEP, ANSWER, *CAUSES}
