"""What every engine with a prompt cache promises: tenants apart, like prompts evaluated once, limits that may change."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.tiny_engine import finish, request, words
from tests.support.tiny_models import write_llama

from daneel.server.engines import byte_tokenizer, llama_cpp, scripted
from daneel.server.engines.base import Engine, EngineSpec, Generate, PromptCache, StepOutput, private_room
from daneel.server.engines.cache_state import CacheLimits
from daneel.server.engines.prefix import MIN_SHARED_TOKENS

CHANCE = random.Random(5)
Load = Callable[..., Any]


@pytest.fixture(params=["scripted", "llama.cpp"])
def load(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    """Loads an engine of one kind, 512 tokens of context and as many cells, and closes it at the end."""
    loaded: list[Any] = []

    def load(**spec: Any) -> Any:
        facts: dict[str, Any] = {
            "num_threads": 1,
            "context_tokens": 512,
            "kv_tokens": 512,
            "num_sequences": 4,
            "prefill_chunk_tokens": 32,
            **spec,
        }
        if request.param == "scripted":
            engine: Any = scripted.load(EngineSpec("scripted", **facts), lambda fraction: None)
        else:
            path = write_llama(tmp_path_factory.mktemp("model") / "tiny.gguf")
            engine = llama_cpp.load(EngineSpec("llama.cpp", model_path=str(path), **facts), lambda fraction: None)
        loaded.append(engine)
        return engine

    yield load
    for engine in loaded:
        engine.close()


def prompt(size: int) -> list[int]:
    return words(CHANCE, size)


def of(engine: Engine, prompt_ids: list[int], **fields: Any) -> Generate:
    """A request for two tokens; the scripted engine is told which."""
    told = {"script_ids": byte_tokenizer.encode("ab")} if engine.info.engine == "scripted" else {}
    return request(prompt_ids, **{"max_tokens": 2, **told, **fields})


def together(engine: Any, *requests: Generate) -> list[StepOutput]:
    """The last outputs of requests admitted at the same time."""
    for each in requests:
        engine.check(each)
        engine.admit(each)
    outputs = finish(engine)
    last = [outputs[each.request_id][-1] for each in requests]
    assert [output.error for output in last] == [None] * len(last)
    return last


def ask(engine: Any, prompt_ids: list[int], **fields: Any) -> StepOutput:
    return together(engine, of(engine, prompt_ids, **fields))[0]


def test_a_foreign_tenant_reuses_nothing(load: Load) -> None:
    engine, ids = load(), prompt(100)
    assert ask(engine, ids, tenant="a").cached_tokens == 0
    foreign = ask(engine, ids, tenant="b")
    assert (foreign.cached_tokens, foreign.cache_source, foreign.cache_miss) == (0, None, "cold")
    again = ask(engine, ids, tenant="a")
    assert (again.cached_tokens, again.cache_source, again.cache_miss) == (99, "memory", None)
    other = ask(engine, [*ids[:50], ids[50] ^ 1, *ids[51:]], tenant="a")
    assert other.cached_tokens == 50
    assert other.cache_miss is not None
    assert other.cache_miss.startswith("token 50 differs: ")


@pytest.mark.parametrize("keep_cache", [True, False])
def test_replies_to_one_prompt_fork_one_prefill(load: Load, keep_cache: bool) -> None:
    engine, ids = load(), prompt(100)
    replies = together(engine, *(of(engine, ids, keep_cache=keep_cache) for _ in range(3)))
    first, *forked = sorted(reply.cached_tokens for reply in replies)
    assert first == 0
    assert all(cached >= 99 - MIN_SHARED_TOKENS for cached in forked)
    assert len(engine.cache_control.entries("")) == (1 if keep_cache else 0)


def test_a_private_room_shares_with_nobody_and_leaves_nothing(load: Load) -> None:
    engine, ids = load(), prompt(100)
    ask(engine, ids, tenant="a")
    room = private_room("a", "1")
    first, *forked = sorted(
        each.cached_tokens for each in together(engine, *(of(engine, ids, tenant=room, keep_cache=False) for _ in range(3)))
    )
    assert first == 0
    assert all(cached >= 99 - MIN_SHARED_TOKENS for cached in forked)
    assert engine.cache_control.entries(room) == []
    assert len(engine.cache_control.entries("a")) == 1


def test_tenants_at_the_same_time_share_nothing(load: Load) -> None:
    engine, ids = load(), prompt(100)
    assert [reply.cached_tokens for reply in together(engine, of(engine, ids, tenant="a"), of(engine, ids, tenant="b"))] == [
        0,
        0,
    ]


def test_a_flood_leaves_another_its_share(load: Load) -> None:
    engine, mine = load(), prompt(150)
    ask(engine, mine, tenant="quiet")
    for _ in range(3):
        together(engine, *(of(engine, prompt(100), tenant="loud") for _ in range(4)))
    assert ask(engine, mine, tenant="quiet").cached_tokens == 149


def test_what_another_has_pinned_starves_nobody(load: Load) -> None:
    engine = load()
    for _ in range(6):
        ask(engine, prompt(80), tenant="pinner", pin_s=600.0)
    for size in (100, 300, 500):
        assert ask(engine, prompt(size), tenant="other").finish in ("stop", "length")


def test_a_tenants_entries_are_its_own_to_see_and_drop(load: Load) -> None:
    engine, ids = load(), prompt(100)
    ask(engine, ids, tenant="a", pin_s=600.0)
    ask(engine, ids, tenant="b")
    [entry] = engine.cache_control.entries("a")
    assert entry.tier == "memory"
    assert entry.tokens >= 100
    assert entry.bytes >= 4 * entry.tokens
    assert 0 < entry.pinned_s <= 600
    assert engine.cache_control.clear("a")[0].tokens == entry.tokens
    assert engine.cache_control.entries("a") == engine.cache_control.clear("a") == []
    assert ask(engine, ids, tenant="a").cache_miss == "cold"
    assert ask(engine, ids, tenant="b").cached_tokens == 99


def test_dropping_takes_nothing_from_what_runs(load: Load) -> None:
    engine, ids = load(), prompt(100)
    running = of(engine, ids, tenant="a")
    engine.admit(running)
    engine.step()
    engine.cache_control.clear("a")
    assert finish(engine)[running.request_id][-1].finish in ("stop", "length")
    assert ask(engine, ids, tenant="a").cached_tokens == 99


def test_smaller_limits_move_what_is_kept_down_and_lose_nothing(load: Load, tmp_path: Path) -> None:
    engine, ids = load(prompt_cache=PromptCache(max_entries=0, max_bytes=0, folder=str(tmp_path))), prompt(100)
    ask(engine, ids, tenant="a")
    control = engine.cache_control
    kept = control.limits.max_disk_bytes
    limits = CacheLimits(max_idle_tokens=0, max_entries=10, max_bytes=2**24, max_disk_bytes=kept)
    assert control.resize(limits) == control.limits == limits
    assert [entry.tier for entry in control.entries("a")] == ["host_memory"]
    control.resize(CacheLimits(max_idle_tokens=0, max_entries=0, max_bytes=2**24, max_disk_bytes=kept))
    assert [entry.tier for entry in control.entries("a")] == ["disk"]
    assert control.entries("b") == []
    control.resize(CacheLimits(max_idle_tokens=None, max_entries=10, max_bytes=2**24, max_disk_bytes=kept))
    back = ask(engine, ids, tenant="a")
    assert (back.cached_tokens, back.cache_source) == (99, "disk")
    control.resize(CacheLimits(max_idle_tokens=0, max_entries=0, max_bytes=0, max_disk_bytes=0))
    assert control.entries("a") == []
    assert list(tmp_path.glob("*.kv")) == []
    assert ask(engine, ids, tenant="a").cache_miss == "evicted"


def test_without_a_folder_there_is_no_disk_to_resize(load: Load) -> None:
    control = load().cache_control
    assert control.limits.max_disk_bytes is None
    assert control.resize(CacheLimits(5, 6, 7, None)) == CacheLimits(5, 6, 7, None)


def test_reading_takes_nothing_from_what_is_kept(load: Load) -> None:
    engine = load()
    earlier = prompt(60)
    ask(engine, earlier, max_tokens=1)
    longer = [*earlier, *prompt(70)[60:]]
    first = ask(engine, longer, keep_cache=False)
    again = ask(engine, longer, keep_cache=False)
    assert again.cached_tokens == first.cached_tokens >= len(earlier) - 1
