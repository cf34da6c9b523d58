"""Goals about dates, on a day that no model can guess: a date some days ahead; an event in the calendar (held out).

daneel measure examples/goals/dates.py --serve qwen2.5-coder-1.5b --trials 5
"""

from datetime import date, timedelta
from pathlib import Path

from daneel import Harness, SafetyPolicy, ToolFailure, goal, tool
from daneel.bench.checks import states_date
from daneel.bench.end_state import files_of

TODAY = date(2031, 3, 14)
SAYINGS_OF_TODAY = ("2031-03-14", "March 14, 2031", "March 14th, 2031", "14 March 2031")
OLD_EVENTS = "2031-03-20 Concert\n"


@tool(effects=["read"])
def today() -> str:
    """Get today's date"""
    return Path("today.txt").read_text().strip()


@tool
def add_days(start: str, days: int) -> str:
    """Get the date a number of days after a date.

    Args:
        start: A date, such as 2025-12-31.
        days: How many days later.
    """
    try:
        return (date.fromisoformat(start.strip()) + timedelta(days=days)).isoformat()
    except (ValueError, OverflowError):
        raise ToolFailure("start must be a date such as 2025-12-31, and days a number that leads to a real date.") from None


@tool(effects=["write"])
def add_event(day: str, title: str) -> str:
    """Put an event into the calendar.

    Args:
        day: A date, such as 2025-12-31.
        title: What it is.
    """
    try:
        at = date.fromisoformat(day.strip())
    except ValueError:
        raise ToolFailure("day must be a date such as 2025-12-31.") from None
    line = f"{at.isoformat()} {' '.join(title.split())}"
    with Path("calendar.txt").open("a") as calendar:
        calendar.write(line + "\n")
    return f"The calendar now has: {line}"


harness = Harness(
    name="dates",
    tools=[today, add_days, add_event],
    safety=SafetyPolicy(allow=["tool:today", "tool:add_event"]),
    max_tokens=256,
)


def calendar(workspace: Path) -> None:
    (workspace / "today.txt").write_text(f"{TODAY.isoformat()}\n")
    (workspace / "calendar.txt").write_text(OLD_EVENTS)


def said_right(workspace: Path) -> str:
    return "45 days from today, March 14, 2031, it will be April 28, 2031."


def said_wrong(workspace: Path) -> str:
    return "45 days from today it will be April 29, 2031."


def dentist_noted(workspace: Path) -> str:
    (workspace / "calendar.txt").write_text(OLD_EVENTS + "2031-03-16 Dentist\n")
    return "It is in the calendar."


def dentist_tomorrow(workspace: Path) -> str:
    (workspace / "calendar.txt").write_text(OLD_EVENTS + "2031-03-15 Dentist\n2031-03-16 Dentist\n")
    return "It is in the calendar."


@goal(
    prompt="Which date is it 45 days from today?",
    setup=calendar,
    known_pass=said_right,
    known_fail=said_wrong,
    min_turns=3,
)
def in_45_days(trial) -> bool:
    """The answer states that date and no other, today's apart; the calendar is as it was."""
    answer = trial.answer or ""
    for saying in SAYINGS_OF_TODAY:
        answer = answer.replace(saying, "today")
    unchanged = files_of(trial.workspace).get("calendar.txt") == OLD_EVENTS
    return states_date(answer, TODAY + timedelta(days=45)) and unchanged


@goal(
    prompt="Put the event Dentist into the calendar, 2 days from today.",
    setup=calendar,
    known_pass=dentist_noted,
    known_fail=dentist_tomorrow,
    min_turns=3,
    held_out=True,
)
def dentist(trial) -> bool:
    """The calendar has that event on that day, once, and nothing else that is new."""
    return files_of(trial.workspace).get("calendar.txt", "").lower() == f"{OLD_EVENTS}2031-03-16 dentist\n".lower()
