"""The llama.cpp engine on a tiny model: requests by token ids, and what they say, with the cache and without."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from daneel.server.engines import llama_cpp as engine_module
from daneel.server.engines.base import EngineSpec, Generate, Sampling, StepOutput
from daneel.server.engines.llama_cpp import LlamaCppEngine

GREEDY = Sampling(temperature=0.0, logprobs=5)
NEARLY = 0.1
"""In other batches the log-probabilities of these models were found to differ by up to 0.02, behind another past by 1."""
_ids = itertools.count(1)


def load(path: Path, **spec: Any) -> LlamaCppEngine:
    """One thread, 512 tokens of context, 4 requests at a time, prompts in chunks of 32 unless `spec` says otherwise."""
    facts = {"num_threads": 1, "context_tokens": 512, "num_sequences": 4, "prefill_chunk_tokens": 32, **spec}
    return engine_module.load(EngineSpec("llama.cpp", model_path=str(path), **facts), lambda fraction: None)


def words(chance: random.Random, size: int) -> list[int]:
    """So many random tokens, each a byte."""
    return [chance.randrange(3, 259) for _ in range(size)]


def request(prompt_ids: Sequence[int], **fields: Any) -> Generate:
    """A greedy request for 12 tokens with an id of its own."""
    return Generate(
        **{"request_id": next(_ids), "prompt_ids": list(prompt_ids), "max_tokens": 12, "sampling": GREEDY, **fields}
    )


def finish(engine: LlamaCppEngine) -> dict[int, list[StepOutput]]:
    """All outputs of all admitted requests, by request."""
    outputs: dict[int, list[StepOutput]] = {}
    while step := engine.step():
        for output in step:
            outputs.setdefault(output.request_id, []).append(output)
    return outputs


def said(outputs: Sequence[StepOutput]) -> list[int]:
    """The tokens of one request. Fails when it ended with an error."""
    assert outputs[-1].error is None
    return [token_id for output in outputs for token_id in output.token_ids]


def together(engine: LlamaCppEngine, *requests: Generate) -> list[list[StepOutput]]:
    """The outputs of requests that are admitted at the same time."""
    for each in requests:
        engine.check(each)
        engine.admit(each)
    outputs = finish(engine)
    return [outputs[each.request_id] for each in requests]


def ask(engine: LlamaCppEngine, prompt_ids: Sequence[int], **fields: Any) -> list[StepOutput]:
    """The outputs of one request alone."""
    return together(engine, request(prompt_ids, **fields))[0]


def cold(engine: LlamaCppEngine, prompt_ids: Sequence[int], **fields: Any) -> list[StepOutput]:
    """The outputs of a request that is alone and neither reads the cache nor leaves anything there."""
    outputs = ask(engine, prompt_ids, use_cache=False, keep_cache=False, **fields)
    assert outputs[-1].cached_tokens == 0
    return outputs


def assert_same(outputs: Sequence[StepOutput], expected: Sequence[StepOutput]) -> None:
    """Both say the same with the same log-probabilities, up to rounding: where the likeliest two tie, either may come."""
    tokens, wanted = said(outputs), said(expected)
    found = [alternatives for output in outputs for alternatives in output.logprobs or []]
    known = [alternatives for output in expected for alternatives in output.logprobs or []]
    assert len(found) == len(tokens)
    for at, (token, want) in enumerate(zip(tokens, wanted, strict=False)):
        here, there = dict(found[at].top), dict(known[at].top)
        assert {token, want} <= here.keys() & there.keys(), (at, here, there)
        for each in here.keys() & there.keys():
            assert abs(here[each] - there[each]) < NEARLY, (at, here, there)
        if token != want:
            assert abs(there[token] - there[want]) < NEARLY, (at, here, there)
            return
    assert len(tokens) == len(wanted)
