"""The same call with the same result, again and again: A-A-A, and in turns, A-B-A-B."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from daneel.harness.detectors.base import Firing, Seen, grade_at
from daneel.harness.policy import Recovery

MAX_REMEMBERED = 64
"""Calls the detector remembers: the longest cycle it can find."""


class RepeatedCall:
    """Counts in how many turns the same call gave the same result, with nothing new between.

    Anything new (another call, or another result) shows progress and starts the counts afresh; so A-B-A-B is found as well
    as A-A-A. Several same calls in one turn count once. Calls of tools that may repeat are not looked at, nor those that were
    not made, but for one that was made before and is now out of the model's sight: that counts as the same once more.
    """

    def __init__(self, policy: Recovery) -> None:
        self._policy = policy
        self._counts: dict[str, int] = {}
        self._results: dict[str, str] = {}
        self._last_turn: frozenset[str] = frozenset()

    def turn(self, calls: Sequence[Seen]) -> list[Firing]:
        policy = self._policy
        counts = self.counted(calls)
        firings = []
        for place, (call, count) in enumerate(zip(calls, counts, strict=True)):
            if count >= policy.repeat_note_at:
                firings.append(self._firing("note", count, call, place))
        # only when every call of the turn was a repeat is the model stuck
        grade = grade_at(min(counts), policy.repeat_note_at, policy.repeat_hide_at, policy.repeat_stop_at)
        if grade in ("hide", "stop"):
            names = tuple(dict.fromkeys(call.name for call in calls))
            detail = f"{names[0]} was called {min(counts)} times with the same arguments and the same result"
            firings.append(Firing(self._kind, grade, min(counts), names, detail))
        return firings

    def counted(self, calls: Sequence[Seen]) -> list[int]:
        """In how many turns each call has had its result, this one included; 0 for calls that are not looked at."""
        keys = [self._key(call) for call in calls]
        seen = frozenset(key for key in keys if key is not None)
        self._kind = "repeated_call" if seen == self._last_turn else "cycle"
        self._last_turn = seen or self._last_turn
        now = list(dict.fromkeys(key for key in keys if key is not None))
        if any(key not in self._counts for key in now):
            kept = [key for key in self._counts if key not in seen][len(now) - MAX_REMEMBERED :]
            self._counts = {**dict.fromkeys(kept, 0), **dict.fromkeys(now, 0)}
        for key in now:
            self._counts[key] += 1
        return [0 if key is None else self._counts[key] for key in keys]

    def _key(self, call: Seen) -> str | None:
        """The call and its result; None if it does not count."""
        if call.may_repeat:
            return None
        asked = _hash([call.name, call.arguments])
        if not call.was_made:
            return self._results.get(asked)
        key = _hash([asked, call.result])
        self._results.pop(asked, None)
        self._results[asked] = key
        if len(self._results) > MAX_REMEMBERED:
            del self._results[next(iter(self._results))]
        return key

    def _firing(self, grade: Any, count: int, call: Seen, place: int) -> Firing:
        detail = f"{call.name} was called {count} times with the same arguments and the same result"
        return Firing(self._kind, grade, count, (call.name,), detail, place)


def _hash(value: Any) -> str:
    return hashlib.blake2b(
        json.dumps(value, sort_keys=True, default=str).encode("utf-8", "replace"), digest_size=16
    ).hexdigest()
