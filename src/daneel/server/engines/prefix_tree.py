"""Which tokens are in the KV cache, and which sequences hold them: a radix tree over token ids, one root for each tenant.

A *holder* is a native sequence whose cells are all tokens from its root to its place in the tree; sequences that pass through a
node share its cells. Every node lies on the way to some holder, so that whatever is found in the tree can be copied from one.
Pure: cells are moved by `kv_cache.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from daneel.server.engines.prefix import common_prefix_length


@dataclass(eq=False, slots=True)
class Node:
    """`run` are the tokens from `start` on, behind those of the nodes above. A root's run is empty.

    `key`: its own among the children of its parent: its first token, or a negative number for one that stands apart.
    """

    start: int = 0
    run: list[int] = field(default_factory=list)
    parent: Node | None = None
    children: dict[int, Node] = field(default_factory=dict)
    holders: list[Holder] = field(default_factory=list)
    key: int = 0

    @property
    def end(self) -> int:
        return self.start + len(self.run)


@dataclass(eq=False, slots=True)
class Holder:
    """One native sequence. `node` is where it ends in the tree; `own` are tokens behind that, which nobody shares yet.

    `used_at` counts uses; `running`: a request goes on with it. `pinned_until`: seconds of the monotonic clock.
    """

    seq: int
    tenant: str
    node: Node
    own: list[int] = field(default_factory=list)
    running: bool = True
    used_at: int = 0
    pinned_until: float = 0.0
    created_at: float = 0.0

    @property
    def num_shared(self) -> int:
        """Tokens in the tree."""
        return self.node.end

    @property
    def num_tokens(self) -> int:
        return self.node.end + len(self.own)

    def ids(self) -> list[int]:
        """All its tokens."""
        runs: list[list[int]] = []
        node: Node | None = self.node
        while node is not None:
            runs.append(node.run)
            node = node.parent
        return [token for run in reversed(runs) for token in run] + self.own


class PrefixTree:
    """`num_tokens` counts each token in the tree once, however many holders share it."""

    def __init__(self) -> None:
        self.num_tokens = 0
        self._num_apart = 0
        self._roots: dict[str, Node] = {}

    def match(self, tenant: str, ids: Sequence[int], *, whole: bool = False) -> tuple[int, Holder | None]:
        """The longest prefix of `ids` in the tenant's tree, and a holder of it.

        `whole`: only where a holder ends, with nothing of its own behind: for models whose state cannot be cut back.
        """
        root = self._roots.get(tenant)
        if root is None:
            return 0, None
        if whole:
            return _longest_end(root, ids)
        node, at = root, 0
        while at < len(ids) and (child := node.children.get(ids[at])) is not None:
            common = common_prefix_length(child.run, ids[at : at + len(child.run)])
            at += common
            if common < len(child.run):
                return at, _some_holder(child)
            node = child
        return at, _some_holder(node) if at else None

    def enter(self, holder: Holder, source: Holder | None, length: int) -> None:
        """Put a new holder where the first `length` tokens of `source` end (at its tenant's root without one)."""
        if source is None:
            root = self._roots.setdefault(holder.tenant, Node())
            holder.node = root
        else:
            holder.node = self._split_at(source.node, length)
        holder.node.holders.append(holder)

    def known_behind(self, holder: Holder) -> tuple[int, Holder | None]:
        """How many of the holder's own tokens somebody else already has in the tree behind its place, and who."""
        node, at, own = holder.node, 0, holder.own
        who: Holder | None = None
        while at < len(own):
            child = node.children.get(own[at])
            if child is None:
                break
            common = common_prefix_length(child.run, own[at : at + len(child.run)])
            at += common
            who = _some_holder(child)
            if common < len(child.run):
                break
            node = child
        return at, who

    def publish(self, holder: Holder, *, apart: bool = False) -> None:
        """Move the holder's own tokens into the tree, where others can share them; what is there already is shared.

        `apart`: its cells cannot be exchanged for another's of the same tokens, so they stand beside those and count again.
        """
        known, who = (0, None) if apart else self.known_behind(holder)
        if known and who is not None:
            self._move(holder, self._split_at(who.node, holder.num_shared + known))
            del holder.own[:known]
        if not holder.own:
            return
        node = holder.node
        self.num_tokens += len(holder.own)
        if node.parent is not None and not node.children and node.holders == [holder]:
            node.run += holder.own
        else:
            child = Node(node.end, holder.own, node, key=holder.own[0])
            if child.key in node.children:
                self._num_apart += 1
                child.key = -self._num_apart
            node.children[child.key] = child
            self._move(holder, child)
        holder.own = []

    def remove(self, holder: Holder) -> int:
        """Take the holder out, and with it what only it held. Returns how many tokens are held no more, its own included."""
        before = self.num_tokens + len(holder.own)
        node = holder.node
        node.holders.remove(holder)
        holder.own = []
        self._prune(node)
        return before - self.num_tokens

    def holders(self) -> Iterator[Holder]:
        """All of them."""
        stack = list(self._roots.values())
        while stack:
            node = stack.pop()
            yield from node.holders
            stack += node.children.values()

    def _move(self, holder: Holder, node: Node) -> None:
        old = holder.node
        old.holders.remove(holder)
        holder.node = node
        node.holders.append(holder)
        self._prune(old)

    def _prune(self, node: Node) -> None:
        """Drop nodes that lead to no holder; join one that only passes on with its only child."""
        while not node.holders and not node.children:
            parent = node.parent
            if parent is None:
                self._roots = {tenant: root for tenant, root in self._roots.items() if root is not node}
                return
            del parent.children[node.key]
            self.num_tokens -= len(node.run)
            node = parent
        if node.parent is not None and not node.holders and len(node.children) == 1:
            (child,) = node.children.values()
            child.run = node.run + child.run
            child.start, child.parent, child.key = node.start, node.parent, node.key
            node.parent.children[child.key] = child

    def _split_at(self, node: Node, end: int) -> Node:
        """The node on the way to `node` that ends at `end`; one is cut in two if none does."""
        while node.start >= end and node.parent is not None:
            node = node.parent
        if node.end == end:
            return node
        cut = end - node.start
        upper = Node(node.start, node.run[:cut], node.parent, key=node.key)
        assert node.parent is not None
        node.parent.children[upper.key] = upper
        node.start, node.run, node.parent = end, node.run[cut:], upper
        node.key = node.run[0]
        upper.children[node.key] = node
        return upper


def _longest_end(root: Node, ids: Sequence[int]) -> tuple[int, Holder | None]:
    """Where on the way of `ids` a holder ends, as far down as can be, and which. Several ways may have the same tokens."""
    best: tuple[int, Holder | None] = (0, None)
    ways = [root]
    while ways:
        node = ways.pop()
        if node.end > best[0] and (ended := next((holder for holder in node.holders if not holder.own), None)):
            best = node.end, ended
        below = node.children.values()
        ways += [each for each in below if common_prefix_length(each.run, ids[node.end : each.end]) == len(each.run)]
    return best


def _some_holder(node: Node) -> Holder | None:
    """A holder whose way leads through the node."""
    while not node.holders:
        if not node.children:
            return None
        node = next(iter(node.children.values()))
    return node.holders[0]
