"""The example of gated tools: sound, and each of its harnesses reaches its goal the way its mode says."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.scripted_server import calls, text
from tests.support.stage import Stage

from daneel.harness.files import load
from daneel.harness.tools.examples import check_tools

FILE = load(Path(__file__).parents[2] / "examples" / "gated.py")
LOOK, CHANGE = calls(("look_up", {"item": "tea"})), calls(("set_price", {"item": "tea", "price": 4}))
DONE = text("Tea costs 4 now.")


def test_its_tools_are_sound() -> None:
    for harness in FILE.harnesses.values():
        checked = check_tools(harness.tools)
        assert checked
        assert [found.problem for found in checked] == [None] * len(checked)


@pytest.mark.parametrize("name", ["free", "hidden", "refused", "masked"])
@pytest.mark.parametrize(("script", "turns"), [([LOOK, CHANGE, DONE], 3), ([CHANGE, LOOK, CHANGE, DONE], 4)])
def test_its_goal(name: str, script: list[object], turns: int) -> None:
    harness, goal = FILE.harness(name), FILE.goal("cheaper_tea")
    with Stage() as stage:
        run, requests = stage.play(list(script), harness, prompt=goal.prompt)
    assert (run.stop_reason, run.turns) == ("answered", turns)
    in_order = script[0] is LOOK
    assert goal(run) is (in_order or name != "free"), "only a gate makes up for the wrong order"
    declared = {tool["function"]["name"] for tool in requests[0]["tools"]}
    assert ("set_price" in declared) is (name != "hidden")
