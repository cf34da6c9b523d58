"""The twelve goals of examples/goals: each can be reached with its tools in as few turns as it says, and by nothing less."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.support.sandbox import sandboxed
from tests.support.scripted_server import calls, text
from tests.support.stage import Stage

from daneel import Goal, ToolFailure
from daneel.bench.goal_check import require_sound_goals
from daneel.bench.known import run_of
from daneel.harness.files import HarnessFile, load

TOTAL = "def total(prices):\n    return 0\n"
FOLDER = Path(__file__).parents[2] / "examples" / "goals"
KINDS = {
    "dates": ["in_45_days", "days_to_go"],
    "files": ["copy_note", "add_eggs"],
    "fix": ["fix_total", "fix_largest"],
    "search": ["lighthouse", "phone"],
    "shop": ["oslo", "tea_price"],
    "sums": ["boxes", "hall_floor"],
}


def kind_of(goal: str) -> str:
    return next(kind for kind, goals in KINDS.items() if goal in goals)


def each(kinds: dict[str, Any]) -> list[Any]:
    """Parameters, of which those that run programs need a sandbox."""
    return [pytest.param(*entry, marks=[sandboxed] if "fix" in entry[0] else []) for entry in kinds]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder: files are loaded in it, and so their tools are bound to it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def goal_in(workspace: Path, name: str) -> tuple[HarnessFile, Goal]:
    held = load(FOLDER / f"{kind_of(name)}.py")
    goal = held.goal(name)
    assert goal.setup is not None
    goal.setup(workspace)
    return held, goal


def judged(goal: Goal, workspace: Path, answer: str | None) -> bool:
    run = run_of(answer)
    run.workspace = workspace
    return goal(run)


@pytest.mark.parametrize("kind", each([(kind,) for kind in KINDS]))
def test_checks_are_sound(kind: str, workspace: Path) -> None:
    held = load(FOLDER / f"{kind}.py")
    require_sound_goals(held.goals.values())
    assert list(held.goals) == KINDS[kind]
    assert [goal.held_out for goal in held.goals.values()] == [False, True]
    for goal in held.goals.values():
        assert None not in (goal.setup, goal.known_pass, goal.known_fail)
        assert (goal.min_turns or 0) >= 2


def test_one_harness_for_all_twelve(workspace: Path) -> None:
    twelve = load(FOLDER / "twelve.py")
    apart = {name: goal for kind in KINDS for name, goal in load(FOLDER / f"{kind}.py").goals.items()}
    assert {name: goal.fingerprint() for name, goal in twelve.goals.items()} == {
        name: goal.fingerprint() for name, goal in apart.items()
    }
    assert len(apart) == 12
    tools = {tool.name for tool in twelve.harness().tools}
    assert tools >= {tool.name for kind in KINDS for tool in load(FOLDER / f"{kind}.py").harness().tools}


SHORTEST: dict[str, list[Any]] = {
    "in_45_days": [("date_in", {"days": 45}), "It will be April 28, 2031."],
    "days_to_go": [("days_until", {"day": "2031-12-24"}), "285 days until December 24, 2031."],
    "copy_note": [("copy_file", {"path": "monday.txt", "new_path": "copy.txt"}), "Copied."],
    "add_eggs": [("add_line", {"path": "shopping.txt", "line": "Eggs"}), "Added."],
    "fix_total": [
        ("write_file", {"path": "total.py", "content": "def total(prices):\n    return sum(prices)\n"}),
        "Fixed.",
    ],
    "fix_largest": [
        ("write_file", {"path": "largest.py", "content": "def largest(numbers):\n    return max(numbers)\n"}),
        "Fixed.",
    ],
    "lighthouse": [("find_lines", {"word": "Lighthouse"}), "It is bruno.txt."],
    "phone": [("find_lines", {"word": "dora"}), "It is 555 0178."],
    "oslo": [("run_sql", {"statement": "SELECT count(*) FROM customers WHERE city = 'Oslo'"}), "14 of them live in Oslo."],
    "tea_price": [("run_sql", {"statement": "UPDATE products SET price = 6 WHERE name = 'tea'"}), "Changed."],
    "boxes": [("multiply", {"first": 37, "second": 148}), "37 boxes cost 5,476 euros."],
    "hall_floor": [
        ("multiply", {"first": 17, "second": 23}),
        ("multiply", {"first": 391, "second": 29}),
        "The floor costs 11,339 euros.",
    ],
}


@pytest.mark.parametrize("name", each([(name,) for name in SHORTEST]))
@pytest.mark.parametrize("file", ["its own", "twelve"])
def test_the_shortest_way(name: str, file: str, stage: Stage, workspace: Path) -> None:
    held, goal = goal_in(workspace, name)
    harness = (held if file == "its own" else load(FOLDER / "twelve.py")).harness()
    *steps, answer = SHORTEST[name]
    run, _ = stage.play([*(calls(step) for step in steps), text(answer)], harness, prompt=goal.prompt)
    run.workspace = workspace
    assert [call.error for call in run.calls] == [None] * len(steps)
    assert goal(run)
    assert run.turns == goal.min_turns


@pytest.mark.parametrize("name", each([(name,) for name in SHORTEST]))
def test_words_without_deeds(name: str, workspace: Path) -> None:
    _, goal = goal_in(workspace, name)
    for answer in (None, "", "Done.", "{{result}}", '{"name": "run_sql", "arguments": {"n": 5476}}'):
        assert not judged(goal, workspace, answer), answer


@pytest.mark.parametrize("name", each([(name,) for name in SHORTEST]))
def test_the_right_answer_beside_an_emptied_folder(name: str, workspace: Path) -> None:
    """What was there must be there in the end, also where the answer is right. The database: its check raises, not scored."""
    _, goal = goal_in(workspace, name)
    for path in list(workspace.iterdir()):
        path.unlink()
    answer = SHORTEST[name][-1]
    if kind_of(name) == "shop":
        with pytest.raises(sqlite3.OperationalError):
            judged(goal, workspace, answer)
    else:
        assert not judged(goal, workspace, answer)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("in_45_days", "It will be April 28 or 29, 2031, or May 1, 2031."),
        ("in_45_days", "It will be April 28."),
        ("days_to_go", "284 or 285 days."),
        ("lighthouse", "It is bruno.txt, or lighthouse.txt."),
        ("lighthouse", "It is in the letter to Bruno."),
        ("phone", "It is 555 0178 or 555 0134."),
        ("oslo", "14 in Oslo, 9 in Bergen."),
        ("oslo", "Fourteen, or 15."),
        ("boxes", "5476 euros."),  # right, but not computed by the tool
    ],
)
def test_answers_that_hedge_or_guess(name: str, answer: str, workspace: Path) -> None:
    _, goal = goal_in(workspace, name)
    assert not judged(goal, workspace, answer)


@pytest.mark.parametrize(
    "statement",
    [
        "ATTACH DATABASE '{outside}' AS x",
        "VACUUM INTO '{outside}'",
        "CREATE TABLE more (x)",
        "DROP TABLE products",
        "PRAGMA writable_schema = 1",
        "SELECT load_extension('x')",
        "SELECT writefile('{outside}', 'x')",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
        "SELECT zeroblob(1000000000)",
        "SELECT 1; DELETE FROM products",
        "no SQL at all",
        "SELECT '\0'",
        "",
    ],
)
def test_hostile_sql(statement: str, stage: Stage, workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    held, _ = goal_in(workspace, "oslo")
    before = (workspace / "shop.db").read_bytes()
    outside = tmp_path_factory.mktemp("outside") / "new.db"
    call = ("run_sql", {"statement": statement.format(outside=outside)})
    run, _ = stage.play([calls(call), text("14")], held.harness())
    assert run.stop_reason == "answered"
    assert run.calls[0].error is not None or "0 rows were changed" in (run.calls[0].result or "")
    assert not outside.exists()
    assert (workspace / "shop.db").read_bytes() == before
    assert sorted(path.name for path in workspace.iterdir()) == ["shop.db"]


def test_a_long_result_of_sql_is_bounded(stage: Stage, workspace: Path) -> None:
    held, _ = goal_in(workspace, "oslo")
    run, _ = stage.play([calls(("run_sql", {"statement": "SELECT * FROM customers"})), text("14")], held.harness())
    assert "Customer O0" in (run.calls[0].result or "")
    assert (run.calls[0].result or "").count("Customer") == 20


def test_a_statement_that_fails_half_way_changes_nothing(workspace: Path) -> None:
    held, goal = goal_in(workspace, "tea_price")
    with closing(sqlite3.connect(workspace / "shop.db")) as database, database:
        database.execute("CREATE UNIQUE INDEX one_of_each ON products (price)")
    tool = held.harness().tool("run_sql")
    assert tool is not None
    with pytest.raises(Exception, match="The statement failed"):
        tool.run({"statement": "UPDATE products SET price = price + 1 WHERE name IN ('sugar', 'coffee') OR price = 5"})
    assert not judged(goal, workspace, "Changed.")


@pytest.mark.parametrize("path", ["../outside.txt", "/etc/hostname", ".", "link.txt", "folder/secret.txt", "a\0b", ""])
def test_only_files_of_the_workspace_are_touched(path: str, workspace: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret.txt").write_text("secret")
    (workspace / "mine.txt").write_text("mine")
    (workspace / "link.txt").symlink_to(elsewhere / "secret.txt")
    (workspace / "folder").symlink_to(elsewhere)
    before = sorted(workspace.iterdir())
    harness = load(FOLDER / "twelve.py").harness()
    for name, arguments in {
        "read_file": {"path": path},
        "write_file": {"path": path, "content": "x"},
        "copy_file": {"path": "mine.txt", "new_path": path},
        "add_line": {"path": path, "line": "x"},
    }.items():
        tool = harness.tool(name)
        assert tool is not None
        with pytest.raises(ToolFailure):
            tool.run(arguments)
    finding = harness.tool("find_lines")
    assert finding is not None
    assert finding.run({"word": "secret"}) == "No line has that word. Try another one."
    assert sorted(workspace.iterdir()) == before
    assert (elsewhere / "secret.txt").read_text() == "secret"


@sandboxed
@pytest.mark.parametrize(
    "program",
    [
        "",
        "def total(prices):\n    return 9\n",
        "import os, json\nprint(json.dumps([9, 10, 0, 10]))\nos._exit(0)\n",
        "import sys\nsys.exit(0)\n",
        "def total(prices):\n    return {2: 9, 10: 10, 7: 10}[prices[0]]\n",
        "total = 9\n",
        "def total(prices)\n",
        "def total(prices):\n    raise SystemExit\n",
        "def total(prices):\n    print([9, 10, 0, 10])\n    return None\n",
        "raise KeyboardInterrupt\n",
        "\x00",
    ],
)
def test_programs_that_cheat(program: str, workspace: Path) -> None:
    _, goal = goal_in(workspace, "fix_total")
    (workspace / "total.py").write_text(program)
    assert not judged(goal, workspace, "The test passes.")


@sandboxed
def test_the_models_program_reads_nothing_outside(workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A fix that looks for the right answers where they might lie finds nothing there."""
    secret = tmp_path_factory.mktemp("outside") / "answers.json"
    secret.write_text("[9, 10, 0, 10]")
    _, goal = goal_in(workspace, "fix_total")
    reading = f"import json\nanswers = iter(json.load(open({str(secret)!r})))\ndef total(prices):\n    return next(answers)\n"
    (workspace / "total.py").write_text(reading)
    assert not judged(goal, workspace, "Fixed.")


@sandboxed
def test_the_test_tool_says_what_the_test_said(stage: Stage, workspace: Path) -> None:
    held, _ = goal_in(workspace, "fix_total")
    right = ("write_file", {"path": "total.py", "content": "def total(prices):\n    return sum(prices)\n"})
    wrong = ("write_file", {"path": "total.py", "content": TOTAL})
    test = calls(("run_test", {}))
    run, _ = stage.play([calls(wrong), test, calls(right), test, text("Fixed.")], held.harness())
    assert "total([2, 3, 4]) is 0, not 9" in (run.calls[1].result or "")
    assert "The test passes." in (run.calls[3].result or "")
    assert sorted(path.name for path in workspace.iterdir()) == ["test_total.py", "total.py"]
