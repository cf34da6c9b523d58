"""Who is next."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.server.engines.base import Generate, Sampling
from daneel.server.fair_queue import FairQueue

_ids = itertools.count(1)


def request(tenant: str = "", priority: int = 0) -> Generate:
    return Generate(next(_ids), [1], 1, Sampling(), tenant=tenant, priority=priority)


def drain(queue: FairQueue) -> list[Generate]:
    return [queue.take().request for _ in range(len(queue))]


def filled(*requests: Generate) -> FairQueue:
    queue = FairQueue(lambda: 0.0)
    for each in requests:
        queue.put(each)
    return queue


def test_one_tenant_is_served_in_order() -> None:
    asked = [request() for _ in range(5)]
    assert drain(filled(*asked)) == asked


def test_turns_alternate_between_tenants() -> None:
    queue = filled(*(request("loud") for _ in range(10)), request("quiet"), request("quiet"))
    assert [each.tenant for each in drain(queue)][:5] == ["loud", "quiet", "loud", "quiet", "loud"]


def test_higher_priority_goes_first() -> None:
    low, high = request("a"), request("b", priority=1)
    assert drain(filled(low, high)) == [high, low]


def test_what_is_removed_is_not_served() -> None:
    first, second = request(), request()
    queue = filled(first, second)
    assert queue.remove(first.request_id)
    assert not queue.remove(first.request_id)
    assert drain(queue) == [second]
    with pytest.raises(LookupError):
        queue.take()


@given(st.lists(st.sampled_from("abc"), max_size=30))
def test_nobody_is_served_twice_while_another_waits(tenants: list[str]) -> None:
    served = [each.tenant for each in drain(filled(*(request(tenant) for tenant in tenants)))]
    assert Counter(served) == Counter(tenants)
    for at in range(1, len(served)):
        if served[at] == served[at - 1]:
            assert set(served[at:]) == {served[at]}
