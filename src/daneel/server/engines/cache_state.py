"""What can be asked of an engine's prompt cache, and changed while it runs: a tenant's entries, and the limits of all."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

CacheTier = Literal["memory", "host_memory", "disk"]


class CacheEntry(Struct, frozen=True):
    """One kept sequence: a conversation up to some turn. `age_s` since it was kept there, `pinned_s` how long it still must be.

    Entries of the tier "memory", the KV cells, share what they have in common; `bytes` counts it for each of them.
    """

    tier: CacheTier
    tokens: int
    bytes: int
    age_s: float
    pinned_s: float = 0.0


class CacheLimits(Struct, frozen=True):
    """For all tenants together. `max_idle_tokens`: in the cells, of what no request uses (`None`: as many as there are cells).

    `max_entries` and `max_bytes` are host memory's. `max_disk_bytes` `None`: there is no folder for a disk tier.
    """

    max_idle_tokens: int | None
    max_entries: int
    max_bytes: int
    max_disk_bytes: int | None
