"""Who must make room in a cache: equal shares for the tenants that use it, so that nobody's flood takes what is another's.

A tenant's share is the whole divided by the tenants that hold some of it. Whoever holds most loses first, the longest unused
first; who holds no more than the share loses nothing to others, with two exceptions so that nobody waits for ever: a tenant's
only running request may take others' idle sequences, and a request that runs alone may take pinned ones.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from daneel.server.engines.base import owner_of
from daneel.server.engines.prefix_tree import Holder, Node

Key = TypeVar("Key", bound=Hashable)

MAX_PINNED_SHARE = 0.5
"""Of a tenant's share. Pins beyond it, those longest unused, count for nothing."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """For whom room is made: an owner (`None`: for all that run), and of what, `total` being all there is.

    `num_running`: requests that run besides the one room is made for, of all tenants; `num_own`: of this one.
    """

    tenant: str | None
    total: int
    sequences: bool = False
    num_running: int = 1
    num_own: int = 0


def tokens_held(holders: Iterable[Holder]) -> dict[str, int]:
    """Cells by tenant, each counted once however many of the tenant's sequences share it."""
    held: dict[str, int] = {}
    seen: set[Node] = set()
    for holder in holders:
        way = _new_nodes(holder, seen)
        seen.update(way)
        owner = owner_of(holder.tenant)
        held[owner] = held.get(owner, 0) + len(holder.own) + sum(len(node.run) for node in way)
    return held


def choose_victim(holders: Sequence[Holder], wanted: Wanted, *, now: float, but: Holder | None = None) -> Holder | None:
    """The idle sequence that must go; `None` if none has to."""
    held = _sequences_held(holders) if wanted.sequences else tokens_held(holders)
    num_tenants = len(held) + (wanted.tenant is not None and wanted.tenant not in held)
    share = wanted.total / max(1, num_tenants)
    pinned = _pinned(holders, share * MAX_PINNED_SHARE, wanted.sequences, now)
    idle = [each for each in holders if not each.running and each is not but]
    free = [each for each in idle if each not in pinned]
    over = [each for each in free if held[owner_of(each.tenant)] > share or owner_of(each.tenant) == wanted.tenant]
    may_go = over
    if not may_go and (wanted.tenant is None or not wanted.num_own):
        may_go = free
    if not may_go and wanted.tenant is not None and not wanted.num_running:
        may_go = idle
    if not may_go:
        return None
    return min(may_go, key=lambda each: (-held[owner_of(each.tenant)], each.used_at))


def oldest_of_greediest(kept: Iterable[tuple[tuple[str, Key], int]]) -> tuple[str, Key]:
    """What must go of things kept by tenant, given with their sizes, the longest unused first. `kept` must not be empty."""
    held: dict[str, int] = {}
    oldest: dict[str, tuple[str, Key]] = {}
    for key, size in kept:
        held[key[0]] = held.get(key[0], 0) + size
        oldest.setdefault(key[0], key)
    return oldest[max(held, key=held.__getitem__)]


def _sequences_held(holders: Iterable[Holder]) -> dict[str, int]:
    held: dict[str, int] = {}
    for holder in holders:
        held[owner_of(holder.tenant)] = held.get(owner_of(holder.tenant), 0) + 1
    return held


def _pinned(holders: Iterable[Holder], limit: float, sequences: bool, now: float) -> set[Holder]:
    """Idle sequences whose pins count: the latest used of each tenant, up to `limit`."""
    counted: set[Holder] = set()
    seen: set[Node] = set()
    held: dict[str, int] = {}
    asked = [each for each in holders if not each.running and each.pinned_until > now]
    for holder in sorted(asked, key=lambda each: -each.used_at):
        way = _new_nodes(holder, seen)
        size = 1 if sequences else len(holder.own) + sum(len(node.run) for node in way)
        if held.get(holder.tenant, 0) + size <= limit:
            held[holder.tenant] = held.get(holder.tenant, 0) + size
            seen.update(way)
            counted.add(holder)
    return counted


def _new_nodes(holder: Holder, seen: set[Node]) -> list[Node]:
    """The nodes on the holder's way that nobody passed before."""
    way = []
    node: Node | None = holder.node
    while node is not None and node not in seen:
        way.append(node)
        node = node.parent
    return way
