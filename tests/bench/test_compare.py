"""Comparisons of arms with a known E: what is claimed, when it stops, and what is never claimed."""

from __future__ import annotations

import contextlib
import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.trials import KnownArm, SimulatedRunner, arm_of, make_trial

from daneel import Harness, goal
from daneel.bench import compare, compare_live
from daneel.bench.compare import Comparison, Question
from daneel.bench.effectiveness import value
from daneel.bench.plan import Plan, inline_plan
from daneel.bench.trial import ModelIdentity
from daneel.errors import UserError

MODEL = ModelIdentity("scripted", "m0", verified=False)
GOOD, MIDDLE, POOR = arm_of(0.9), arm_of(0.6), arm_of(0.2)


@goal(prompt="p")
def now(trial) -> bool:
    return True


@goal(prompt="q")
def later(trial) -> bool:
    return True


def plan_of(arms, *, goals=(now,), base_seed=1, **question) -> Plan:
    asked = Question(**question)
    harnesses = dict.fromkeys(arms, Harness())
    more = {"num_trials": asked.max_pairs, "base_seed": base_seed, "options": compare_live.options(asked)}
    return inline_plan(harnesses, goals, MODEL, kind=compare_live.KIND, **more)


def compared(arms, *, luck="", runner=None, goals=(now,), base_seed=1, **question) -> tuple[Comparison, SimulatedRunner]:
    plan = plan_of(arms, goals=goals, base_seed=base_seed, **question)
    comparison = compare_live.comparison_of(plan)
    runner = runner or SimulatedRunner(arms, luck=luck)
    for _ in compare_live.run(comparison, runner, compare_live.slots(comparison, plan)):
        pass
    return comparison, runner


def verdicts(comparison: Comparison) -> dict[tuple[str, str], str]:
    return {(answer.first, answer.second): answer.verdict for answer in comparison.answers()}


def test_it_stops_as_soon_as_the_better_one_is_known():
    comparison, runner = compared({"A": GOOD, "B": POOR})
    (answer,) = comparison.answers()
    assert answer.verdict == compare.BETTER
    assert answer.e_value >= 20
    assert answer.interval[0] >= 0
    assert answer.num_pairs < 40
    assert len(runner.given) == 2 * answer.num_pairs
    assert list(comparison.means()) == ["A", "B"]
    (swapped,) = compared({"B": POOR, "A": GOOD})[0].answers()
    assert (swapped.first, swapped.verdict) == ("B", compare.WORSE)


def test_pairs_share_goal_and_seed_and_the_order_within_them_is_drawn():
    _, runner = compared({"A": MIDDLE, "B": MIDDLE}, goals=(now, later), max_pairs=60)
    rounds = [runner.given[i : i + 2] for i in range(0, len(runner.given), 2)]
    assert len(rounds) == 60
    assert all(a.index == b.index and a.seed == b.seed and a.goal == b.goal for a, b in rounds)
    assert len({a.seed for a, _ in rounds}) == 60
    assert 15 < sum(a.harness == "A" for a, _ in rounds) < 45
    assert 15 < sum(a.goal == "now" for a, _ in rounds) < 45
    assert any(a.goal == b.goal for (a, _), (b, _) in itertools.pairwise(rounds)), "drawn with replacement, not in turn"


def test_no_difference_larger_than_the_margin():
    steady = KnownArm(((1.0, True, 2),))
    comparison, _ = compared({"A": steady, "B": steady}, margin=0.1)
    (answer,) = comparison.answers()
    assert answer.verdict == compare.NO_DIFFERENCE
    assert -0.1 < answer.interval[0] < 0 < answer.interval[1] < 0.1
    assert answer.num_pairs < 60
    slower = KnownArm(((0.9, True, 2), (0.1, True, 3)))  # 0.05 less: one side of the margin is shut out long before the other
    for arms in ({"A": steady, "B": slower}, {"A": slower, "B": steady}):
        assert set(verdicts(compared(arms, margin=0.2)[0]).values()) <= {compare.NO_DIFFERENCE}
    unknown, _ = compared({"A": steady, "B": steady}, margin=0.1, max_pairs=20)
    assert verdicts(unknown) == {("A", "B"): compare.NOT_KNOWN}


