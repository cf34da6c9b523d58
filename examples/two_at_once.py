"""Two harnesses on one server at once: do they disturb each other, and how much sooner are both done?

daneel serve qwen2.5-coder-1.5b --parallel 2
daneel measure examples/two_at_once.py --trials 10 --seed 1 --parallel 1   # one trial after the other
daneel measure examples/two_at_once.py --trials 10 --seed 1 --parallel 2   # two trials, often of both harnesses, at a time

Their system prompts and the order of their tools differ, so that they share hardly any prefix and have to share the KV cache.
Seeds are the same in both commands: trial by trial, what was achieved can be compared.
"""

from pathlib import Path

from daneel import Harness, goal, tool
from daneel.bench.checks import states_number
from daneel.bench.end_state import files_of

STOCK = {"nails": 340, "screws": 275}


@tool
def multiply(first: float, second: float) -> str:
    """Multiply two numbers"""
    return f"{first * second:.12g}"


@tool
def in_stock(item: str) -> str:
    """Say how many of an item are in stock"""
    lines = (line.split() for line in Path("stock.txt").read_text().splitlines())
    return dict(lines).get(item.strip().lower(), "There are none.")


brief = Harness(
    tools=[multiply, in_stock],
    system="You are a clerk. Answer in one short sentence.",
    max_tokens=256,
)
thorough = brief.with_changes(system="As the keeper of a store, explain every answer step by step.", tools=[in_stock, multiply])


def stock(workspace: Path) -> None:
    (workspace / "stock.txt").write_text("".join(f"{item} {count}\n" for item, count in STOCK.items()))


def unchanged(trial) -> bool:
    return files_of(trial.workspace) == {"stock.txt": "nails 340\nscrews 275\n"}


@goal(
    prompt="How many screws are in stock?",
    setup=stock,
    known_pass=lambda workspace: "275 screws are in stock.",
    known_fail=lambda workspace: "340 screws are in stock.",
    min_turns=2,
)
def screws(trial) -> bool:
    return states_number(trial.answer or "", 275) and unchanged(trial)


@goal(
    prompt="What do 46 hammers at 23 euros each cost together?",
    setup=stock,
    known_pass=lambda workspace: "46 hammers at 23 euros cost 1058 euros.",
    known_fail=lambda workspace: "46 hammers cost 1,068 euros.",
    min_turns=2,
)
def hammers(trial) -> bool:
    return states_number(trial.answer or "", 1058, given=(46, 23)) and unchanged(trial)
