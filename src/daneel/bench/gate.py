"""Did a change make a harness worse? New trials of it, paired with stored ones of a baseline by goal and seed."""

from __future__ import annotations

from collections.abc import Iterator

from daneel.bench.compare import INFERIOR, NOT_INFERIOR, REFUSED, WORSE, Answer, Comparison, Question
from daneel.bench.compare_stored import Rounds, Stored, placed, rounds_of
from daneel.bench.plan import Plan
from daneel.bench.slot import Slot
from daneel.errors import UserError

KIND = "gate"
"""Of a `Plan`: one arm, the new one; `options["baseline"]` is the label of the other."""


def require_same(plan: Plan, baseline: Stored) -> None:
    """Raises `UserError` unless `plan` has the baseline's model, and its goals unchanged."""
    hashes = {trial.goal: trial.goal_hash for trial in baseline.trials}
    for goal in plan.goals:
        if hashes.get(goal.name, goal.hash) != goal.hash:
            raise UserError(f"goal {goal.name} is not what it was in {baseline.label}: measure the baseline anew")
    if baseline.hashes("model_hash") != {plan.model.hash}:
        model = ", ".join(sorted(baseline.hashes("model")))
        raise UserError(
            f"{baseline.label} was measured on another model ({model}, not {plan.model.name}, or other weights or settings "
            "of it): measure the baseline anew"
        )


def rounds_for(baseline: Stored, question: Question) -> Rounds:
    """The rounds of the baseline that a gate may use. Raises `UserError` when there are none."""
    rounds = rounds_of(baseline.trials)
    if not rounds:
        raise UserError(f"{baseline.label} has no trials")
    return rounds[: max(1, question.max_pairs // len(rounds[0]))]


def comparison_of(arm: str, baseline: Stored, rounds: Rounds, question: Question) -> Comparison:
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
