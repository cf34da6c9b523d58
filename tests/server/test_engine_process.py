"""The engine's process: requests and their ends, deaths, restarts, and nothing left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from daneel.server.engine_process import Backoff, EngineDied, EngineLoadError, EngineProcess, EngineRestarting, EngineSpec
from daneel.server.engines.base import PromptCache, Sampling, StepOutput
from daneel.server.engines.cache_state import CacheLimits

QUICK = Backoff(first_s=0.05, ceiling_s=0.2)
FOREVER = {"text": "x" * 2000, "delay_ms": 5, "repeat": True}


def with_engine(script: list[Any], tmp_path: Path, body: Callable[[EngineProcess], Awaitable[None]], **spec: Any) -> None:
    """Run `body` with a scripted engine."""
    path = tmp_path / "script.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in script))

    async def run() -> None:
        engine = await EngineProcess.start(EngineSpec("scripted", script_path=str(path), **spec), backoff=QUICK)
        try:
            await asyncio.wait_for(body(engine), 60)
        finally:
            await engine.close()

    asyncio.run(run())


async def outputs_of(engine: EngineProcess, prompt: str = "hello", **request: Any) -> list[StepOutput]:
    request = {"prompt_ids": await engine.tokenize(prompt), "max_tokens": 1000, "sampling": Sampling(), **request}
    return [output async for output in engine.generate(**request)]


def text_of(engine: EngineProcess, outputs: list[StepOutput]) -> str:
    return b"".join(engine.info.pieces[token_id] for output in outputs for token_id in output.token_ids).decode()


async def rest_of(stream: AsyncIterator[StepOutput]) -> list[StepOutput]:
    return [output async for output in stream]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # a zombie whose parent was killed is as good as gone
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" if Path("/proc").is_dir() else True


def test_many_requests_at_once(tmp_path: Path) -> None:
    async def body(engine: EngineProcess) -> None:
        assert engine.ready
        prompts = [f"<{index}>" for index in range(20)]
        results = await asyncio.gather(*(outputs_of(engine, prompt) for prompt in prompts))
        assert [text_of(engine, outputs) for outputs in results] == [f"answer {index}<|end|>" for index in range(20)]
        for outputs in results:
            assert outputs[0].token_ids == []
            assert [output.finish for output in outputs] == [None] * (len(outputs) - 1) + ["stop"]

    with_engine([{"match": f"<{index}>", "text": f"answer {index}"} for index in range(20)], tmp_path, body)


def test_what_can_never_run_is_a_value_error_with_both_numbers(tmp_path: Path) -> None:
    async def body(engine: EngineProcess) -> None:
        with pytest.raises(ValueError, match="the prompt has 40 tokens, but the context holds 32"):
            await outputs_of(engine, "x" * 40)
        with pytest.raises(ValueError, match="the prompt is empty"):
            await outputs_of(engine, "")
        with pytest.raises(ValueError, match="temperature is nan"):
            await outputs_of(engine, sampling=Sampling(temperature=float("nan")))
        with pytest.raises(ValueError, match="cannot be passed"):
            await outputs_of(engine, sampling=Sampling(seed=2**70))
        with pytest.raises(ValueError, match="cannot be passed"):
            await engine.tokenize("\ud800")
        assert text_of(engine, await outputs_of(engine)) == "fine<|end|>"

    with_engine([{"text": "fine", "repeat": True}], tmp_path, body, context_tokens=32)


def test_a_death_ends_requests_in_flight_and_the_engine_comes_back(tmp_path: Path) -> None:
    async def body(engine: EngineProcess) -> None:
        bystander = asyncio.create_task(outputs_of(engine, "slow"))
        await asyncio.sleep(0.1)
        with pytest.raises(EngineDied, match="exit code 13"):
            await outputs_of(engine, "boom")
        with pytest.raises(EngineDied):
            await bystander
        assert not engine.ready
        stream = engine.generate(prompt_ids=[65], max_tokens=1, sampling=Sampling())
        with pytest.raises(EngineRestarting, match="exit code 13") as refused:
            await anext(stream)
        assert refused.value.retry_after_s >= 1
        with pytest.raises(EngineRestarting):
            await engine.tokenize("hello")
        await until(lambda: engine.ready)
        assert text_of(engine, await outputs_of(engine)) == "fine<|end|>"

    script = [{"match": "boom", "text": "ab", "crash": True}, {"match": "slow", **FOREVER}, {"text": "fine", "repeat": True}]
    with_engine(script, tmp_path, body)


def test_killed_again_and_again(tmp_path: Path) -> None:
    async def body(engine: EngineProcess) -> None:
        for _ in range(3):
            streams = [asyncio.create_task(outputs_of(engine)) for _ in range(4)]
            await asyncio.sleep(0.05)
            assert engine.pid is not None
            os.kill(engine.pid, signal.SIGKILL)
            for stream in streams:
                with pytest.raises((EngineDied, EngineRestarting)):
                    await stream
            await until(lambda: engine.ready)
        assert len(await outputs_of(engine, max_tokens=3)) == 4

    with_engine([FOREVER], tmp_path, body)


def test_closing_the_iterator_cancels(tmp_path: Path) -> None:
    async def body(engine: EngineProcess) -> None:
        prompt_ids = await engine.tokenize("hello")
        for _ in range(20):  # more than run at a time: without cancels the last ones would wait for the first
            async with aclosing(engine.generate(prompt_ids=prompt_ids, max_tokens=2000, sampling=Sampling())) as stream:
                async for output in stream:
                    if output.token_ids:
                        break
        tasks = [asyncio.create_task(outputs_of(engine)) for _ in range(12)]
        await asyncio.sleep(0.1)
        for task in tasks:  # some of them running, some still queued
            task.cancel()
        assert len(await outputs_of(engine, max_tokens=2)) == 3

    with_engine([FOREVER], tmp_path, body)


def test_prefill_comes_in_chunks_and_prefixes_are_reused(tmp_path: Path) -> None:
    async def body(engine: EngineProcess) -> None:
        prompt = "x" * 1000
        cold = await outputs_of(engine, prompt)
        assert [(output.prefill_done, output.prefill_total) for output in cold[:4]] == [
            (0, 1000), (256, 1000), (512, 1000), (768, 1000),
        ]  # fmt: skip
        assert (cold[-1].cached_tokens, cold[-1].cache_miss) == (0, "cold")
        warm = await outputs_of(engine, prompt + "y")
        assert (warm[-1].cached_tokens, warm[-1].prefill_total) == (1000, 1)
        off = await outputs_of(engine, prompt, use_cache=False)
        assert off[-1].cached_tokens == 0

    with_engine([{"text": "ok", "repeat": True}], tmp_path, body)


def test_the_engine_is_out_of_reach_of_the_terminal_and_close_leaves_nothing(tmp_path: Path) -> None:
    pids = []

    async def body(engine: EngineProcess) -> None:
        assert engine.pid is not None
        pids.append(engine.pid)
        assert os.getsid(engine.pid) == engine.pid
        stream = asyncio.create_task(outputs_of(engine))
        await asyncio.sleep(0.05)
        await engine.close()
        with pytest.raises(EngineDied, match="the server closed it"):
            await stream
        with pytest.raises(EngineDied, match="closed"):
            await engine.tokenize("hello")

    with_engine([FOREVER], tmp_path, body)
    assert not alive(pids[0])


def test_the_engine_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    program = """
import asyncio, sys
from daneel.server.engine_process import EngineProcess, EngineSpec
async def main():
    engine = await EngineProcess.start(EngineSpec("scripted"))
    print(engine.pid, flush=True)
    await asyncio.sleep(1000)
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.kill()
    asyncio.run(asyncio.wait_for(until(lambda: not alive(pid)), 20))