def test_not_inferior_and_inferior():
    steady, slower = KnownArm(((1.0, True, 2),)), KnownArm(((1.0, True, 3),))
    assert verdicts(compared({"A": steady, "B": steady}, noninferior=0.05)[0]) == {("A", "B"): compare.NOT_INFERIOR}
    assert verdicts(compared({"A": slower, "B": steady}, noninferior=0.05)[0]) == {("A", "B"): compare.INFERIOR}
    assert verdicts(compared({"A": steady, "B": slower}, noninferior=0.05)[0]) == {("A", "B"): compare.NOT_INFERIOR}
    assert verdicts(compared({"A": steady, "B": steady}, noninferior=0.02, max_pairs=60)[0]) == {("A", "B"): compare.NOT_KNOWN}


def test_a_fixed_number_of_pairs_is_looked_at_once():
    comparison, runner = compared({"A": GOOD, "B": POOR}, max_pairs=30, fixed=True)
    (answer,) = comparison.answers()
    assert (answer.verdict, answer.num_pairs, len(runner.given)) == (compare.BETTER, 30, 60)
    assert answer.e_value is None
    assert answer.p_value < 0.05
    assert answer.interval[0] > 0
    cut = SimulatedRunner({"A": GOOD, "B": POOR}, stop_after=58)
    plan = plan_of({"A": GOOD, "B": POOR}, max_pairs=30, fixed=True, margin=0.99)
    comparison = compare_live.comparison_of(plan)
    with pytest.raises(KeyboardInterrupt):
        list(compare_live.run(comparison, cut, compare_live.slots(comparison, plan)))
    (early,) = comparison.answers()
    assert (early.verdict, early.num_pairs, early.p_value, early.interval) == (compare.NOT_KNOWN, 29, None, (-1.0, 1.0))


def test_several_arms_are_put_in_order_and_the_poor_ones_are_not_tried_for_ever():
    arms = {"best": arm_of(0.95), "good": arm_of(0.5), "bad": arm_of(0.05)}
    comparison, runner = compared(arms, max_pairs=300)
    assert set(verdicts(comparison).values()) == {compare.BETTER}
    assert list(comparison.means()) == ["best", "good", "bad"]
    against, fewer = compared(arms, max_pairs=300, against="good")
    assert verdicts(against) == {("best", "good"): compare.BETTER, ("bad", "good"): compare.WORSE}
    assert len(fewer.given) <= len(runner.given)


def test_an_arm_whose_comparisons_are_settled_is_tried_no_more():
    same = KnownArm(((0.5, True, 2), (0.5, False, 2)))
    comparison, runner = compared({"A": same, "B": same, "C": arm_of(0.0)}, max_pairs=120)
    tried = {name: sum(trial.harness == name for trial in runner.given) for name in "ABC"}
    assert tried["A"] == tried["B"] == 120
    assert tried["C"] < 60
    assert verdicts(comparison)["A", "B"] == compare.NOT_KNOWN


def test_a_pair_is_dropped_whole_and_nothing_is_scored_of_it():
    comparison, _ = compared(
        {"A": KnownArm(GOOD.outcomes, invalid=0.6), "B": KnownArm(POOR.outcomes, invalid=0.6)}, max_pairs=60
    )
    (answer,) = comparison.answers()
    assert answer.num_dropped > 0
    assert answer.verdict == compare.BETTER


def test_no_verdict_when_one_arm_loses_more_trials():
    comparison, runner = compared({"A": KnownArm(GOOD.outcomes, invalid=0.5), "B": MIDDLE}, max_pairs=200)
    (answer,) = comparison.answers()
    assert answer.verdict == compare.REFUSED
    assert answer.losses_e_value >= 20
    assert answer.only_first_invalid > answer.only_second_invalid
    assert len(runner.given) < 150, "it does not go on when there can be no verdict"


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(2, 9))
def test_trials_that_end_out_of_order_give_the_same_answer(luck, num_at_once):
    arms = {"A": KnownArm(((0.5, True, 2), (0.2, True, 4), (0.3, False, 8)), invalid=0.1), "B": MIDDLE}
    serial, _ = compared(arms, luck=str(luck), max_pairs=60)
    runner = SimulatedRunner(arms, luck=str(luck), num_at_once=num_at_once)
    parallel, _ = compared(arms, runner=runner, max_pairs=60)
    assert parallel.answers() == serial.answers()


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(0, 60))
def test_a_comparison_that_was_cut_short_goes_on_where_it_was(luck, stop_after):
    arms = {"A": MIDDLE, "B": KnownArm(MIDDLE.outcomes, invalid=0.2)}
    plan = plan_of(arms, max_pairs=40)
    whole = compare_live.comparison_of(plan)
    uncut = SimulatedRunner(arms, luck=str(luck))
    list(compare_live.run(whole, uncut, compare_live.slots(whole, plan)))
    first = SimulatedRunner(arms, luck=str(luck), stop_after=stop_after)
    with contextlib.suppress(KeyboardInterrupt):
        interrupted = compare_live.comparison_of(plan)
        list(compare_live.run(interrupted, first, compare_live.slots(interrupted, plan)))
    second, resumed = SimulatedRunner(arms, luck=str(luck)), compare_live.comparison_of(plan)
    list(compare_live.run(resumed, second, compare_live.slots(resumed, plan), first.given))
    assert resumed.answers() == whole.answers()
    assert first.given + second.given == uncut.given


