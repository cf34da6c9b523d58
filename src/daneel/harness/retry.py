"""When a request is sent again, and after how long."""

from __future__ import annotations

import random
from dataclasses import dataclass

from daneel.harness.client_errors import ClientError, ServerBusy, ServerUnreachable, StreamBroken


@dataclass(frozen=True)
class RetryPolicy:
    """Up to `max_retries` further sendings, after pauses that double from `first_s` to `longest_s`, each shortened at random
    so that many clients do not come back at once. A server's `Retry-After` is a lower limit; one longer than
    `max_retry_after_s` ends it. A server that was never reached is tried once more only: it is most likely not there; one
    that drops the connection twice more only: a request that makes a server crash does so every time.

    Where there are several servers, the next one is asked at once, and the pauses are between rounds through all of them. Only
    one that is busy, and free again within `stay_s`, is waited for once: it holds the conversation in its cache.
    """

    max_retries: int = 5
    first_s: float = 0.5
    longest_s: float = 20.0
    max_retry_after_s: float = 120.0
    stay_s: float = 5.0

    def pause_s(self, error: ClientError, num_retries: int, *, reached: bool) -> float | None:
        """Seconds to wait before sending again after `error`, or `None`: give up."""
        allowed = self.max_retries
        if isinstance(error, StreamBroken):
            allowed = min(2, allowed)
        elif isinstance(error, ServerUnreachable) and not reached:
            allowed = min(1, allowed)
        if not error.retryable or num_retries >= allowed:
            return None
        backoff_s = min(self.longest_s, self.first_s * 2.0**num_retries) * random.uniform(0.5, 1.0)
        after_s = error.retry_after_s if isinstance(error, ServerBusy) else None
        if after_s is None:
            return backoff_s
        if after_s > self.max_retry_after_s:
            return None
        return after_s + 0.1 * backoff_s
