"""A comparison of trials that are stored already: pairs of equal goal and seed, in the order of their rounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from daneel.bench.compare import Comparison, Question
from daneel.bench.identity_diff import Side, require_comparable, side_of
from daneel.bench.plan import Plan
from daneel.bench.record import Trial
from daneel.errors import UserError

Rounds = list[dict[str, int]]
"""For each round the seed of each goal that is tried in it."""


def stored_arm(plan: Plan | None, measurement: str, trials: Iterable[Trial], arm: str | None) -> Side:
    """An arm of a measurement by its name, or the only one: every attempt at each of its places.

    Raises `UserError` when there is no such arm, or no only one.
    """
    trials = list(trials)
    names = list(dict.fromkeys(trial.harness for trial in trials))
    if not names:
        raise UserError(f"{measurement} has no trials")
    if arm is None and len(names) > 1:
        raise UserError(f"{measurement} has several harnesses; say which, as {measurement}:{names[0]} ({', '.join(names)})")
    arm = arm if arm is not None else names[0]
    if arm not in names:
        raise UserError(f"{measurement} has no harness {arm}; it has {', '.join(names)}")
    return side_of(plan, trials, arm, f"{measurement}:{arm}")


def rounds_of(trials: Iterable[Trial]) -> Rounds:
    """The rounds of one arm's trials: those of a measurement that tried all its goals in each, or of one that drew them.

    Rounds that lack a goal of the others are left out: where goals are not drawn, each must count as often as the next.
    """
    by_index: dict[int, dict[str, int]] = {}
    for trial in trials:
        by_index.setdefault(trial.index, {})[trial.goal] = trial.seed
    rounds = [by_index[index] for index in sorted(by_index)]
    most = max(map(len, rounds), default=0)
    return [each for each in rounds if len(each) == most] if most > 1 else rounds


def common_rounds(first: Side, second: Side) -> Rounds:
    """The rounds of `first`, with those goals and seeds that both have tried. Raises `UserError` when there is none."""
    theirs = {(trial.goal, trial.seed) for trial in second.trials}
    shared = [trial for trial in first.trials if (trial.goal, trial.seed) in theirs]
    if not shared:
        raise UserError(
            f"{first.label} and {second.label} have no pair of trials with the same goal and seed: "
            "measure both with the same --seed and goals"
        )
    return rounds_of(shared)


def placed(stored: Side, rounds: Rounds) -> list[Trial]:
    """The trials of `stored` that fill these rounds, with the round's number as their index and the label as their arm."""
    places: Mapping[tuple[str, int], int] = {
        (goal, seed): number for number, each in enumerate(rounds) for goal, seed in each.items()
    }
    return [
        replace(trial, harness=stored.label, index=places[trial.goal, trial.seed])
        for trial in stored.trials
        if (trial.goal, trial.seed) in places
    ]


def compare_stored(sides: Sequence[Side], question: Question) -> Comparison:
    """The comparison of two arms, as far as its pairs were needed. Raises `UserError` when they are not comparable.

    `question.max_pairs` limits the pairs. With `question.fixed` that many must be there.
    """
    first, second = sides
    require_comparable(first, second)
    rounds = common_rounds(first, second)
    num_pairs = sum(map(len, rounds))
    if question.fixed and num_pairs < question.max_pairs:
        raise UserError(f"{first.label} and {second.label} have {num_pairs} pairs in common, not {question.max_pairs}")
    rounds = rounds[: max(1, question.max_pairs // len(rounds[0]))]
    comparison = Comparison([first.label, second.label], question, [list(each) for each in rounds])
    for trial in placed(first, rounds) + placed(second, rounds):
        comparison.add(trial)
    return comparison
