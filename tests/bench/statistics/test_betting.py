"""The betting test: that its capital cannot grow by luck, that it finds what is there, and how soon."""

from __future__ import annotations

import math
import random
from itertools import product
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.differences import beta, rare_loss, three_points

from daneel.bench.statistics.betting import Gambler, MeanTest
from daneel.bench.statistics.sample_size import fewest_pairs, fixed_pairs, pairs_needed

DIFFERENCES = st.lists(st.sampled_from([-1.0, -0.5, -0.1, 0.0, 0.0, 0.25, 0.5, 1.0]) | st.floats(-1, 1), max_size=60)


def after(differences, *, horizon=100, **more) -> MeanTest:
    test = MeanTest(horizon=horizon, **more)
    for difference in differences:
        test.add(difference)
    return test


@pytest.mark.parametrize("horizon", [1, 3, 6, 50])
@pytest.mark.parametrize(
    ("aimed_at", "values", "chances"),
    [
        (0.5, (0, 0.5, 1), (0.25, 0.5, 0.25)),
        (0.5, (0, 0.55), (1 / 11, 10 / 11)),  # a rare loss
        (0.49, (0.49,), (1,)),
        (0.3, (0, 0.2, 1), (0.2, 0.625, 0.175)),
    ],
)
def test_where_the_mean_is_as_claimed_the_expected_capital_stays_1(aimed_at, values, chances, horizon):
    assert math.isclose(sum(value * chance for value, chance in zip(values, chances, strict=True)), aimed_at)
    expected = against_more = 0.0
    for drawn in product(range(len(values)), repeat=6):
        gambler = Gambler(aimed_at=aimed_at, log_target=math.log(8), horizon=horizon)
        for which in drawn:
            gambler.add(values[which])
        chance = math.prod(chances[which] for which in drawn)
        expected += chance * math.exp(gambler.log_capital())
        against_more += chance * math.exp(gambler.log_capital_against(aimed_at + 0.1))
    assert math.isclose(expected, 1.0, rel_tol=1e-9)
    assert against_more < 1 - 1e-9


@pytest.mark.parametrize("log_target", [math.log(1.2), math.log(8)])
def test_blocks_of_goals_that_differ_from_each_other_are_worth_no_more(log_target):
    """One goal gains what the other loses. With a bet made anew in between, the gain could be kept and the loss left out."""
    gambler = Gambler(aimed_at=0.5, log_target=log_target, horizon=8)
    for _ in range(4):
        gambler.add(1.0, 0.0)
        assert gambler.log_capital() < 0
    expected = 0.0
    for drawn in product((0.0, 0.5), repeat=8):
        gambler = Gambler(aimed_at=0.5, log_target=log_target, horizon=8)
        for gains, loses in zip(drawn[::2], drawn[1::2], strict=True):
            gambler.add(0.5 + gains, loses)
        expected += math.exp(gambler.log_capital()) / 2**8
    assert 0 < expected < 1


@given(st.lists(st.floats(0, 1), max_size=40), st.floats(0.05, 0.95), st.floats(1e-6, 1 - 1e-6), st.floats(1e-6, 1 - 1e-6))
def test_the_capital_falls_with_the_mean_it_is_held_against(numbers, aimed_at, one, other):
    gambler = Gambler(aimed_at=aimed_at, log_target=math.log(40), horizon=30)
    for number in numbers:
        gambler.add(number)
    low, high = sorted((one, other))
    assert gambler.log_capital_against(low) >= gambler.log_capital_against(high) - 1e-9
    close = gambler.log_capital_against(math.nextafter(aimed_at, 1))
    assert math.isclose(close, gambler.log_capital(), abs_tol=1e-6)


@given(DIFFERENCES)
def test_evidence_has_no_side(differences):
    test, mirrored = after(differences), after([-difference for difference in differences])
    assert math.isclose(test.e_value, mirrored.e_value, rel_tol=1e-6)
    assert test.interval == pytest.approx((-mirrored.interval[1], -mirrored.interval[0]), abs=1e-4)


@given(DIFFERENCES, st.sampled_from([0.05, 0.01]), st.sampled_from([0.0, -0.02, 0.3]))
def test_the_interval_and_the_evidence_tell_the_same(differences, alpha, null):
    test = after(differences, alpha=alpha, null=null)
    low, high = test.interval
    assert -1 <= low <= high <= 1
    if test.mean is not None:
        assert low <= test.mean + 1e-9
        assert high >= test.mean - 1e-9
    if test.e_value >= 1 / alpha * (1 + 1e-9):
        assert low > null - 1e-4 if test.direction > 0 else high < null + 1e-4
    if test.e_value < 1 / alpha * (1 - 1e-9):
        assert low <= null <= high
    for mean in (-0.4, 0.1):
        assert not (test.excludes_from_below(mean) and low < mean - 1e-4)
        assert not (test.excludes_from_above(mean) and high > mean + 1e-4)


