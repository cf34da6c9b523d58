"""Overlapping tools: what does one more tool cost that gives date and time at once, beside the two that give one each?

daneel measure examples/overlap.py --serve qwen2.5-coder-1.5b --trials 10
daneel compare examples/overlap.py:two examples/overlap.py:three --serve qwen2.5-coder-1.5b

In `three` there are two ways to the goal, and `daneel diagnose` should say so. `one` has the single tool that does it all.
"""

from datetime import date, datetime, time

from daneel import Harness, goal, tool
from daneel.bench.checks import states_date, states_time
from daneel.bench.known import run_of


@tool
def cur_time() -> str:
    """Get current time"""
    return datetime.now().strftime("%H:%M:%S")


@tool
def cur_date() -> str:
    """Get current date"""
    return date.today().isoformat()


@tool
def cur_date_and_time() -> str:
    """Get current date and time"""
    return datetime.now().strftime("%Y-%m-%d %H:%M:%S")


two = Harness(tools=[cur_time, cur_date], max_tokens=256)
three = two.with_changes(tools=[cur_time, cur_date, cur_date_and_time])
one = two.with_changes(tools=[cur_date_and_time])


def by_two(workspace):
    return run_of("It is 14:03 on 2026-10-14.", calls=[("cur_time", {}, "14:03:27"), ("cur_date", {}, "2026-10-14")])


def by_half(workspace):
    return run_of("It is 14:03 on 2026-10-14.", calls=[("cur_time", {}, "14:03:27")])


@goal(prompt="What's the current date and time?", known_pass=by_two, known_fail=by_half, min_turns=2)
def now(trial) -> bool:
    """The answer states a date and a time that tools returned in this trial, and no others."""
    answer = trial.answer or ""
    results = [(call.name, call.result) for call in trial.calls if call.result and not call.error]
    both = [datetime.fromisoformat(result) for name, result in results if name == "cur_date_and_time"]
    times = [*(time.fromisoformat(result) for name, result in results if name == "cur_time"), *(each.time() for each in both)]
    dates = [*(date.fromisoformat(result) for name, result in results if name == "cur_date"), *(each.date() for each in both)]
    return any(states_time(answer, each) for each in times) and any(states_date(answer, each) for each in dates)
