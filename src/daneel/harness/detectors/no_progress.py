"""Turn after turn of calls that bring nothing new: all of them errors, or asked before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from daneel.harness.detectors.base import Firing, Seen, grade_at
from daneel.harness.policy import Recovery

MAX_REMEMBERED = 4096
"""Different calls the detector remembers."""


class NoProgress:
    """Counts turns in a row in which no call was both new (tool and arguments not seen in this run) and without an error.

    It finds what `RepeatedCall` cannot: the same question whose answer changes (a clock, a counter), and a model that tries
    one wrong call after the other. A turn that calls a tool that may repeat is waiting, not stuck: it is passed over.
    """

    def __init__(self, policy: Recovery) -> None:
        self._policy = policy
        self._asked: dict[str, None] = {}
        self._stale = 0

    def turn(self, calls: Sequence[Seen]) -> list[Firing]:
        if any(call.may_repeat for call in calls):
            return []
        progressed = [self._is_new(call) and not call.is_error for call in calls]
        self._stale = 0 if any(progressed) else self._stale + 1
        policy = self._policy
        grade = grade_at(self._stale, policy.stale_note_at, policy.stale_hide_at, policy.stale_stop_at)
        if grade is None or self._stale not in (policy.stale_note_at, policy.stale_hide_at, policy.stale_stop_at):
            return []
        detail = f"{self._stale} turns in a row brought nothing new: every call was an error or had been made before"
        return [Firing("no_progress", grade, self._stale, tuple(dict.fromkeys(call.name for call in calls)), detail)]

    def _is_new(self, call: Seen) -> bool:
        text = json.dumps([call.name, call.arguments], sort_keys=True, default=str)
        key = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
        if key in self._asked:
            return False
        self._asked[key] = None
        if len(self._asked) > MAX_REMEMBERED:
            del self._asked[next(iter(self._asked))]
        return True
