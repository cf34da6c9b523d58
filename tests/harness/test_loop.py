"""The loop against a scripted server: what a model may write, and how the run ends."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from daneel import Harness, tool
from daneel.harness.client import Client
from daneel.harness.loop import run
from daneel.harness.policy import Recovery
from daneel.harness.run_record import Event, Run
from tests.support.scripted_server import ScriptedServer, calls, error, failed_call, text


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def cur_time() -> str:
    """Get current time"""
    return "12:00:00"


@tool
def cur_date() -> str:
    """Get current date"""
    return "2026-10-14"


@tool
def broken() -> str:
    """Always fails"""
    raise ValueError("no such thing")


CLOCK = Harness(tools=[cur_time, cur_date], system="Be brief.")
ADDER = Harness(tools=[add])


def play(
    script: Any, harness: Harness = CLOCK, *, owned_by: str = "daneel", stream: bool = True, **more: Any
) -> tuple[Run, list[Any]]:
    with ScriptedServer(script, owned_by=owned_by) as server, Client(server.url, wait=lambda _: None) as client:
        return run(harness, "What's the time?", client=client, stream=stream, **more), server.requests


def kinds(result: Run) -> list[str]:
    return [event.kind for event in result.events]


@pytest.mark.parametrize("stream", [True, False])
def test_calls_are_made_and_results_go_back_as_tool_messages(stream: bool) -> None:
    result, requests = play([calls(("cur_time", {}), ("cur_date", {})), text("12:00 on 2026-10-14")], stream=stream)
    assert (result.stop_reason, result.answer, result.turns) == ("answered", "12:00 on 2026-10-14", 2)
    assert [(call.name, call.arguments, call.result, call.error) for call in result.calls] == [
        ("cur_time", {}, "12:00:00", None),
        ("cur_date", {}, "2026-10-14", None),
    ]
    first, second = requests
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    assert [entry["function"]["name"] for entry in first["tools"]] == ["cur_time", "cur_date"]
    assistant, *results = second["messages"][2:]
    assert [call["id"] for call in assistant["tool_calls"]] == [message["tool_call_id"] for message in results]
    assert [message["content"] for message in results] == ["12:00:00", "2026-10-14"]
    assert result.messages[-1]["content"] == "12:00 on 2026-10-14"
    assert result.events == []
    assert result.usage.prompt_tokens > 0


def test_a_plain_style_on_a_foreign_server_sends_no_tool_messages() -> None:
    harness = CLOCK.with_changes(tool_result_style="plain")
    result, requests = play([calls(("cur_time", {})), text("12:00")], harness, owned_by="someone")
    assert result.answer == "12:00"
    assert [message["role"] for message in requests[1]["messages"]][-1] == "user"
    assert "cur_time: 12:00:00" in requests[1]["messages"][-1]["content"]
    assert "What's the time?" in requests[1]["messages"][-1]["content"]
    assert "tool_result_style" not in requests[1]


def test_a_plain_style_on_daneels_server_is_asked_for_by_name() -> None:
    harness = CLOCK.with_changes(tool_result_style="plain")
    _, requests = play([calls(("cur_time", {})), text("12:00")], harness)
    assert requests[1]["tool_result_style"] == "plain"
    assert requests[1]["messages"][-1]["role"] == "tool"