def test_a_run_of_the_same_grows_without_end_and_stays_a_number():
    test = after([1.0] * 3000, horizon=5000)
    assert math.isfinite(test.e_value)
    assert test.e_value > 1e100
    low, high = test.interval
    assert 0.97 < low < high == 1.0
    nothing = after([0.0] * 300)
    assert nothing.e_value == pytest.approx(0.5)
    assert -0.03 < nothing.interval[0] < 0 < nothing.interval[1] < 0.03


def test_mean_and_sd():
    test = after([0.5, -0.5, 0.0, 1.0])
    assert (test.mean, test.count) == (0.25, 4)
    assert test.sd == pytest.approx(0.6454972)
    assert (MeanTest(horizon=1).mean, after([1.0]).sd) == (None, None)


@pytest.mark.parametrize("difference", [1.01, -2, math.nan, math.inf])
def test_a_difference_out_of_range_is_refused(difference):
    with pytest.raises(ValueError, match="must be in"):
        MeanTest(horizon=1).add(difference)


@pytest.mark.parametrize("wrong", [{"alpha": 0}, {"alpha": 1}, {"null": 1}, {"null": math.nan}, {"horizon": 0}])
def test_a_test_that_means_nothing_is_refused(wrong):
    with pytest.raises(ValueError, match="no test with"):
        MeanTest(**{"horizon": 10, **wrong})


# --- simulations ----------------------------------------------------------------------------------------------------------


def nulls(draw: random.Random):
    """Differences whose mean is 0, of all shapes."""
    return {
        "ties and halves": three_points(0, 0.25, 0.5, draw),
        "all or nothing": three_points(0, 0.9, 1.0, draw),
        "anything": beta(0, 0.25, draw),
        "a rare loss": rare_loss(0, 0.1, draw),
        "a rare gain": lambda lose=rare_loss(0, 0.1, draw): -lose(),
    }


def t_statistic(count: int, total: float, squares: float) -> float:
    variance = (squares - total * total / count) / (count - 1)
    return abs(total / count) / math.sqrt(variance / count) if variance > 1e-12 else math.inf * abs(total)


