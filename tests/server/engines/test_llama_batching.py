"""Many sequences at a time on llama.cpp: what each says, what they share, and who makes room for whom."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.tiny_engine import finish, said

from daneel.server.engines import llama_cpp as engine_module
from daneel.server.engines.base import EngineSpec, Generate, PromptCache, Sampling, StepOutput
from daneel.server.engines.llama_cpp import LlamaCppEngine

pytestmark = pytest.mark.model
GREEDY = Sampling(temperature=0.0)
SYSTEM = "<|im_start|>system\nYou are a helpful assistant who answers in one short sentence and never lies.<|im_end|>\n"
_ids = itertools.count(1)


def load(path: Path, **spec: Any) -> LlamaCppEngine:
    return engine_module.load(EngineSpec("llama.cpp", model_path=str(path), num_threads=1, **spec), lambda fraction: None)


@pytest.fixture(scope="module")
def engine(smollm2_path: Path) -> Iterator[LlamaCppEngine]:
    engine = load(smollm2_path, context_tokens=512, prefill_chunk_tokens=32, num_sequences=4)
    yield engine
    engine.close()


def ask(question: str) -> str:
    return f"{SYSTEM}<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"


def submit(engine: LlamaCppEngine, prompt: str, **request: Any) -> int:
    fields = {"prompt_ids": engine.tokenize(prompt), "max_tokens": 8, "sampling": GREEDY, **request}
    generate = Generate(request_id=next(_ids), **fields)
    engine.check(generate)
    engine.admit(generate)
    return generate.request_id


def alone(engine: LlamaCppEngine, prompt: str, **request: Any) -> list[StepOutput]:
    number = submit(engine, prompt, **request)
    return finish(engine)[number]


QUESTIONS = ["What is the capital of France?", "Say hello in Spanish.", "What is two and two?", "Name a colour."]


def test_together_they_say_nearly_what_each_says_alone(engine: LlamaCppEngine) -> None:
    engine.cache.clear()
    single = [said(alone(engine, ask(question), use_cache=False, keep_cache=False)) for question in QUESTIONS]
    numbers = [submit(engine, ask(question), tenant=question) for question in QUESTIONS]
    outputs = finish(engine)
    together = [said(outputs[number]) for number in numbers]
    # batching changes the order of sums, so a near tie may fall the other way; most do not
    assert sum(one == other for one, other in zip(single, together, strict=True)) >= 3


def test_a_common_prefix_is_evaluated_once(engine: LlamaCppEngine) -> None:
    engine.cache.clear()
    numbers = [submit(engine, ask(question)) for question in QUESTIONS]
    outputs = finish(engine)
    cached = [outputs[number][-1].cached_tokens for number in numbers]
    common = len(engine.tokenize(SYSTEM))
    assert cached[0] == 0
    assert all(tokens >= common for tokens in cached[1:])
    assert [outputs[number][-1].cache_source for number in numbers] == [None, "memory", "memory", "memory"]


def test_tenants_share_nothing(engine: LlamaCppEngine) -> None:
    engine.cache.clear()
    numbers = [submit(engine, ask(QUESTIONS[0]), tenant=tenant) for tenant in "ab"]
    outputs = finish(engine)
    assert [outputs[number][-1].cached_tokens for number in numbers] == [0, 0]


def test_a_next_turn_pays_for_its_new_tokens_only(engine: LlamaCppEngine) -> None:
    engine.cache.clear()
    first = alone(engine, ask(QUESTIONS[0]))
    history = [*engine.tokenize(ask(QUESTIONS[0])), *said(first)]
    number = submit(engine, "", prompt_ids=[*history, *engine.tokenize("<|im_end|>\n<|im_start|>user\nAnd Spain?")])
    last = finish(engine)[number][-1]
    assert last.cached_tokens >= len(history) - 1
    assert last.cache_miss is None


def test_a_long_prompt_does_not_hold_up_others(engine: LlamaCppEngine) -> None:
    engine.cache.clear()
    short = submit(engine, ask(QUESTIONS[0]), max_tokens=30, tenant="short")
    while not any(output.token_ids for output in engine.step()):
        pass
    submit(engine, ask("word " * 200), max_tokens=1, tenant="long")
    steps = [engine.step() for _ in range(6)]
    assert all(any(output.request_id == short and output.token_ids for output in step) for step in steps)
    assert any(output.prefill_done < output.prefill_total for step in steps for output in step)
    finish(engine)


def test_cancelling_at_any_moment_leaves_nothing_running(engine: LlamaCppEngine) -> None:
    chance = random.Random(7)
    for _ in range(25):
        numbers = [submit(engine, ask(chance.choice(QUESTIONS)), max_tokens=6) for _ in range(chance.randint(1, 4))]
        for _ in range(chance.randint(0, 6)):
            engine.step()
        for number in numbers:
            engine.cancel(number)
        assert engine.step() == []
    engine.cache.clear()
    assert engine.cache.num_used == 0


def test_when_cells_run_out_the_youngest_waits_and_nobody_fails(smollm2_path: Path) -> None:
    engine = load(smollm2_path, context_tokens=160, prefill_chunk_tokens=32, num_sequences=3, kv_tokens=256)
    try:
        numbers = [submit(engine, ask(question), max_tokens=90, tenant=question) for question in QUESTIONS[:3]]
        outputs = finish(engine)
        assert [outputs[number][-1].finish for number in numbers] in (
            [
                [first, second, third]
                for first in ("stop", "length")
                for second in ("stop", "length")
                for third in ("stop", "length")
            ]
        )
        for number, question in zip(numbers, QUESTIONS, strict=False):
            single = said(alone(engine, ask(question), max_tokens=90, use_cache=False, keep_cache=False))
            assert said(outputs[number])[:5] == single[:5]
    finally:
        engine.close()


def test_a_prompt_that_fits_the_context_always_gets_its_room(smollm2_path: Path) -> None:
    engine = load(smollm2_path, context_tokens=128, prefill_chunk_tokens=32, num_sequences=2, kv_tokens=128)
    try:
        for _ in range(3):
            for words in (20, 60, 5):
                last = alone(engine, "word " * words, max_tokens=300)[-1]
                assert last.finish in ("stop", "length")
    finally:
        engine.close()


def test_a_restart_finds_what_was_kept_on_disk(smollm2_path: Path, tmp_path: Path) -> None:
    kept = PromptCache(folder=str(tmp_path / "cache"))
    outputs: list[list[StepOutput]] = []
    for _ in range(2):
        engine = load(smollm2_path, context_tokens=512, prompt_cache=kept)
        try:
            outputs.append(alone(engine, ask(QUESTIONS[0])))
        finally:
            engine.close()
    cold, warm = outputs
    assert (cold[-1].cached_tokens, cold[-1].cache_source) == (0, None)
    assert warm[-1].cache_source == "disk"
    assert warm[-1].cached_tokens == cold[-1].prefill_total - 1  # one token is left to evaluate
    assert said(warm) == said(cold)


def test_what_left_the_cells_comes_back_from_memory(smollm2_path: Path) -> None:
    engine = load(smollm2_path, context_tokens=128, kv_tokens=128, num_sequences=1)
    try:
        first = alone(engine, ask(QUESTIONS[0]))
        alone(engine, "word " * 100, max_tokens=2)
        again = alone(engine, ask(QUESTIONS[0]))
        assert again[-1].cache_source == "host_memory"
        assert said(again) == said(first)
    finally:
        engine.close()
