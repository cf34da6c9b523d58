"""Drawing a token with llama.cpp's sampler chain, and the log-probabilities of what was drawn."""

from __future__ import annotations

import secrets
from typing import Any

import llama_cpp.llama_cpp as native
import numpy as np
from numpy.typing import NDArray

from daneel.server.engines.base import Sampling, TokenAlternatives

_RANDOM_SEED = 0xFFFFFFFF  # llama.h, LLAMA_DEFAULT_SEED: "draw one"

_MIN_TEMPERATURE = 1e-5
"""Below it logits divided by the temperature leave the range of 32-bit floats; greedy is the limit anyway."""


class SamplerChain:
    """One sequence's sampler. Holds native memory until `close`."""

    def __init__(self, sampling: Sampling, *, prompt_ids: list[int], num_vocab: int, window: int) -> None:
        params = native.llama_sampler_chain_default_params()
        params.no_perf = True
        self._chain: Any = native.llama_sampler_chain_init(params)
        if sampling.logit_bias:
            biases = (native.llama_logit_bias * len(sampling.logit_bias))()
            for slot, (token_id, bias) in zip(biases, sampling.logit_bias.items(), strict=True):
                slot.token, slot.bias = token_id, bias
            self._add(native.llama_sampler_init_logit_bias(num_vocab, len(biases), biases))
        self._add_penalties(sampling, prompt_ids, num_vocab, window)
        if sampling.temperature < _MIN_TEMPERATURE:
            self._add(native.llama_sampler_init_greedy())
            return
        if sampling.top_k > 0:
            self._add(native.llama_sampler_init_top_k(min(sampling.top_k, num_vocab)))
        if sampling.top_p < 1:
            self._add(native.llama_sampler_init_top_p(sampling.top_p, 1))
        if sampling.min_p > 0:
            self._add(native.llama_sampler_init_min_p(sampling.min_p, 1))
        self._add(native.llama_sampler_init_temp(sampling.temperature))
        self._add(native.llama_sampler_init_dist(_seed(sampling.seed)))

    def _add(self, sampler: Any) -> None:
        native.llama_sampler_chain_add(self._chain, sampler)

    def _add_penalties(self, sampling: Sampling, prompt_ids: list[int], num_vocab: int, window: int) -> None:
        """Two samplers, because their histories differ (see `Sampling`)."""
        if sampling.repetition_penalty != 1:
            repetition = native.llama_sampler_init_penalties(num_vocab, window, sampling.repetition_penalty, 0.0, 0.0)
            for token_id in prompt_ids:
                native.llama_sampler_accept(repetition, token_id)
            self._add(repetition)
        if sampling.presence_penalty or sampling.frequency_penalty:
            self._add(
                native.llama_sampler_init_penalties(
                    num_vocab, window, 1.0, sampling.frequency_penalty, sampling.presence_penalty
                )
            )

    def sample(self, context: Any, row: int) -> int:
        """Draw from the logits of batch position `row`; the samplers that look back see the token."""
        return int(native.llama_sampler_sample(self._chain, context, row))

    def close(self) -> None:
        """Free the native memory. Safe to call twice."""
        if self._chain is not None:
            native.llama_sampler_free(self._chain)
            self._chain = None


def _seed(seed: int | None) -> int:
    if seed is None:
        seed = secrets.randbits(32)
    seed &= 0xFFFFFFFF
    return seed if seed != _RANDOM_SEED else 0


def alternatives(logits: NDArray[np.float32], token_id: int, num_top: int) -> TokenAlternatives:
    """Log-softmax of the model's own `logits` for `token_id` and the `num_top` likeliest tokens, likeliest first."""
    wide = logits.astype(np.float64)
    wide -= wide.max()
    logprobs = wide - np.log(np.exp(wide).sum())
    top: list[tuple[int, float]] = []
    if num_top > 0:
        likeliest = np.argpartition(-logprobs, min(num_top, len(logprobs)) - 1)[:num_top]
        ordered = sorted((int(index) for index in likeliest), key=lambda index: (-logprobs[index], index))
        top = [(index, float(logprobs[index])) for index in ordered]
    return TokenAlternatives(float(logprobs[token_id]), top)