def test_more_pairs_later_leave_what_was_told_as_it_was():
    """The bets that were made for 40 pairs are not made anew once the outcomes are known."""
    arms = {"A": MIDDLE, "B": MIDDLE}
    short, runner = compared(arms, max_pairs=40)
    plan = plan_of(arms, max_pairs=120)
    longer = compare.Comparison(["A", "B"], Question(max_pairs=120), [["now"]] * 120, [(0, 40), (40, 120)])
    seen = []
    for trial in runner.given:
        longer.add(trial)
        seen.append(longer.pairings[0].test.e_value)
    assert seen[-1] == short.answers()[0].e_value
    list(compare_live.run(longer, SimulatedRunner(arms), compare_live.slots(longer, plan), runner.given))
    assert longer.num_pairs == 120 or longer.answers()[0].verdict != compare.NOT_KNOWN


def test_rounds_of_several_goals_count_whole():
    comparison = Comparison(["A", "B"], Question(), [["now", "later"]] * 30)
    for index in range(30):
        for name, name_of_goal in itertools.product("AB", ("now", "later")):
            invalid = name == "B" and name_of_goal == "later" and index == 3
            fields = {"achieved": None, "not_scored": "the check raised"} if invalid else {"achieved": name == "A"}
            comparison.add(make_trial(harness=name, goal=name_of_goal, index=index, **fields))
    (answer,) = comparison.answers()
    assert answer.verdict == compare.BETTER
    assert answer.num_dropped == 2
    assert answer.num_pairs % 2 == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"max_pairs": 0}, "pairs must be at least 1"),
        ({"alpha": 0.0}, "alpha must be between"),
        ({"margin": 1.5}, "margin is a difference in E"),
        ({"noninferior": -0.1}, "noninferior is a difference in E"),
        ({"margin": 0.1, "noninferior": 0.1}, "exclude each other"),
    ],
)
def test_questions_that_make_no_sense_are_refused(wrong, said):
    with pytest.raises(UserError, match=said):
        Question(**wrong)


def test_arms_that_cannot_be_compared_are_refused():
    for arms in ([], ["A"], ["A", "A"]):
        with pytest.raises(UserError, match="two different harnesses"):
            Comparison(arms, Question(), [["now"]])
    with pytest.raises(UserError, match="there is no harness X"):
        Comparison(["A", "B"], Question(against="X"), [["now"]])


def test_plans_of_another_kind_are_refused():
    plan = plan_of({"A": GOOD, "B": POOR})
    question = {"max_pairs": 10}
    broken_plans = (
        ({"kind": "measure"}, "no comparison"),
        ({"options": {"question": {"alpha": 7}, "horizons": [[0, 10]]}}, "alpha must"),
        ({"options": {}}, "cannot be read"),
        ({"options": {"question": question, "horizons": [[0, "many"]]}}, "cannot be read"),
        ({"options": {"question": question, "horizons": [[5, 10]]}}, "make no sense"),
        ({"options": {"question": question, "horizons": [[0, 0]]}}, "make no sense"),
        ({"options": {"question": {"max_pairs": 10**9}, "horizons": [[0, 10]]}}, "at most 100000 pairs"),
        ({"goals": []}, "has no goals"),
    )
    for broken, said in broken_plans:
        fields = {name: getattr(plan, name) for name in plan.__struct_fields__}
        with pytest.raises(UserError, match=said):
            compare_live.comparison_of(Plan(**{**fields, **broken}))


