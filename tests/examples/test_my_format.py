"""The example of a format of one's own, through the server with the scripted engine and through `daneel parse`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2

from daneel.cli.local_server import LocalServer

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "my_format.py"
OUTPUT = '# I should look.\nOne moment.\n@get_weather {"city": "Paris"}\n@get_weather {"city"\nDone.'
TOOLS = [{"type": "function", "function": {"name": "get_weather"}}]


def check(message: dict[str, Any]) -> None:
    assert message["reasoning"] == "# I should look.\n"
    assert message["content"] == "One moment.\nDone."
    [call] = message["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("get_weather", {"city": "Paris"})
    [failed] = message["failed_tool_calls"]
    assert (failed["raw"], failed["position"], failed["format"]) == ('@get_weather {"city"\n', 1, "my_format")


def test_it_is_about_twenty_lines_and_one_method() -> None:
    code = EXAMPLE.read_text(encoding="utf-8")
    assert len(code.splitlines()) <= 30
    assert code.count("def ") == 1


def test_the_server_reads_with_it_whole_and_streamed() -> None:
    options = ["--format-file", str(EXAMPLE), "--format", "hermes"]
    with LocalServer(None, engine="scripted", extra_args=options) as url:
        ask = {
            "messages": [{"role": "user", "content": "Weather?"}],
            "tools": TOOLS,
            "script": OUTPUT,
            "on_failed_tool_call": "report",
        }
        reply = httpx2.post(f"{url}/chat/completions", json=ask, timeout=60).json()
        check(reply["choices"][0]["message"])
        details = reply["usage"]["completion_tokens_details"]
        assert sum(details.values()) == reply["usage"]["completion_tokens"]
        assert all(details[f"{kind}_tokens"] for kind in ("reasoning", "content", "tool", "failed"))
        streamed = httpx2.post(f"{url}/chat/completions", json={**ask, "stream": True}, timeout=60).text
        deltas = [json.loads(line[6:])["choices"][0]["delta"] for line in streamed.splitlines() if line.startswith("data: {")]
        assert "".join(delta.get("content", "") for delta in deltas) == "One moment.\nDone."
        [model] = httpx2.get(f"{url}/models").json()["data"]
        assert (model["format"], model["format_from"]) == ("my_format", "file")
        assert model["self_test"]["passed"] == []  # the engine's template writes calls in another way
        assert "--format" in model["warnings"][0]


def test_daneel_parse_reads_with_it() -> None:
    command = [sys.executable, "-m", "daneel", "parse", "--format-file", str(EXAMPLE)]
    done = subprocess.run(command, input=OUTPUT, capture_output=True, encoding="utf-8", timeout=60, check=True)
    check(json.loads(done.stdout))
