"""A check that does not know its own known pass, or takes its known fail, is found before any trial."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from daneel import goal
from daneel.bench.goal_check import require_sound_goals
from daneel.bench.known import run_of
from daneel.errors import UserError
from daneel.harness.tools.registry import source_of


def fill(workspace):
    (workspace / "in.txt").write_text("milk")


def copies(workspace):
    (workspace / "out.txt").write_text((workspace / "in.txt").read_text())
    return "Done."


def only_says_so(workspace):
    assert (workspace / "in.txt").exists()
    assert not (workspace / "out.txt").exists(), "a fresh folder for each"
    return "Done."


def copied(trial):
    out = trial.workspace / "out.txt"
    return out.exists() and out.read_text() == "milk"


def goal_with(check=copied, **fields):
    return goal(prompt="Copy in.txt to out.txt.", name="copy", **fields)(check)


def test_a_sound_goal_passes_and_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = []

    def watched(trial):
        seen.append((trial.workspace, Path.cwd()))
        return copied(trial)

    require_sound_goals([goal_with(watched, setup=fill, known_pass=copies, known_fail=only_says_so)])
    assert len(seen) == 2
    assert all(workspace == folder for workspace, folder in seen)
    assert Path.cwd() == tmp_path
    assert not any(workspace.exists() for workspace, _ in seen)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"known_fail": copies}, "goal copy: its check passes its known fail"),
        ({"known_pass": only_says_so}, "goal copy: its check fails its known pass"),
        ({"known_pass": lambda workspace: 3}, "goal copy: its known pass must give the answer's text or a Run, not 3"),
        ({"known_pass": lambda workspace: 1 / 0}, "goal copy: its known pass raised ZeroDivisionError"),
        ({"setup": lambda workspace: 1 / 0}, "the set-up of goal copy raised ZeroDivisionError"),
        ({"known_pass": lambda workspace: exit(3)}, "goal copy: its known pass raised SystemExit: 3"),
        (
            {"check": lambda trial: trial.nothing, "known_pass": copies},
            "goal copy: its check raised AttributeError.*known pass",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(fields, said):
    with pytest.raises(UserError, match=said):
        require_sound_goals([goal_with(**{"setup": fill, **fields})])


def test_a_goal_without_a_set_up_has_known_answers_too():
    def says_yes(trial):
        return trial.answer == "yes" and trial.workspace is None

    require_sound_goals([goal_with(says_yes, known_pass=lambda _: "yes", known_fail=lambda _: "no")])
    with pytest.raises(UserError, match="passes its known fail"):
        require_sound_goals([goal_with(says_yes, known_fail=lambda _: "yes")])


def test_a_known_run_holds_calls_as_a_real_one_does():
    def called(trial):
        return [(c.name, c.arguments, c.result) for c in trial.calls] == [("look", {"at": 1}, "seen")] and trial.turns == 2

    calls = [("look", {"at": 1}, "seen")]
    require_sound_goals([goal_with(called, known_pass=lambda _: run_of("ok", calls), known_fail=lambda _: "ok")])
    assert run_of(None).stop_reason == "gave_up"


def test_ctrl_c_in_a_known_solver_is_ctrl_c():
    def interrupted(workspace):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        require_sound_goals([goal_with(known_pass=interrupted)])


async def waits(workspace):
    pass


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"setup": "fill"}, "setup must be a function of the workspace, not 'fill'"),
        ({"setup": waits}, "setup must be a plain function"),
        ({"known_fail": waits}, "known_fail must be a plain function"),
        ({"min_turns": 0}, "min_turns must be a whole number of at least 1"),
        ({"min_turns": True}, "min_turns must be a whole number of at least 1"),
        ({"held_out": "yes"}, "held_out must be True or False, not 'yes'"),
    ],
)
def test_a_goal_that_makes_no_sense_is_refused_where_it_is_written(fields, said):
    with pytest.raises(UserError, match=said):
        goal_with(**fields)


def test_the_goal_hash_covers_prompt_set_up_and_check_and_not_what_is_only_known_of_it():
    plain = goal_with()
    assert goal_with(known_pass=copies, min_turns=2, held_out=True).fingerprint() == plain.fingerprint()
    assert goal_with(setup=fill).fingerprint() != plain.fingerprint()
    assert goal_with(setup=copies).fingerprint() != goal_with(setup=fill).fingerprint()
    assert goal_with(only_says_so).fingerprint() != plain.fingerprint()
    assert set(goal_with(setup=fill).parts()) == {"prompt", "check", "set-up"}
    assert source_of(fill) != source_of(copies)


def _forking(code):
    """`code` in a child process that comes back as if nothing had been, and in its parent, where it says something else."""

    def forked(workspace):
        child = os.fork()
        if child == 0:
            return code
        os.waitpid(child, 0)
        return "parent"

    return forked


def _setup_forks(workspace):
    _forking("child")(workspace)


@pytest.mark.parametrize("where", ["set-up", "known pass", "check"])
def test_a_child_that_a_goal_forks_goes_no_further(tmp_path, where):
    came_by = tmp_path / "came_by"

    def check(trial):
        if where == "check":
            _forking("child")(None)
        return True

    made = goal(
        prompt="p",
        name="forks",
        setup=_setup_forks if where == "set-up" else None,
        known_pass=_forking("child") if where == "known pass" else (lambda workspace: "Done."),
    )(check)
    owner = os.getpid()
    try:
        require_sound_goals([made])
        with came_by.open("a") as log:
            log.write("x")
    finally:
        if os.getpid() != owner:
            os._exit(1)
    assert came_by.read_text() == "x"
