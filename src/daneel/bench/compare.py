"""Which of several harnesses is better, told from pairs of trials, and as soon as it may be told.

A *pair* is a trial of each of two arms with the same goal and seed; its D is the difference of the two values (see
`effectiveness.value`), in [-1, 1]. A pair of which either trial is not scored is dropped whole. The *question* says what is to
be shown of the mean of D and when to stop; an *answer* is what has been shown. Pairs count in the order of the plan, never in
that in which their trials end: short trials end first, and are those of high value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from msgspec import Struct

from daneel.bench.effectiveness import value
from daneel.bench.record import Trial
from daneel.bench.slot import settles
from daneel.bench.statistics.betting import MeanTest
from daneel.bench.statistics.invalid_rates import one_sided_losses
from daneel.bench.statistics.multiple import e_bh
from daneel.bench.statistics.sign_flip import SignFlips
from daneel.errors import UserError

BETTER, WORSE = "better", "worse"
NO_DIFFERENCE = "no difference larger than the margin"
NOT_INFERIOR, INFERIOR = "not inferior", "inferior"
NOT_KNOWN = "not known yet"
REFUSED = "refused"
"""No verdict: the two arms lose trials at different rates."""


class Question(Struct, frozen=True, kw_only=True):
    """What is asked of each two arms, and how much may be spent. Raises `UserError` when it makes no sense.

    `margin`: a difference of that much either way is none. `noninferior`: show only that the first is not worse by so much.
    `fixed`: the number of pairs is fixed, and looked at once, by a sign-flip permutation test. `against`: only comparisons
    with this arm, not of each two.
    """

    max_pairs: int = 200
    alpha: float = 0.05
    margin: float | None = None
    noninferior: float | None = None
    fixed: bool = False
    against: str | None = None

    def __post_init__(self) -> None:
        if self.max_pairs < 1:
            raise UserError(f"the number of pairs must be at least 1, not {self.max_pairs}")
        if not 0 < self.alpha < 1:
            raise UserError(f"alpha must be between 0 and 1, not {self.alpha}")
        for name in ("margin", "noninferior"):
            given = getattr(self, name)
            if given is not None and not 0 < given < 1:
                raise UserError(f"{name} is a difference in E, between 0 and 1, not {given}")
        if self.margin is not None and self.noninferior is not None:
            raise UserError("margin and noninferior exclude each other: each is a question of its own")

    @property
    def null(self) -> float:
        """The mean of D that evidence is gathered against."""
        return -self.noninferior if self.noninferior is not None else 0.0


class Answer(Struct, frozen=True, kw_only=True):
    """What is known of E(first) - E(second).

    `interval` is the confidence sequence, or with a fixed number of pairs the permutation test's interval; at 1 - alpha, for
    all comparisons made together. `e_value` is the evidence against the mean of D being `Question.null`; with a fixed number
    of pairs there is a `p_value` instead. `only_first_invalid` counts the pairs in which that arm alone had an attempt that
    could not be scored; `losses_e_value` is the evidence that this happens to one arm more often.
    """

    first: str
    second: str
    verdict: str
    num_pairs: int
    num_dropped: int
    difference: float | None
    sd: float | None
    interval: tuple[float, float]
    e_value: float | None
    p_value: float | None
    only_first_invalid: int
    only_second_invalid: int
    losses_e_value: float


@dataclass(frozen=True)
class Round:
    """What one arm's places with one index came to, by goal: its trials, or `None` for those without a scored one."""

    values: dict[str, float | None]
    had_invalid: bool


