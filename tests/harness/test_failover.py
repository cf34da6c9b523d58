"""Several servers that stand in for each other."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest
from tests.support.scripted_server import HANG, Reply, ScriptedServer, calls, chunk, error, failed_call, raw, sse, text

from daneel import Harness, tool
from daneel.errors import UserError
from daneel.harness.client import (
    BadReply,
    Client,
    ClientError,
    ContextOverflow,
    ErrorInStream,
    KeyRefused,
    ProgressTimeout,
    RequestCancelled,
    RequestTimeout,
    RetryPolicy,
    ServerBusy,
    ServerRefused,
    ServerUnreachable,
    StreamBroken,
    Timeouts,
)
from daneel.harness.loop import run

ASK = [{"role": "user", "content": "Hello"}]
SSE = {"Content-Type": "text/event-stream"}
CUT = {**SSE, "Content-Length": "900", "Connection": "close"}


class Waits(list[float]):
    """Takes the client's pauses instead of sleeping."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def gone() -> str:
    with ScriptedServer([]) as server:
        return server.url


def client_of(*servers: ScriptedServer | str, **options: Any) -> Client:
    urls = [server if isinstance(server, str) else server.url for server in servers]
    return Client(urls, **{"wait": Waits(), **options})


BEFORE_THE_FIRST_TOKEN = {
    "dropped": raw(headers=CUT),
    "dropped after a keepalive": raw(b": keepalive 1/2\n\n", headers=CUT),
    "500": error(500, "boom"),
    "502": error(502, b"<html>Bad gateway"),
    "504": error(504, "slow"),
    "401": error(401, "no key"),
    "404": error(404, "no such model"),
    "moved": error(301, "moved", headers={"Location": "https://h/"}),
    "no JSON": raw(b"<html>Log in"),
    "empty": raw(b""),
    "an error frame": sse({"error": {"message": "boom"}}),
    "busy for an hour": error(503, "full", headers={"Retry-After": "3600"}),
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", BEFORE_THE_FIRST_TOKEN)
def test_another_server_is_asked_at_once_when_one_fails_before_the_first_token(name: str, stream: bool) -> None:
    waits = Waits()
    reply = BEFORE_THE_FIRST_TOKEN[name]
    with (
        ScriptedServer([reply] * 2) as first,
        ScriptedServer([text("x")], model="other") as second,
        client_of(first, second, wait=waits) as client,
    ):
        got = client.chat(ASK, stream=stream)
    assert (got.message.content, got.num_retries, got.server) == ("x", 1, second.url)
    (moved,) = got.failovers
    assert (moved.server, moved.to, moved.model) == (first.url, second.url, "other")
    assert moved.error
    assert second.requests[0]["model"] == "other"
    assert not waits
    assert client.server == second.url


def test_silence_before_the_first_token() -> None:
    with ScriptedServer([sse(HANG)]) as first, ScriptedServer([text("x")]) as second:
        got = client_of(first, second, timeouts=Timeouts(first_token_s=0.1)).chat(ASK)
    assert (got.message.content, len(got.failovers)) == ("x", 1)


AFTER_THE_FIRST_TOKEN: dict[str, tuple[Reply, type[ClientError]]] = {
    "dropped": (raw(b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n', headers=CUT), StreamBroken),
    "without its end": (sse(chunk({"content": "x"})), StreamBroken),
    "an error frame": (sse(chunk({"content": "x"}), {"error": {"message": "boom"}}), ErrorInStream),
    "silent": (sse(chunk({"content": "x"}), HANG), ProgressTimeout),
    "not JSON": (sse(chunk({"content": "x"}), b"data: {\n\n"), BadReply),
}


@pytest.mark.parametrize("name", AFTER_THE_FIRST_TOKEN)
def test_after_the_first_token_no_other_server_is_asked(name: str) -> None:
    reply, kind = AFTER_THE_FIRST_TOKEN[name]
    with ScriptedServer([reply]) as first, ScriptedServer([text("x")]) as second:
        client = client_of(first, second, timeouts=Timeouts(first_token_s=60, progress_s=0.1))
        with pytest.raises(kind) as caught:
            client.chat(ASK)
    assert caught.value.started
    assert not second.requests


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (error(400, "bad messages"), ServerRefused),
        (error(422, "bad field"), ServerRefused),
        (error(400, {"error": {"message": "too long", "code": "context_length_exceeded"}}), ContextOverflow),
    ],
)
def test_a_wrong_request_is_not_asked_elsewhere(reply: Reply, kind: type[ClientError]) -> None:
    with ScriptedServer([reply]) as first, ScriptedServer([text("x")]) as second, pytest.raises(kind):
        client_of(first, second).chat(ASK)
    assert not second.requests


def test_the_time_given_is_the_time_for_all() -> None:
    with ScriptedServer([sse(HANG)]) as first, ScriptedServer([text("x")]) as second, pytest.raises(RequestTimeout):
        client_of(first, second).chat(ASK, timeout_s=0.2)
    assert not second.requests


def test_the_server_that_answered_is_asked_first_from_then_on() -> None:
    with (
        ScriptedServer([error(500, "boom"), text("never")]) as first,
        ScriptedServer([text("x")] * 3) as second,
        client_of(first, second) as client,
    ):
        replies = [client.chat(ASK) for _ in range(3)]
    assert [len(reply.failovers) for reply in replies] == [1, 0, 0]
    assert len(first.requests) == 1


def test_and_the_first_again_when_that_one_fails() -> None:
    with (
        ScriptedServer([error(500, "a"), text("back")]) as first,
        ScriptedServer([text("x"), error(500, "b")]) as second,
        client_of(first, second) as client,
    ):
        replies = [client.chat(ASK), client.chat(ASK)]
    assert [reply.message.content for reply in replies] == ["x", "back"]
    assert [(moved.server, moved.to) for moved in replies[1].failovers] == [(second.url, first.url)]


def test_a_server_that_is_busy_for_a_moment_is_waited_for_once() -> None:
    busy = error(503, "full", headers={"Retry-After": "2"})
    waits = Waits()
    with (
        ScriptedServer([busy, text("x"), busy, busy]) as first,
        ScriptedServer([text("y")]) as second,
        client_of(first, second, wait=waits) as client,
    ):
        stayed, moved = client.chat(ASK), client.chat(ASK)
    assert (stayed.message.content, stayed.failovers) == ("x", [])
    assert (moved.message.content, len(moved.failovers)) == ("y", 1)
    assert len(waits) == 2
    assert all(2 <= pause < 3 for pause in waits)


def test_the_pauses_are_between_the_rounds() -> None:
    waits = Waits()
    dropped = raw(headers=CUT)
    with ScriptedServer([dropped] * 3) as first, ScriptedServer([dropped] * 2 + [text("x")]) as second:
        got = client_of(first, second, wait=waits).chat(ASK)
    assert (got.num_retries, len(waits), len(got.failovers)) == (5, 2, 1)


def test_when_all_fail_every_one_is_named() -> None:
    with ScriptedServer([error(500, "boom")]) as first:
        second = gone()
        with pytest.raises(ServerRefused) as caught:
            client_of(first, second, retries=RetryPolicy(max_retries=0)).chat(ASK)
    assert f"{first.url}/v1 answered 500: boom" in str(caught.value)
    assert f"{second}/v1" in str(caught.value)


def test_keys_and_models_are_each_servers_own() -> None:
    with (
        ScriptedServer([error(500, "boom")], model="a") as first,
        ScriptedServer([text("x")], model="b") as second,
        client_of(first, second, api_key=["one", "two"]) as client,
    ):
        assert client.model == "a"
        client.chat(ASK)
        assert client.model == "b"
    assert (first.headers[0]["authorization"], first.requests[0]["model"]) == ("Bearer one", "a")
    assert (second.headers[0]["authorization"], second.requests[0]["model"]) == ("Bearer two", "b")


def test_a_server_that_does_not_say_what_it_serves_is_passed_over() -> None:
    several = error(200, {"data": [{"id": "a"}, {"id": "b"}]})
    with ScriptedServer([], models=several) as first, ScriptedServer([text("x")], model="c") as second:
        got = client_of(first, second).chat(ASK)
    assert "serves 2 models" in got.failovers[0].error


def test_what_was_found_out_before_the_first_reply_is_told_with_it() -> None:
    with ScriptedServer([text("x"), text("y")], model="m") as second:
        client = client_of(gone(), second)
        assert client.model == "m"
        assert [len(client.chat(ASK).failovers) for _ in range(2)] == [1, 0]


def test_parallel_requests_are_told_of_their_own_servers_only() -> None:
    """One request waits at the second server while the other, which needed no other server, is answered."""
    waiting, go_on = threading.Event(), threading.Event()

    def wait(request: dict[str, Any]) -> Reply:
        waiting.set()
        assert go_on.wait(20)
        return text("late")

    with ScriptedServer([error(500, "boom")]) as first, ScriptedServer([wait, text("x")]) as second:
        client = client_of(first, second)
        late: list[Any] = []
        thread = threading.Thread(target=lambda: late.append(client.chat(ASK)))
        thread.start()
        assert waiting.wait(20)
        client._rotation.stick_to(client._rotation.endpoints[1])
        reply = client.chat(ASK)
        go_on.set()
        thread.join(20)
    assert (reply.message.content, reply.failovers) == ("x", [])
    assert [moved.server for moved in late[0].failovers] == [first.url]


def test_the_same_server_twice_is_one() -> None:
    address = gone()
    with pytest.raises(ServerUnreachable) as caught:
        client_of(address, address).chat(ASK)
    assert str(caught.value).count(address) == 1


def test_no_server_at_all() -> None:
    with pytest.raises(UserError, match="no server"):
        Client([])


def test_cancel_ends_it_on_all() -> None:
    with ScriptedServer([text("x")]) as first, ScriptedServer([text("x")]) as second:
        client = client_of(first, second)
        client.cancel()
        with pytest.raises(RequestCancelled):
            client.chat(ASK)
    assert not first.requests
    assert not second.requests


def test_a_key_that_only_one_refuses() -> None:
    with ScriptedServer([], models=error(401, "no")) as first, ScriptedServer([text("x")]) as second:
        with pytest.raises(KeyRefused):
            client_of(first).chat(ASK)
        assert client_of(first, second).chat(ASK).message.content == "x"


def test_busy_everywhere() -> None:
    with (
        ScriptedServer([error(503, "full")] * 9) as first,
        ScriptedServer([error(503, "full")] * 9) as second,
        pytest.raises(ServerBusy, match=r"full.*full"),
    ):
        client_of(first, second, retries=RetryPolicy(max_retries=1)).chat(ASK)
    assert (len(first.requests), len(second.requests)) == (3, 3)


# --- runs -------------------------------------------------------------------------------------------------------------


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


HARNESS = Harness(tools=[add])


def test_a_run_goes_on_elsewhere_and_says_so() -> None:
    script = [calls(("add", {"a": 1, "b": 2})), error(500, "the engine crashed")]
    with (
        ScriptedServer(script, model="big") as first,
        ScriptedServer([text("3")], model="small") as second,
        client_of(first, second) as client,
    ):
        finished = run(HARNESS, "1 + 2?", client=client)
    assert (finished.stop_reason, finished.answer, finished.turns) == ("answered", "3", 2)
    (event,) = [event for event in finished.events if event.kind == "failed_over"]
    assert event.turn == 2
    assert event.data["server"] == first.url
    assert (event.data["to"], event.data["model"]) == (second.url, "small")
    assert "the engine crashed" in event.data["error"]


@pytest.mark.parametrize("owned_by", ["daneel", "vllm"])
def test_a_failed_call_is_told_to_any_server_in_its_terms(owned_by: str) -> None:
    """History made for daneel's server, sent to a foreign one: no `tool` message may answer a call that is not there."""
    script = [failed_call("<tool_call>{add", name="add"), error(500, "gone")]
    with ScriptedServer(script) as first, ScriptedServer([text("3")], owned_by=owned_by) as second:
        finished = run(HARNESS, "1 + 2?", client=client_of(first, second))
    assert finished.stop_reason == "answered"
    messages = second.requests[0]["messages"]
    if owned_by == "daneel":
        assert messages[1]["failed_tool_calls"][0]["raw"] == "<tool_call>{add"
        assert messages[2]["role"] == "tool"
    else:
        assert [message["role"] for message in messages] == ["user", "assistant", "user"]
        assert messages[1] == {"role": "assistant", "content": "<tool_call>{add"}
        assert "could not be read" in messages[2]["content"]


def test_a_run_whose_every_server_fails_is_invalid_and_names_them() -> None:
    with ScriptedServer([error(500, "boom")]) as first, ScriptedServer([error(500, "bang")]) as second:
        finished = run(HARNESS, "1 + 2?", client=client_of(first, second))
    assert finished.stop_reason == "invalid"
    assert "boom" in (finished.detail or "")
    assert "bang" in (finished.detail or "")


def test_a_port_that_never_answers_the_handshake_is_passed_over() -> None:
    """A listening socket whose owner accepts nothing."""
    with socket.socket() as deaf, ScriptedServer([text("x")]) as second:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(1)
        address = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        got = client_of(address, second, timeouts=Timeouts(connect_s=0.1, first_token_s=0.2)).chat(ASK)
    assert (got.message.content, len(got.failovers)) == ("x", 1)
