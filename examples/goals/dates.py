"""Goals about dates, on a day that no model can guess: the date some days ahead; the days until a date (held out).

daneel measure examples/goals/dates.py --serve qwen2.5-coder-1.5b --trials 5
"""

from datetime import date, timedelta
from pathlib import Path

from daneel import Harness, ToolFailure, goal, tool
from daneel.bench.checks import states_date, states_number
from daneel.bench.end_state import files_of

TODAY = date(2031, 3, 14)
SAYINGS_OF_TODAY = ("2031-03-14", "March 14, 2031", "March 14th, 2031", "14 March 2031")
FILES = {"today.txt": f"{TODAY.isoformat()}\n"}


def today() -> date:
    return date.fromisoformat(Path("today.txt").read_text().strip())


@tool
def date_in(days: int) -> str:
    """Get the date that is a number of days from today"""
    try:
        return (today() + timedelta(days=days)).isoformat()
    except OverflowError:
        raise ToolFailure("No calendar goes that far. Take fewer days.") from None


@tool
def days_until(day: str) -> int:
    """Get the number of days from today until a date, written as YYYY-MM-DD"""
    try:
        return (date.fromisoformat(day.strip()) - today()).days
    except ValueError:
        raise ToolFailure(f"{day[:40]} is no date; write it as YYYY-MM-DD.") from None


harness = Harness(
    name="dates",
    tools=[date_in, days_until],
    max_tokens=256,
)


def calendar(workspace: Path) -> None:
    for name, text in FILES.items():
        (workspace / name).write_text(text)


def said_right(workspace: Path) -> str:
    return "45 days from today, March 14, 2031, it will be April 28, 2031."


def said_wrong(workspace: Path) -> str:
    return "45 days from today it will be April 29, 2031."


def counted_right(workspace: Path) -> str:
    return "It is 285 days until 2031-12-24."


def counted_twice(workspace: Path) -> str:
    return "It is 285 or 284 days until then."


@goal(
    prompt="Which date will it be in 45 days?",
    setup=calendar,
    known_pass=said_right,
    known_fail=said_wrong,
    min_turns=2,
)
def in_45_days(trial) -> bool:
    """The answer states that date and no other, today's apart; the workspace is as it was."""
    answer = trial.answer or ""
    for saying in SAYINGS_OF_TODAY:
        answer = answer.replace(saying, "today")
    return states_date(answer, TODAY + timedelta(days=45)) and files_of(trial.workspace) == FILES


@goal(
    prompt="How many days is it from today until 2031-12-24?",
    setup=calendar,
    known_pass=counted_right,
    known_fail=counted_twice,
    min_turns=2,
    held_out=True,
)
def days_to_go(trial) -> bool:
    """The answer states that number; the dates in question apart, it has no other. The workspace is as it was."""
    answer = (trial.answer or "").replace("2031-12-24", "then").replace("2031-03-14", "today")
    answer = answer.replace("December 24, 2031", "then").replace("March 14, 2031", "today")
    return states_number(answer, 285) and files_of(trial.workspace) == FILES
