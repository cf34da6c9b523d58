"""Goals of arithmetic with a tool that prints on a tape, as desk calculators do: one product; a product of three (held out).

daneel measure examples/goals/sums.py --serve qwen2.5-coder-1.5b --trials 5
"""

from pathlib import Path

from daneel import Harness, SafetyPolicy, goal, tool
from daneel.bench.checks import states_number
from daneel.bench.end_state import files_of

TAPE = "tape.txt"


def printed(line: str) -> str:
    with Path(TAPE).open("a") as tape:
        tape.write(line + "\n")
    return line


@tool(effects=["write"])
def multiply(first: float, second: float) -> str:
    """Multiply two numbers"""
    return printed(f"{first:.12g} * {second:.12g} = {first * second:.12g}")


@tool(effects=["write"])
def add(first: float, second: float) -> str:
    """Add two numbers"""
    return printed(f"{first:.12g} + {second:.12g} = {first + second:.12g}")


harness = Harness(
    name="sums",
    tools=[multiply, add],
    safety=SafetyPolicy(allow=["tool:multiply", "tool:add"]),
    max_tokens=256,
)


def empty_tape(workspace: Path) -> None:
    (workspace / TAPE).write_text("")


def computed(workspace: Path, *lines: str) -> None:
    (workspace / TAPE).write_text("".join(f"{line}\n" for line in lines))


def boxes_by_tool(workspace: Path) -> str:
    computed(workspace, "37 * 148 = 5476")
    return "The 37 boxes cost 5,476 euros together."


def boxes_by_heart(workspace: Path) -> str:
    return "The 37 boxes cost 5476 euros together."


def floor_by_tool(workspace: Path) -> str:
    computed(workspace, "17 * 23 = 391", "391 * 29 = 11339")
    return "The floor costs 11339 euros."


def area_only(workspace: Path) -> str:
    computed(workspace, "17 * 23 = 391")
    return "The floor costs 391 euros."


def tape_says(workspace: Path | None, number: int) -> bool:
    return any(line.endswith(f"= {number}") for line in files_of(workspace).get(TAPE, "").splitlines())


@goal(
    prompt="37 boxes cost 148 euros each. What do they cost together?",
    setup=empty_tape,
    known_pass=boxes_by_tool,
    known_fail=boxes_by_heart,
    min_turns=2,
)
def boxes(trial) -> bool:
    """The answer states the product, and the tape shows that it was computed, not guessed."""
    return states_number(trial.answer or "", 5476, given=(37, 148)) and tape_says(trial.workspace, 5476)


@goal(
    prompt="A hall is 17 metres long and 23 metres wide. A square metre of floor costs 29 euros. What does the floor cost?",
    setup=empty_tape,
    known_pass=floor_by_tool,
    known_fail=area_only,
    min_turns=3,
    held_out=True,
)
def hall_floor(trial) -> bool:
    """The same, of three numbers: the second product needs the first one's result."""
    return states_number(trial.answer or "", 11339, given=(17, 23, 29, 391)) and tape_says(trial.workspace, 11339)
