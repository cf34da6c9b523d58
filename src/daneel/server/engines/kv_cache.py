"""The KV cache as a pool of cells that sequences share: what a new request need not evaluate, and what must go to make room.

    open()    a sequence for a request: cells of the longest known prefix are shared, not copied
    grow()    tokens were evaluated behind it;  publish()  others may share them now
    close()   the request is over: its sequence stays as cache, or goes
    room()    make room: idle sequences go, those of whoever holds most first (`quotas.py`)

What goes may be kept elsewhere (`tiers`) and comes back with `open()`. Nothing of one tenant is ever given to another.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from daneel.server.engines.base import owner_of
from daneel.server.engines.prefix import common_prefix_length
from daneel.server.engines.prefix_tree import Holder, Node, PrefixTree
from daneel.server.engines.quotas import Wanted, choose_victim

MIN_KEPT_TOKENS = 32
"""Shorter prefixes are not worth keeping elsewhere, nor fetching from there."""


MAX_REMEMBERED = 64
"""Sequences that had to go and are remembered by their tokens, so that a miss can be told as such."""


class CellMemory(Protocol):
    """The native cells. Positions count from 0; `end` and `start` bound half-open ranges of a sequence."""

    def share(self, source: int, target: int, start: int, end: int) -> None:
        """Let `target` hold the cells of `source` in a range, too."""
        ...

    def drop(self, seq: int, start: int, end: int | None = None) -> bool:
        """Let go of a range (to the end by default). False when this model's memory cannot be cut there."""
        ...

    def save(self, seq: int) -> bytes | None:
        """All that a sequence holds, to be restored later; `None` if it cannot be saved."""
        ...

    def restore(self, seq: int, state: bytes) -> bool:
        """Fill an empty sequence with what was saved. False when it does not fit or is not accepted."""
        ...


class Tier(Protocol):
    """Where what left the cells may be kept: host memory, a disk."""

    @property
    def takes(self) -> bool:
        """Whether anything at all would be kept."""
        ...

    def put(self, tenant: str, ids: Sequence[int], state: bytes) -> None: ...

    def longest(self, tenant: str, ids: Sequence[int], *, whole: bool) -> tuple[int, Sequence[int], str] | None:
        """The kept sequence with the longest common prefix: its length, that sequence's ids, a name of the tier; or `None`."""
        ...

    def get(self, tenant: str, ids: Sequence[int]) -> bytes | None:
        """The state of a kept sequence; `None` if it is gone, or was found changed."""
        ...


@dataclass(frozen=True, slots=True)
class Opened:
    """A sequence for a request. `num_cached` tokens of its prompt need not be evaluated; `miss` says why not more of them.

    `source`: "memory" for cells that were there, or the tier they came from; `None` for none.
    """

    holder: Holder
    num_cached: int
    source: str | None
    miss: str | None


