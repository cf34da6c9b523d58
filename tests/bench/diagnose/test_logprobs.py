"""Margins between tool names, from log-probabilities as servers give them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.planted.base import runs
from tests.support.planted.clean import clock

from daneel.bench.diagnose.diagnosis import diagnose
from daneel.bench.diagnose.logprobs import margins


def reply(called: str, *tokens: tuple[str, float, dict[str, float]]) -> dict[str, Any]:
    listed = [
        {"token": text, "logprob": logprob, "top_logprobs": [{"token": other, "logprob": far} for other, far in top.items()]}
        for text, logprob, top in tokens
    ]
    call = {"function": {"name": called, "arguments": "{}"}}
    return {"message": {"tool_calls": [call]}, "logprobs": {"content": listed}}


def test_the_margin_is_taken_at_the_first_token_that_tells_the_names_apart() -> None:
    said = reply(
        "cur_time",
        ('{"name": "', 0.0, {}),
        ("cur", -0.1, {"my": -3.0}),
        ("_time", -0.5, {"_date": -1.25, "_day": -4.0}),
    )
    assert {other: margin for _, other, margin in margins(said, ["cur_time", "cur_date", "my_date"])} == {
        "cur_date": pytest.approx(0.75),
        "my_date": pytest.approx(2.9),
    }


def test_a_token_may_begin_before_the_name_and_end_in_its_middle() -> None:
    said = reply("cur_time", ('": "cur_t', -0.2, {'": "cur_d': -0.9, "other": -1.0}), ("ime", 0.0, {}))
    assert list(margins(said, ["cur_time", "cur_date"])) == [("cur_time", "cur_date", pytest.approx(0.7))]


def test_a_name_that_goes_on_where_the_other_ends() -> None:
    said = reply("read", ("read", -0.1, {}), ('"', -0.3, {"_file": -1.3}))
    assert list(margins(said, ["read", "read_file"])) == [("read", "read_file", pytest.approx(1.0))]


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"logprobs": None},
        {"logprobs": {"content": [None, 3, {"token": 4}]}, "message": {"tool_calls": [None, {"function": None}]}},
        {"logprobs": {"content": [{"token": "a", "logprob": "x", "top_logprobs": [7 for _ in range(0)]}]}, "message": None},
    ],
)
def test_what_is_no_such_record_gives_nothing(data: dict[str, Any]) -> None:
    assert list(margins(data, ["a", "b"])) == []


@given(st.lists(st.text("ab_", min_size=1, max_size=3), max_size=6), st.text("ab_", min_size=1, max_size=4))
def test_any_tokens_give_margins_of_other_names_only(tokens: list[str], called: str) -> None:
    said = reply(called, *((token, -0.5, dict.fromkeys(tokens, -1.0)) for token in tokens))
    for name, other, margin in margins(said, [called, "a", "ab"]):
        assert (name, margin) == (called, 0.5)
        assert other != called


def test_a_model_that_hesitates_is_a_finding_and_one_that_does_not_is_none() -> None:
    for margin, expected in ((0.4, [("cur_time", "cur_date")]), (3.0, [])):
        ran = list(runs(clock, trials=30))
        for each in ran:
            each.margins = [(call.turn, "cur_time", "cur_date", margin) for call in each.calls if call.name == "cur_time"]
        assert [finding.tools for finding in diagnose(ran).findings if finding.kind == "ambiguity"] == expected
