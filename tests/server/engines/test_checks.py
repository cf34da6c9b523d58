"""No number from outside reaches native code unchecked."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.server.engines.base import Generate, Sampling
from daneel.server.engines.checks import Limits, check_request
from daneel.server.engines.prefix import common_prefix_length

LIMITS = Limits(num_vocab=100, context_tokens=10)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt_ids": []}, "the prompt is empty"),
        ({"prompt_ids": [1] * 10}, "the prompt has 10 tokens, but the context holds 10"),
        ({"prompt_ids": [100]}, "prompt token id 100"),
        ({"prompt_ids": [-1]}, "prompt token id -1"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"sampling": Sampling(temperature=-0.1)}, "temperature is -0.1"),
        ({"sampling": Sampling(temperature=math.inf)}, "temperature is inf"),
        ({"sampling": Sampling(top_k=-1)}, "top_k is -1"),
        ({"sampling": Sampling(top_k=2**31)}, "top_k is 2147483648"),
        ({"sampling": Sampling(top_p=1.1)}, "top_p is 1.1"),
        ({"sampling": Sampling(min_p=math.nan)}, "min_p is nan"),
        ({"sampling": Sampling(repetition_penalty=0.0)}, "repetition_penalty is 0.0"),
        ({"sampling": Sampling(presence_penalty=-math.inf)}, "presence_penalty is -inf"),
        ({"sampling": Sampling(frequency_penalty=1e30)}, r"frequency_penalty is 1e\+30"),
        ({"sampling": Sampling(logprobs=101)}, "logprobs is 101"),
        ({"sampling": Sampling(logit_bias={100: 1.0})}, "logit_bias token id 100"),
        ({"sampling": Sampling(logit_bias={5: math.nan})}, r"logit_bias\[5\] is nan"),
    ],
)
def test_what_can_never_run_is_named(changes: dict[str, Any], message: str) -> None:
    request = Generate(**{"request_id": 1, "prompt_ids": [1], "max_tokens": 1, "sampling": Sampling(), **changes})
    with pytest.raises(ValueError, match=message):
        check_request(request, LIMITS)


def test_the_edges_are_allowed() -> None:
    sampling = Sampling(0.0, 2**31 - 1, 0.0, 1.0, 1.0, 2.0, -2.0, -1, {0: -100.0, 99: 100.0}, 0)
    check_request(Generate(1, [0, 99] + [1] * 7, 10**9, sampling), LIMITS)


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)))
def test_the_common_prefix_is_common_and_longest(first: list[int], second: list[int]) -> None:
    length = common_prefix_length(first, second)
    assert first[:length] == second[:length]
    assert length in (len(first), len(second)) or first[length] != second[length]
