"""Is a goal's check right? Asked before any trial, of what the goal's author knows: a known pass and a known fail."""

from __future__ import annotations

from collections.abc import Iterable

from daneel.bench.known import run_of
from daneel.bench.workspace import WorkFolder
from daneel.errors import UserError
from daneel.harness.definition import Goal, Known
from daneel.harness.raised import described, forks_end_here, is_interrupt
from daneel.harness.run_record import Run


def require_sound_goals(goals: Iterable[Goal]) -> None:
    """Run set-up, known pass and known fail of each goal, each pair in a workspace of its own.

    Raises `UserError` when a set-up or a solver fails, when the check fails its known pass, or passes its known fail.
    """
    with WorkFolder() as folder:
        for goal in goals:
            if goal.known_pass is not None and not _verdict(goal, goal.known_pass, "known pass", folder):
                raise UserError(f"goal {goal.name}: its check fails its known pass: it would call good work a failure")
            if goal.known_fail is not None and _verdict(goal, goal.known_fail, "known fail", folder):
                raise UserError(f"goal {goal.name}: its check passes its known fail: it would call a failure good work")
            if goal.setup is not None and goal.known_pass is None and goal.known_fail is None:
                with folder.filled_by(goal):
                    pass  # a set-up that fails is found before the first trial


def _verdict(goal: Goal, solve: Known, label: str, folder: WorkFolder) -> bool:
    with folder.filled_by(goal) if goal.setup is not None else folder.entered() as workspace:
        try:
            with forks_end_here():
                said: object = solve(workspace)
        except BaseException as error:  # a person's own code may raise anything
            if is_interrupt(error):
                raise
            raise UserError(f"goal {goal.name}: its {label} raised {described(error)}") from error
        if not isinstance(said, str | Run):
            raise UserError(f"goal {goal.name}: its {label} must give the answer's text or a Run, not {said!r}")
        run = run_of(said) if isinstance(said, str) else said
        run.workspace = workspace if goal.setup is not None else None
        try:
            return goal(run)
        except BaseException as error:  # the same
            if is_interrupt(error):
                raise
            raise UserError(f"goal {goal.name}: its check raised {described(error)} on its {label}") from error
