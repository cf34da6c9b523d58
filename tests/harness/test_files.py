"""Loading a harness file that a person wrote."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from daneel.errors import UserError
from daneel.harness.files import load

HEAD = "from daneel import Harness, goal, tool\n"
ONE = HEAD + "first = Harness()\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "my_file.py"
    path.write_text(text)
    return path


def test_names_come_from_variables_and_order_is_kept(tmp_path: Path) -> None:
    goals = (
        "@goal(prompt='p')\ndef g(trial): return True\n",
        "@goal(prompt='q', name='h')\ndef f(trial): return False\n",
    )
    text = "b = Harness()\na = Harness(name='named')\n" + "".join(goals)
    held = load(write(tmp_path, HEAD + text))
    assert {name: harness.name for name, harness in held.harnesses.items()} == {"b": "b", "named": "named"}
    assert list(held.goals) == ["g", "h"]
    assert held.harness("named").name == "named"
    assert held.goal("h").prompt == "q"


def test_which_harness_is_meant_when_none_is_named(tmp_path: Path) -> None:
    assert load(write(tmp_path, ONE)).harness().name == "first"
    assert load(write(tmp_path, ONE + "harness = Harness()\n")).harness().name == "harness"
    assert load(write(tmp_path, ONE + "second = Harness()\n")).harness().name == "first"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + "x = (\n", "my_file.py, line 2: syntax error"),
        (HEAD + "\nimport no_such_module\n", "my_file.py, line 3: ModuleNotFoundError: No module named 'no_such_module'"),
        (HEAD + "\n\n1 / 0\n", "my_file.py, line 4: ZeroDivisionError"),
        (HEAD, "holds no harness"),
        ("", "holds no harness"),
        (HEAD + "raise SystemExit(3)\n", "exit 3"),
        (HEAD + "class Wild(BaseException): pass\nraise Wild('x')\n", "my_file.py, line 3: Wild: x"),
        (HEAD + "class Mute(Exception):\n def __str__(self): 1 / 0\nraise Mute\n", "my_file.py, line 4: Mute"),
        ("\0", "my_file.py: syntax error"),
        (HEAD + "@tool\ndef f(): return 1\n", "tool f has no docstring"),
        (HEAD + "a = Harness(name='n')\nb = Harness(name='n', max_turns=3)\n", "two harnesses are called n"),
        (
            HEAD
            + "from daneel import goal\nharness = Harness()\n"
            + "a = goal(prompt='A', name='n')(lambda trial: True)\nb = goal(prompt='B', name='n')(lambda trial: True)\n",
            "two goals are called n",
        ),
    ],
)
def test_a_bad_file_is_told_in_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        load(write(tmp_path, text))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        load(tmp_path / "none.py")
    with pytest.raises(UserError, match="is a folder"):
        load(tmp_path)
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(UserError, match="must end in"):
        load(tmp_path / "notes.txt")


def test_unknown_names_are_told_with_those_there_are(tmp_path: Path) -> None:
    held = load(write(tmp_path, ONE))
    with pytest.raises(UserError, match="no harness none; it has first"):
        held.harness("none")
    with pytest.raises(UserError, match="no goal none; it has no goals"):
        held.goal("none")


def test_files_beside_it_can_be_imported_and_nothing_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "beside_the_harness.py").write_text("TURNS = 5\n")
    path_before = list(sys.path)
    held = load(write(tmp_path, HEAD + "from beside_the_harness import TURNS\nh = Harness(max_turns=TURNS)\n"))
    assert held.harness().max_turns == 5
    assert sys.path == path_before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["beside_the_harness.py", "my_file.py"]


def test_a_file_called_like_a_library_hides_nothing(tmp_path: Path) -> None:
    path = tmp_path / "json.py"
    path.write_text(ONE)
    before = sys.modules["json"]
    load(path)
    assert sys.modules["json"] is before


def test_annotations_as_text_and_dataclasses_work(tmp_path: Path) -> None:
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        + HEAD
        + "@dataclass\nclass P:\n    x: int\n@tool\ndef f(p: P) -> int:\n    'F.'\n    return p.x\nh = Harness(tools=[f])\n"
    )
    (made,) = load(write(tmp_path, text)).harness().tools
    assert made.run(made.validate('{"p": {"x": 3}}')) == "3"
