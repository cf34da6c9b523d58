"""LFM2 and OLMo 3: Python calls between markers, well and badly written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.formats.joined import parse

from daneel.formats.registry import get

OPEN, CLOSE = "<|tool_call_start|>", "<|tool_call_end|>"
LINES, END = "<function_calls>", "</function_calls>"
ONE = ("f", {"x": 1})
NOW: tuple[str, dict[str, Any]] = ("now", {})


@pytest.mark.parametrize(
    ("family", "text", "calls", "repairs", "content"),
    [
        ("lfm2", f"Sure.{OPEN}[f(x=1), now()]{CLOSE}<|im_end|>", [ONE, NOW], [None, None], "Sure."),
        ("lfm2", f"{OPEN}\n[\n f(x=1)\n]\n{CLOSE} and {OPEN}[now()]{CLOSE}", [ONE, NOW], [None, None], "and "),
        ("lfm2", f"{OPEN}[f(x='{CLOSE}')]{CLOSE}", [("f", {"x": CLOSE})], [None], ""),
        ("lfm2", f"{OPEN}f(x=1){CLOSE}", [ONE], ["missing_brackets"], ""),
        ("lfm2", f"{OPEN}[f(x=1)]", [ONE], ["missing_close_marker"], ""),
        ("lfm2", f"{OPEN}[f(x=1){CLOSE}ok", [ONE], ["missing_list_end"], "ok"),
        ("lfm2", f"{OPEN}[f(x=1)][now()]{CLOSE}", [ONE, NOW], ["shared_markers", None], ""),
        ("lfm2", f'{OPEN}[{{"name": "f", "arguments": {{"x": 1}}}}]{CLOSE}', [ONE], [None], ""),
        ("lfm2", f'{OPEN} {{"name": "f", "arguments": {{"x": 1}}}}{CLOSE}', [ONE], ["object_body"], ""),
        ("lfm2", f"I write {OPEN} for that.", [], [], f"I write {OPEN} for that."),
        ("olmo3", f"{LINES}\nf(x=1)\nnow()\n{END}", [ONE, NOW], [None, None], ""),
        ("olmo3", f"{LINES}f(x=1)\nnow()", [ONE, NOW], [None, "missing_close_marker"], ""),
        ("olmo3", f"{LINES}[f(x=1)]{END}", [ONE], ["list_body"], ""),
    ],
)
def test_calls(family: str, text: str, calls: list[tuple[str, Any]], repairs: list[str | None], content: str) -> None:
    for cut in range(len(text)):
        got = parse(get(family), text, (cut,))
        assert [(call.name, json.loads(call.arguments)) for call in got.calls] == calls
        assert ([call.repair for call in got.calls], got.content, got.failed) == (repairs, content, [])


@pytest.mark.parametrize(
    ("family", "text", "names", "raw", "kind", "offset"),
    [
        ("lfm2", f"{OPEN}[f(x=Paris)]{CLOSE}", [], f"{OPEN}[f(x=Paris)]{CLOSE}", "malformed", 24),
        ("lfm2", f"{OPEN}[f(1)]{CLOSE}{OPEN}[now()]{CLOSE}", ["now"], f"{OPEN}[f(1)]{CLOSE}", "malformed", 22),
        ("lfm2", f"{OPEN}[f(x='it's')]{CLOSE}", [], f"{OPEN}[f(x='it's')]{CLOSE}", "malformed", 28),
        ("lfm2", f"{OPEN}[now(), f(x=1", ["now"], ", f(x=1", "truncated", 7),
        ("lfm2", f"{OPEN}[f(x='a{CLOSE} and more", [], f"{OPEN}[f(x='a{CLOSE}", "malformed", 26),
        ("lfm2", f"{OPEN}[f(x=1)] so {CLOSE}", [], f"{OPEN}[f(x=1)] so {CLOSE}", "malformed", 28),
        ("olmo3", f"{LINES}now()\nf(1){END}", ["now"], f"\nf(1){END}", "malformed", 3),
        ("olmo3", f"{LINES}now()\nf(", ["now"], "\nf(", "truncated", 3),
    ],
)
def test_what_cannot_be_read_is_a_failed_call_and_the_calls_beside_it_survive(
    family: str, text: str, names: list[str], raw: str, kind: str, offset: int
) -> None:
    for cut in range(len(text)):
        got = parse(get(family), text, (cut,))
        assert [call.name for call in got.calls] == names
        assert [(failed.raw, failed.error_type, failed.offset) for failed in got.failed] == [(raw, kind, offset)]
