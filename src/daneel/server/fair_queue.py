"""Who is next: higher priority first, then the tenant that has waited longest, then first in, first out."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from daneel.server.engines.base import Generate, owner_of


@dataclass(frozen=True, slots=True)
class Queued:
    """A request that waits. `queued_at`: seconds of the monotonic clock."""

    request: Generate
    queued_at: float
    arrival: int


class FairQueue:
    """A tenant with many requests waiting does not hold up one with few: between tenants, turns alternate."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waiting: dict[int, Queued] = {}
        self._arrivals = itertools.count()
        self._turns = itertools.count(1)
        self._served: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, request: Generate) -> None:
        self._waiting[request.request_id] = Queued(request, self._clock(), next(self._arrivals))

    def remove(self, request_id: int) -> bool:
        """Whether it was waiting."""
        return self._waiting.pop(request_id, None) is not None

    def take(self) -> Queued:
        """The next. `LookupError` when none waits."""
        if not self._waiting:
            raise LookupError("nothing waits")
        chosen = min(self._waiting.values(), key=self._rank)
        del self._waiting[chosen.request.request_id]
        self._served[owner_of(chosen.request.tenant)] = next(self._turns)
        if len(self._served) > 2 * len(self._waiting) + 64:
            waiting = {owner_of(queued.request.tenant) for queued in self._waiting.values()}
            self._served = {tenant: turn for tenant, turn in self._served.items() if tenant in waiting}
        return chosen

    def _rank(self, queued: Queued) -> tuple[int, int, int]:
        request = queued.request
        return -request.priority, self._served.get(owner_of(request.tenant), 0), queued.arrival