# --- simulations ----------------------------------------------------------------------------------------------------------


def share_claimed(arms, repeats: int, wrong, **question) -> float:
    """How often a comparison ends in one of the verdicts that are `wrong`."""
    found = 0
    for repeat in range(repeats):
        comparison, _ = compared(arms, base_seed=repeat, **question)
        found += any(verdict in wrong for verdict in verdicts(comparison).values())
    return found / repeats


QUICK_BUT_FAILS = KnownArm(((0.6, True, 2), (0.4, False, 2)))
SLOW_BUT_SURE = KnownArm(((0.2, True, 2), (0.8, True, 3)))
"""Both have E = 0.6."""


@pytest.mark.parametrize("repeats", [60, pytest.param(600, marks=[pytest.mark.exhaustive, pytest.mark.timeout(1200)])])
def test_of_arms_with_the_same_e_none_is_called_better(repeats):
    assert QUICK_BUT_FAILS.effectiveness == pytest.approx(SLOW_BUT_SURE.effectiveness)
    arms = {"A": QUICK_BUT_FAILS, "B": SLOW_BUT_SURE}
    assert share_claimed(arms, repeats, (compare.BETTER, compare.WORSE), max_pairs=100) <= 0.05


@pytest.mark.parametrize("repeats", [40, pytest.param(1000, marks=[pytest.mark.exhaustive, pytest.mark.timeout(1200)])])
def test_goals_that_gain_and_goals_that_lose_are_no_difference(repeats):
    arms = {
        "A": KnownArm((), by_goal={"now": ((0.8, True, 2), (0.2, False, 2)), "later": ((0.4, True, 2), (0.6, False, 2))}),
        "B": MIDDLE,
    }
    assert share_claimed(arms, repeats, (compare.BETTER, compare.WORSE), max_pairs=100, goals=(now, later)) <= 0.05


@pytest.mark.parametrize("repeats", [40, pytest.param(1000, marks=[pytest.mark.exhaustive, pytest.mark.timeout(1200)])])
def test_a_difference_of_the_margin_is_not_called_none(repeats):
    wrong = (compare.NO_DIFFERENCE, compare.NOT_INFERIOR)
    assert share_claimed({"A": arm_of(0.9), "B": arm_of(0.99)}, repeats, wrong, max_pairs=150, margin=0.09) <= 0.05
    assert share_claimed({"A": arm_of(0.9), "B": arm_of(0.95)}, repeats, wrong, max_pairs=150, noninferior=0.05) <= 0.05


def planted(seed: int) -> dict[str, KnownArm]:
    """12 harnesses with a known E, from 0.05 to 0.93 in steps of 0.08, in an order that tells nothing."""
    levels = [round(0.05 + 0.08 * step, 2) for step in range(12)]
    random.Random(seed).shuffle(levels)
    return {f"E{level:.2f}": arm_of(level) for level in levels}


@pytest.mark.parametrize(
    ("repeats", "max_pairs"), [(1, 150), pytest.param(5, 400, marks=[pytest.mark.exhaustive, pytest.mark.timeout(3000)])]
)
def test_twelve_harnesses_with_a_known_e_are_put_in_the_right_order(repeats, max_pairs):
    num_wrong = num_claimed = 0
    for repeat in range(repeats):
        comparison, _ = compared(planted(repeat), base_seed=repeat, max_pairs=max_pairs)
        for answer in comparison.answers():
            claimed = answer.verdict in (compare.BETTER, compare.WORSE)
            num_claimed += claimed
            num_wrong += claimed and (answer.verdict == compare.BETTER) != (answer.first > answer.second)
            gap = abs(float(answer.first[1:]) - float(answer.second[1:]))
            assert claimed or gap < (0.45 if max_pairs == 150 else 0.25)
    assert num_claimed > 30 * repeats
    assert num_wrong <= 0.05 * num_claimed


def test_values_of_simulated_arms_are_those_they_say():
    arm = KnownArm(((0.5, True, 2), (0.3, True, 4), (0.2, False, 2)))
    drawn = [value(make_trial(achieved=a, turns=t)) for a, t in (arm.draw(luck / 1000) for luck in range(1000))]
    assert sum(drawn) / 1000 == pytest.approx(arm.effectiveness)
