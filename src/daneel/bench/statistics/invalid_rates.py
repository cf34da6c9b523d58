"""Do the two arms of a comparison lose trials at the same rate? If not, what is left of them is not comparable."""

from __future__ import annotations

import math


def one_sided_losses(only_first: int, only_second: int) -> float:
    """The e-value against "in a pair where one arm alone had an invalid attempt, it is as likely either".

    Pairs in which both had one, or neither, say nothing of the difference. It is the mean likelihood ratio over all
    probabilities p that it is the first arm, uniformly, against p = 1/2:

        e = 2^n a! b! / (n + 1)!,           a, b: the two counts, n = a + b

    As with every e-value that is followed over time, 1/alpha is reached with probability at most alpha whenever one looks.
    With alpha = 0.05 that is first at 8 to 0, 11 to 1, 14 to 2.
    """
    total = only_first + only_second
    log_e = total * math.log(2) + math.lgamma(only_first + 1) + math.lgamma(only_second + 1) - math.lgamma(total + 2)
    return math.exp(min(log_e, 600.0))
