"""A scripted model that answers "yes" or "no" by chance, as often as a harness's system prompt asks: `yes 0.9`.

Two harnesses with the same chance get the same answer for the same seed; that of another chance is never luckier than it.
"""

from __future__ import annotations

import random
from typing import Any

from tests.support.scripted_server import Reply, error, text

HARNESS_FILE = """
from daneel import Harness, goal

GOOD = Harness(system="yes 0.95")
ALSO_GOOD = Harness(system="yes 0.95", max_turns=7)
MIDDLE = Harness(system="yes 0.5")
POOR = Harness(system="yes 0.1")
FRAGILE = Harness(system="fails 0.9")


@goal(prompt="Say yes.")
def says_yes(trial) -> bool:
    return trial.answer == "yes"
"""


def said_for(system: str, seed: int) -> str | None:
    """What a harness with this system prompt is told for a seed; `None` for an error."""
    what, chance = system.split()
    lucky = random.Random(seed).random() < float(chance)
    if what == "fails" and lucky:
        return None
    return "yes" if lucky else "no"


def luck_model(request: dict[str, Any]) -> Reply:
    """The next reply, from the system prompt and the seed."""
    said = said_for(request["messages"][0]["content"], request["seed"])
    return error(500, "the engine died") if said is None else text(said)
