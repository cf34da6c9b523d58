"""The prefix cache on each kind of memory that llama.cpp has: what is read from it must say what is evaluated anew says.

Attention over everything, over sliding windows (Gemma), a recurrent state beside attention (Falcon-H1), a recurrent state alone
(Mamba 2): tiny random models of each.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support import tiny_models
from tests.support.tiny_engine import ask, assert_same, cold, load, request, said, together, words

from daneel.server.engines.base import PromptCache
from daneel.server.engines.llama_cpp import LlamaCppEngine

KINDS: dict[str, Callable[[Path], Path]] = {
    "llama": tiny_models.write_llama,
    "gemma3": tiny_models.write_gemma3,
    "falcon_h1": tiny_models.write_falcon_h1,
    "mamba2": tiny_models.write_mamba2,
}
CUT_ANYWHERE = {"llama": True, "gemma3": True, "falcon_h1": False, "mamba2": False}


@pytest.fixture(scope="module", params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def path(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return KINDS[kind](tmp_path_factory.mktemp("tiny") / f"{kind}.gguf")


@pytest.fixture(scope="module")
def loaded(path: Path) -> Iterator[LlamaCppEngine]:
    engine = load(path)
    yield engine
    engine.close()


@pytest.fixture
def engine(loaded: LlamaCppEngine) -> LlamaCppEngine:
    loaded.cache_control.clear("")  # the memory tier too
    return loaded


@pytest.fixture
def chance() -> random.Random:
    return random.Random(11)


def test_whether_it_can_be_cut_is_found_out_from_the_model(engine: LlamaCppEngine, kind: str, chance: random.Random) -> None:
    first, second = words(chance, 50), words(chance, 10)
    ask(engine, first)
    forked = ask(engine, [*first[:40], *second])[-1]
    if CUT_ANYWHERE[kind]:
        assert forked.cached_tokens == 40
    else:
        assert (forked.cached_tokens, forked.cache_miss) == (0, "this model's memory cannot go back to an earlier token")


def test_turns_pay_for_their_new_tokens_only_and_say_what_a_cold_run_says(
    engine: LlamaCppEngine, chance: random.Random
) -> None:
    history: list[int] = []
    for turn in range(6):
        known = len(history)
        history += words(chance, chance.randint(5, 50))
        expected = cold(engine, history)
        outputs = ask(engine, history)
        assert_same(outputs, expected)
        # the last token of a reply is drawn, but not evaluated
        assert outputs[-1].cached_tokens == max(0, known - 1)
        assert outputs[-1].cache_miss == ("cold" if turn == 0 else None)
        history += said(outputs)


def test_the_same_prompt_again_costs_one_token(engine: LlamaCppEngine, chance: random.Random) -> None:
    prompt = words(chance, 70)
    expected = cold(engine, prompt)
    for cached in (0, 69, 69):
        outputs = ask(engine, prompt)
        assert_same(outputs, expected)
        assert outputs[-1].cached_tokens == cached


def test_forks_say_what_cold_runs_say(engine: LlamaCppEngine, kind: str, chance: random.Random) -> None:
    trunk = words(chance, 60)
    trunk += said(ask(engine, trunk))
    at_end = len(trunk) - 1
    forks = [[*trunk, *words(chance, 8)] for _ in range(4)]
    for number, fork in enumerate(forks):
        outputs = ask(engine, fork)
        assert_same(outputs, cold(engine, fork))
        assert outputs[-1].cached_tokens == (at_end + 1 if CUT_ANYWHERE[kind] and number else at_end)
    for cut in (20, 45, 64, 71):
        fork = [*forks[0][:cut], *words(chance, 20)]
        outputs = ask(engine, fork)
        assert_same(outputs, cold(engine, fork))
        assert outputs[-1].cached_tokens in ((cut,) if CUT_ANYWHERE[kind] else (0, 59, at_end))
    for fork in forks:  # the forks before are as they were
        assert_same(ask(engine, fork), cold(engine, fork))


def test_the_same_prompt_at_the_same_time_is_evaluated_once(engine: LlamaCppEngine, chance: random.Random) -> None:
    prompt = words(chance, 90)
    expected = cold(engine, prompt)
    outputs = together(engine, *(request(prompt) for _ in range(4)))
    for each in outputs:
        assert_same(each, expected)
    assert sum(each[-1].prefill_total for each in outputs) == 90 + 3


def test_a_common_beginning_at_the_same_time(engine: LlamaCppEngine, kind: str, chance: random.Random) -> None:
    system = words(chance, 80)
    prompts = [[*system, *words(chance, 10 + 7 * number)] for number in range(4)]
    expected = [cold(engine, prompt) for prompt in prompts]
    outputs = together(engine, *(request(prompt) for prompt in prompts))
    for each, want in zip(outputs, expected, strict=True):
        assert_same(each, want)
    reused = [each[-1].cached_tokens for each in outputs]
    assert reused == ([0, 80, 80, 80] if CUT_ANYWHERE[kind] else [0, 0, 0, 0])
    for prompt, each in zip(prompts, outputs, strict=True):  # each of them has its next turn, whatever it shares
        following = [*prompt, *said(each), *words(chance, 9)]
        turn = ask(engine, following)
        assert_same(turn, cold(engine, following))
        assert turn[-1].cached_tokens == len(prompt) + len(said(each)) - 1


def test_sessions_that_push_each_other_out_say_what_cold_runs_say(path: Path, chance: random.Random) -> None:
    engine = load(path, context_tokens=256, kv_tokens=300, num_sequences=2)
    try:
        sessions: list[list[int]] = [[] for _ in range(5)]
        sources = set()
        for _ in range(4):
            for number, history in enumerate(sessions):
                history += words(chance, chance.randint(8, 40))
                outputs = ask(engine, history, tenant=f"tenant {number % 2}")
                assert_same(outputs, cold(engine, history))
                sources.add(outputs[-1].cache_source)
                history += said(outputs)
                assert engine.cache.num_used <= 300
        assert "host_memory" in sources
    finally:
        engine.close()


def test_a_restart_goes_on_from_disk_and_says_what_a_cold_run_says(path: Path, tmp_path: Path, chance: random.Random) -> None:
    kept = PromptCache(folder=str(tmp_path / "cache"))
    sessions = [words(chance, 60) for _ in range(3)]
    for turn in range(3):
        engine = load(path, prompt_cache=kept)
        try:
            for history in sessions:
                known = len(history)
                history += words(chance, 9)
                outputs = ask(engine, history)
                assert_same(outputs, cold(engine, history))
                assert outputs[-1].cache_source == ("disk" if turn else None)
                assert outputs[-1].cached_tokens == (known - 1 if turn else 0)
                again = ask(engine, history)  # what came from disk is shared like anything else
                assert_same(again, outputs)
                assert again[-1].cached_tokens == len(history) - 1
                history += said(outputs)
        finally:
            engine.close()


def test_a_cancelled_prefill_is_gone_on_from(engine: LlamaCppEngine, kind: str, chance: random.Random) -> None:
    prompt = words(chance, 100)
    dropped = request(prompt)
    engine.admit(dropped)
    engine.step()
    engine.step()
    engine.cancel(dropped.request_id)
    outputs = ask(engine, prompt)
    assert_same(outputs, cold(engine, prompt))
    assert outputs[-1].cached_tokens == 64


def test_what_is_not_to_be_kept_leaves_nothing(engine: LlamaCppEngine, chance: random.Random) -> None:
    outputs = together(engine, *(request(words(chance, 50), keep_cache=False) for _ in range(2)))
    assert [len(said(each)) for each in outputs] == [12, 12]
    assert engine.cache.entries("") == []
    assert engine.cache.num_used == 0


def test_a_fork_from_long_before_says_what_a_cold_run_says(path: Path, kind: str, chance: random.Random) -> None:
    """Further back than any window, and than the cells that llama.cpp would set aside for windows alone."""
    engine = load(path, context_tokens=2048, prefill_chunk_tokens=256, num_sequences=1)
    try:
        prompt = words(chance, 1900)
        ask(engine, prompt)
        for size in (1, 30):
            fork = [*prompt[:40], *words(chance, size)]
            outputs = ask(engine, fork)
            assert_same(outputs, cold(engine, fork))
            # of the first fork's prompt all but its last token was kept
            assert outputs[-1].cached_tokens == (40 if CUT_ANYWHERE[kind] or size == 30 else 0)
    finally:
        engine.close()