class Pairing:
    """Two arms: their pairs so far, and whether more are needed. Rounds are added in the order of the plan.

    `alpha` is this comparison's own share of the error that is allowed; `num_rounds`, how many there will be at most.
    """

    def __init__(self, first: str, second: str, question: Question, *, alpha: float, num_rounds: int, horizon: int) -> None:
        self.first, self.second, self.question, self.alpha = first, second, question, alpha
        self.test = MeanTest(horizon=horizon, alpha=alpha, null=question.null)
        self.settled = False
        self.next_round, self.num_dropped = 0, 0
        self._num_rounds = num_rounds
        self._differences: list[float] = []
        self._lost = [0, 0]
        self._flips: SignFlips | None = None
        self.p_value: float | None = None
        """Of the sign-flip test, once the fixed number of pairs is complete."""

    def add(self, first: Round, second: Round) -> None:
        """The next round of both. Each of its goals is a pair; where there are several, they count together or not at all."""
        self.next_round += 1
        if first.had_invalid != second.had_invalid:
            self._lost[second.had_invalid] += 1
        pairs = [(first.values[goal], second.values[goal]) for goal in first.values]
        block = [one - other for one, other in pairs if one is not None and other is not None]
        if len(block) < len(pairs):
            self.num_dropped += len(pairs)
        else:
            self.test.add(*block)
            self._differences += block
        if self.complete and self.question.fixed and self._differences:
            self._flips = SignFlips(self._differences)
            self.p_value = self._flips.p_value(self.question.null)
        self.settled = self._is_settled()

    @property
    def complete(self) -> bool:
        """Whether there are no rounds left."""
        return self.next_round >= self._num_rounds

    @property
    def losses_e_value(self) -> float:
        """Evidence that one of the two loses more trials than the other."""
        return one_sided_losses(*self._lost)

    def _is_settled(self) -> bool:
        if self.complete or self.losses_e_value >= 1 / self.question.alpha:
            return True
        if self.question.fixed:
            return False
        margin = self.question.margin
        within = margin is not None and self.test.excludes_from_below(-margin) and self.test.excludes_from_above(margin)
        return within or self.test.e_value >= 1 / self.alpha

    def answer(self, *, claimed: bool) -> Answer:
        """What is known. `claimed`: the evidence against the null is enough, all comparisons considered."""
        fixed = self.question.fixed
        interval = (-1.0, 1.0) if fixed else self.test.interval
        if self._flips is not None:
            interval = self._flips.interval(self.alpha)
        return Answer(
            first=self.first,
            second=self.second,
            verdict=self._verdict(claimed, interval),
            num_pairs=self.test.count,
            num_dropped=self.num_dropped,
            difference=self.test.mean,
            sd=self.test.sd,
            interval=interval,
            e_value=None if fixed else self.test.e_value,
            p_value=self.p_value,
            only_first_invalid=self._lost[0],
            only_second_invalid=self._lost[1],
            losses_e_value=self.losses_e_value,
        )

    def _verdict(self, claimed: bool, interval: tuple[float, float]) -> str:
        question = self.question
        if self.losses_e_value >= 1 / question.alpha:
            return REFUSED
        if claimed:
            above = (self.test.mean or 0.0) > question.null if question.fixed else self.test.direction > 0
            if question.noninferior is not None:
                return NOT_INFERIOR if above else INFERIOR
            return BETTER if above else WORSE
        if question.margin is not None and -question.margin < interval[0] and interval[1] < question.margin:
            return NO_DIFFERENCE
        return NOT_KNOWN


