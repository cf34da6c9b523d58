"""The tree of cached tokens, against a plain list of what every holder holds."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from daneel.server.engines.prefix import common_prefix_length
from daneel.server.engines.prefix_tree import Holder, Node, PrefixTree

TENANTS = ("a", "b")
runs = st.lists(st.integers(0, 2), min_size=1, max_size=6)


class TreeMachine(RuleBasedStateMachine):
    """Holders fork, grow, publish and leave. `held` says what each holds: (shared, own)."""

    def __init__(self) -> None:
        super().__init__()
        self.tree = PrefixTree()
        self.held: dict[Holder, tuple[list[int], list[int]]] = {}
        self.num_made = 0

    @rule(tenant=st.sampled_from(TENANTS), ids=runs)
    def open(self, tenant: str, ids: list[int]) -> None:
        length, source = self.tree.match(tenant, ids)
        shared = [held for holder, (held, _) in self.held.items() if holder.tenant == tenant]
        assert length == max((common_prefix_length(ids, other) for other in shared), default=0)
        assert (source is None) == (length == 0)
        if source is not None:
            assert source.tenant == tenant
            assert source.ids()[:length] == ids[:length]
        whole, holder = self.tree.match(tenant, ids, whole=True)
        ends = [held for holder, (held, own) in self.held.items() if holder.tenant == tenant and not own]
        assert whole == max((len(end) for end in ends if ids[: len(end)] == end), default=0)
        assert holder is None or holder.num_shared == whole
        self.num_made += 1
        made = Holder(self.num_made, tenant, Node())
        self.tree.enter(made, source, length)
        self.held[made] = (ids[:length], [])

    @precondition(lambda self: self.held)
    @rule(data=st.data(), ids=runs)
    def grow(self, data: st.DataObject, ids: list[int]) -> None:
        holder = data.draw(st.sampled_from(list(self.held)))
        holder.own += ids
        self.held[holder][1].extend(ids)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def publish(self, data: st.DataObject) -> None:
        holder = data.draw(st.sampled_from(list(self.held)))
        self.tree.publish(holder)
        shared, own = self.held[holder]
        self.held[holder] = (shared + own, [])

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        holder = data.draw(st.sampled_from(list(self.held)))
        before = self._num_unique() + sum(len(own) for _, own in self.held.values())
        freed = self.tree.remove(holder)
        del self.held[holder]
        assert freed == before - self._num_unique() - sum(len(own) for _, own in self.held.values())

    def _num_unique(self) -> int:
        prefixes = {
            (holder.tenant, tuple(shared[:size]))
            for holder, (shared, _) in self.held.items()
            for size in range(1, len(shared) + 1)
        }
        return len(prefixes)

    @invariant()
    def every_token_is_counted_once(self) -> None:
        assert self.tree.num_tokens == self._num_unique()

    @invariant()
    def every_holder_holds_what_it_should(self) -> None:
        assert set(self.tree.holders()) == set(self.held)
        for holder, (shared, own) in self.held.items():
            assert holder.ids() == shared + own
            assert holder.num_shared == len(shared)

    @invariant()
    def no_node_is_an_orphan(self) -> None:
        stack = list(self.tree._roots.values())
        while stack:
            node = stack.pop()
            assert node.holders or node.children
            for first, child in node.children.items():
                assert child.parent is node
                assert child.run[0] == first
                assert child.start == node.end
            stack += node.children.values()


TestTree = TreeMachine.TestCase
TestTree.settings = settings(deadline=None)
