"""Comparisons of what is stored: pairs by goal and seed, and what is refused."""

from __future__ import annotations

import itertools
import random

import pytest
from tests.support.trials import make_trial

from daneel.bench import compare, gate
from daneel.bench.compare import Question
from daneel.bench.compare_stored import common_rounds, compare_stored, rounds_of, stored_arm
from daneel.bench.identity_diff import Side
from daneel.errors import UserError

ALL = Question(max_pairs=10**9)


def side(label, chance, *, num=60, goals=("now",), first_seed=0, attempts=(), **fields) -> Side:
    """An arm that achieves each goal with this chance; `attempts`: rounds in which an attempt was invalid first."""
    draw = random.Random(label)
    trials = []
    for index, goal in itertools.product(range(num), goals):
        place = {"index": index, "goal": goal, "seed": first_seed + index, "measurement": label, **fields}
        if index in attempts:
            trials.append(make_trial(**place, achieved=None, stop_reason="invalid", not_scored="gone"))
            place["attempt"] = 1
        trials.append(make_trial(**place, achieved=draw.random() < chance))
    return Side(label=label, trials=trials)


def answer_of(first, second, question=ALL):
    (answer,) = compare_stored([first, second], question).answers()
    return answer


def test_pairs_are_of_equal_goal_and_seed_whatever_their_index_and_order():
    first, second = side("a", 0.9), side("b", 0.2, num=80, first_seed=-10)
    random.Random(1).shuffle(second.trials)
    rounds = common_rounds(first, second)
    assert [list(each.values()) for each in rounds] == [[seed] for seed in range(60)]
    answer = answer_of(first, second)
    assert (answer.verdict, answer.first, answer.second) == (compare.BETTER, "a", "b")
    assert answer.num_pairs < 40, "it stops at the pair that shows it, as if the trials were new"
    shuffled = answer_of(Side(label="a", trials=first.trials[::-1]), second)
    assert shuffled == answer


def test_measurements_without_a_common_pair_are_refused():
    with pytest.raises(UserError, match=r"no pair .* with the same --seed"):
        compare_stored([side("a", 0.9), side("b", 0.9, first_seed=100)], ALL)
    with pytest.raises(UserError, match="no pair"):
        compare_stored([side("a", 0.9), side("b", 0.9, goals=("later",))], ALL)


def test_all_goals_of_a_round_count_or_none():
    first, second = side("a", 1.0, goals=("now", "later"), num=30), side("b", 0.0, goals=("now", "later"), num=30)
    missing = [trial for trial in second.trials if (trial.index, trial.goal) != (4, "later")]
    assert len(rounds_of(missing)) == 29
    answer = answer_of(first, Side(label="b", trials=missing))
    assert answer.verdict == compare.BETTER
    assert answer.num_pairs % 2 == 0


def test_goals_that_were_drawn_are_pairs_of_their_own():
    """As `daneel compare` leaves them: one goal in each round."""
    trials = [make_trial(index=index, seed=index, goal=random.Random(index).choice(("now", "later"))) for index in range(20)]
    assert [len(each) for each in rounds_of(trials)] == [1] * 20


def test_a_fixed_number_takes_that_many_and_no_less():
    first, second = side("a", 0.9), side("b", 0.2)
    answer = answer_of(first, second, Question(max_pairs=40, fixed=True))
    assert (answer.num_pairs, answer.verdict) == (40, compare.BETTER)
    with pytest.raises(UserError, match="60 pairs in common, not 61"):
        compare_stored([first, second], Question(max_pairs=61, fixed=True))


def test_what_should_be_equal_and_is_not_is_refused():
    plain = side("a", 0.9, harness_hash="h1", model_hash="m1", goal_hash="g1")
    with pytest.raises(UserError, match="goal now is not the same"):
        compare_stored([plain, side("b", 0.9, harness_hash="h2", model_hash="m1", goal_hash="g2")], ALL)
    with pytest.raises(UserError, match="could be put down to neither"):
        compare_stored([plain, side("b", 0.9, harness_hash="h2", model_hash="m2", goal_hash="g1")], ALL)
    for same in ({"harness_hash": "h2", "model_hash": "m1"}, {"harness_hash": "h1", "model_hash": "m2"}):
        answer_of(plain, side("b", 0.9, goal_hash="g1", **same))
    mixed = Side(label="b", trials=side("b", 0.9, num=5, model_hash="m1").trials + side("b", 0.9, model_hash="m2").trials)
    with pytest.raises(UserError, match="more than one model"):
        compare_stored([side("a", 0.9, model_hash="m1"), mixed], ALL)


def test_arms_that_lose_trials_at_different_rates_have_no_verdict():
    answer = answer_of(side("a", 1.0, attempts=range(12)), side("b", 0.5))
    assert answer.verdict == compare.REFUSED
    assert (answer.only_first_invalid, answer.only_second_invalid) == (8, 0)
    assert answer_of(side("a", 1.0, attempts=range(12)), side("b", 0.2, attempts=range(12))).verdict == compare.BETTER


def test_an_arm_is_found_by_name_or_because_it_is_alone():
    trials = [make_trial(harness=name) for name in ("H1", "H2")]
    assert stored_arm(None, "m", trials, "H2").label == "m:H2"
    assert stored_arm(None, "m", trials[:1], None).label == "m:H1"
    for wrong, said in (
        ((trials, None), "say which"),
        ((trials, "H3"), "no harness H3; it has H1, H2"),
        (([], None), "no trials"),
    ):
        with pytest.raises(UserError, match=said):
            stored_arm(None, "m", *wrong)


# --- the gate ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "by_default", "if_noninferior"),
    [
        (compare.WORSE, False, False),
        (compare.INFERIOR, False, False),
        (compare.REFUSED, False, False),
        (compare.NOT_KNOWN, True, False),
        (compare.BETTER, True, False),
        (compare.NOT_INFERIOR, True, True),
    ],
)
def test_what_passes_the_gate(verdict, by_default, if_noninferior):
    answer = compare.Answer(
        **dict.fromkeys(compare.Answer.__struct_fields__, 0) | {"verdict": verdict, "interval": (-1.0, 1.0)},
    )
    assert gate.passes(answer, Question()) is by_default
    assert gate.passes(answer, Question(noninferior=0.05)) is if_noninferior


def test_a_gate_takes_whole_rounds_of_the_baseline():
    baseline = side("b", 0.9, goals=("now", "later"), num=30)
    assert len(gate.rounds_for(baseline, Question(max_pairs=21))) == 10
    assert len(gate.rounds_for(baseline, Question(max_pairs=1))) == 1
    assert len(gate.rounds_for(baseline, ALL)) == 30
    with pytest.raises(UserError, match="no trials"):
        gate.rounds_for(Side(label="b", trials=[]), ALL)
