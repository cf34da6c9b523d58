"""`daneel check`: a broken tool is found without a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from daneel.cli.main import main

SOUND = """
from daneel import Example, Harness, only_after, tool

@tool(examples=[Example({"a": 1, "b": 2}, 3), ({"a": 0, "b": 0}, 0)])
def add(a: int, b: int) -> int:
    '''Add'''
    print("a tool may print")
    return a + b

@tool(requires="add", effects="write", max_calls=2)
def save(path: str) -> str:
    '''Save'''
    return path

harness = Harness(tools=[add, save])
other = Harness(tools=[add])
"""
BROKEN = SOUND.replace('"b": 2}, 3)', '"b": 2}, 4)')


def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, *arguments: str) -> int:
    file = tmp_path / "agent.py"
    file.write_text(content)
    monkeypatch.setattr("sys.argv", ["daneel", "check", str(file), *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_a_sound_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, monkeypatch, SOUND) == 0
    out = capsys.readouterr().out
    assert "add: 2 examples ok" in out
    assert "save: no examples; effects: write; after add; at most 2 calls" in out
    assert "All 2 examples give what they should." in out
    assert out.count("a tool may print") == 2, "a shared tool is tried once"


def test_a_broken_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, monkeypatch, BROKEN) == 1
    out = capsys.readouterr().out
    assert "BROKEN (1 of 2 examples)" in out
    assert '{"a": 1, "b": 2} gave 3, which is not 4' in out
    assert "Broken: add." in out


@pytest.mark.parametrize(("content", "ok"), [(SOUND, True), (BROKEN, False)])
def test_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], content: str, ok: bool
) -> None:
    assert check(tmp_path, monkeypatch, content, "--json", "--harness", "harness") == (0 if ok else 1)
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is ok
    assert list(told["harnesses"]) == ["harness"]
    add = told["harnesses"]["harness"]["tools"][0]
    assert [example["ok"] for example in add["examples"]] == [ok, True]


GOALS = """
from daneel import goal
def fill(workspace):
    (workspace / "in.txt").write_text("milk")
def right(workspace):
    return (workspace / "in.txt").read_text()
@goal(prompt="What is in it?", setup=fill, known_pass=right, known_fail=lambda workspace: "tea")
def told(trial):
    return trial.answer == "milk"
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", None),
        ('"tea"', '"milk"', "goal told: its check passes its known fail"),
        (".read_text()", ".read_bytes()", "goal told: its known pass must give the answer's text or a Run"),
        ('write_text("milk")', "write_bytes(3)", "the set-up of goal told raised TypeError"),
    ],
)
def test_goals_are_checked_by_what_is_known_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str | None
) -> None:
    content = SOUND + GOALS.replace(old, new)
    assert check(tmp_path, monkeypatch, content) == (0 if said is None else 1)
    out = capsys.readouterr().out
    assert said is None or said in out
    assert check(tmp_path, monkeypatch, content, "--json") == (0 if said is None else 1)
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is (said is None)
    assert said is None or said in found["goal_problems"]["told"]


def test_a_gate_that_never_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, monkeypatch, SOUND.replace('requires="add"', 'requires="ad"')) == 2
    assert "tool save comes after ad, which is no tool of this harness" in capsys.readouterr().err


def test_measure_refuses_to_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "agent.py"
    file.write_text(BROKEN + "\nfrom daneel import goal\n@goal(prompt='x')\ndef g(trial): return True\n")
    monkeypatch.setattr("sys.argv", ["daneel", "measure", str(file), "--server", "http://127.0.0.1:9"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert 'tool add is broken: its example {"a": 1, "b": 2} gave 3, which is not 4' in capsys.readouterr().err
