"""Numbers whose hashes should be equal and are not: refused, with the difference shown as a diff of what was hashed.

Two numbers are comparable when the goal is the same, and one of harness and model is: else a difference has no one cause. What
a hash was made of is kept with the measurement's plan (`plan.py`), so that it can be shown long after the files have changed.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from daneel.bench.plan import ArmFacts, GoalFacts, ModelFacts, Plan
from daneel.bench.record import Trial
from daneel.errors import UserError

MAX_LINES = 60
"""Of a diff, in an error."""


class Side(Struct, frozen=True, kw_only=True):
    """One side of a comparison: the trials of one arm, and what is known of what was tried; `None` where it was not kept."""

    label: str
    trials: Sequence[Trial]
    arm: ArmFacts | None = None
    model: ModelFacts | None = None
    goals: Mapping[str, GoalFacts] = {}


def side_of(plan: Plan | None, trials: Iterable[Trial], arm: str, label: str | None = None) -> Side:
    """The trials of one arm, with what its plan says of them."""
    own = [trial for trial in trials if trial.harness == arm]
    if plan is None:
        return Side(label=label or arm, trials=own)
    facts = next((each for each in plan.arms if each.name == arm), None)
    return Side(label=label or arm, trials=own, arm=facts, model=plan.model, goals={goal.name: goal for goal in plan.goals})


def require_same_goals(first: Side, second: Side) -> None:
    """Raises `UserError`, with the difference, where a goal that both tried is not the same goal."""
    theirs = _by_goal(second)
    for name, hash_ in _by_goal(first).items():
        if name in theirs and theirs[name] != hash_:
            differs = _diff(_goal_text(first.goals.get(name)), _goal_text(second.goals.get(name)), first.label, second.label)
            raise UserError(
                f"goal {name} is not the same in {first.label} (G {hash_}) and {second.label} (G {theirs[name]}), so their "
                f"numbers cannot be compared:\n{differs}"
            )


def require_comparable(first: Side, second: Side) -> None:
    """Raises `UserError`, with the difference, unless the goals are the same, and one of harness and model."""
    for side in (first, second):
        _require_one(side)
    require_same_goals(first, second)
    harness, model = _hashes(first, second, "harness_hash"), _hashes(first, second, "model_hash")
    if len(harness) > 1 and len(model) > 1:
        differs = _diff(_model_text(first.model), _model_text(second.model), first.label, second.label)
        raise UserError(
            f"{first.label} and {second.label} differ in both harness (H {' and '.join(harness)}) and model (M "
            f"{' and '.join(model)}): a difference in E could be put down to neither. The models:\n{differs}"
        )


def _require_one(side: Side) -> None:
    """All numbers of one side must be of one harness and one model."""
    for field, letter in (("harness_hash", "H"), ("model_hash", "M")):
        found = list(dict.fromkeys(str(getattr(trial, field)) for trial in side.trials))
        if len(found) > 1:
            raise UserError(f"{side.label}: its trials are of more than one {field[:-5]} ({letter} {', '.join(found)})")


def harness_diff(first: ArmFacts, second: ArmFacts) -> str:
    """What differs between two harnesses, as a unified diff; empty if their hashes are equal."""
    if first.hash == second.hash:
        return ""
    return _diff(_harness_text(first), _harness_text(second), first.name, second.name)


def model_diff(first: ModelFacts, second: ModelFacts) -> str:
    """What differs between two models, as a unified diff; empty if their hashes are equal."""
    if first.hash == second.hash:
        return ""
    return _diff(_model_text(first), _model_text(second), first.name, second.name)


def _hashes(first: Side, second: Side, field: str) -> list[str]:
    return list(dict.fromkeys(str(getattr(trial, field)) for side in (first, second) for trial in side.trials))


def _by_goal(side: Side) -> dict[str, str]:
    return {trial.goal: trial.goal_hash for trial in side.trials}


def _diff(first: list[str] | None, second: list[str] | None, first_name: str, second_name: str) -> str:
    if first is None or second is None:
        which = first_name if first is None else second_name
        return f"(what was hashed for {which} is not on record, so that the difference cannot be shown)"
    lines = list(difflib.unified_diff(first, second, first_name, second_name, lineterm="", n=2))
    more = f"\n… and {len(lines) - MAX_LINES} more lines" if len(lines) > MAX_LINES else ""
    return "\n".join(lines[:MAX_LINES]) + more


def _harness_text(arm: ArmFacts | None) -> list[str] | None:
    """A harness as lines: what the model sees of it and the tools' sources in words, everything else by its hash."""
    if arm is None:
        return None
    shown = {f"tool {declared.get('function', {}).get('name')}" for declared in arm.declarations}
    lines = [f"system: {line}" for line in (arm.system or "(none)").splitlines()]
    lines += [f"temperature: {arm.temperature}", f"first_tool_choice: {arm.first_tool_choice}"]
    for declared in arm.declarations:
        function = declared.get("function", {})
        name = str(function.get("name"))
        lines += [f"tool {name}: {line}" for line in str(function.get("description", "")).splitlines() or [""]]
        lines += [f"tool {name}: {line}" for line in _as_lines(function.get("parameters"))]
        lines += [f"tool {name}: {line}" for line in arm.sources.get(name, "").splitlines()]
        lines += [f"tool {name}: hash {arm.parts.get(f'tool {name}')}"]
    return lines + [f"{part}: hash {hash_}" for part, hash_ in sorted(arm.parts.items()) if part not in shown]


def _model_text(model: ModelFacts | None) -> list[str] | None:
    if model is None:
        return None
    return [f"name: {model.name}", f"verified: {model.verified}", *_as_lines(model.facts)]


def _goal_text(goal: GoalFacts | None) -> list[str] | None:
    if goal is None:
        return None
    lines = [f"prompt: {line}" for line in goal.prompt.splitlines()]
    lines += [f"has_setup: {goal.has_setup}", f"min_turns: {goal.min_turns}", f"held_out: {goal.held_out}"]
    return lines + [f"{part}: hash {hash_}" for part, hash_ in sorted(goal.parts.items())]


def _as_lines(value: Any) -> list[str]:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, default=str).splitlines()
