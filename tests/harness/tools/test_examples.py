"""Examples of tools: a broken tool is found before a model finds it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from daneel import Example, Tool, tool
from daneel.errors import UserError
from daneel.harness.tools.examples import check_example, check_tools, require_sound


@dataclass
class Point:
    x: int


def problem_of(example: Any, *, function: Any = None, **more: Any) -> str | None:
    """What is wrong with an example of `add`, or of another function."""

    def add(a: int, b: int = 1) -> int:
        return a + b

    made = tool(description="A tool", examples=[example], **more)(function or add)
    return check_example(made, made.examples[0]).problem


@pytest.mark.parametrize(
    "example",
    [
        Example({"a": 1, "b": 2}, 3),
        ({"a": 1}, 2),
        Example({"a": 1}, lambda result: result > 1),
        Example({"a": 1}),
        Example({"a": 1}, 2, rendered="2"),
    ],
)
def test_sound_examples(example: Any) -> None:
    assert problem_of(example) is None


@pytest.mark.parametrize(
    ("example", "problem"),
    [
        (Example({"a": 1, "b": 2}, 4), "gave 3, which is not 4"),
        (Example({"a": 1}, lambda result: result > 5), "gave 2, which is not what its check wants"),
        (Example({"a": 1}, lambda result: result.x), "gave 2, and the example's own check raised AttributeError"),
        (Example({}, 1), 'does not fit the tool\'s own parameters: argument "a" is missing'),
        (Example({"a": "1"}, 2), "fits only after a conversion"),
        (Example({"a": 1, "c": 1}, 2), 'there is no argument "c"'),
        (Example({"a": {1}}, 2), "cannot be written as JSON"),
        (Example({"a": 1}, 2, rendered="two"), 'is told as "2", which is not "two"'),
    ],
)
def test_broken_examples(example: Any, problem: str) -> None:
    found = problem_of(example)
    assert found is not None
    assert problem in found


def test_a_result_is_compared_as_the_model_reads_it() -> None:
    def point(x: int) -> Point:
        return Point(x)

    assert problem_of(Example({"x": 1}, {"x": 1}), function=point) is None
    assert problem_of(Example({"x": 1}, Point(1)), function=point) is None
    assert problem_of(Example({"x": 1}, {"x": 2}), function=point) is not None


def test_a_tool_that_raises_or_hangs() -> None:
    def broken(a: int) -> int:
        raise KeyError("gone")

    def hangs(a: int) -> int:
        time.sleep(60)
        return a

    assert problem_of(({"a": 1}, 1), function=broken) == "raised KeyError: 'gone'"
    assert "left behind" in str(problem_of(({"a": 1}, 1), function=hangs, timeout_s=0.05))


def test_a_broken_render_is_a_broken_tool() -> None:
    found = problem_of(({"a": 1}, 2), render=lambda result: result["sum"])
    assert "the tool's render raised TypeError" in str(found)


def save(path: str, text: str) -> str:
    Path(path).write_text(Path(path).read_text() + text)
    return Path(path).read_text()


def test_files_are_laid_out_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    example = Example({"path": "notes/a.txt", "text": "b"}, "ab", files={"notes/a.txt": "a"})
    assert problem_of(example, function=save, effects=["read", "write"]) is None
    assert Path.cwd() == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_a_tool_that_writes_does_not_write_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def touch(path: str) -> bool:
        Path(path).touch()
        return os.listdir() == [path]

    assert problem_of(({"path": "x"}, True), function=touch, effects="write") is None
    assert list(tmp_path.iterdir()) == []


def test_files_stay_in_their_folder() -> None:
    example = Example({"path": "a", "text": ""}, "", files={"../escaped.txt": "x"})
    assert problem_of(example, function=save) == "has a file outside its folder: ../escaped.txt"


def counting() -> tuple[Tool, list[int]]:
    runs: list[int] = []

    @tool(examples=[({"n": 1}, 2), ({"n": 2}, 4), ({"n": 3}, 7)])
    def double(n: int) -> int:
        """Double"""
        runs.append(n)
        return 2 * n

    return double, runs


def test_all_examples_of_all_tools() -> None:
    double, _ = counting()
    assert [found.problem is None for found in check_tools([double])] == [True, True, False]


def test_a_broken_tool_is_named_with_its_example_and_tried_once() -> None:
    double, runs = counting()
    with pytest.raises(UserError, match=r'tool double is broken: its example \{"n": 3\} gave 6, which is not 7'):
        require_sound([double, double])
    assert runs == [1, 2, 3]


@pytest.mark.parametrize("given", [[3], [Example(3)], [(1, 2, 3)]])  # type: ignore[arg-type]
def test_what_is_no_example(given: Any) -> None:
    with pytest.raises(UserError, match="example"):
        tool(name="a_tool", description="A tool", examples=given)(lambda: None)