class KvCache:
    """`capacity` cells for at most `max_sequences` sequences. One thread uses it.

    `rolls_back` false: this model's state cannot be cut, so only the ends of earlier prompts and turns can be gone on from.
    `max_idle_tokens` bounds what idle sequences hold: attention costs what the highest used cell says.
    """

    def __init__(
        self,
        memory: CellMemory,
        *,
        capacity: int,
        max_sequences: int,
        rolls_back: bool = True,
        max_idle_tokens: int | None = None,
        tiers: Sequence[Tier] = (),
        text_of: Callable[[int], str] = str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tree = PrefixTree()
        self.capacity = capacity
        self.max_idle_tokens = max_idle_tokens
        self._memory = memory
        self._rolls_back = rolls_back
        self._tiers = tiers
        self._text_of = text_of
        self._clock = clock
        self._free_seqs = list(range(max_sequences))[::-1]
        self._holders: set[Holder] = set()
        self._max_sequences = max_sequences
        self._evicted: deque[tuple[str, list[int]]] = deque(maxlen=MAX_REMEMBERED)
        self._uses = 0

    # -- figures --------------------------------------------------------------------------------------------------------

    @property
    def num_used(self) -> int:
        """Cells in use."""
        return self.tree.num_tokens + sum(len(holder.own) for holder in self._holders)

    @property
    def num_free(self) -> int:
        return self.capacity - self.num_used

    def entries(self, tenant: str) -> list[Holder]:
        """The tenant's sequences that no request uses, the latest used first."""
        idle = [holder for holder in self._holders if holder.tenant == tenant and not holder.running]
        return sorted(idle, key=lambda holder: -holder.used_at)

    # -- a request's way ------------------------------------------------------------------------------------------------

    def longest(self, tenant: str, ids: Sequence[int]) -> int:
        """How many tokens of `ids` are in the cells now."""
        return self.tree.match(tenant, ids, whole=not self._rolls_back)[0]

    def open(self, tenant: str, ids: Sequence[int], *, use: bool = True, keep: bool = True, reserve: int = 0) -> Opened | None:
        """A sequence for a prompt; `None` when running requests leave none, or too few cells. One token is left to evaluate.

        `keep` false: it will leave nothing, so what it goes on from must stay. `reserve`: cells that it and its cached prefix
        together need now.
        """
        wanted = self._wanted(tenant)
        if not self._free_seqs and not self._evict_one(replace(wanted, sequences=True, total=self._max_sequences)):
            return None
        whole = not self._rolls_back
        usable = ids[: len(ids) - 1]
        length, source = self.tree.match(tenant, usable, whole=whole) if use else (0, None)
        came_from = "memory" if length else None
        kept = self._kept_elsewhere(tenant, usable, length) if use else None
        if kept is not None and (fetched := self._fetch(tenant, wanted, usable, *kept)):
            length, source, came_from = fetched
        elif kept is not None:  # the room made for it in vain may have cost what was found
            length, source = self.tree.match(tenant, usable, whole=whole)
            came_from = "memory" if length else None
        if not self._free_seqs and not self._evict_one(replace(wanted, sequences=True, total=self._max_sequences), source):
            return None
        miss = self._miss(tenant, ids, length, use)
        holder = self._enter(tenant, source, length)
        if source is not None:
            self._memory.share(source.seq, holder.seq, 0, length)
            self._touch(source)
        # only now, when the common prefix is held here, too: what stands behind it in the source may be what is in the way
        contained = source if source is not None and source.num_tokens <= length else None
        if not self._make_room(max(0, reserve - length), wanted, but=contained):
            self._remove(holder)
            return None
        if keep and contained is not None and self._rolls_back and self._may_go(contained):
            self._remove(contained)  # the new one keeps all that it has
        return Opened(holder, length, came_from, miss)

    def grow(self, holder: Holder, ids: Sequence[int]) -> None:
        """These tokens were evaluated behind the holder's last."""
        holder.own += ids

    def publish(self, holder: Holder) -> None:
        """Let others share all that the holder has; cells that another holder has for the same tokens are shared instead."""
        if not self._rolls_back:
            self.tree.publish(holder, apart=True)
            return
        known, who = self.tree.known_behind(holder)
        if known and who is not None:
            start = holder.num_shared
            if not self._memory.drop(holder.seq, start, start + known):
                return  # its cells stay its own: they cannot be exchanged for the other's
            self._memory.share(who.seq, holder.seq, start, start + known)
        self.tree.publish(holder)

    def checkpoint(self, holder: Holder) -> None:
        """For models that cannot be cut back: keep the state as it is here, besides going on with it."""
        wanted = Wanted(owner_of(holder.tenant), self._max_sequences, sequences=True, num_own=1)
        if self._rolls_back or (not self._free_seqs and not self._evict_one(wanted, holder)):
            return
        self.publish(holder)
        if holder.own:
            return
        copy = self._enter(holder.tenant, holder, holder.num_shared)
        self._memory.share(holder.seq, copy.seq, 0, holder.num_shared)
        copy.running = False

    def close(self, holder: Holder, *, keep: bool = True, pin_s: float = 0.0) -> None:
        """The request is over. What it holds stays as cache, or goes."""
        holder.running = False
        if not self._rolls_back and holder.own and self.longest(holder.tenant, holder.ids()) == holder.num_tokens:
            keep = False  # another ends just there
        self.publish(holder)
        if not keep or holder.own:
            self._remove(holder)
            return
        self._touch(holder)
        holder.pinned_until = self._clock() + pin_s if pin_s > 0 else 0.0
        self._drop_covered(holder)
        self.trim(holder)

    def trim(self, latest: Holder | None = None) -> None:
        """Keep to `max_idle_tokens`; `latest`, a sequence that has just become idle, stays."""
        while self.max_idle_tokens is not None and self._num_idle() > self.max_idle_tokens:
            wanted = Wanted(owner_of(latest.tenant) if latest else None, self.max_idle_tokens, num_own=1)
            if not self._evict_one(wanted, latest, among_idle=True):
                break

    def room(self, num_cells: int, tenant: str | None = None) -> bool:
        """Make sure that so many cells are free, for a running request of a tenant, or for all that run.

        False when only what is running, pinned or within another tenant's share is left to go.
        """
        return self.num_free >= num_cells or self._make_room(num_cells, self._wanted(tenant, num_asking=1))

    def clear(self, tenant: str | None = None) -> int:
        """Drop what is idle (of one tenant, or of all), pins too. Returns how many tokens went."""
        before = self.num_used
        kept = [each for each in self._evicted if tenant not in (None, each[0])]
        self._evicted = deque(kept, maxlen=MAX_REMEMBERED)
        for holder in [each for each in self._holders if not each.running and tenant in (None, each.tenant)]:
            self._remove(holder)
        return before - self.num_used

    def save_all(self) -> None:
        """Keep what is idle elsewhere, too: the cells are about to go."""
        for holder in sorted(self._holders, key=_used_at):
            if not holder.running:
                self._keep_elsewhere(holder)

    def forget_all(self) -> None:
        """The native cells are gone: nothing is held any more, by anybody."""
        self._free_seqs += [holder.seq for holder in self._holders]
        self._holders.clear()
        self.tree = PrefixTree()

    # -- within ---------------------------------------------------------------------------------------------------------

    def _enter(self, tenant: str, source: Holder | None, length: int) -> Holder:
        holder = Holder(self._free_seqs.pop(), tenant, Node(), created_at=self._clock())
        self.tree.enter(holder, source, length)
        self._holders.add(holder)
        self._touch(holder)
        return holder

    def _touch(self, holder: Holder) -> None:
        self._uses += 1
        holder.used_at = self._uses

    def _remove(self, holder: Holder) -> None:
        self._memory.drop(holder.seq, 0)
        self.tree.remove(holder)
        self._holders.discard(holder)
        self._free_seqs.append(holder.seq)

    def _drop_covered(self, holder: Holder) -> None:
        """Idle sequences that end on the way to this one are part of it."""
        if not self._rolls_back:
            return
        node: Node | None = holder.node
        while node is not None:
            for other in [each for each in node.holders if each is not holder and self._may_go(each) and not each.own]:
                self._remove(other)
            node = node.parent

    def _may_go(self, holder: Holder) -> bool:
        return not holder.running and holder.pinned_until <= self._clock()

    def _num_idle(self) -> int:
        """Tokens that only idle sequences hold."""
        running = [holder for holder in self._holders if holder.running]
        nodes: set[Node] = set()
        for holder in running:
            node: Node | None = holder.node
            while node is not None and node not in nodes:
                nodes.add(node)
                node = node.parent
        return self.tree.num_tokens - sum(len(node.run) for node in nodes)

    def _wanted(self, tenant: str | None, *, num_asking: int = 0) -> Wanted:
        """Cells for a tenant. `num_asking`: how many of the running requests are the one that asks."""
        running = [owner_of(holder.tenant) for holder in self._holders if holder.running]
        owner = owner_of(tenant) if tenant is not None else None
        num_own = running.count(owner or "") - num_asking
        return Wanted(owner, self.capacity, num_running=len(running) - num_asking, num_own=num_own)

    def _make_room(self, num_cells: int, wanted: Wanted, but: Holder | None = None) -> bool:
        while self.num_free < num_cells:
            if not self._evict_one(wanted, but):
                return False
        return True

    def _evict_one(self, wanted: Wanted, but: Holder | None = None, *, among_idle: bool = False) -> bool:
        """One idle sequence goes. `among_idle`: only what idle sequences hold counts as held."""
        holders = [holder for holder in self._holders if not (among_idle and holder.running)]
        victim = choose_victim(holders, wanted, now=self._clock(), but=but)
        if victim is None:
            return False
        self._keep_elsewhere(victim)
        self._evicted.append((victim.tenant, victim.ids()))
        self._remove(victim)
        return True

    def _keep_elsewhere(self, holder: Holder) -> None:
        private = holder.tenant != owner_of(holder.tenant)
        if private or holder.num_tokens < MIN_KEPT_TOKENS or not any(tier.takes for tier in self._tiers):
            return
        state = self._memory.save(holder.seq)
        if state is not None:
            self._tiers[0].put(holder.tenant, holder.ids(), state)

    def _kept_elsewhere(self, tenant: str, ids: Sequence[int], length: int) -> tuple[Tier, int, Sequence[int], str] | None:
        """The tier that has clearly more of the prompt than the cells have."""
        best: tuple[Tier, int, Sequence[int], str] | None = None
        for tier in self._tiers:
            found = tier.longest(tenant, ids, whole=not self._rolls_back)
            if found is not None and found[0] >= max(length, best[1] if best else 0) + MIN_KEPT_TOKENS:
                best = (tier, *found)
        return best

    def _fetch(
        self, tenant: str, wanted: Wanted, ids: Sequence[int], tier: Tier, length: int, kept: Sequence[int], name: str
    ) -> tuple[int, Holder, str] | None:
        """Bring a kept sequence back into the cells, as an idle one to share from."""
        state = tier.get(tenant, kept)
        if state is None or not self._make_room(len(kept), wanted):
            return None
        if not self._free_seqs and not self._evict_one(replace(wanted, sequences=True, total=self._max_sequences)):
            return None
        seq = self._free_seqs.pop()
        if not self._memory.restore(seq, state):
            self._memory.drop(seq, 0)
            self._free_seqs.append(seq)
            return None
        self._free_seqs.append(seq)
        holder = self._enter(tenant, None, 0)
        holder.own = list(kept)
        holder.running = False
        self.publish(holder)
        return length, holder, name

    def _miss(self, tenant: str, ids: Sequence[int], length: int, use: bool) -> str | None:
        """Why no more of the prompt was known."""
        if not use:
            return "off"
        if length >= len(ids) - 1:
            return None
        if any(common_prefix_length(gone, ids) > length for owner, gone in self._evicted if owner == tenant):
            return "evicted"
        others = [holder for holder in self._holders if holder.tenant == tenant and holder.num_tokens > length]
        newest_first = sorted(others, key=_used_at, reverse=True)
        latest = next((each for each in newest_first if each.ids()[:length] == list(ids[:length])), None)
        if latest is None or latest.own:
            return "cold" if length == 0 else None
        before = latest.ids()[length]
        if before == ids[length]:
            return "this model's memory cannot go back to an earlier token"
        return f"token {length} differs: {self._text_of(before)} before, {self._text_of(ids[length])} now"


def _used_at(holder: Holder) -> int:
    return holder.used_at
