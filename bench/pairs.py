"""How many pairs it takes to see a difference in E: the betting test, looked at after every pair, against a fixed-n t-test.

    python bench/pairs.py [--repeats N] [--quick]

For each true difference dE and standard deviation of D: the pairs of a two-sided t-test with power 0.85 (by formula), the
`--max-pairs` with which the betting test has that power (by bisection over simulations), the quotient, and how many pairs the
betting test uses on average when it may stop early.

`t wrong` says what the t-test's number of pairs is worth: how often it claims a difference, looked at once after that many
pairs, where there is none: D is dE, but for a rare -1 that makes the mean 0. It should be 0.05. `fewest` is what no bet can do
without (`sample_size.fewest_pairs`). The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Callable
from typing import Any

from daneel.bench.statistics.betting import MeanTest
from daneel.bench.statistics.sample_size import fewest_pairs, fixed_pairs

POWER = 0.85
CORNERS = (
    *((0.05, sd) for sd in (0.1, 0.2, 0.35, 0.5)),
    *((0.1, sd) for sd in (0.05, 0.1, 0.15, 0.2, 0.25, 0.35, 0.5, 0.7)),
    *((0.2, sd) for sd in (0.1, 0.2, 0.25, 0.35, 0.5, 0.7)),
    *((0.3, sd) for sd in (0.2, 0.35, 0.5, 0.7)),
)
QUICK = ((0.3, 0.35),)
LINE = "{dE:4.2f}  {sd:4.2f}  {fixed:6}  {betting:7}  {quotient:8.2f}  {mean_used:9.1f}  {fewest:6}  {t_wrong:7.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=400, help="simulations for each number of pairs")
    parser.add_argument("--quick", action="store_true", help="one row, few repeats")
    given = parser.parse_args()
    rows = []
    print("  dE    sd   fixed  betting  quotient  mean used  fewest  t wrong")
    for difference, sd in QUICK if given.quick else CORNERS:
        rows.append(row(difference, sd, 40 if given.quick else given.repeats))
        print(LINE.format(**rows[-1]), flush=True)
    print(json.dumps({"power": POWER, "rows": rows}))


def row(difference: float, sd: float, repeats: int) -> dict[str, Any]:
    fixed, fewest = fixed_pairs(difference, sd, power=POWER), fewest_pairs(difference)
    low, high = max(1, fewest // 2), 2 * (fixed + fewest)
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if power(difference, sd, middle, repeats)[0] >= POWER else (middle, high)
    return {
        "dE": difference,
        "sd": sd,
        "fixed": fixed,
        "betting": high,
        "quotient": high / fixed,
        "mean_used": power(difference, sd, high, repeats)[1],
        "fewest": fewest,
        "t_wrong": t_wrong(difference, fixed, repeats * 5),
    }


def power(difference: float, sd: float, num_pairs: int, repeats: int) -> tuple[float, float]:
    """How often the difference is claimed within `num_pairs`, and the pairs used on average; the same draws for each number."""
    claimed = used = 0
    for repeat in range(repeats):
        draw = beta(difference, sd, random.Random(repeat))
        test = MeanTest(horizon=num_pairs)
        while test.count < num_pairs and test.e_value < 20:
            test.add(draw())
        claimed += test.e_value >= 20 and test.direction > 0
        used += test.count
    return claimed / repeats, used / repeats


def beta(mean: float, sd: float, luck: random.Random) -> Callable[[], float]:
    """Differences in [-1, 1]: a beta distribution, stretched."""
    middle = (mean + 1) / 2
    size = middle * (1 - middle) / (sd / 2) ** 2 - 1
    return lambda: 2 * luck.betavariate(middle * size, (1 - middle) * size) - 1


def t_wrong(gain: float, num_pairs: int, repeats: int) -> float:
    """How often a t-test at 0.05 claims a difference between arms that have none: `gain` nearly always, -1 now and then."""
    luck, wrong = random.Random(0), 0
    limit = t_quantile(num_pairs - 1)
    for _ in range(repeats):
        drawn = [-1.0 if luck.random() < gain / (1 + gain) else gain for _ in range(num_pairs)]
        mean = sum(drawn) / num_pairs
        variance = sum((each - mean) ** 2 for each in drawn) / (num_pairs - 1)
        wrong += mean != 0 and abs(mean) > limit * math.sqrt(variance / num_pairs)
    return wrong / repeats


def t_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t: exact for 1 and 2 degrees of freedom, to 0.03 by its expansion from 3 on."""
    if freedom <= 2:
        return (12.706, 4.303)[freedom - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2) + 2.555 / freedom**3


if __name__ == "__main__":
    main()