class Comparison:
    """Arms, their trials as they come, and what they show. Pure: it runs nothing and stores nothing.

    `goals_of_round`: for each index the goals that every arm tries in it. `horizons`: (round, number of pairs in all), from
    which round on bets are made for how many pairs; the default is all pairs from the start. Raises `UserError` when the arms
    are fewer than two, or not all different.
    """

    def __init__(
        self,
        arms: Sequence[str],
        question: Question,
        goals_of_round: Sequence[Sequence[str]],
        horizons: Sequence[tuple[int, int]] = (),
    ) -> None:
        if len(set(arms)) != len(arms) or len(arms) < 2:
            raise UserError(f"a comparison needs two different harnesses or more, not {', '.join(arms) or 'none'}")
        if question.against is not None and question.against not in arms:
            raise UserError(f"against: there is no harness {question.against}; there are {', '.join(arms)}")
        self.arms, self.question = list(arms), question
        self._goals = [list(goals) for goals in goals_of_round]
        self._horizons = dict(horizons) or {0: max(1, sum(map(len, self._goals)))}
        couples = [
            (second, first) if first == question.against else (first, second)  # the one it is held against comes last
            for first, second in combinations(arms, 2)
            if question.against in (None, first, second)
        ]
        alpha, num_rounds, horizon = question.alpha / len(couples), len(self._goals), self._horizons[0]
        self.pairings = [Pairing(*couple, question, alpha=alpha, num_rounds=num_rounds, horizon=horizon) for couple in couples]
        self._final: dict[tuple[str, int], dict[str, float | None]] = {}
        self._invalid: set[tuple[str, int]] = set()
        self.decided = not self._goals
        """Whether more trials would change no verdict, or none may be made. What is added from then on is ignored."""

    def add(self, trial: Trial) -> None:
        """One more stored trial, in whatever order. One that leaves its place to be filled counts as an invalid attempt."""
        if self.decided or trial.harness not in self.arms or not 0 <= trial.index < len(self._goals):
            return
        key = trial.harness, trial.index
        if not trial.scored and not trial.cancelled:
            self._invalid.add(key)
        if not settles(trial):
            return
        self._final.setdefault(key, {})[trial.goal] = value(trial) if trial.scored else None
        for pairing in self.pairings:
            if trial.harness in (pairing.first, pairing.second):
                self._advance(pairing)
        self.decided = self._is_decided()

    def _advance(self, pairing: Pairing) -> None:
        while not pairing.settled:
            first, second = (self._round(arm, pairing.next_round) for arm in (pairing.first, pairing.second))
            if first is None or second is None:
                return
            if pairing.next_round in self._horizons:
                pairing.test.aim(self._horizons[pairing.next_round])
            pairing.add(first, second)

    def _round(self, arm: str, index: int) -> Round | None:
        """What this round of an arm came to, once all its places are filled."""
        values = self._final.get((arm, index), {})
        if any(goal not in values for goal in self._goals[index]):
            return None
        return Round({goal: values[goal] for goal in self._goals[index]}, (arm, index) in self._invalid)

    def _is_decided(self) -> bool:
        return all(pairing.settled or claimed for pairing, claimed in zip(self.pairings, self._claimed(), strict=True))

    def _claimed(self) -> list[bool]:
        """Of which pairings the evidence is enough: e-values by e-BH, p-values by Bonferroni."""
        if self.question.fixed:
            p_values = [pairing.p_value for pairing in self.pairings]
            return [p is not None and p <= pairing.alpha for p, pairing in zip(p_values, self.pairings, strict=True)]
        return e_bh([pairing.test.e_value for pairing in self.pairings], self.question.alpha)

    def live_arms(self) -> list[str]:
        """The arms of which more trials are needed."""
        needed = {arm for pairing in self.pairings if not pairing.settled for arm in (pairing.first, pairing.second)}
        return [] if self.decided else [arm for arm in self.arms if arm in needed]

    @property
    def num_pairs(self) -> int:
        """Of the comparison that has most."""
        return max(pairing.test.count for pairing in self.pairings)

    @property
    def total_rounds(self) -> int:
        """How many rounds there may be."""
        return len(self._goals)

    @property
    def num_rounds(self) -> int:
        """How many rounds have been looked at, by whichever comparison has seen most."""
        return max(pairing.next_round for pairing in self.pairings)

    def answers(self) -> list[Answer]:
        """What is known of each two arms."""
        return [pairing.answer(claimed=claimed) for pairing, claimed in zip(self.pairings, self._claimed(), strict=True)]

    def means(self) -> dict[str, float]:
        """Each arm's mean value over all its scored trials, the highest first."""
        values: dict[str, list[float]] = {}
        for (arm, _), by_goal in self._final.items():
            values.setdefault(arm, []).extend(each for each in by_goal.values() if each is not None)
        means = {arm: sum(each) / len(each) for arm, each in values.items() if each}
        return dict(sorted(means.items(), key=lambda item: -item[1]))