@pytest.mark.model
def test_the_cache_on_disk_outlives_the_process(smollm2_path: Path, tmp_path: Path) -> None:
    kept = PromptCache(folder=str(tmp_path / "cache"))
    spec = EngineSpec("llama.cpp", model_path=str(smollm2_path), context_tokens=512, num_threads=1, prompt_cache=kept)

    async def run() -> StepOutput:
        engine = await EngineProcess.start(spec)
        try:
            prompt = await engine.tokenize("word " * 60)
            outputs = engine.generate(prompt_ids=prompt, max_tokens=2, sampling=Sampling(temperature=0.0))
            return [output async for output in outputs][-1]
        finally:
            await engine.close()

    assert asyncio.run(run()).cache_source is None
    warm = asyncio.run(run())
    assert (warm.cache_source, warm.cache_miss) == ("disk", None)


@pytest.mark.model
def test_the_real_engine_is_killed_cancelled_and_greedy_as_before(smollm2_path: Path) -> None:
    async def run() -> None:
        fractions: list[float] = []
        spec = EngineSpec("llama.cpp", model_path=str(smollm2_path), context_tokens=2048, num_threads=1)
        engine = await EngineProcess.start(spec, backoff=QUICK, on_progress=fractions.append)
        try:
            assert fractions == sorted(fractions)
            assert fractions[-1] == 1.0
            greedy = {"sampling": Sampling(temperature=0.0), "max_tokens": 5}
            expected = [output.token_ids for output in await outputs_of(engine, **greedy)]
            long_prompt = await engine.tokenize("word " * 1500)
            async with aclosing(engine.generate(prompt_ids=long_prompt, **greedy)) as stream:
                async for output in stream:
                    if output.prefill_done:
                        break  # cancelled in prefill
            assert [output.token_ids for output in await outputs_of(engine, **greedy)] == expected
            stream = engine.generate(prompt_ids=long_prompt, **greedy)
            await anext(stream)
            queued = asyncio.create_task(outputs_of(engine, **greedy))
            await asyncio.sleep(0.1)
            assert engine.pid is not None
            os.kill(engine.pid, signal.SIGKILL)
            with pytest.raises(EngineDied, match="SIGKILL"):
                await rest_of(stream)
            with pytest.raises(EngineDied, match="SIGKILL"):
                await queued
            await until(lambda: engine.ready)
            assert [output.token_ids for output in await outputs_of(engine, **greedy)] == expected
        finally:
            await engine.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (EngineSpec("nonsense"), "there is no engine 'nonsense'; there are: llama.cpp, scripted"),
        (EngineSpec("scripted", script_path="missing.jsonl"), "missing.jsonl cannot be read"),
        (EngineSpec("llama.cpp"), "needs a model file"),
        (EngineSpec("llama.cpp", model_path="missing.gguf"), "there is no model file missing.gguf"),
    ],
)
def test_load_errors_are_one_sentence(spec: EngineSpec, message: str) -> None:
    with pytest.raises(EngineLoadError, match=message) as failed:
        asyncio.run(EngineProcess.start(spec))
    assert "\n" not in str(failed.value)


