"""Who must make room, on fake cells: floods take nothing of others', pins hold up nobody, nobody waits for ever."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fake_cells import FakeCells, FakeTier

from daneel.server.engines.base import private_room
from daneel.server.engines.kv_cache import MIN_KEPT_TOKENS, KvCache, Opened
from daneel.server.engines.quotas import oldest_of_greediest, tokens_held

_numbers = itertools.count(1)


def fresh(size: int) -> list[int]:
    """Tokens that no other prompt begins with."""
    return [next(_numbers) for _ in range(size)]


def begin(cache: KvCache, cells: FakeCells, tenant: str, prompt: list[int]) -> Opened | None:
    """Open a sequence and evaluate its prompt; `None` when it must wait."""
    opened = cache.open(tenant, prompt, reserve=len(prompt) + 1)
    if opened is not None:
        cells.evaluate(opened.holder.seq, prompt[opened.num_cached :])
        cache.grow(opened.holder, prompt[opened.num_cached :])
        cache.publish(opened.holder)
    return opened


def run(cache: KvCache, cells: FakeCells, tenant: str, prompt: list[int], *, pin_s: float = 0.0) -> Opened | None:
    opened = begin(cache, cells, tenant, prompt)
    if opened is not None:
        cache.close(opened.holder, pin_s=pin_s)
    return opened


def pool(capacity: int, **settings: object) -> tuple[KvCache, FakeCells]:
    cells = FakeCells(capacity)
    return KvCache(cells, capacity=capacity, **{"max_sequences": 64, **settings}), cells  # type: ignore[arg-type]


@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=40), num_common=st.integers(0, 8), rolls_back=st.booleans())
def test_a_flood_leaves_others_what_is_within_their_share(sizes: list[int], num_common: int, rolls_back: bool) -> None:
    cells = FakeCells(100, rolls_back=rolls_back)
    cache = KvCache(cells, capacity=100, max_sequences=64, rolls_back=rolls_back)
    mine, common = fresh(30), fresh(num_common)
    run(cache, cells, "quiet", mine)
    for size in sizes:
        assert run(cache, cells, "loud", [*common, *fresh(size)]) is not None
    again = run(cache, cells, "quiet", [*mine, 0])
    assert again is not None
    assert again.num_cached == 30


def test_a_common_beginning_stays_where_the_rest_of_its_sequence_must_go() -> None:
    cache, cells = pool(100)
    common = fresh(40)
    run(cache, cells, "a", [*common, *fresh(40)])
    second = run(cache, cells, "a", [*common, *fresh(40)])
    assert second is not None
    assert second.num_cached == 40


def test_a_flood_of_running_requests_waits_rather_than_take_anothers_share() -> None:
    cache, cells = pool(100)
    run(cache, cells, "quiet", fresh(40))
    first = begin(cache, cells, "loud", fresh(50))
    assert first is not None
    assert begin(cache, cells, "loud", fresh(20)) is None
    assert len(cache.entries("quiet")) == 1
    cache.close(first.holder)
    assert begin(cache, cells, "loud", fresh(20)) is not None
    assert len(cache.entries("quiet")) == 1


def test_many_short_sequences_do_not_take_the_ids_of_others() -> None:
    cache, cells = pool(1000, max_sequences=8)
    mine = [fresh(200), fresh(200)]
    for prompt in mine:
        run(cache, cells, "quiet", prompt)
    for _ in range(30):
        run(cache, cells, "loud", fresh(2))
    assert [entry.num_tokens for entry in cache.entries("quiet")] == [200, 200]


def test_a_tenants_only_request_may_take_what_others_do_not_use() -> None:
    cache, cells = pool(100)
    run(cache, cells, "idle", fresh(50))
    other = begin(cache, cells, "busy", fresh(10))
    assert other is not None
    assert begin(cache, cells, "large", fresh(60)) is not None
    assert cache.entries("idle") == []


def test_pins_hold_up_neither_others_nor_their_owner() -> None:
    cache, cells = pool(100, clock=lambda: 0.0)
    for _ in range(9):
        run(cache, cells, "pinner", fresh(11), pin_s=600.0)
    busy = begin(cache, cells, "other", fresh(30))
    assert busy is not None
    # within half of its share the pinner keeps what it pinned
    assert sum(entry.num_tokens for entry in cache.entries("pinner")) >= 22
    cache.close(busy.holder, keep=False)
    assert begin(cache, cells, "other", fresh(98)) is not None  # nobody else runs: it may have all


def test_the_latest_pins_count() -> None:
    cache, cells = pool(100, clock=lambda: 0.0)
    pinned = [fresh(25) for _ in range(3)]
    for prompt in pinned:
        run(cache, cells, "", prompt, pin_s=600.0)
    busy = begin(cache, cells, "", fresh(10))
    assert busy is not None
    assert cache.room(40, "")
    left = [entry.ids() for entry in cache.entries("")]
    assert left == [pinned[2], pinned[1]]


def test_a_pin_holds_until_its_time_against_those_who_share_the_cache() -> None:
    now = [0.0]
    cache, cells = pool(100, clock=lambda: now[0])
    run(cache, cells, "a", fresh(15), pin_s=60.0)
    busy = begin(cache, cells, "b", fresh(60))
    assert busy is not None
    assert not cache.room(30, None)
    assert begin(cache, cells, "c", fresh(30)) is None
    now[0] = 61.0
    assert begin(cache, cells, "c", fresh(30)) is not None


def test_cells_that_sequences_share_count_once() -> None:
    cache, cells = pool(200)
    common = fresh(50)
    for _ in range(3):
        run(cache, cells, "a", [*common, *fresh(5)])
    assert tokens_held(cache._holders) == {"a": 65}
    assert sum(tokens_held(cache._holders).values()) == cache.num_used


def test_what_had_to_go_is_told_as_the_reason_of_a_miss() -> None:
    cache, cells = pool(100)
    prompt = fresh(40)
    run(cache, cells, "a", prompt)
    run(cache, cells, "a", fresh(90))
    missed = run(cache, cells, "a", prompt)
    assert missed is not None
    assert (missed.num_cached, missed.miss) == (0, "evicted")
    other = run(cache, cells, "b", prompt)
    assert other is not None
    assert other.miss == "cold"
    cache.clear("a")
    cleared = run(cache, cells, "a", prompt)
    assert cleared is not None
    assert cleared.miss == "cold"


def test_limits_may_change_while_it_runs_and_what_goes_is_kept_below() -> None:
    tier = FakeTier()
    cache, cells = pool(1000, tiers=[tier])
    prompts = [fresh(MIN_KEPT_TOKENS) for _ in range(4)]
    for prompt in prompts:
        run(cache, cells, "a", prompt)
    running = begin(cache, cells, "a", fresh(50))
    assert running is not None
    cache.max_idle_tokens = 2 * MIN_KEPT_TOKENS
    cache.trim()
    assert [entry.ids() for entry in cache.entries("a")] == [prompts[3], prompts[2]]
    assert set(tier.kept) == {("a", tuple(prompts[0])), ("a", tuple(prompts[1]))}
    assert cells.tokens(running.holder.seq) == running.holder.ids()
    fetched = run(cache, cells, "a", [*prompts[0], 0])
    assert fetched is not None
    assert (fetched.num_cached, fetched.source) == (MIN_KEPT_TOKENS, "fake")


def test_a_tier_that_takes_nothing_is_not_saved_for(monkeypatch: pytest.MonkeyPatch) -> None:
    tier = FakeTier()
    tier.takes = False
    cache, cells = pool(50, tiers=[tier])
    monkeypatch.setattr(cells, "save", None)
    run(cache, cells, "a", fresh(40))
    assert run(cache, cells, "a", fresh(40)) is not None


def test_the_oldest_of_whoever_has_most_goes() -> None:
    kept = [(("a", 1), 5), (("b", 2), 3), (("b", 3), 3)]
    assert oldest_of_greediest(kept) == ("b", 2)


def test_a_private_room_counts_as_its_owners() -> None:
    cache, cells = pool(100)
    mine = fresh(30)
    run(cache, cells, "quiet", mine)
    for number in range(12):
        assert run(cache, cells, private_room("loud", str(number)), fresh(20)) is not None
    assert set(tokens_held(cache._holders)) == {"quiet", "loud"}
    again = run(cache, cells, "quiet", [*mine, 0])
    assert again is not None
    assert again.num_cached == 30


def test_a_request_that_must_wait_loses_nothing_of_what_it_will_go_on_from() -> None:
    cache, cells = pool(100)
    mine = fresh(30)
    run(cache, cells, "a", mine)
    other = begin(cache, cells, "b", fresh(60))
    assert other is not None
    longer = [*mine, *fresh(30)]
    assert begin(cache, cells, "a", longer) is None
    cache.close(other.holder, keep=False)
    at_last = begin(cache, cells, "a", longer)
    assert at_last is not None
    assert at_last.num_cached == 30
