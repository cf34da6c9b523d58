"""Running a tool, and its result as text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

from daneel import tool
from daneel.harness.tools.registry import result_text


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("as it is", "as it is"),
        ("", ""),
        (3, "3"),
        (None, "null"),
        (True, "true"),
        ({"a": [1, 2.5]}, '{"a":[1,2.5]}'),
        (Point(1), '{"x":1}'),
        ([date(2026, 10, 14)], '["2026-10-14"]'),
        (float("nan"), '"NaN"'),
        ("odd \ud800 name", "odd ? name"),
    ],
)
def test_result_text(result: Any, text: str) -> None:
    assert result_text(result) == text


def test_what_has_no_json_form_is_told_by_its_name() -> None:
    class Thing:
        def __str__(self) -> str:
            return "a thing"

    assert result_text([Thing()]) == '["a thing"]'


def test_an_async_function_is_awaited() -> None:
    @tool
    async def later(n: int) -> int:
        """Later."""
        return n + 1

    assert later.run({"n": 1}) == "2"


def test_what_an_async_generator_yields_is_its_result() -> None:
    @tool
    async def numbers(n: int) -> AsyncIterator[int]:
        """Numbers."""
        for number in range(n):
            yield number

    assert numbers.run({"n": 3}) == "[0,1,2]"


def test_the_source_is_kept_for_the_fingerprint() -> None:
    @tool
    def f() -> int:
        """F."""
        return 41

    assert "return 41" in f.source
