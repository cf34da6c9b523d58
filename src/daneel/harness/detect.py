"""Detectors: what a model does when it is stuck. Pure; the loop decides what follows and records every firing.

Each is a file of `detectors/`. Those that look at calls are asked here after every turn; the one that looks at text while it
streams is `detectors/repeating_text.py`, the one for announced calls `detectors/announced.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from daneel.harness.detectors.base import CallDetector, Firing, Seen
from daneel.harness.detectors.no_progress import NoProgress
from daneel.harness.detectors.repeated_call import RepeatedCall
from daneel.harness.policy import Recovery


class Detectors:
    """All detectors that look at calls."""

    def __init__(self, policy: Recovery) -> None:
        self._policy = policy
        self._all: tuple[CallDetector, ...] = (RepeatedCall(policy), NoProgress(policy))

    def forget_results(self) -> None:
        """Old results went out of the model's sight: to ask for one again is no repetition, to do nothing else still is."""
        self._all = (RepeatedCall(self._policy), *self._all[1:])

    def turn(self, calls: Sequence[Seen]) -> list[Firing]:
        """What fires with the calls of one turn, the gravest last."""
        firings = [firing for detector in self._all for firing in detector.turn(calls)] if calls else []
        return sorted(firings, key=lambda firing: ("note", "hide", "stop").index(firing.grade))
