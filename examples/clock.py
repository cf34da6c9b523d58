"""Four versions of one harness. They differ only in what the second tool is called and how it is described.

daneel run examples/clock.py --harness H1 --goal now
daneel measure examples/clock.py --goal now
"""

from datetime import date, datetime, time

from daneel import Harness, goal, tool
from daneel.bench.checks import states_date, states_time


@tool
def cur_time() -> str:
    """Get current time"""
    return datetime.now().strftime("%H:%M:%S")


def today() -> str:
    return date.today().isoformat()


def clock(name: str, description: str) -> Harness:
    return Harness(tools=[cur_time, tool(name=name, description=description)(today)], max_tokens=256)


H1 = clock("get_current_date", "Get current date")
H2 = clock("my_date", "TODO")
H3 = clock("cur_date", "TODO")
H4 = clock("my_date", "Get current date")


@goal(prompt="What's the current date and time?")
def now(trial) -> bool:
    """The answer states a date and a time that the tools returned in this trial, and no others."""
    answer = trial.answer or ""
    results = [(call.name, call.result) for call in trial.calls if call.result and not call.error]
    times = [time.fromisoformat(result) for name, result in results if name == "cur_time"]
    dates = [date.fromisoformat(result) for name, result in results if name != "cur_time"]
    return any(states_time(answer, t) for t in times) and any(states_date(answer, d) for d in dates)
