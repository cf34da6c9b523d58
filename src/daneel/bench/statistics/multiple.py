"""Several comparisons at once: which of them may be claimed?"""

from __future__ import annotations

from collections.abc import Sequence


def e_bh(e_values: Sequence[float], alpha: float = 0.05) -> list[bool]:
    """For each e-value whether its hypothesis is rejected. Of all rejections, at most a share `alpha` is expected to be wrong.

    Rejected are the k largest of m, for the largest k such that the k-th is at least m/(k alpha). It holds however the e-values
    depend on each other, as those of arms that share their trials do, and whenever each of them was stopped. Source: R. Wang,
    A. Ramdas, "False discovery rate control with e-values" (JRSS B, 2022).
    """
    count = len(e_values)
    largest_first = sorted(e_values, reverse=True)
    num_rejected = max((k for k, e in enumerate(largest_first, start=1) if k * e >= count / alpha), default=0)
    if not num_rejected:
        return [False] * count
    return [e >= largest_first[num_rejected - 1] for e in e_values]
