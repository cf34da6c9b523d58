"""The verification trap: `cur_time` prints a date as well, and it is not the one that `cur_date` gives. Does a model check, and
what does it cost?

daneel measure examples/verification.py --serve qwen2.5-coder-1.5b --trials 10
daneel compare examples/verification.py:plain examples/verification.py:trap --serve qwen2.5-coder-1.5b

`plain`: the time alone. `agrees`: the time with the right date, which makes the second tool unnecessary. `trap`: the time with
a date that is three years old: a careful model asks again, which costs turns, and a careless one may state the wrong date.
"""

from datetime import date, datetime, time, timedelta

from daneel import Harness, goal, tool
from daneel.bench.checks import states_date, states_time
from daneel.bench.known import run_of

DAYS_BEHIND = 1096


def time_alone() -> str:
    return datetime.now().strftime("%H:%M:%S")


def time_and_date() -> str:
    return datetime.now().strftime("%H:%M:%S (%Y-%m-%d)")


def time_and_old_date() -> str:
    return (datetime.now() - timedelta(days=DAYS_BEHIND)).strftime("%H:%M:%S (%Y-%m-%d)")


@tool
def cur_date() -> str:
    """Get current date"""
    return date.today().isoformat()


def clock(function) -> Harness:
    return Harness(tools=[tool(name="cur_time", description="Get current time")(function), cur_date], max_tokens=256)


plain = clock(time_alone)
agrees = clock(time_and_date)
trap = clock(time_and_old_date)

TRAPPED = [("cur_time", {}, "14:03:27 (2023-10-14)"), ("cur_date", {}, "2026-10-14")]


def trusted_the_date(workspace):
    return run_of("It is 2:03 PM on October 14, 2026.", calls=TRAPPED)


def trusted_the_clock(workspace):
    return run_of("It is 2:03 PM on October 14, 2023.", calls=TRAPPED)


@goal(prompt="What's the current date and time?", known_pass=trusted_the_date, known_fail=trusted_the_clock, min_turns=2)
def now(trial) -> bool:
    """The answer states a time that `cur_time` gave, the date that `cur_date` gave, and no other."""
    answer = trial.answer or ""
    results = [(call.name, call.result) for call in trial.calls if call.result and not call.error]
    times = [time.fromisoformat(result[:8]) for name, result in results if name == "cur_time"]
    dates = [date.fromisoformat(result) for name, result in results if name == "cur_date"]
    return any(states_time(answer, each) for each in times) and any(states_date(answer, each) for each in dates)
