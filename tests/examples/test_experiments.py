"""The smaller experiments: overlapping tools, the verification trap, gated debug tools, two harnesses at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.sandbox import sandboxed
from tests.support.scripted_server import calls, text
from tests.support.stage import Stage

from daneel.bench.goal_check import require_sound_goals
from daneel.bench.known import run_of
from daneel.harness.files import HarnessFile, load

FOLDER = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


def example(name: str) -> HarnessFile:
    return load(FOLDER / f"{name}.py")


@pytest.mark.parametrize("name", ["overlap", "verification", "two_at_once", pytest.param("debugging", marks=sandboxed)])
def test_checks_are_sound(name: str) -> None:
    held = example(name)
    require_sound_goals(held.goals.values())
    for goal in held.goals.values():
        assert None not in (goal.known_pass, goal.known_fail, goal.min_turns)


# --- overlapping tools -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("harness", "names"),
    [
        ("two", ["cur_time", "cur_date"]),
        ("three", ["cur_time", "cur_date"]),
        ("three", ["cur_date_and_time"]),
        ("one", ["cur_date_and_time"]),
    ],
)
def test_each_way_to_date_and_time(harness: str, names: list[str], stage: Stage) -> None:
    held = example("overlap")
    goal = held.goal("now")

    def answer(request: dict[str, Any]) -> Any:
        results = " ".join(message["content"] for message in request["messages"] if message["role"] == "tool")
        return text(f"It is {results}.")

    run, _ = stage.play([calls(*((name, {}) for name in names)), answer], held.harness(harness), prompt=goal.prompt)
    assert goal(run)
    assert run.turns == goal.min_turns


@pytest.mark.parametrize(
    "said",
    [
        (None, [("cur_date_and_time", "2026-10-14 14:03:27")]),
        ("It is 14:03 on 2026-10-14.", []),
        ("It is 14:03 on 2026-10-14.", [("cur_date", "2026-10-14")]),
        ("It is 14:03 on 2026-10-15.", [("cur_date_and_time", "2026-10-14 14:03:27")]),
        ("It is 14:03 or 15:03 on 2026-10-14.", [("cur_date_and_time", "2026-10-14 14:03:27")]),
        (
            '{"name": "cur_date_and_time", "arguments": {"at": "2026-10-14 14:03"}}',
            [("cur_date_and_time", "2026-10-14 14:03:27")],
        ),
    ],
)
def test_date_and_time_as_tools_did_not_say_it(said: tuple[str | None, list[tuple[str, str]]]) -> None:
    answer, results = said
    assert not example("overlap").goal("now")(run_of(answer, calls=[(name, {}, result) for name, result in results]))


# --- the verification trap ---------------------------------------------------------------------------------------------------


def test_only_the_trap_contradicts_itself(stage: Stage) -> None:
    held = example("verification")
    for name, dates in {"plain": 0, "agrees": 1, "trap": 1}.items():
        run, _ = stage.play([calls(("cur_time", {}), ("cur_date", {})), text("…")], held.harness(name))
        clock, today = (call.result or "" for call in run.calls)
        assert clock.count("(") == dates
        assert (today in clock) is (name == "agrees")
    assert len({harness.fingerprint() for harness in held.harnesses.values()}) == 3


@pytest.mark.parametrize(
    ("answer", "achieved"),
    [
        ("It is 14:03 on 2026-10-14.", True),
        ("It is 2:03 PM, October 14, 2026.", True),
        ("It is 14:03 on 2023-10-14.", False),
        ("It is 14:03 on 2026-10-14; cur_time says 2023-10-14.", False),
        ("It is 2026-10-14.", False),
        (None, False),
    ],
)
def test_what_the_trap_takes_for_right(answer: str | None, achieved: bool) -> None:
    made = [("cur_time", {}, "14:03:27 (2023-10-14)"), ("cur_date", {}, "2026-10-14")]
    goal = example("verification").goal("now")
    assert goal(run_of(answer, calls=made)) is achieved
    assert not goal(run_of(answer, calls=made[:1]))


# --- gated debug tools -------------------------------------------------------------------------------------------------------

CODE = "def middle(a, b, c):\n    return sorted([a, b, c])[1]\n"


@sandboxed
@pytest.mark.parametrize("name", ["always", "hidden", "refused", "masked"])
def test_debug_tools_after_the_code(name: str, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    held = example("debugging")
    goal = held.goal("middle")
    early, late = calls(("evaluate", {"expression": "middle(3, 1, 2)"})), calls(("trace", {"expression": "middle(3, 1, 2)"}))
    script = [early, calls(("write_program", {"code": CODE})), early, late, text("Written.")]
    run, requests = stage.play(script, held.harness(name), prompt=goal.prompt)
    run.workspace = tmp_path
    assert goal(run)
    shown = [{tool["function"]["name"] for tool in request["tools"]} for request in requests]
    debug = {"evaluate", "trace", "show_line"}
    assert [bool(debug & names) for names in shown[:2]] == [name != "hidden"] * 2
    assert debug <= shown[2]
    results = [call.result for call in run.calls if call.name in debug and call.result and not call.error]
    assert "2" in results[-2]
    assert "line 2: {'a': 3, 'b': 1, 'c': 2}" in results[-1]


@sandboxed
def test_what_debug_tools_run_cannot_get_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, secret = tmp_path / "workspace", tmp_path / "secret.txt"
    workspace.mkdir()
    secret.write_text("hidden words")
    monkeypatch.chdir(workspace)
    (workspace / "program.py").write_text(CODE)
    harness = example("debugging").harness("always")
    for name in ("evaluate", "trace"):
        tool = harness.tool(name)
        assert tool is not None
        assert "hidden words" not in tool.run({"expression": f"print(open({str(secret)!r}).read())"})
        assert "SyntaxError" in tool.run({"expression": "'; import os; '("})


@sandboxed
@pytest.mark.parametrize("code", ["", "def middle(a, b, c):\n    return b\n", "import os\nos._exit(0)\n", "middle = 2\n"])
def test_programs_that_are_not_right(code: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(code)
    run = run_of("The program is written.")
    run.workspace = tmp_path
    assert not example("debugging").goal("middle")(run)


# --- two harnesses at once ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["brief", "thorough"])
def test_both_goals_by_both(name: str, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    held = example("two_at_once")
    ways = {
        "screws": (("in_stock", {"item": "Screws"}), "275 screws are in stock."),
        "hammers": (("multiply", {"first": 46, "second": 23}), "46 * 23 = 1058 euros."),
    }
    for goal_name, (call, answer) in ways.items():
        goal = held.goal(goal_name)
        assert goal.setup is not None
        goal.setup(tmp_path)
        run, _ = stage.play([calls(call), text(answer)], held.harness(name), prompt=goal.prompt)
        run.workspace = tmp_path
        assert goal(run)
        run.answer = "275 screws or 340 nails; 1058 or 1068"
        assert not goal(run)


def test_their_prompts_differ() -> None:
    held = example("two_at_once")
    brief, thorough = held.harness("brief"), held.harness("thorough")
    assert brief.system != thorough.system
    assert [tool.name for tool in brief.tools] == [tool.name for tool in reversed(thorough.tools)]
