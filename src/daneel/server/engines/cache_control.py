"""An engine's prompt cache as its owner sees it: what is kept of a tenant, dropping it, and changing limits while it runs.

Called between steps, by the thread that steps the engine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from daneel.server.engines.cache_state import CacheEntry, CacheLimits
from daneel.server.engines.cache_tiers import Tiers
from daneel.server.engines.kv_cache import KvCache


@dataclass(frozen=True, slots=True)
class CacheControl:
    """Over a cache's cells and its tiers. `bytes_per_token`: of the cells."""

    cells: KvCache
    tiers: Tiers
    bytes_per_token: int
    clock: Callable[[], float] = time.monotonic

    def entries(self, tenant: str) -> list[CacheEntry]:
        """What is kept of a tenant and no request uses, the quickest tier first, in each the latest used first."""
        now = self.clock()
        found = [
            CacheEntry(
                "memory",
                holder.num_tokens,
                holder.num_tokens * self.bytes_per_token,
                max(0.0, now - holder.created_at),
                max(0.0, holder.pinned_until - now),
            )
            for holder in self.cells.entries(tenant)
        ]
        return [*found, *(entry for tier in self.tiers.all for entry in tier.entries(tenant))]

    def clear(self, tenant: str) -> list[CacheEntry]:
        """Drop what is kept of a tenant, pins too; what running requests use stays. Returns what there was."""
        gone = self.entries(tenant)
        self.cells.clear(tenant)
        for tier in self.tiers.all:
            tier.clear(tenant)
        return gone

    @property
    def limits(self) -> CacheLimits:
        memory, disk = self.tiers.memory, self.tiers.disk
        max_disk_bytes = disk.max_bytes if disk is not None else None
        return CacheLimits(self.cells.max_idle_tokens, memory.max_entries, memory.max_bytes, max_disk_bytes)

    def resize(self, limits: CacheLimits) -> CacheLimits:
        """Set the limits. What a tier has no room for any more moves to the one below. Returns what holds now."""
        memory, disk = self.tiers.memory, self.tiers.disk
        # first all of them, so that what leaves a tier finds the room that there is going to be below
        self.cells.max_idle_tokens = limits.max_idle_tokens
        memory.max_entries, memory.max_bytes = limits.max_entries, limits.max_bytes
        if disk is not None and limits.max_disk_bytes is not None:
            disk.max_bytes = limits.max_disk_bytes
        self.cells.trim()
        memory.trim()
        if disk is not None:
            disk.trim()
        return self.limits
