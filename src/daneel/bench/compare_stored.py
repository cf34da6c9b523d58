"""A comparison of trials that are stored already: pairs of equal goal and seed, in the order of their rounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from daneel.bench.compare import Comparison, Question
from daneel.bench.record import Trial
from daneel.errors import UserError

Rounds = list[dict[str, int]]
"""For each round the seed of each goal that is tried in it."""


class Stored(Struct, frozen=True, kw_only=True):
    """The trials of one arm of one measurement: every attempt at each place."""

    label: str
    trials: list[Trial]

    def hashes(self, name: str) -> set[str]:
        """What its trials say of `harness_hash`, `model_hash` or another of their fields."""
        return {str(getattr(trial, name)) for trial in self.trials}


def stored_arm(measurement: str, trials: Iterable[Trial], arm: str | None) -> Stored:
    """An arm of a measurement by its name, or the only one. Raises `UserError` when there is no such one, or no only one."""
    trials = list(trials)
    names = list(dict.fromkeys(trial.harness for trial in trials))
    if not names:
        raise UserError(f"{measurement} has no trials")
    if arm is None and len(names) > 1:
        raise UserError(f"{measurement} has several harnesses; say which, as {measurement}:{names[0]} ({', '.join(names)})")
    arm = arm if arm is not None else names[0]
    if arm not in names:
        raise UserError(f"{measurement} has no harness {arm}; it has {', '.join(names)}")
    return Stored(label=f"{measurement}:{arm}", trials=[trial for trial in trials if trial.harness == arm])


def require_comparable(first: Stored, second: Stored) -> None:
    """Raises `UserError` unless the goals are the same, and one of harness and model: else no difference has one cause."""
    ours, theirs = _goal_hashes(first), _goal_hashes(second)
    for goal in ours.keys() & theirs.keys():
        if ours[goal] != theirs[goal]:
            raise UserError(
                f"goal {goal} is not the same in {first.label} ({_listed(ours[goal])}) and {second.label} "
                f"({_listed(theirs[goal])}): its prompt, set-up or check was changed in between"
            )
    for side in (first, second):
        for name in ("harness_hash", "model_hash"):
            if len(side.hashes(name)) > 1:
                raise UserError(f"{side.label}: its trials are of more than one {name[:-5]} ({_listed(side.hashes(name))})")
    if first.hashes("harness_hash") != second.hashes("harness_hash") and first.hashes("model_hash") != second.hashes(
        "model_hash"
    ):
        raise UserError(
            f"{first.label} and {second.label} differ in both harness and model ({_listed(first.hashes('model'))} and "
            f"{_listed(second.hashes('model'))}): no difference in E could be put down to either"
        )


def _goal_hashes(stored: Stored) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for trial in stored.trials:
        found.setdefault(trial.goal, set()).add(trial.goal_hash)
    return found


def _listed(hashes: set[str]) -> str:
    return ", ".join(sorted(hashes))


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


def common_rounds(first: Stored, second: Stored) -> Rounds:
    """The rounds of `first`, with those goals and seeds that both have tried. Raises `UserError` when there is none."""
    theirs = {(trial.goal, trial.seed) for trial in second.trials}
    shared = [trial for trial in first.trials if (trial.goal, trial.seed) in theirs]
    if not shared:
        raise UserError(
            f"{first.label} and {second.label} have no pair of trials with the same goal and seed: "
            "measure both with the same --seed and goals"
        )
    return rounds_of(shared)


def placed(stored: Stored, rounds: Rounds) -> list[Trial]:
    """The trials of `stored` that fill these rounds, with the round's number as their index and the label as their arm."""
    places: Mapping[tuple[str, int], int] = {
        (goal, seed): number for number, each in enumerate(rounds) for goal, seed in each.items()
    }
    return [
        replace(trial, harness=stored.label, index=places[trial.goal, trial.seed])
        for trial in stored.trials
        if (trial.goal, trial.seed) in places
    ]


def compare_stored(sides: Sequence[Stored], question: Question) -> Comparison:
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
