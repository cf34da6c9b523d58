"""The scheduler, the engine and its cells under any order of events: what is reserved is used, and given back at the end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import tiny_models
from tests.support.tiny_engine import assert_same, cold, load, request, words
from tests.support.watched_core import Core

from daneel.server.engines.base import private_room
from daneel.server.engines.llama_cpp import LlamaCppEngine

WRITERS = {"llama": tiny_models.write_llama, "falcon_h1": tiny_models.write_falcon_h1}


@pytest.fixture(scope="module", params=list(WRITERS))
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return WRITERS[request.param](tmp_path_factory.mktemp("tiny") / "model.gguf")


@pytest.fixture(scope="module")
def judge(path: Path) -> Iterator[LlamaCppEngine]:
    """Says what requests say alone and cold."""
    engine = load(path)
    yield engine
    engine.close()


@pytest.mark.parametrize("num_rounds", [25, pytest.param(200, marks=pytest.mark.exhaustive)])
def test_cancels_at_any_moment_leave_no_cell_and_no_sequence(path: Path, num_rounds: int) -> None:
    engine = load(path, context_tokens=256, kv_tokens=320, num_sequences=3)
    core, chance = Core(engine), random.Random(5)
    system = words(chance, 40)
    seen: dict[str, int] = {}
    for _ in range(num_rounds):
        requests = [
            request([*system[: chance.choice((0, 40))], *words(chance, chance.randint(1, 90))], max_tokens=30)
            for _ in range(chance.randint(1, 6))
        ]
        for each in requests:
            core.scheduler.submit(each)
        for _ in range(chance.randint(0, 12)):
            core.step()
        for each in chance.sample(requests, len(requests)):
            moment = core.moment(each.request_id)
            seen[moment] = seen.get(moment, 0) + 1
            core.scheduler.cancel(each.request_id)
            if chance.random() < 0.3:
                core.step()
        core.step()
        assert (core.scheduler.num_queued, core.scheduler.num_running, engine._sequences) == (0, 0, [])
        engine.cache.clear()
        core.cells.check_empty()
    assert all(seen[moment] >= num_rounds // 5 for moment in ("queued", "prefill", "decode")), seen
    engine.close()


def test_three_times_what_the_pool_holds_and_every_request_ends_properly(path: Path, judge: LlamaCppEngine) -> None:
    engine = load(path, context_tokens=200, kv_tokens=256, num_sequences=6)
    core, chance = Core(engine), random.Random(6)
    system = words(chance, 30)
    requests = [
        request([*system[: chance.choice((0, 30))], *words(chance, chance.randint(10, 90))], max_tokens=chance.randint(10, 80),
                tenant=chance.choice("ab"))
        for _ in range(14)
    ]  # fmt: skip
    first = sum(len(each.prompt_ids) + each.max_tokens for each in requests[:6])
    everything = sum(len(each.prompt_ids) + each.max_tokens for each in requests)
    assert first > 256
    assert everything > 3 * 256
    for each in requests:
        core.scheduler.submit(each)
    core.drain()
    for each in requests:
        outputs = core.outputs[each.request_id]
        assert outputs[-1].finish in ("stop", "length")
        assert_same(outputs, cold(judge, each.prompt_ids, max_tokens=each.max_tokens))
    engine.cache.clear()
    core.cells.check_empty()
    engine.close()


def test_requests_that_must_leave_nothing_leave_nothing_however_often_they_are_put_back(path: Path) -> None:
    engine = load(path, context_tokens=200, kv_tokens=256, num_sequences=6)
    core, chance = Core(engine), random.Random(7)
    tenants = ["a", "b", private_room("a", "request")]
    for _ in range(8):
        requests = [
            request(words(chance, chance.randint(40, 90)), max_tokens=80, tenant=chance.choice(tenants), keep_cache=False)
            for _ in range(6)
        ]
        for each in requests:
            core.scheduler.submit(each)
        for _ in range(chance.randint(5, 60)):
            core.step()
        for each in requests[::2]:
            core.scheduler.cancel(each.request_id)
        core.drain()
        core.step()
        assert [entry for tenant in tenants for entry in engine.cache_control.entries(tenant)] == []
        core.cells.check_empty()
    engine.close()