def t_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t, by its expansion in 1/freedom; good to 0.005 from 9 degrees of freedom on."""
    z = NormalDist().inv_cdf(0.975)
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def peeked(draw, *, num_pairs: int, horizon: int) -> tuple[bool, bool]:
    """Whether the betting test and a t-test ever claim a difference, both looked at after every pair."""
    test, by_betting, by_t, squares, total = MeanTest(horizon=horizon), False, False, 0.0, 0.0
    for count in range(1, num_pairs + 1):
        difference = draw()
        total, squares = total + difference, squares + difference**2
        if not by_betting:
            test.add(difference)
            by_betting = test.e_value >= 20
        by_t = by_t or (count >= 10 and t_statistic(count, total, squares) > t_quantile(count - 1))
    return by_betting, by_t


def false_positives(shape: str, repeats: int, *, num_pairs: int = 100, horizon: int = 100) -> tuple[float, float]:
    draw = nulls(random.Random(f"null {shape}"))[shape]
    claims = [peeked(draw, num_pairs=num_pairs, horizon=horizon) for _ in range(repeats)]
    return sum(betting for betting, _ in claims) / repeats, sum(t for _, t in claims) / repeats


@pytest.mark.parametrize("shape", list(nulls(random.Random())))
def test_looking_after_every_pair_makes_no_false_positives_and_a_t_test_many(shape):
    by_betting, by_t = false_positives(shape, 500)
    assert by_betting <= 0.05
    assert by_t > 0.20


@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("num_pairs", "horizon"), [(100, 100), (400, 400), (400, 100), (100, 400)])
@pytest.mark.parametrize("shape", list(nulls(random.Random())))
def test_false_positives_in_full(shape, num_pairs, horizon):
    by_betting, by_t = false_positives(shape, 4000, num_pairs=num_pairs, horizon=horizon)
    assert by_betting <= 0.05
    assert by_t > 0.20


def coverage(shape: str, mean: float, repeats: int) -> float:
    """How often the confidence sequence holds the mean at every moment."""
    random_ = random.Random(f"coverage {shape} {mean}")
    draw = {"halves": three_points(mean, 0.3, 0.5, random_), "a rare loss": rare_loss(mean, mean + 0.1, random_)}[shape]
    held = 0
    for _ in range(repeats):
        test, inside = MeanTest(horizon=80), True
        for _ in range(80):
            test.add(draw())
            inside = inside and not test.excludes_from_below(mean) and not test.excludes_from_above(mean)
        held += inside
    return held / repeats


@pytest.mark.parametrize(("shape", "mean", "repeats"), [("halves", 0.15, 100), ("a rare loss", 0.3, 100)])
def test_the_confidence_sequence_holds_the_mean_at_every_moment(shape, mean, repeats):
    assert coverage(shape, mean, repeats) >= 0.95


@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mean", [-0.2, -0.05, 0.0, 0.1, 0.3])
@pytest.mark.parametrize("shape", ["halves", "a rare loss"])
def test_coverage_in_full(shape, mean):
    assert coverage(shape, mean, 1000) >= 0.95


def power(draw, *, num_pairs: int, repeats: int) -> tuple[float, float]:
    """How often a difference in favour is claimed within `num_pairs`, and the mean number of pairs used."""
    claimed = used = 0
    for _ in range(repeats):
        test = MeanTest(horizon=num_pairs)
        while test.count < num_pairs and test.e_value < 20:
            test.add(draw())
        claimed += test.e_value >= 20 and test.direction > 0
        used += test.count
    return claimed / repeats, used / repeats


@pytest.mark.parametrize("shape", ["three points", "anything"])
def test_power_at_a_tenth_within_100_pairs(shape):
    draw = random.Random(f"power {shape}")
    found, used = power(
        three_points(0.1, 0.25, 0.5, draw) if shape == "three points" else beta(0.1, 0.25, draw), num_pairs=100, repeats=600
    )
    assert found >= 0.85
    assert used < 80


CORNERS = [(0.1, 0.25), (0.1, 0.35), (0.1, 0.5), (0.1, 0.7), (0.05, 0.2), (0.05, 0.35), (0.2, 0.35), (0.2, 0.5), (0.3, 0.5)]
"""(dE, sd) from where differences vary as much as such a dE lets them in practice, up to nearly all they can."""


@pytest.mark.parametrize(
    ("difference", "sd", "repeats"),
    [(0.1, 0.25, 300), (0.2, 0.5, 300), *(pytest.param(*corner, 2000, marks=pytest.mark.exhaustive) for corner in CORNERS)],
)
def test_at_most_1_6_times_the_pairs_of_a_fixed_test_of_the_same_power(difference, sd, repeats):
    num_pairs = math.floor(1.6 * fixed_pairs(difference, sd, power=0.85))
    draw = random.Random(f"ratio {difference} {sd}")
    found, used = power(beta(difference, sd, draw), num_pairs=num_pairs, repeats=repeats)
    assert found >= 0.85
    assert used < num_pairs * 0.8


@pytest.mark.parametrize("sd", [0.01, 0.1])
def test_below_a_quarter_of_sd_the_range_and_not_the_sd_sets_the_pairs(sd):
    """No bet can gain more than the difference in a pair: see `fewest_pairs`."""
    fewest = fewest_pairs(0.1)
    found, _ = power(beta(0.1, sd, random.Random(1)), num_pairs=fewest * 3 // 4, repeats=50)
    assert found < 0.1
    found, _ = power(beta(0.1, sd, random.Random(2)), num_pairs=fewest + fixed_pairs(0.1, sd), repeats=300)
    assert found >= 0.85


@pytest.mark.parametrize(
    ("difference", "sd", "repeats"),
    [(0.2, 0.5, 300), *(pytest.param(*corner, 2000, marks=pytest.mark.exhaustive) for corner in [(0.1, 0.1), *CORNERS])],
)
def test_the_planned_number_of_pairs_gives_the_power_or_nearly(difference, sd, repeats):
    planned = pairs_needed(difference, sd, power=0.85)
    found, _ = power(beta(difference, sd, random.Random(3)), num_pairs=planned, repeats=repeats)
    assert 0.8 <= found <= 0.95


def test_plans_that_mean_nothing_are_refused():
    for wrong in ((0.0, 0.1), (2.0, 0.1), (0.1, -1), (0.1, math.nan)):
        with pytest.raises(ValueError, match="no number of pairs"):
            pairs_needed(*wrong)


def test_another_horizon_may_be_set_on_the_way_and_uses_the_pairs_that_are_left():
    """Extended after half its pairs, the aimed bet goes on; without that it stops at its horizon."""
    draw = random.Random(8)
    found = {True: 0, False: 0}
    for _ in range(200):
        drawn = [three_points(0.1, 0.5, 1.0, draw)() for _ in range(260)]
        for extended in found:
            test = MeanTest(horizon=100)
            for count, difference in enumerate(drawn):
                if extended and count == 50:
                    test.aim(260)
                test.add(difference)
                if test.e_value >= 20:
                    found[extended] += 1
                    break
    assert found[True] > found[False]
