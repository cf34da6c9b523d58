"""What comes from the cache says what a cold run says, but for near ties where cells lie otherwise (docs/determinism.md)."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import tiny_models
from tests.support.tiny_engine import load, request, together, words

from daneel.server.engines.base import Sampling

BENCH = Path(__file__).resolve().parents[3] / "bench" / "equality.py"


@pytest.mark.model
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("num_prompts", "num_tokens", "rate", "difference"),
    [(2, 3, 1.0, 0.0), pytest.param(200, 16, 0.98, 1.0, marks=pytest.mark.exhaustive)],
)
def test_cache_fork_and_restore_say_what_cold_runs_say(
    smollm2_path: Path, num_prompts: int, num_tokens: int, rate: float, difference: float
) -> None:
    arguments = ["--prompts", str(num_prompts), "--tokens", str(num_tokens), "--prefill-step-size", "48"]
    command = [sys.executable, str(BENCH), "--model", str(smollm2_path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["in_order"]  # in a batch log-probabilities differ, but within the bound
    for arm in ("cache", "fork", "restore"):
        assert result[arm]["of"] >= num_prompts - 1
        assert result[arm]["rate"] >= rate, arm
        assert result[arm]["max_logprob_difference"] <= difference, arm


@pytest.mark.parametrize("write", [tiny_models.write_llama, tiny_models.write_falcon_h1])
def test_the_same_seeds_in_the_same_batches_give_the_same_tokens(write: object, tmp_path: Path) -> None:
    engine = load(write(tmp_path / "tiny.gguf"))  # type: ignore[operator]
    prompts = [words(random.Random(number), 20 + 9 * number) for number in range(4)]

    def replies(first_seed: int) -> list[list[tuple[list[int], object]]]:
        engine.cache.clear()
        asked = [
            request(prompt, sampling=Sampling(temperature=1.5, seed=first_seed + number, logprobs=3))
            for number, prompt in enumerate(prompts)
        ]
        return [[(output.token_ids, output.logprobs) for output in outputs] for outputs in together(engine, *asked)]

    assert replies(1) == replies(1)
    assert replies(1) != replies(100)
    engine.close()
