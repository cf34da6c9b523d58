"""Arms and goals from harness files: what a command line names becomes what a plan holds and a worker can find again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daneel.bench.slot import Arm
from daneel.bench.tune.edits import edited, edits_of
from daneel.errors import UserError
from daneel.harness.definition import Goal, Harness
from daneel.harness.files import HarnessFile, load
from daneel.harness.tools.builtin.command import without_sandbox


@dataclass(frozen=True)
class Sources:
    """What is to be tried. `harnesses` are those of `arms`, by the arm's name, with the arm's changes in them."""

    arms: tuple[Arm, ...]
    harnesses: Mapping[str, Harness]
    goals: tuple[Goal, ...]
    goal_files: Mapping[str, str]
    """The absolute path of the file each goal is in."""


def gather(
    files: Sequence[Path],
    *,
    goals: Sequence[str] = (),
    harnesses: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
) -> Sources:
    """The harnesses and goals of these files: those named, or all. Raises `UserError` for a name that none of them has.

    A harness that shares its name with one of another file is called `STEM:NAME`. A goal may stand in several files if it is
    the same one there.
    """
    held = [load(file) for file in dict.fromkeys(file.resolve() for file in files)]
    arms = [
        Arm(name=name, harness=harness, file=str(each.path), changes=dict(changes or {}))
        for name, each, harness in _named(held, harnesses)
    ]
    paths = {str(each.path): each for each in held}
    made = {arm.name: harness_of(arm, paths[str(arm.file)]) for arm in arms}
    found, goal_files = _goals(held, goals)
    return Sources(tuple(arms), made, tuple(found), goal_files)


def harness_of(arm: Arm, held: HarnessFile) -> Harness:
    """The harness that an arm speaks of, with the arm's changes, so that *H* covers them. Raises `UserError`."""
    harness = held.harness(arm.harness)
    changes = dict(arm.changes)
    edits = edits_of(changes.pop("edits", []))
    if changes.pop("sandbox", True) is False:
        harness = without_sandbox(harness)
    try:
        return edited(harness.with_changes(**changes) if changes else harness, edits)
    except TypeError as error:  # a field that there is not
        raise UserError(f"{held.path}: harness {arm.harness} cannot be changed so: {error}") from error


def _named(held: Sequence[HarnessFile], wanted: Sequence[str]) -> list[tuple[str, HarnessFile, str]]:
    """(arm's name, file, harness's name), in the order asked for."""
    found = [(each, name) for each in held for name in each.harnesses]
    names = [name for _, name in found]
    stems = [each.path.stem for each in held]
    arms: dict[str, tuple[str, HarnessFile, str]] = {}
    for each, name in found:
        place = each.path.stem if stems.count(each.path.stem) == 1 else str(each.path)
        arm = name if names.count(name) == 1 else f"{place}:{name}"
        arms[arm] = arm, each, name
    if not wanted:
        return list(arms.values())
    chosen: dict[str, tuple[str, HarnessFile, str]] = {}
    for asked in wanted:
        matching = {arm: entry for arm, entry in arms.items() if asked in (arm, entry[2])}
        if not matching:
            listed = ", ".join(str(each.path) for each in held)
            raise UserError(f"{listed}: there is no harness {asked}; it has {', '.join(arms)}")
        chosen.update(matching)
    return list(chosen.values())


def _goals(held: Sequence[HarnessFile], wanted: Sequence[str]) -> tuple[list[Goal], dict[str, str]]:
    listed = ", ".join(str(each.path) for each in held)
    found: dict[str, tuple[Goal, str]] = {}
    for each in held:
        for name, goal in each.goals.items():
            if name in found and found[name][0].fingerprint() != goal.fingerprint():
                raise UserError(f"{found[name][1]} and {each.path} hold different goals called {name}; rename one")
            found.setdefault(name, (goal, str(each.path)))
    if not found:
        raise UserError(f"{listed}: has no goal to measure; write one with @goal(prompt=…)")
    for name in wanted:
        if name not in found:
            raise UserError(f"{listed}: there is no goal {name}; it has {', '.join(found)}")
    chosen = {name: found[name] for name in dict.fromkeys(wanted or found)}
    return [goal for goal, _ in chosen.values()], {name: file for name, (_, file) in chosen.items()}
