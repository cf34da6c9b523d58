"""Did a change make a harness worse? New trials of it, paired with stored ones of a baseline by goal and seed."""

from __future__ import annotations

from collections.abc import Iterator

from daneel.bench.compare import INFERIOR, NOT_INFERIOR, REFUSED, WORSE, Answer, Comparison, Question
from daneel.bench.compare_stored import Rounds, placed, rounds_of
from daneel.bench.identity_diff import Side, model_diff
from daneel.bench.plan import Plan
from daneel.bench.slot import Slot
from daneel.errors import UserError

KIND = "gate"
"""Of a `Plan`: one arm, the new one; `options["baseline"]` is the label of the other."""


def require_same(plan: Plan, baseline: Side) -> None:
    """Raises `UserError`, with the difference, unless `plan` has the baseline's model, and its goals unchanged."""
    hashes = {trial.goal: trial.goal_hash for trial in baseline.trials}
    for goal in plan.goals:
        if hashes.get(goal.name, goal.hash) != goal.hash:
            before = baseline.goals[goal.name].parts if goal.name in baseline.goals else {}
            changed = [part for part in {**before, **goal.parts} if before.get(part) != goal.parts.get(part)]
            raise UserError(
                f"goal {goal.name} is not what it was in {baseline.label} ({', '.join(changed)}): measure the baseline anew"
            )
    if {trial.model_hash for trial in baseline.trials} != {plan.model.hash}:
        differs = model_diff(baseline.model, plan.model) if baseline.model is not None else ""
        model = ", ".join(sorted({trial.model for trial in baseline.trials}))
        raise UserError(
            f"{baseline.label} was measured on another model ({model}, not {plan.model.name}, or other weights or settings of "
            f"it): measure the baseline anew\n{differs}".rstrip()
        )


def rounds_for(baseline: Side, question: Question) -> Rounds:
    """The rounds of the baseline that a gate may use. Raises `UserError` when there are none."""
    rounds = rounds_of(baseline.trials)
    if not rounds:
        raise UserError(f"{baseline.label} has no trials")
    return rounds[: max(1, question.max_pairs // len(rounds[0]))]


def comparison_of(arm: str, baseline: Side, rounds: Rounds, question: Question) -> Comparison:
    """The comparison of `arm`, of which there are no trials yet, with the baseline's."""
    comparison = Comparison([arm, baseline.label], question, [list(each) for each in rounds])
    for trial in placed(baseline, rounds):
        comparison.add(trial)
    return comparison


def slots(comparison: Comparison, plan: Plan, rounds: Rounds) -> Iterator[Slot]:
    """The trials that are to be paired with the baseline's, for as long as more are needed."""
    arm = plan.arms[0].arm
    for index, each in enumerate(rounds):
        for goal, seed in each.items():
            if comparison.decided:
                return
            yield Slot(measurement=plan.id, index=index, arm=arm, goal=goal, seed=seed)


def passes(answer: Answer, question: Question) -> bool:
    """Whether a change may go in: it was not shown to be worse, or, asked for, it was shown to be not inferior.

    Where the two lose trials at different rates, it may not.
    """
    if question.noninferior is not None:
        return answer.verdict == NOT_INFERIOR
    return answer.verdict not in (WORSE, INFERIOR, REFUSED)
