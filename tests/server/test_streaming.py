"""Streams over bare ASGI: what is written when, and what happens when the client leaves or the server stops."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.fake_model import FakeEngine, fake_model, step

from daneel.server import chat
from daneel.server.engine_process import EngineDied
from daneel.server.engines.base import StepOutput
from daneel.server.streaming import ClientGone, EventStream, while_connected
from daneel.wire.errors import ServerUnavailable
from daneel.wire.requests import parse_chat_request


class Connection:
    """ASGI's two ends. `leave()` disconnects."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.written = asyncio.Event()
        self._gone = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.messages.append(dict(message))
        self.written.set()

    def leave(self) -> None:
        self._gone.set()

    @property
    def bodies(self) -> list[bytes]:
        return [message["body"] for message in self.messages if message["type"] == "http.response.body"]

    @property
    def text(self) -> str:
        return b"".join(self.bodies).decode()


async def event_stream(engine: FakeEngine, stopping: asyncio.Event | None = None, **options: Any) -> EventStream:
    body = {"messages": [{"role": "user", "content": "Hi"}], "stream": True}
    request, warnings = parse_chat_request(json.dumps(body).encode())
    turn = await chat.begin(request, warnings, fake_model(engine))
    return EventStream(turn, stopping or asyncio.Event(), **options)


def streamed(outputs: list[StepOutput | Exception]) -> Connection:
    async def run() -> Connection:
        connection = Connection()
        stream = await event_stream(FakeEngine(outputs))
        await stream({}, connection.receive, connection.send)
        return connection

    return asyncio.run(run())


def test_a_keepalive_within_the_reply_says_that_the_prompt_is_done() -> None:
    async def run() -> Connection:
        connection = Connection()
        stream = await event_stream(FakeEngine([StepOutput(1, [], 0, 4, 9), step("ab")], hangs=True), keepalive_s=0.01)
        task = asyncio.create_task(stream({}, connection.receive, connection.send))
        while len(connection.bodies) < 4:
            await asyncio.sleep(0.005)
        connection.leave()
        await task
        return connection

    before, reply, *after = asyncio.run(run()).bodies
    assert before == b": keepalive 4/9\n\n"
    assert b"ab" in reply
    assert set(after) == {b": keepalive 9/9\n\n"}


def test_one_write_for_each_step_and_done_at_the_end() -> None:
    connection = streamed([StepOutput(1, [], 0, 0, 9), step("ab"), step("c"), step("<|end|>", finish="stop")])
    assert connection.messages[0]["status"] == 200
    assert dict(connection.messages[0]["headers"])[b"content-type"].startswith(b"text/event-stream")
    first, second, third, last, end = connection.bodies
    assert first == b": keepalive 0/9\n\n"
    assert (second.count(b"data: "), third.count(b"data: "), last.count(b"data: ")) == (2, 1, 1)
    assert b'"finish_reason":"stop"' in last
    assert end == b"data: [DONE]\n\n"
    assert [message.get("more_body") for message in connection.messages[1:]] == [True, True, True, True, False]


def test_progress_of_a_call_is_told_once_its_name_is_known_and_then_sparsely() -> None:
    call = '<tool_call>\n{"name": "f", "arguments": {"x": "' + "y" * 1000 + '"}}\n</tool_call>'
    comments = [
        line for line in streamed([*map(step, call), step("<|end|>", finish="stop")]).text.splitlines() if line[:1] == ":"
    ]
    assert comments
    assert all(line.startswith(": tool_call f ") for line in comments)
    assert len(comments) <= 6


def test_an_error_before_the_first_event_keeps_its_own_status() -> None:
    with pytest.raises(ServerUnavailable):
        streamed([EngineDied("killed")])


def test_an_error_after_it_is_an_event_and_done() -> None:
    connection = streamed([step("a"), EngineDied("killed")])
    *_, error, done = connection.text.strip().split("\n\n")
    assert json.loads(error.removeprefix("data: "))["error"]["message"] == "killed"
    assert done == "data: [DONE]"
    assert connection.messages[-1]["more_body"] is False


def test_a_bug_is_an_event_too_and_never_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    connection = streamed([step("a"), RuntimeError("secret detail")])
    error = json.loads(connection.text.strip().split("\n\n")[-2].removeprefix("data: "))["error"]
    assert error["type"] == "server_error"
    assert "secret" not in connection.text
    assert "secret detail" in capsys.readouterr().err
    assert connection.text.endswith("data: [DONE]\n\n")


def run_hanging(
    outputs: list[StepOutput | Exception], act: Callable[[Connection, asyncio.Event], None]
) -> tuple[Connection, FakeEngine]:
    async def run() -> tuple[Connection, FakeEngine]:
        engine, connection, stopping = FakeEngine(outputs, hangs=True), Connection(), asyncio.Event()
        stream = await event_stream(engine, stopping)
        task = asyncio.create_task(stream({}, connection.receive, connection.send))
        await (connection.written.wait() if outputs else engine.started.wait())
        act(connection, stopping)
        await task
        return connection, engine

    return asyncio.run(run())


def test_a_client_that_leaves_cancels_the_generation() -> None:
    connection, engine = run_hanging([step("a")], lambda connection, _: connection.leave())
    assert engine.num_open == 0
    assert "[DONE]" not in connection.text


def test_a_client_that_leaves_before_anything_was_written() -> None:
    connection, engine = run_hanging([], lambda connection, _: connection.leave())
    assert engine.num_open == 0
    assert connection.messages == []


def test_a_server_that_stops_ends_its_streams_with_an_error() -> None:
    connection, engine = run_hanging([step("a")], lambda _, stopping: stopping.set())
    assert engine.num_open == 0
    assert "shutting down" in connection.text
    assert connection.text.endswith("data: [DONE]\n\n")


def test_silence_is_broken_by_comments() -> None:
    async def run() -> Connection:
        connection = Connection()
        stream = await event_stream(FakeEngine(hangs=True), keepalive_s=0.01)
        task = asyncio.create_task(stream({}, connection.receive, connection.send))
        while len(connection.bodies) < 3:
            await asyncio.sleep(0.005)
        connection.leave()
        await task
        return connection

    assert set(asyncio.run(run()).bodies) == {b": keepalive 0/9\n\n"}


def test_work_ends_when_the_client_leaves_and_is_over_before_that_is_said() -> None:
    async def run() -> list[str]:
        connection, events = Connection(), []

        async def work() -> None:
            try:
                events.append("started")
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.01)
                events.append("ended")

        task = asyncio.create_task(while_connected(connection.receive, asyncio.Event(), work()))
        while not events:
            await asyncio.sleep(0)
        connection.leave()
        with pytest.raises(ClientGone):
            await task
        return events

    assert asyncio.run(run()) == ["started", "ended"]
