"""The client against a real HTTP server that replays scripted replies."""

from __future__ import annotations

import inspect
import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.support.scripted_server import HANG, Reply, ScriptedServer, calls, chunk, error, failed_call, raw, sse, text

from daneel.errors import UserError
from daneel.harness import client_errors
from daneel.harness.client import (
    BadReply,
    Client,
    ClientError,
    ContextOverflow,
    ErrorInStream,
    KeyRefused,
    ModelNotChosen,
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
from daneel.harness.progress import CommentProgress
from daneel.harness.reply import as_history
from daneel.harness.server_url import base_of, is_loopback
from daneel.wire.accumulate import join
from daneel.wire.error_body import PeerError
from daneel.wire.messages import Delta, Message

ASK = [{"role": "user", "content": "Hello"}]
SSE = {"Content-Type": "text/event-stream"}
FINISHED = b'data: {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}\n\n'


class Waits(list[float]):
    """Takes the client's pauses instead of sleeping."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def client_of(server: ScriptedServer, **options: Any) -> Client:
    return Client(server.url, **{"wait": Waits(), **options})


def failing(*script: Any, stream: bool = True, **options: Any) -> ClientError:
    """The error that a script ends in."""
    with ScriptedServer(script) as server, client_of(server, **options) as client:
        with pytest.raises(ClientError) as caught:
            client.chat(ASK, stream=stream)
        assert server.num_unused == 0
    return caught.value


# --- replies ----------------------------------------------------------------------------------------------------------

REPLIES = {
    "text": text("Hello, wörld \U0001f600", reasoning="Let me think."),
    "empty": text(""),
    "calls": calls(("f", {"a": 1}), ("g", "{}"), content="I look."),
    "failed": failed_call("<tool_call>{", beside=calls(("f", {}))),
    "warned": text("x", warnings=[{"field": "n", "action": "ignored", "detail": "d"}], daneel={"timings": {}}),
    "length": text("x").but(finish_reason="length"),
}


@pytest.mark.parametrize("name", REPLIES)
def test_whole_and_streamed_replies_are_the_same(name: str) -> None:
    with ScriptedServer([REPLIES[name]] * 2) as server, client_of(server) as client:
        replies = []
        for stream in (False, True):
            deltas: list[Delta] = []
            reply = client.chat(ASK, stream=stream, on_delta=deltas.append)
            assert join(deltas) == reply.message
            replies.append(reply)
    whole, streamed = replies
    assert whole.message == streamed.message
    for field in ("finish_reason", "usage", "cached_tokens", "warnings", "daneel", "reasoning_field"):
        assert getattr(whole, field) == getattr(streamed, field)
    assert whole.usage is not None
    assert whole.finish_reason == REPLIES[name].finish_reason


def test_text_comes_while_the_stream_is_open() -> None:
    with ScriptedServer([sse(chunk({"content": "first"}), HANG)]) as server, client_of(server) as client:
        seen: list[str | None] = []

        def stop(delta: Delta) -> None:
            seen.append(delta.content)
            raise KeyError("enough")

        with pytest.raises(KeyError):
            client.chat(ASK, on_delta=stop)
        assert seen == ["first"]
        _until(lambda: server.disconnects == 1)


def test_every_cut_of_a_stream_gives_the_same_message() -> None:
    """The same bytes in chunks cut at every place, over a real connection."""
    made = "".join(
        f"data: {json.dumps(frame, ensure_ascii=False)}\r\n\r\n"
        for frame in (chunk({"reasoning": "\u2028é"}), chunk({"content": "\U0001f600"}, finish_reason="stop"))
    )
    body = made.encode() + b": ping\n\ndata: [DONE]\n\n"
    script = [raw(body[:cut], body[cut:], headers=SSE) for cut in range(0, len(body), 3)]
    with ScriptedServer(script) as server, client_of(server) as client:
        for _ in script:
            reply = client.chat(ASK)
            assert (reply.message.reasoning, reply.message.content, reply.finish_reason) == ("\u2028é", "\U0001f600", "stop")


def test_a_server_that_ignores_stream_and_one_that_always_streams() -> None:
    whole = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}
    with (
        ScriptedServer([error(200, whole), sse(chunk({"content": "x"}, finish_reason="stop"))]) as server,
        client_of(server) as client,
    ):
        assert client.chat(ASK, stream=True).message.content == "x"
        assert client.chat(ASK, stream=False).message.content == "x"


@pytest.mark.parametrize("kind", ["text/plain; charset=utf-8", "application/octet-stream", "text/event-stream", ""])
@pytest.mark.parametrize("ending", [{}, {"Connection": "close"}])
def test_a_json_reply_is_read_whatever_its_content_type(kind: str, ending: dict[str, str]) -> None:
    whole = json.dumps({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}).encode()
    with ScriptedServer([raw(whole[:9], whole[9:], headers={"Content-Type": kind, **ending})]) as server:
        reply = client_of(server).chat(ASK, stream=True)
    assert (reply.message.content, reply.finish_reason, reply.num_retries) == ("x", "stop", 0)


def test_a_json_reply_of_any_content_type_that_was_cut_off_is_asked_for_again() -> None:
    cut = raw(b'{"choices": [{"mess', headers={"Content-Type": "text/plain", "Connection": "close"})
    with ScriptedServer([cut, text("x")]) as server:
        assert client_of(server).chat(ASK, stream=True).num_retries == 1


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "text/event-stream"])
def test_an_error_that_came_in_place_of_a_stream_with_status_200(kind: str) -> None:
    with ScriptedServer([raw(b'{"error": "boom"}', headers={"Content-Type": kind})] * 2) as server:
        with pytest.raises(ErrorInStream, match="boom"):
            client_of(server).chat(ASK, stream=True)
        assert server.num_unused == 1


@pytest.mark.parametrize("route", ["chat", "models"])
def test_a_whole_body_that_trickles_has_a_deadline(route: str) -> None:
    stop = threading.Event()
    endless = trickle(lambda number: b" ", stop)({}).but(headers={"Content-Type": "application/json"})
    timeouts = Timeouts(connect_s=0.1, whole_s=0.2)
    models = endless if route == "models" else None
    with (
        ScriptedServer([endless], models=models) as server,
        client_of(server, timeouts=timeouts) as client,
        pytest.raises(ProgressTimeout),
    ):
        client.chat(ASK, stream=False)
    stop.set()


def test_a_web_page_instead_of_a_stream_is_shown_and_not_asked_for_again() -> None:
    page = raw(b"<html>Log in", headers={"Content-Type": "text/html; charset=utf-8"})
    with (
        ScriptedServer([page, page]) as server,
        client_of(server) as client,
        pytest.raises(BadReply, match="not JSON: b'<html>Log in'"),
    ):
        client.chat(ASK, stream=True)
    assert server.num_unused == 1


def test_history_keeps_the_servers_own_name_for_thoughts() -> None:
    with ScriptedServer([sse(chunk({"reasoning_content": "hm", "content": "x"}, finish_reason="stop"))]) as server:
        reply = client_of(server).chat(ASK)
    assert reply.as_history() == {"role": "assistant", "content": "x", "reasoning_content": "hm"}
    assert as_history(Message(role="assistant", content=None), None) == {"role": "assistant", "content": ""}


def test_history_of_calls_good_and_failed() -> None:
    with ScriptedServer([failed_call("<tool_call>{", offset=3, beside=calls(("f", {"a": 1})))]) as server:
        sent = client_of(server).chat(ASK).as_history()
    assert sent["tool_calls"] == [
        {"id": "call_0_f", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
    ]
    assert sent["failed_tool_calls"][0]["raw"] == "<tool_call>{"
    assert sent["failed_tool_calls"][0]["error"]["offset"] == 3
    json.dumps(sent)


# --- what is sent -----------------------------------------------------------------------------------------------------


def test_requests_to_daneel() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    with ScriptedServer([text("x"), text("x")]) as server, client_of(server, api_key="s3cret") as client:
        client.chat(ASK, tools=tools, params={"temperature": 0, "tool_result_style": "plain"})
        client.chat(ASK, stream=False, params={"on_failed_tool_call": None, "model": "other"})
    first, second = server.requests
    assert first == {
        "model": "scripted",
        "messages": ASK,
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": tools,
        "on_failed_tool_call": "report",
        "temperature": 0,
        "tool_result_style": "plain",
    }
    assert second == {"model": "other", "messages": ASK, "stream": False}
    assert server.headers[0]["authorization"] == "Bearer s3cret"


def test_foreign_servers_get_nothing_of_daneels() -> None:
    params = {"temperature": 0, "on_failed_tool_call": "report", "cache": {"mode": "off"}}
    with ScriptedServer([text("x")], owned_by="vllm") as server, client_of(server) as client:
        reply = client.chat(ASK, params=params)
        assert not client.is_daneel
    assert set(server.requests[0]) == {"model", "messages", "stream", "stream_options", "temperature"}
    assert [warning.field for warning in reply.warnings] == ["on_failed_tool_call", "cache"]


@pytest.mark.parametrize("models", [error(404, "no such route"), error(405, "no"), error(501, "no"), raw(b"<html>"), raw(b"")])
def test_a_server_without_a_list_of_models_is_foreign(models: Reply) -> None:
    with ScriptedServer([text("x")], models=models) as server, client_of(server, model="m") as client:
        assert client.chat(ASK).message.content == "x"
    assert server.requests[0]["model"] == "m"
    assert "on_failed_tool_call" not in server.requests[0]


def test_the_model_is_chosen_only_when_there_is_no_choice() -> None:
    several = error(200, {"data": [{"id": "a"}, {"id": "b"}]})
    moved = raw(b"", status=301, headers={"Location": "https://h/"})  # as http addresses of https servers answer
    for models, named in (
        (several, "2 models (a, b)"),
        (error(404, "no list"), "0 models (http://.*no list)"),
        (moved, "0 models (http://.*has moved to https://h/; give that address)"),
    ):
        with (
            ScriptedServer([], models=models) as server,
            client_of(server) as client,
            pytest.raises(ModelNotChosen, match=re.escape(named).replace(re.escape(".*"), ".*")),
        ):
            client.chat(ASK)


def test_a_request_that_is_no_json_is_the_users_error() -> None:
    with ScriptedServer([]) as server, client_of(server) as client:
        for content in (object(), "half \ud800"):
            with pytest.raises(UserError, match="cannot be written as JSON"):
                client.chat([{"role": "user", "content": content}])


@pytest.mark.parametrize("key", ["a\nb", "schlüssel", "a b"])
def test_keys_that_cannot_be_sent(key: str) -> None:
    with pytest.raises(UserError) as caught:
        Client("http://localhost:1", api_key=key)
    assert key not in str(caught.value)


# --- ends that are not the end ----------------------------------------------------------------------------------------

NEVER_FINISHED = {
    "no finish reason": sse(chunk({"content": "x"})),
    "nothing but the end mark": sse(chunk({"role": "assistant"})),
    "cut off after text": raw(
        b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n', headers={**SSE, "Content-Length": "900"}
    ),
    "cut off after the finish reason": raw(FINISHED, headers={**SSE, "Content-Length": "900"}),
    "no end mark, and only the closed connection as the end": raw(FINISHED, headers=SSE),
}


@pytest.mark.parametrize("name", NEVER_FINISHED)
def test_a_stream_without_its_end_is_no_reply(name: str) -> None:
    closing = NEVER_FINISHED[name].but(headers={**NEVER_FINISHED[name].headers, "Connection": "close"})
    broken = failing(closing, retries=RetryPolicy(max_retries=0))
    assert isinstance(broken, StreamBroken)
    assert broken.partial is not None
    assert broken.partial.content == (None if name.startswith("nothing") else "x")


def test_a_complete_body_without_an_end_mark_is_a_reply() -> None:
    with ScriptedServer([raw(FINISHED, headers=SSE)]) as server:
        assert client_of(server).chat(ASK).message.content == "x"


def test_what_follows_the_end_mark_is_not_read() -> None:
    script = [sse(chunk({"content": "x"}, finish_reason="stop"), b"data: [DONE]\n\ndata: nonsense\n\n")]
    with ScriptedServer(script) as server:
        assert client_of(server).chat(ASK).message.content == "x"


@pytest.mark.parametrize(
    "frame",
    [
        b'data: {"error": {"message": "boom", "code": 500}}\n\n',
        b'data: {"error": "boom"}\n\n',
        b'event: error\ndata: {"message": "boom", "choices": []}\n\n',
        b"event: error\ndata: boom\n\n",
        b'error: {"code": 500, "message": "boom"}\n\n',
        b'data: {"detail": "boom"}\n\n',
    ],
)
@pytest.mark.parametrize("finished", [False, True])
def test_an_error_frame_is_an_error_even_after_the_finish_reason(frame: bytes, finished: bool) -> None:
    broken = failing(sse(chunk({"content": "x"}, finish_reason="stop" if finished else None), frame))
    assert isinstance(broken, ErrorInStream)
    assert "boom" in str(broken)
    assert broken.partial is not None
    assert broken.partial.content == "x"


@pytest.mark.parametrize("reason", ["error", "abort"])
def test_finish_reasons_that_are_errors(reason: str) -> None:
    assert isinstance(failing(sse(chunk({"content": "x"}, finish_reason=reason))), ErrorInStream)


def test_an_error_with_status_200() -> None:
    assert isinstance(failing(error(200, {"error": "boom"}), stream=False), ErrorInStream)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (error(200, b"<html>hello"), BadReply),
        (error(200, {"hello": "world"}), BadReply),
        (error(200, {"choices": []}), BadReply),
        (error(200, {"choices": [{"message": {"content": "x"}, "finish_reason": None}]}), StreamBroken),
    ],
)
def test_whole_replies_that_are_none(reply: Reply, kind: type[ClientError]) -> None:
    assert type(failing(reply, stream=False)) is kind


def test_an_event_that_is_not_json_is_not_skipped() -> None:
    broken = failing(sse(chunk({"content": "x"}), b"data: {truncated\n\n", chunk({}, finish_reason="stop")))
    assert isinstance(broken, BadReply)
    assert "{truncated" in str(broken)


# --- deadlines on progress --------------------------------------------------------------------------------------------


def trickle(frame: Callable[[int], bytes], stop: threading.Event) -> Callable[[dict[str, Any]], Reply]:
    """A stream that sends a frame every few milliseconds and never ends by itself."""

    def frames() -> Any:
        number = 0
        while not stop.wait(0.01):
            number += 1
            yield frame(number)

    class Endless(tuple[Any, ...]):
        def __iter__(self) -> Any:
            return iter(frames())

    return lambda request: Reply(headers=SSE, parts=Endless((b"",)))


@pytest.mark.parametrize(
    "frame",
    [
        lambda number: b": ping - %d\n\n" % number,
        lambda number: b": keepalive 3/7\n\n",
        lambda number: b'data: {"choices": [{"delta": {"content": ""}}]}\n\n',
        lambda number: b"data: \n\n",
    ],
)
def test_bytes_without_progress_do_not_keep_a_stream_alive(frame: Callable[[int], bytes]) -> None:
    stop = threading.Event()
    timeouts = Timeouts(first_token_s=0.2)
    with ScriptedServer([trickle(frame, stop)]) as server, client_of(server, timeouts=timeouts) as client:
        with pytest.raises(ProgressTimeout, match=r"no progress for 0\.2 s"):
            client.chat(ASK)
        stop.set()


def test_silence_after_the_first_token() -> None:
    broken = failing(sse(chunk({"content": "x"}), HANG), timeouts=Timeouts(first_token_s=60, progress_s=0.1))
    assert isinstance(broken, ProgressTimeout)
    assert broken.partial is not None
    assert broken.partial.content == "x"
    assert not broken.retryable


def test_silence_before_the_headers() -> None:
    with ScriptedServer([lambda request: time.sleep(0.5) or text("late")]) as server:
        client = client_of(server, timeouts=Timeouts(first_token_s=0.1))
        with pytest.raises(ProgressTimeout):
            client.chat(ASK)


def test_a_counter_that_moves_is_progress() -> None:
    """Steps of prefill, each well within the limit, together beyond it."""
    stop = threading.Event()

    def frame(number: int) -> bytes:
        return b": keepalive %d/150\n\n" % number if number < 150 else FINISHED + b"data: [DONE]\n\n"

    with ScriptedServer([trickle(frame, stop)]) as server, client_of(server, timeouts=Timeouts(first_token_s=1.0)) as client:
        assert client.chat(ASK).message.content == "x"
        stop.set()


def test_which_comments_are_progress() -> None:
    progress = CommentProgress()
    said = [
        "keepalive 0/9",
        "keepalive 0/9",
        " keepalive 1/9 ",
        "ping 1",
        "ping 2",
        "tool_call f 3",
        "tool_call f 3",
        "keepalive 1/9",
    ]
    assert [progress.moved(comment) for comment in said] == [True, False, True, False, False, True, False, True]


def test_the_time_for_the_whole_request() -> None:
    with (
        ScriptedServer([sse(chunk({"content": "x"}), HANG)]) as server,
        client_of(server) as client,
        pytest.raises(RequestTimeout) as caught,
    ):
        client.chat(ASK, timeout_s=0.2)
    assert caught.value.partial is not None
    assert caught.value.partial.content == "x"


# --- sending again ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again(status: int) -> None:
    waits = Waits()
    script = [error(status, "full", headers={"Retry-After": "7"}), error(status, "full"), text("x")]
    with ScriptedServer(script) as server, client_of(server, wait=waits) as client:
        reply = client.chat(ASK)
    assert (reply.message.content, reply.num_retries) == ("x", 2)
    assert 7 <= waits[0] < 8
    assert 0.4 < waits[1] <= 1.0


def test_patience_has_an_end() -> None:
    waits = Waits()
    busy = failing(*[error(503, "full")] * 4, retries=RetryPolicy(max_retries=3), wait=waits)
    assert isinstance(busy, ServerBusy)
    assert len(waits) == 3
    assert isinstance(failing(error(429, "x", headers={"Retry-After": "3600"})), ServerBusy)


@pytest.mark.parametrize("status", [400, 404, 413, 422, 500, 502, 504])
def test_other_refusals_are_final(status: int) -> None:
    refused = failing(error(status, {"error": {"message": "why", "type": "t", "code": "c"}}))
    assert type(refused) is ServerRefused
    assert (refused.status, refused.type, refused.code) == (status, "t", "c")
    assert f"answered {status}: why" in str(refused)


def test_kinds_of_refusal() -> None:
    assert isinstance(failing(error(401, "no")), KeyRefused)
    assert isinstance(failing(error(403, "no")), KeyRefused)
    moved = failing(error(308, "moved", headers={"Location": "https://elsewhere/v1"}))
    assert "it has moved to https://elsewhere/v1" in str(moved)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "too long", "code": "context_length_exceeded"}},
        {"error": {"message": "the request exceeds the available context size", "type": "exceed_context_size_error"}},
        {"message": "This model's maximum context length is 2048 tokens. However, you requested 3000 tokens"},
        {"error": "The number of tokens to keep is greater than the context length"},
        {"detail": "The prompt is too long"},
    ],
)
def test_the_overflow_wording_of_servers(body: dict[str, Any]) -> None:
    assert isinstance(failing(error(400, body)), ContextOverflow)


def test_a_dropped_connection_is_tried_again_only_before_the_first_token() -> None:
    dropped = raw(b": keepalive 1/2\n\n", headers={**SSE, "Content-Length": "900", "Connection": "close"})
    with ScriptedServer([dropped, text("x")]) as server, client_of(server) as client:
        assert client.chat(ASK).num_retries == 1
    assert len(server.requests) == 2
    begun = raw(b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n', headers=dropped.headers)
    assert isinstance(failing(begun), StreamBroken)


def test_a_server_that_always_drops_the_connection_is_left_alone_soon() -> None:
    dropped = raw(headers={**SSE, "Content-Length": "900", "Connection": "close"})
    assert isinstance(failing(*[dropped] * 3), StreamBroken)


def test_a_busy_frame_is_tried_again_only_before_the_first_token() -> None:
    busy = {"error": {"message": "the engine restarts", "type": "server_error", "code": "unavailable"}}
    with ScriptedServer([sse(busy), text("x")]) as server:
        assert client_of(server).chat(ASK).num_retries == 1
    assert isinstance(failing(sse(chunk({"content": "x"}), busy)), ErrorInStream)


def test_a_server_that_is_not_there() -> None:
    waits = Waits()
    with ScriptedServer([]) as server:
        url = server.url
    with pytest.raises(ServerUnreachable, match=f"cannot reach the server at {url}/v1: .*refused"):
        Client(url, wait=waits).chat(ASK)
    assert len(waits) == 1


def test_a_server_that_was_there_is_waited_for() -> None:
    waits = Waits()
    with ScriptedServer([text("x").but(headers={"Connection": "close"})]) as server:
        client = client_of(server, wait=waits)
        client.chat(ASK, stream=False)
    with client, pytest.raises(ServerUnreachable):
        client.chat(ASK)
    assert len(waits) == RetryPolicy().max_retries


def test_no_retry_outlives_the_time_given() -> None:
    script = [error(503, "full", headers={"Retry-After": "60"})]
    with ScriptedServer(script) as server, client_of(server) as client, pytest.raises(ServerBusy):
        client.chat(ASK, timeout_s=5)


@pytest.mark.parametrize("seed", range(20))
def test_pauses_grow_and_are_never_the_same(seed: int) -> None:
    random.seed(seed)
    policy = RetryPolicy(max_retries=9)
    refused = client_errors.from_status(503, PeerError("full"), "x")
    pauses = [policy.pause_s(refused, number, reached=True) for number in range(10)]
    assert pauses[9] is None
    for number, pause in enumerate(pauses[:9]):
        longest = min(20.0, 0.5 * 2**number)
        assert pause is not None
        assert longest / 2 <= pause <= longest


def test_retry_after_as_a_date() -> None:
    waits = Waits()
    date = "Wed, 01 Jan 2020 00:00:00 GMT"
    script = [error(503, "x", headers={"Retry-After": date}), error(503, "x", headers={"Retry-After": "soon"}), text("x")]
    with ScriptedServer(script) as server, client_of(server, wait=waits) as client:
        assert client.chat(ASK).num_retries == 2
    assert waits[0] < 0.2 < waits[1]


# --- stopping ---------------------------------------------------------------------------------------------------------


def test_cancel_wakes_a_waiting_request() -> None:
    began = threading.Event()
    with ScriptedServer([sse(chunk({"content": "x"}), HANG)]) as server, client_of(server) as client:
        raised: list[BaseException] = []

        def work() -> None:
            try:
                client.chat(ASK, on_delta=lambda delta: began.set())
            except ClientError as caught:
                raised.append(caught)

        thread = threading.Thread(target=work)
        thread.start()
        assert began.wait(10)
        client.cancel()
        thread.join(10)
        assert not thread.is_alive()
        assert isinstance(raised[0], RequestCancelled)
        _until(lambda: server.disconnects == 1)
        with pytest.raises(RequestCancelled):
            client.chat(ASK)


def test_ctrl_c_closes_the_connection_at_once(tmp_path: Path) -> None:
    """A process that is interrupted while it waits for a token ends, and the server notices."""
    program = tmp_path / "waits.py"
    program.write_text(
        "import sys\n"
        "from daneel.harness.client import Client\n"
        "try:\n"
        "    Client(sys.argv[1]).chat([], on_delta=lambda delta: print(delta.content, flush=True))\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(130)\n"
    )
    with ScriptedServer([sse(chunk({"content": "begun"}), HANG)]) as server:
        process = subprocess.Popen([sys.executable, str(program), server.url], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "begun\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
        finally:
            process.kill()
            process.stdout.close()
        _until(lambda: server.disconnects == 1)


def test_no_thread_is_left() -> None:
    before = threading.active_count()
    with ScriptedServer([text("x")] * 3) as server, client_of(server) as client:
        for _ in range(3):
            client.chat(ASK)
    _until(lambda: threading.active_count() <= before)


def _until(happened: Callable[[], bool]) -> None:
    for _ in range(1000):
        if happened():
            return
        time.sleep(0.01)
    raise AssertionError("it never happened")


# --- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "base"),
    [
        ("localhost:8080", "http://localhost:8080/v1"),
        ("http://localhost:8080", "http://localhost:8080/v1"),
        ("http://localhost:8080/", "http://localhost:8080/v1"),
        ("http://localhost:8080/v1", "http://localhost:8080/v1"),
        ("http://localhost:8080/v1/", "http://localhost:8080/v1"),
        ("http://localhost:8080/v1/chat/completions", "http://localhost:8080/v1"),
        ("http://localhost:8080/v1/models", "http://localhost:8080/v1"),
        ("https://openrouter.ai/api", "https://openrouter.ai/api/v1"),
        ("https://example.org/v1beta/openai", "https://example.org/v1beta/openai"),
        ("http://[::1]:8080", "http://[::1]:8080/v1"),
        (" 127.0.0.1:1 ", "http://127.0.0.1:1/v1"),
    ],
)
def test_addresses(address: str, base: str) -> None:
    assert base_of(address) == base


@pytest.mark.parametrize(
    "address",
    [
        "",
        "http://",
        "ftp://host",
        "http://user:pass@host",
        "http://host?x=1",
        "http://host:port",
        "http://ho st",
        "://",
        "http://host:0",
        "http://host:65536",
    ],
)
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(UserError):
        base_of(address)


@pytest.mark.parametrize(
    ("base", "loopback"),
    [
        ("http://127.0.0.9/v1", True),
        ("http://[::1]:1/v1", True),
        ("http://localhost/v1", True),
        ("http://localhost.example/v1", False),
    ],
)
def test_loopback(base: str, loopback: bool) -> None:
    assert is_loopback(base) is loopback


# --- the tree of errors -----------------------------------------------------------------------------------------------


def _below(kind: type[Exception]) -> set[type[Exception]]:
    return {kind} | {deeper for child in kind.__subclasses__() for deeper in _below(child)}


def test_every_error_of_the_http_library_is_mapped() -> None:
    bases = {httpx2.HTTPError, httpx2.StreamError}
    # other libraries that this process may have loaded derive their own
    own = {kind for base in bases for kind in _below(base) if kind.__module__.split(".")[0] == "httpx2"}
    leaves = {kind for kind in own if not own & set(kind.__subclasses__())} | {httpx2.InvalidURL}
    assert len(leaves) > 15
    assert leaves - set(client_errors.TRANSPORT_ERRORS) == set()
    for kind in leaves:
        request = httpx2.Request("GET", "http://x")
        made = kind.__new__(kind)
        Exception.__init__(made, "why")
        assert isinstance(client_errors.from_transport(made, "http://x", started=True), ClientError)
        assert not client_errors.from_transport(made, "http://x", started=True).retryable
        assert request


def test_the_tree_is_drawn_as_it_is() -> None:
    drawn: dict[str, str] = {}
    path: list[str] = []
    for line in (client_errors.__doc__ or "").splitlines():
        match = re.match(r"([│ ├└─]*)([A-Z]\w+)(?=\s{2,}|$)", line)
        if match:
            depth = len(match[1]) // 4
            path = [*path[:depth], match[2]]
            drawn[match[2]] = path[depth - 1] if depth else ""
    classes = {
        name: kind.__bases__[0].__name__
        for name, kind in inspect.getmembers(client_errors, inspect.isclass)
        if issubclass(kind, ClientError)
    }
    classes["ClientError"] = ""
    assert drawn == classes


def test_the_client_hands_out_every_error() -> None:
    from daneel.harness import client

    assert {kind.__name__ for kind in _below(ClientError)} <= set(client.__all__)
