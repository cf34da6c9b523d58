"""The file of the winner: a person can read it, it gives exactly the confirmed harness, and nothing is overwritten unasked."""

from __future__ import annotations

import pytest

from daneel.bench.tune import written
from daneel.bench.tune.edits import Describe, Drop, GateAfter, Merge, Rename, Reorder, Sentence, Shorten
from daneel.errors import UserError
from daneel.harness.files import load

BASE = '''
from daneel import Harness, goal, tool


@tool
def look_up(word: str) -> dict:
    """TODO"""
    return {"word": word, "means": "a \\"word\\""}


@tool
def add_note(text: str) -> str:
    """Keep a note"""
    return "kept"


@tool
def twin(text: str) -> str:
    """Keep another"""
    return "kept"


H = Harness(tools=[look_up, add_note, twin], system="Use look_up.")
OTHER = Harness(name="the other one", tools=[look_up])


@goal(prompt="What?")
def now(trial) -> bool:
    return True


@goal(prompt="Who?", name="who is it")
def who(trial) -> bool:
    return True


@goal(prompt="Where?", name="load")
def where(trial) -> bool:
    return True
'''

EVERY = [
    Rename(tool="look_up", name="find"),
    Describe(tool="find", text="Say what a \"word\" 'means' \\ here ”\u00e9"),
    Sentence(tool="find", template="{word} means {means}."),
    Shorten(tool="find", max_result_chars=700),
    GateAfter(tool="twin", requires="find"),
    Reorder(first=("add_note",)),
    Drop(tools=("twin",)),
]


@pytest.fixture
def base(tmp_path):
    path = tmp_path / "base file.py"
    path.write_text(BASE)
    return path


def made(base, out, edits, harness="H", *, force=False, goals=("now",)):
    text = written.file_text(out, base, harness, edits, goals=goals, about='about "it" \\')
    expected = written.confirmed(base, harness, edits)
    written.write(out, text, expected, name=written.tuned_name(harness), force=force)
    return expected


@pytest.mark.parametrize(
    "edits",
    [
        EVERY,
        EVERY[:1],
        EVERY[-2:],
        [GateAfter(tool="twin", requires="look_up")],
        [Merge(first="add_note", second="look_up", name="m", description="d")],
    ],
)
def test_the_file_gives_exactly_the_confirmed_harness(base, tmp_path, edits):
    out = tmp_path / "winner.py"
    expected = made(base, out, edits)
    found = load(out).harness("H_tuned")
    assert found.fingerprint() == expected.fingerprint() != load(base).harness("H").fingerprint()
    assert found.declarations() == expected.declarations()
    assert list(load(out).harnesses) == ["H_tuned"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base file.py", "winner.py"]


def test_it_has_the_goals_and_works_from_another_folder(base, tmp_path, monkeypatch):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    out = tmp_path / "deep" / "er" / "winner.py"
    made(base, out, EVERY, goals=["now", "who is it", "load"])
    monkeypatch.chdir("/")
    found = load(out)
    assert list(found.goals) == ["now", "who is it", "load"]
    assert {name: goal.fingerprint() for name, goal in found.goals.items()} == {
        name: goal.fingerprint() for name, goal in load(base).goals.items()
    }
    text = out.read_text()
    assert str(tmp_path) not in text, "it can be moved together with its base"
    assert "\nnow = base.goal('now')" in text


def test_a_harness_whose_name_is_no_variable(base, tmp_path):
    out = tmp_path / "winner.py"
    made(base, out, [Describe(tool="look_up", text="Find")], "the other one")
    assert load(out).harness("the other one_tuned").tools[0].description == "Find"


def test_nothing_is_overwritten_unasked(base, tmp_path):
    out = tmp_path / "winner.py"
    out.write_text("mine")
    with pytest.raises(UserError, match="is there already"):
        made(base, out, EVERY)
    assert out.read_text() == "mine"
    made(base, out, EVERY, force=True)
    assert load(out).harness("H_tuned")


def test_a_file_that_would_give_another_harness_is_not_written(base, tmp_path):
    out = tmp_path / "winner.py"
    text = written.file_text(out, base, "H", EVERY[:1], goals=[], about="")
    with pytest.raises(UserError, match="would not give the harness"):
        written.write(out, text, written.confirmed(base, "H", EVERY), name="H_tuned", force=False)
    assert [path.name for path in tmp_path.iterdir()] == ["base file.py"]


@pytest.mark.parametrize(("name", "said"), [("w.txt", "ending in .py"), ("no/w.py", "there is no folder")])
def test_places_that_cannot_be(base, tmp_path, name, said):
    with pytest.raises(UserError, match=said):
        written.refuse_existing(tmp_path / name, force=True)


def test_the_diff_is_of_what_the_model_sees(base):
    before = load(base).harness("H")
    diff = written.declared_diff(before, written.confirmed(base, "H", EVERY[:2]))
    assert '-   "name": "look_up",' in diff
    assert '+   "name": "find",' in diff
    assert "-  Use look_up." in diff
    assert written.declared_diff(before, before) == ""