def test_back_off_doubles_up_to_the_ceiling() -> None:
    assert [Backoff().delay_s(count) for count in (0, 1, 2, 10, 10_000)] == [0.5, 1.0, 2.0, 30.0, 30.0]


def test_the_cache_is_asked_and_resized_also_for_the_engine_after_a_crash(tmp_path: Path) -> None:
    async def body(engine: EngineProcess) -> None:
        await outputs_of(engine, "x" * 50, tenant="a")
        assert [entry.tokens for entry in await engine.cache_entries("a")] == [55]
        assert await engine.cache_entries("b") == []
        wanted = CacheLimits(max_idle_tokens=10, max_entries=3, max_bytes=1000, max_disk_bytes=None)
        assert await engine.resize_cache(wanted) == engine.cache_limits == wanted
        assert [entry.tier for entry in await engine.cache_entries("a")] == ["host_memory"]
        with pytest.raises(EngineDied):
            await outputs_of(engine, "boom")
        with pytest.raises((EngineDied, EngineRestarting)):
            await engine.cache_entries("a")
        await until(lambda: engine.ready)
        assert await engine.resize_cache(engine.cache_limits) == wanted
        await outputs_of(engine, "x" * 50, tenant="a")
        assert len(await engine.clear_cache("a")) == 1
        assert await engine.cache_entries("a") == []

    with_engine([{"match": "boom", "text": "ab", "crash": True}, {"text": "fine", "repeat": True}], tmp_path, body)
