"""The pool of cells: what is counted is what is used, what is shared holds the right tokens, nobody's is given to others."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.fake_cells import FakeCells, FakeTier

from daneel.server.engines.kv_cache import MIN_KEPT_TOKENS, KvCache, Opened
from daneel.server.engines.prefix_tree import Node

CAPACITY, SEQUENCES = 60, 5


def run(cache: KvCache, cells: FakeCells, tenant: str, prompt: list[int], said: list[int], **closing: object) -> Opened:
    """One request from beginning to end."""
    opened = cache.open(tenant, prompt)
    assert opened is not None
    rest = prompt[opened.num_cached :]
    for tokens in (rest, said):
        assert cache.room(len(tokens))
        cells.evaluate(opened.holder.seq, tokens)
        cache.grow(opened.holder, tokens)
    cache.close(opened.holder, **closing)  # type: ignore[arg-type]
    return opened


class CacheMachine(RuleBasedStateMachine):
    """Requests open, grow, publish, close and are cancelled in any order, over too few cells."""

    @initialize(rolls_back=st.booleans(), tiered=st.booleans(), idle=st.sampled_from([None, 20]))
    def begin(self, rolls_back: bool, tiered: bool, idle: int | None) -> None:
        self.rolls_back, self.idle = rolls_back, idle
        self.tiers = [FakeTier()] if tiered else []
        self.start()

    def start(self) -> None:
        self.cells = FakeCells(CAPACITY, rolls_back=self.rolls_back)
        self.cache = KvCache(
            self.cells,
            capacity=CAPACITY,
            max_sequences=SEQUENCES,
            rolls_back=self.rolls_back,
            max_idle_tokens=self.idle,
            tiers=self.tiers,
        )
        self.running: dict[object, list[int]] = {}

    @rule()
    def restart(self) -> None:
        """All cells are lost; what was idle may come back from a tier."""
        self.cache.save_all()
        self.start()

    @rule(tenant=st.sampled_from("ab"), prompt=st.lists(st.integers(0, 1), min_size=1, max_size=12), use=st.booleans())
    def open(self, tenant: str, prompt: list[int], use: bool) -> None:
        opened = self.cache.open(tenant, prompt, use=use)
        if opened is None:
            # all are running, or what is left is within another's share while this tenant already runs
            assert len(self.running) == SEQUENCES or any(holder.tenant == tenant for holder in self.running)
            return
        assert opened.num_cached < len(prompt)
        assert use or opened.num_cached == 0
        assert self.cells.tokens(opened.holder.seq) == prompt[: opened.num_cached]
        self.running[opened.holder] = prompt[: opened.num_cached]

    @precondition(lambda self: self.running)
    @rule(data=st.data(), tokens=st.lists(st.integers(0, 1), min_size=1, max_size=3), cut=st.integers(0, 3))
    def fork(self, data: st.DataObject, tokens: list[int], cut: int) -> None:
        """Another request that goes on from where a running one is, or was."""
        holder = data.draw(st.sampled_from(list(self.running)))
        ids = self.running[holder]
        self.open(holder.tenant, [*ids[: max(0, len(ids) - cut)], *tokens], use=True)

    @rule(num_cells=st.integers(0, CAPACITY))
    def evict(self, num_cells: int) -> None:
        if self.cache.room(num_cells):
            assert self.cache.num_free >= num_cells
        else:
            assert all(each.running for each in self.cache._holders)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), tokens=st.lists(st.integers(0, 1), min_size=1, max_size=10))
    def grow(self, data: st.DataObject, tokens: list[int]) -> None:
        holder = data.draw(st.sampled_from(list(self.running)))
        if self.cache.room(len(tokens)):
            self.cells.evaluate(holder.seq, tokens)
            self.cache.grow(holder, tokens)
            self.running[holder] += tokens
        else:
            assert all(each.running for each in self.cache._holders)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def publish(self, data: st.DataObject) -> None:
        self.cache.publish(data.draw(st.sampled_from(list(self.running))))

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def checkpoint(self, data: st.DataObject) -> None:
        self.cache.checkpoint(data.draw(st.sampled_from(list(self.running))))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), keep=st.booleans())
    def close(self, data: st.DataObject, keep: bool) -> None:
        holder = data.draw(st.sampled_from(list(self.running)))
        del self.running[holder]
        self.cache.close(holder, keep=keep)

    @rule(tenant=st.sampled_from([None, "a"]))
    def clear(self, tenant: str | None) -> None:
        self.cache.clear(tenant)
        assert tenant is None or not self.cache.entries(tenant)

    @invariant()
    def what_is_counted_is_used(self) -> None:
        assert self.cache.num_used == self.cells.num_used <= CAPACITY

    @invariant()
    def every_sequence_holds_its_tokens(self) -> None:
        for holder in self.cache._holders:
            assert self.cells.tokens(holder.seq) == holder.ids()
        for holder, tokens in self.running.items():
            assert holder.ids() == tokens

    @invariant()
    def every_node_leads_to_as_many_holders_as_sequences_hold_its_cells(self) -> None:
        passing: Counter[Node] = Counter()
        of_node = {}
        for holder in self.cache._holders:
            node: Node | None = holder.node
            while node is not None and node.run:
                passing[node] += 1
                of_node[node] = holder.seq
                node = node.parent
        references = Counter(cell for held in self.cells.cells.values() for cell in held.values())
        for node, seq in of_node.items():
            assert {references[self.cells.cells[seq][at]] for at in range(node.start, node.end)} == {passing[node]}

    @invariant()
    def no_sequence_is_lost(self) -> None:
        seqs = [*self.cache._free_seqs, *(holder.seq for holder in self.cache._holders)]
        assert sorted(seqs) == list(range(SEQUENCES))


TestCache = CacheMachine.TestCase
TestCache.settings = settings(deadline=None)


@pytest.fixture
def cells() -> FakeCells:
    return FakeCells(1000)


def test_a_turn_goes_on_from_the_one_before(cells: FakeCells) -> None:
    cache = KvCache(cells, capacity=1000, max_sequences=8)
    run(cache, cells, "", [1, 2, 3], [4, 5])
    opened = run(cache, cells, "", [1, 2, 3, 4, 5, 6], [7])
    assert (opened.num_cached, opened.source, opened.miss) == (5, "memory", None)
    assert len(cache.entries("")) == 1
    assert cache.num_used == 7


def test_requests_at_the_same_time_share_what_one_has_evaluated(cells: FakeCells) -> None:
    cache = KvCache(cells, capacity=1000, max_sequences=8)
    first = cache.open("", [1, 2, 3, 4])
    assert first is not None
    cells.evaluate(first.holder.seq, [1, 2, 3])
    cache.grow(first.holder, [1, 2, 3])
    cache.publish(first.holder)
    second = cache.open("", [1, 2, 3, 9])
    assert second is not None
    assert second.num_cached == 3
    assert cells.num_used == 3


def test_another_tenant_gets_nothing(cells: FakeCells) -> None:
    cache = KvCache(cells, capacity=1000, max_sequences=8)
    run(cache, cells, "a", [1, 2, 3], [4])
    opened = run(cache, cells, "b", [1, 2, 3], [4])
    assert (opened.num_cached, opened.source, opened.miss) == (0, None, "cold")


def test_the_first_token_that_differs_is_told(cells: FakeCells) -> None:
    cache = KvCache(cells, capacity=1000, max_sequences=8)
    run(cache, cells, "", [1, 2, 3], [4])
    assert run(cache, cells, "", [1, 2, 8, 9], []).miss == "token 2 differs: 3 before, 8 now"


def test_who_floods_the_cache_loses_first(cells: FakeCells) -> None:
    cells.capacity = 40
    cache = KvCache(cells, capacity=40, max_sequences=20)
    run(cache, cells, "quiet", [1, 2, 3, 4], [])
    for number in range(12):
        run(cache, cells, "loud", [number, number, number, number], [])
    assert run(cache, cells, "quiet", [1, 2, 3, 4, 5], []).num_cached == 4


def test_what_is_pinned_stays_for_its_time(cells: FakeCells) -> None:
    now = [0.0]
    cells.capacity = 10
    cache = KvCache(cells, capacity=10, max_sequences=8, clock=lambda: now[0])
    run(cache, cells, "", [1, 2, 3, 4], [5], pin_s=60.0)
    assert not cache.room(8)
    now[0] = 61.0
    assert cache.room(8)


def test_what_left_the_cells_comes_back(cells: FakeCells) -> None:
    cells.capacity = 100
    prompt = list(range(MIN_KEPT_TOKENS + 10))
    cache = KvCache(cells, capacity=100, max_sequences=8, tiers=[FakeTier()])
    run(cache, cells, "", prompt, [7])
    assert cache.room(100)
    opened = run(cache, cells, "", [*prompt, 7, 8], [])
    assert (opened.num_cached, opened.source) == (len(prompt) + 1, "fake")
    assert cache.num_used == cells.num_used


def test_a_model_that_cannot_be_cut_goes_on_from_ends_only() -> None:
    cells = FakeCells(1000, rolls_back=False)
    cache = KvCache(cells, capacity=1000, max_sequences=8, rolls_back=False)
    run(cache, cells, "", [1, 2, 3], [4])
    assert run(cache, cells, "", [1, 2, 3, 4, 5], [6]).num_cached == 4
    opened = run(cache, cells, "", [1, 2, 9], [])
    assert opened.num_cached == 0
    assert opened.miss is not None
    opened = cache.open("", [5, 5, 5])
    assert opened is not None
    cells.evaluate(opened.holder.seq, [5, 5])
    cache.grow(opened.holder, [5, 5])
    cache.checkpoint(opened.holder)
    assert run(cache, cells, "", [5, 5, 6], []).num_cached == 2


def test_room_made_in_vain_for_what_was_kept_elsewhere_does_not_cost_the_request(cells: FakeCells) -> None:
    cells.capacity = 100
    cache = KvCache(cells, capacity=100, max_sequences=8, tiers=[FakeTier()])
    prompt = list(range(50))
    run(cache, cells, "", prompt, [])
    assert cache.room(100)  # the prompt is elsewhere now
    run(cache, cells, "", [*prompt[:10], 77], [])
    running = cache.open("", [88] * 61)
    assert running is not None
    cells.evaluate(running.holder.seq, [88] * 60)
    cache.grow(running.holder, [88] * 60)
    opened = cache.open("", [*prompt, 7])  # 40 cells are left besides the running one's
    assert opened is not None
    assert (opened.num_cached, opened.source) == (0, None)
    assert cache.num_used == cells.num_used == 60
