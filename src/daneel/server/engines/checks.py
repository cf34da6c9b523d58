"""What every engine checks of a request before any number reaches native code."""

from __future__ import annotations

import math
from dataclasses import dataclass

from daneel.server.engines.base import Generate, Sampling

MAX_LOGPROBS = 100
_MAX_INT32 = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Limits:
    """Of a loaded model."""

    num_vocab: int
    context_tokens: int


def check_request(request: Generate, limits: Limits) -> None:
    """Raise `ValueError` naming the field and the value when `request` can never run."""
    num_prompt = len(request.prompt_ids)
    if num_prompt == 0:
        raise ValueError("the prompt is empty: it has 0 tokens")
    if num_prompt >= limits.context_tokens:
        raise ValueError(
            f"the prompt has {num_prompt} tokens, but the context holds {limits.context_tokens}, "
            "with room for at least one generated token"
        )
    for token_id in request.prompt_ids:
        if not 0 <= token_id < limits.num_vocab:
            raise ValueError(f"prompt token id {token_id} is not in the vocabulary of {limits.num_vocab} tokens")
    if request.max_tokens < 1:
        raise ValueError(f"max_tokens is {request.max_tokens}, but must be at least 1")
    _check_sampling(request.sampling, limits)


def _check_sampling(sampling: Sampling, limits: Limits) -> None:
    _check_range("temperature", sampling.temperature, 0.0, 100.0)
    _check_range("top_k", sampling.top_k, 0, _MAX_INT32)
    _check_range("top_p", sampling.top_p, 0.0, 1.0)
    _check_range("min_p", sampling.min_p, 0.0, 1.0)
    _check_range("repetition_penalty", sampling.repetition_penalty, 1e-3, 1e3)
    _check_range("presence_penalty", sampling.presence_penalty, -100.0, 100.0)
    _check_range("frequency_penalty", sampling.frequency_penalty, -100.0, 100.0)
    if sampling.logprobs is not None:
        _check_range("logprobs", sampling.logprobs, 0, MAX_LOGPROBS)
    for token_id, bias in sampling.logit_bias.items():
        if not 0 <= token_id < limits.num_vocab:
            raise ValueError(f"logit_bias token id {token_id} is not in the vocabulary of {limits.num_vocab} tokens")
        _check_range(f"logit_bias[{token_id}]", bias, -1e4, 1e4)


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not (math.isfinite(value) and low <= value <= high):
        raise ValueError(f"{name} is {value}, but must be from {low:g} to {high:g}")
