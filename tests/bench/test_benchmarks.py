"""The benchmarks run and end in one JSON object. What they measure is for people to read, not for a test to judge."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


def last_line_of(script: str, *arguments: str) -> dict:
    command = [sys.executable, str(BENCH / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_parse():
    result = last_line_of("parse.py", "--quick", "--families", "gemma4", "gpt-oss", "qwen3-coder")
    assert {row["format"] for row in result["rows"]} == {"gemma4", "gpt-oss", "qwen3-coder"}
    assert all(row["us_per_piece"] > 0 and row["long_to_short"] > 0 for row in result["rows"])


@pytest.mark.parametrize("arguments", [(), ("--in-process",), ("--in-process", "--no-transcript")])
def test_loop(arguments):
    result = last_line_of("loop.py", "--steps", "120", "--report-only", *arguments)
    assert result["steps"] == 120
    assert set(result["within"]) == {"p50", "p95", "total", "memory"}
    assert 0 < result["p50_ms"] <= result["p95_ms"] <= result["max_ms"]
    assert result["max_messages"] < 240  # the conversation was made shorter


def test_pairs():
    (row,) = last_line_of("pairs.py", "--quick")["rows"]
    assert row["fixed"] <= row["betting"] < 3 * row["fixed"]
    assert row["mean_used"] < row["betting"]


def test_store():
    result = last_line_of("store.py", "--trials", "20", "--rounds", "1", "--report-only")
    assert result["events"] == 2000
    assert all(result[name]["full"]["best"] > 0 for name in ("appended_events_per_s", "appended_events_per_cpu_s", "list_s"))


@pytest.mark.model
def test_serve(smollm2_path):
    arguments = ("--model", str(smollm2_path), "--rounds", "1", "--prompt-words", "20", "--tokens", "8")
    result = last_line_of("serve.py", *arguments)
    assert result["completion_tokens"] == 8
    assert all(result[name]["ratio"] > 0 for name in ("decode_tokens_per_s", "prefill_tokens_per_s", "whole_request_per_s"))
