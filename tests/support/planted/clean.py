"""Four harnesses without a fault: what models do on them is varied, and may go wrong, but nothing is to be changed."""

from __future__ import annotations

import random
from itertools import permutations

from daneel import Harness, ToolFailure, tool
from tests.support.planted.base import Call, Planted, Results, Script

WORDS = ("harbour", "lantern", "meadow", "orchard", "pebble", "quarry", "ribbon", "saddle", "thicket", "willow")


def _number(text: str) -> int:
    return sum(ord(char) * (place + 3) for place, char in enumerate(text)) % 9000 + 1000


def _all(results: Results) -> str:
    return f"So: {' '.join(results)}"


# -- the clock: both facts are needed, in either order or at once; some trials forget one


@tool
def cur_time() -> str:
    """Get current time"""
    return "14:03:27"


@tool
def cur_date() -> str:
    """Get current date"""
    return "2026-12-01"


def _clock(rng: random.Random) -> Script:
    both: list[Call] = [("cur_time", {}), ("cur_date", {})]
    rng.shuffle(both)
    how = rng.random()
    if how < 0.3:
        return Script([both], _all)
    if how < 0.8:
        return Script([[both[0]], [both[1]]], _all)
    return Script([[both[0]]], lambda results: f"It is {results[0]}.")


clock = Planted(
    name="clock",
    harness=Harness(system="clock", tools=[cur_time, cur_date]),
    goals={"now": ("What time and day is it?", _clock)},
    effectiveness={"now": 0.3 * 1 + 0.5 / 2},
)


# -- files: look for, read, write; a file may be missing, a search may find nothing


@tool(effects="read")
def read_file(path: str) -> str:
    """Give the lines of one file"""
    if _number(path) % 5 == 0:
        raise ToolFailure(f"there is no {path}")
    return f"{path}: the password of the {WORDS[_number(path) % 10]} is {_number(path)}."


@tool(effects="write")
def write_file(path: str, lines: str) -> str:
    """Put words into a place on disk"""
    return f"Wrote {len(lines)} characters."


@tool(effects="read")
def search_text(phrase: str) -> str:
    """Say where a phrase stands"""
    if _number(phrase) % 4 == 0:
        return "Nothing found."
    return "\n".join(f"{WORDS[(_number(phrase) + step) % 10]}.txt:{step + 1}: {phrase}" for step in range(3))


def _files(rng: random.Random) -> Script:
    turns: list[list[Call]] = []
    for _ in range(rng.choice((1, 2, 3))):
        path = f"{rng.choice(WORDS)}{rng.randrange(100)}.txt"
        call: Call = rng.choice(
            (
                ("read_file", {"path": path}),
                ("search_text", {"phrase": rng.choice(WORDS) + rng.choice(WORDS)}),
                ("write_file", {"path": path, "lines": rng.choice(WORDS)}),
            )
        )
        turns.append([call])
    right = rng.random() < 0.6
    return Script(turns, lambda results: f"So: {' '.join(results)}" if right else "I do not know.")


files = Planted(
    name="files",
    harness=Harness(system="files", tools=[read_file, write_file, search_text]),
    goals={"find": ("Find the password.", _files), "put": ("Put the password where it belongs.", _files)},
    effectiveness=dict.fromkeys(("find", "put"), 0.6 * (1 + 1 / 2 + 1 / 3) / 3),
)


# -- sums: each step takes what the last one gave, and no step always comes behind the same other one


@tool
def add(a: float, b: float) -> str:
    """Sum of two numbers"""
    return f"{a + b:.2f}"


@tool
def multiply(a: float, b: float) -> str:
    """Product of two factors"""
    return f"{a * b:.2f}"


@tool
def divide(a: float, b: float) -> str:
    """Quotient"""
    if b == 0:
        raise ToolFailure("the divisor is zero")
    return f"{a / b:.2f}"


@tool
def round_up(amount: float) -> str:
    """Next whole figure"""
    return f"{int(amount) + 1}"


def _sums(rng: random.Random) -> Script:
    def last(results: Results) -> float:
        return float(results[-1]) if results and not results[-1].startswith("Error") else 17.25

    turns: list[list[Call]] = []
    for _ in range(rng.choice((2, 3, 4))):
        name = rng.choice(("add", "multiply", "divide", "round_up"))
        second = rng.randrange(5) if name == "divide" else rng.randrange(100, 999) / 7
        turns.append([(name, {"amount": last} if name == "round_up" else {"a": last, "b": second})])
    return Script(turns, lambda results: f"So {results[-1]}" if not results[-1].startswith("Error") else "It failed.")


sums = Planted(
    name="sums",
    harness=Harness(system="sums", tools=[add, multiply, divide, round_up]),
    goals={"sum": ("What does it come to?", _sums)},
    # the last step is a division in a fourth of the trials, and by zero in a fifth of these
    effectiveness={"sum": (1 - 1 / 4 / 5) * (1 / 2 + 1 / 3 + 1 / 4) / 3},
)


# -- an office of eight tools: each trial needs some of them, in any order, and uses what they gave


def _office_tool(name: str, description: str) -> object:
    def ask(topic: str) -> str:
        if _number(name + topic) % 11 == 0:
            raise ToolFailure("not on file")
        return f"{topic} {WORDS[_number(name + topic) % 10]} {_number(name + topic)}"

    return tool(name=name, description=description)(ask)


OFFICE = {
    "invoices": "Bills that we have sent",
    "holidays": "Who is away",
    "parking": "Places for cars",
    "lunch_menu": "Food of the week",
    "room_plan": "Desks and windows",
    "salaries": "Pay by month",
    "visitors": "Guests expected at the door",
    "printer_ink": "Colours left in the machine",
}


def _office(rng: random.Random) -> Script:
    names = list(OFFICE)
    chosen = rng.sample(names, rng.choice((2, 3, 4)))
    turns: list[list[Call]] = [[(name, {"topic": rng.choice(WORDS) + str(rng.randrange(50))})] for name in chosen]
    right = rng.random() < 0.7
    return Script(turns, lambda results: f"So: {' '.join(results)}" if right else "I do not know.")


office = Planted(
    name="office",
    harness=Harness(system="office", tools=[_office_tool(name, text) for name, text in OFFICE.items()]),  # type: ignore[misc]
    goals={f"question_{place}": (f"Question {place}: {order}", _office) for place, order in enumerate(permutations("abc", 2))},
    effectiveness=dict.fromkeys((f"question_{place}" for place in range(6)), 0.7 * (1 / 2 + 1 / 3 + 1 / 4) / 3),
)

CLEAN = (clock, files, sums, office)
