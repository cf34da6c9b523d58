"""From files and names on a command line to arms and goals."""

from __future__ import annotations

import pytest

from daneel.bench.sources import gather
from daneel.errors import UserError

HEAD = "from daneel import Harness, goal, tool\n"


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(HEAD + text)
        return path

    return write


GOAL = "\n@goal(prompt='p')\ndef now(trial):\n    return {}\n"


def test_all_harnesses_and_goals_of_all_files(write):
    one = write("one.py", "A = Harness(system='a')\nB = Harness(system='b')" + GOAL.format(True))
    two = write("two.py", "C = Harness()\ng = goal(prompt='q', name='later')(lambda trial: True)")
    sources = gather([one, two, one])
    assert [(arm.name, arm.harness, arm.file) for arm in sources.arms] == [
        ("A", "A", str(one)), ("B", "B", str(one)), ("C", "C", str(two))
    ]  # fmt: skip
    assert sources.goal_files == {"now": str(one), "later": str(two)}
    assert sources.harnesses["B"].system == "b"


def test_harnesses_of_one_name_are_told_apart_by_their_files(write):
    one, two = (
        write(name, f"H = Harness(system='{name}')\nX = Harness()" + GOAL.format(True)) for name in ("one.py", "two.py")
    )
    assert [arm.name for arm in gather([one, two]).arms] == ["one:H", "one:X", "two:H", "two:X"]
    chosen = gather([one, two], harnesses=["two:X", "H"])
    assert [arm.name for arm in chosen.arms] == ["two:X", "one:H", "two:H"]
    assert chosen.harnesses["two:H"].system == "two.py"
    same = write("deeper/one.py", "H = Harness()" + GOAL.format(True))
    assert [arm.name for arm in gather([one, same], harnesses=["H"]).arms] == [f"{one}:H", f"{same}:H"]


def test_changes_are_in_the_harness_and_in_the_arm(write):
    file = write("one.py", "H = Harness()" + GOAL.format(True))
    changed = gather([file], changes={"temperature": 0.5, "sandbox": False})
    assert changed.harnesses["H"].temperature == 0.5
    assert changed.arms[0].changes == {"temperature": 0.5, "sandbox": False}
    assert changed.harnesses["H"].fingerprint() != gather([file]).harnesses["H"].fingerprint()
    with pytest.raises(UserError, match=r"harness H cannot be changed so.*warmth"):
        gather([file], changes={"warmth": 1})


def test_a_goal_may_stand_in_several_files_if_it_is_the_same(write):
    one, two = (write(name, "H = Harness()" + GOAL.format(True)) for name in ("one.py", "two.py"))
    assert gather([one, two]).goal_files == {"now": str(one)}
    other = write("three.py", "J = Harness()" + GOAL.format(False))
    with pytest.raises(UserError, match=r"one\.py and .*three\.py hold different goals called now"):
        gather([one, other])


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"harnesses": ["J"]}, r"one\.py: there is no harness J; it has H"),
        ({"goals": ["now", "later"]}, r"one\.py: there is no goal later; it has now"),
    ],
)
def test_a_name_that_no_file_has_is_refused_with_those_there_are(write, names, said):
    with pytest.raises(UserError, match=said):
        gather([write("one.py", "H = Harness()" + GOAL.format(True))], **names)
