"""The clock's goal: it counts only what the tools returned in this run, stated in the answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from daneel.harness.files import load
from daneel.harness.run_record import CallRecord, Run, RunUsage

CLOCK = Path(__file__).resolve().parents[2] / "examples" / "clock.py"
TIME = CallRecord("cur_time", {}, result="14:03:27")
DATE = CallRecord("my_date", {}, result="2026-10-14")
RIGHT = "It is 2:03 PM on October 14, 2026."


def finished(answer, *calls):
    return Run("r", "answered", answer, len(calls) + 1, list(calls), RunUsage(), [], [])


@pytest.fixture(scope="module")
def clock():
    return load(CLOCK)


def test_four_harnesses_with_the_tools_of_the_experiment(clock):
    tools = {name: [(t.name, t.description) for t in harness.tools] for name, harness in clock.harnesses.items()}
    time_tool = ("cur_time", "Get current time")
    assert tools == {
        "H1": [time_tool, ("get_current_date", "Get current date")],
        "H2": [time_tool, ("my_date", "TODO")],
        "H3": [time_tool, ("cur_date", "TODO")],
        "H4": [time_tool, ("my_date", "Get current date")],
    }
    assert len({harness.fingerprint() for harness in clock.harnesses.values()}) == 4
    assert list(clock.goals) == ["now"]
    assert clock.goals["now"].prompt == "What's the current date and time?"


@pytest.mark.parametrize(
    "answer",
    [
        RIGHT,
        "2026-10-14 14:03:27",
        "14 October 2026, 14:03",
        "Wednesday, Oct 14th, 2026, 2:03:27 p.m.",
        "14.10.2026 14h03",
    ],
)
def test_an_answer_that_states_what_the_tools_returned_counts(clock, answer):
    assert clock.goals["now"](finished(answer, TIME, DATE))
    assert clock.goals["now"](finished(answer, DATE, TIME))


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "",
        "I will call my_date.",
        "The current date and time is {{my_date}} {{cur_time}}.",
        '{"name": "my_date", "arguments": {"date": "2026-10-14", "time": "14:03"}}',
        "It is 2:03 PM.",
        "It is October 14, 2026.",
        "It is 2:03 AM on October 14, 2026.",
        "It is 2:03 PM on October 14, 2025.",
        "It is 2:03 PM on October 14, 2026, or 5:00 PM.",
        "It is 14:03 on Tuesday, October 14, 2026.",
    ],
)
def test_any_other_answer_does_not(clock, answer):
    assert not clock.goals["now"](finished(answer, TIME, DATE))


@pytest.mark.parametrize(
    "calls",
    [
        [],
        [TIME],
        [DATE],
        [TIME, TIME],
        [TIME, CallRecord("my_date", {}, error="no such tool")],
        [TIME, CallRecord("my_date", {}, result="2026-10-14", error="raised after all")],
        [CallRecord("cur_time", {}, result="14:04:27"), DATE],
        [TIME, CallRecord("my_date", {}, result="2026-10-15")],
    ],
)
def test_a_right_answer_counts_only_if_the_tools_said_so_in_this_run(clock, calls):
    assert not clock.goals["now"](finished(RIGHT, *calls))


def test_a_tool_called_twice_may_have_said_it_either_time(clock):
    assert clock.goals["now"](finished(RIGHT, CallRecord("cur_time", {}, result="14:02:59"), TIME, DATE))
    assert clock.goals["now"](finished(RIGHT, TIME, DATE, CallRecord("cur_time", {}, result="14:04:00")))


def test_the_tools_tell_the_time_of_this_machine(clock):
    results = [tool.run({}) for tool in clock.harnesses["H1"].tools]
    answer = "It is {} on {}.".format(*results)
    calls = [CallRecord("cur_time", {}, result=results[0]), CallRecord("get_current_date", {}, result=results[1])]
    assert clock.goals["now"](finished(answer, *calls))
