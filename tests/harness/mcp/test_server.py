"""Harnesses as tools of an MCP server, asked by the MCP library's own client."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.support.scripted_server import ScriptedServer, calls, text

from daneel import Harness, tool
from daneel.harness.client import Client
from daneel.harness.mcp.server import HarnessServer, RunWatcher
from daneel.harness.run_record import Event
from daneel.harness.stop import Stop

anyio = pytest.importorskip("anyio")
mcp = pytest.importorskip("mcp")


@tool
def cur_time() -> str:
    """Get current time"""
    return "12:00:00"


HARNESS = Harness(tools=[cur_time])


def ask(script: Any, *asked: tuple[str, dict[str, Any]], **more: Any) -> list[Any]:
    """The results of calls to a server of two harnesses, the list of its tools first."""
    with ScriptedServer(script) as server, Client(server.url) as model:
        served = HarnessServer(harnesses={"clock": HARNESS, "odd name": Harness()}, client=model, **more).make()

        async def talk() -> list[Any]:
            async with mcp.Client(served) as client:
                listed = await client.list_tools()
                return [listed.tools, *[await client.call_tool(name, arguments) for name, arguments in asked]]

        return list(anyio.run(talk))


def said(result: Any) -> str:
    return str(result.content[0].text)


def test_each_harness_is_a_tool() -> None:
    [tools] = ask([], descriptions={"odd name": "Anything."})
    assert [each.name for each in tools] == ["clock", "odd_name"]
    assert tools[0].description.startswith("Give a task to the agent clock.")
    assert "cur_time" in tools[0].description
    assert tools[1].description == "Anything."
    assert tools[0].input_schema["required"] == ["prompt"]


def test_a_prompt_is_answered_with_a_run() -> None:
    _, result = ask([calls(("cur_time", {})), text("It is 12:00.")], ("clock", {"prompt": "What time is it?"}))
    assert not result.is_error
    assert said(result) == "It is 12:00."
    data = result.structured_content
    assert (data["stop_reason"], data["turns"], data["answer"]) == ("answered", 2, "It is 12:00.")
    assert data["id"]


def test_a_run_without_an_answer_is_an_error_with_its_reason() -> None:
    _, result = ask([text("")] * 10, ("clock", {"prompt": "What time is it?"}))
    assert result.is_error
    assert said(result).startswith("The agent gave no answer: gave_up (")


@pytest.mark.parametrize("arguments", [{}, {"prompt": ""}, {"prompt": 3}, {"prompt": " \n"}])
def test_a_prompt_that_is_none(arguments: dict[str, Any]) -> None:
    _, result = ask([], ("clock", arguments))
    assert result.is_error
    assert said(result).startswith("prompt must be text")


def test_an_unknown_tool() -> None:
    _, result = ask([], ("weather", {"prompt": "x"}))
    assert result.is_error
    assert said(result) == "there is no tool weather; there are clock, odd_name"


def test_a_call_that_its_client_cancels_ends_the_run() -> None:
    ended = threading.Event()
    reasons: list[Any] = []

    class Kept:
        def begin(self, run_id: str, about: Any) -> Any:
            return self

        def append(self, event: Event, *, durable: bool) -> None:
            pass

        def end(self, run: Any) -> None:
            reasons.append(run.stop_reason)
            ended.set()

    def endless(_: Any) -> Any:
        return calls(("cur_time", {}))

    with ScriptedServer(endless) as server, Client(server.url) as model:
        harness = Harness(tools=[tool(name="cur_time", description="Time", repeats=True)(cur_time.function)], max_turns=None)
        served = HarnessServer(harnesses={"clock": harness}, client=model, transcript=Kept()).make()

        async def talk() -> None:
            async with mcp.Client(served) as client:
                with anyio.move_on_after(1.0):
                    await client.call_tool("clock", {"prompt": "Go on for ever."})

        anyio.run(talk)
        assert ended.wait(60)
    assert reasons == ["cancelled"]


def test_a_watcher_ends_a_run_once() -> None:
    watcher = RunWatcher()
    watcher.on_event(Event("request", 1))
    watcher.cancelled.set()
    with pytest.raises(Stop):
        watcher.on_event(Event("call", 1, {"name": "cur_time"}))
    watcher.on_event(Event("stop", 1))
    assert watcher.events == ["turn 1", "turn 1: cur_time"]


def test_progress_is_told() -> None:
    told: list[str | None] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    release = threading.Event()

    def slow(_: Any) -> Any:
        release.wait(30)
        return text("Done.")

    with ScriptedServer([calls(("cur_time", {})), slow]) as server, Client(server.url) as model:
        served = HarnessServer(harnesses={"clock": HARNESS}, client=model, progress_interval_s=0.01).make()

        async def talk() -> Any:
            async def wait_for_progress() -> None:
                while "turn 2" not in told:
                    await anyio.sleep(0.01)
                release.set()

            async with mcp.Client(served) as client, anyio.create_task_group() as group:
                group.start_soon(wait_for_progress)
                return await client.call_tool("clock", {"prompt": "x"}, progress_callback=on_progress)

        result = anyio.run(talk)
    assert said(result) == "Done."
