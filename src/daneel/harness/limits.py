"""Limits of a run: turns, tokens, seconds, calls per tool. Checked between turns; a request gets the seconds that are left."""

from __future__ import annotations

import time
from collections import Counter

from daneel.harness.definition import Harness
from daneel.harness.run_record import RunUsage
from daneel.harness.stop import Stop
from daneel.wire.messages import Usage


class Meter:
    """What a run has used so far, against its harness's limits."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.turns = 0
        self.usage = RunUsage()
        self.calls: Counter[str] = Counter()
        self._turns_before = self._tokens_before = 0
        self._duration_before_s = 0.0
        self._last_turn_tokens = 0
        self._started = time.monotonic()
        self._before_s = 0.0

    @property
    def duration_s(self) -> float:
        return self._before_s + time.monotonic() - self._started

    def go_on(self, before_s: float) -> None:
        """A run that is resumed has used so many seconds already; what it took to rebuild it does not count."""
        self._started, self._before_s = time.monotonic(), before_s

    def renew(self) -> None:
        """Limits of turns, tokens and seconds count from here on; those of calls count over the whole run."""
        self._turns_before = self.turns
        self._tokens_before = self.usage.total_tokens + self.usage.summary_tokens
        self._duration_before_s = self.duration_s

    def turns_left(self) -> int | None:
        """Turns that may still start; None: any number."""
        limit = self.harness.max_turns
        return None if limit is None else max(0, limit - (self.turns - self._turns_before))

    def is_last_turn(self) -> bool:
        """Whether the turn about to start is the last one, of several: by its number, or because the tokens left are not
        enough for another like it."""
        if self.turns <= self._turns_before:
            return False
        limit = self.harness.max_run_tokens
        left = None if limit is None else limit - (self.usage.total_tokens - self._tokens_before)
        return self.turns_left() in (0, 1) or (left is not None and 0 < left < 2 * self._last_turn_tokens)

    def check(self) -> None:
        """Raises Stop when no further turn may start."""
        harness = self.harness
        if self.turns_left() == 0:
            raise Stop("turn_limit", f"no answer within {harness.max_turns} turns")
        num_tokens = self.usage.total_tokens + self.usage.summary_tokens - self._tokens_before
        if harness.max_run_tokens is not None and num_tokens >= harness.max_run_tokens:
            raise Stop("token_limit", f"{num_tokens} of {harness.max_run_tokens} tokens used")
        if harness.timeout_s is not None and self._elapsed_s >= harness.timeout_s:
            raise Stop("time_limit", f"not done within {harness.timeout_s:g} s")

    def seconds_left(self) -> float | None:
        """What the next request may take."""
        return None if self.harness.timeout_s is None else max(0.001, self.harness.timeout_s - self._elapsed_s)

    @property
    def _elapsed_s(self) -> float:
        return self.duration_s - self._duration_before_s

    def add_usage(self, usage: Usage | None) -> None:
        """Add one turn's usage as the server counted it."""
        if usage is None:
            self.usage.unknown_turns += 1
            return
        self._last_turn_tokens = usage.prompt_tokens + usage.completion_tokens
        self.usage.prompt_tokens += usage.prompt_tokens
        self.usage.completion_tokens += usage.completion_tokens
        self.usage.cached_tokens += usage.prompt_tokens_details.cached_tokens

    def add_summaries(self, *, summaries: int, summary_tokens: int) -> None:
        """Add what it took to have old turns summarised."""
        self.usage.summaries += summaries
        self.usage.summary_tokens += summary_tokens

    def calls_left(self, tool_name: str) -> bool:
        """Whether the tool may be called once more."""
        limit = self.harness.max_calls.get(tool_name)
        return limit is None or self.calls[tool_name] < limit
