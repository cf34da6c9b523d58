"""A real HTTP server on loopback that replays scripted replies: the peer of harness and bench tests.

    with ScriptedServer([calls(("cur_time", {})), text("It is 12:00.")]) as server:
        client = Client(server.url)
        ...
        assert server.requests[1]["messages"][-1]["role"] == "tool"

- Replies are taken in order; the same script serves whole and streamed requests (what a reply holds is cut into chunks).
  Instead of a list, a callable `(request: dict) -> Reply` answers every request; instead of a reply, a list's element may be
  such a callable too. When the list is used up, the server answers 400 "no scripted reply left".
- `text()`, `calls()`, `failed_call()` make ordinary replies; `error()` an error status; `raw()` any bytes; `sse()` a stream of
  given frames (dicts, or bytes as they are). `raw()` and `sse()` may end in `HANG`: the connection then stays open and silent
  until the client goes away or the server is closed.
- `.requests` holds the parsed bodies, `.headers` the request headers, `.disconnects` how many clients left before the end.
- `/v1/models` names one model, owned by "daneel" unless `owned_by` says otherwise; `models=` replaces its whole answer.
- `tls=` makes it an https server.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

HANG = object()
"""As the last part of a body: stay silent, and leave the connection open."""


@dataclass(frozen=True)
class Reply:
    """One reply. `parts`, when given, is the body verbatim; otherwise the body is made from `message`."""

    message: dict[str, Any] = field(default_factory=dict)
    finish_reason: str = "stop"
    usage: dict[str, Any] | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    parts: tuple[Any, ...] | None = None
    chunk_chars: int = 5

    def but(self, **changes: Any) -> Reply:
        """The same reply with some fields changed, as in `text("Hi").but(finish_reason="length")`."""
        return replace(self, **changes)


def text(content: str, *, reasoning: str | None = None, finish_reason: str = "stop", **extra: Any) -> Reply:
    """An answer in words. `extra` goes to the top level of the reply (`warnings`, `daneel`, ...)."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if reasoning is not None:
        message["reasoning"] = reasoning
    return Reply(message=message, finish_reason=finish_reason, extra=extra)


def calls(*named: tuple[str, Any], content: str | None = None, reasoning: str | None = None, **extra: Any) -> Reply:
    """Tool calls `(name, arguments)`: arguments that are no string are written as JSON text, a string is sent as it is."""
    listed = [
        {
            "id": f"call_{index}_{name}",
            "type": "function",
            "index": index,
            "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
        }
        for index, (name, given) in enumerate(named)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": content, "tool_calls": listed}
    if reasoning is not None:
        message["reasoning"] = reasoning
    return Reply(message=message, finish_reason="tool_calls", extra=extra)


def failed_call(
    raw_text: str,
    *,
    name: str | None = None,
    error_type: str = "malformed",
    message: str = "expected a key or '}'",
    offset: int = 0,
    finish_reason: str = "stop",
    beside: Reply | None = None,
) -> Reply:
    """A call that could not be read, as daneel's server reports it; `beside` is a reply whose calls stand before it."""
    base = beside or Reply(message={"role": "assistant", "content": None}, finish_reason=finish_reason)
    position = len(base.message.get("tool_calls", [])) + len(base.message.get("failed_tool_calls", []))
    failed = {
        "id": f"call_failed_{position}",
        "position": position,
        "name": name,
        "raw": raw_text,
        "error": {"type": error_type, "message": message, "offset": offset},
        "format": "hermes",
    }
    changed = {**base.message, "failed_tool_calls": [*base.message.get("failed_tool_calls", []), failed]}
    return base.but(message=changed)


def raw(*parts: Any, status: int = 200, headers: dict[str, str] | None = None) -> Reply:
    """Any bytes, sent part by part, chunked. `headers` may change the Content-Type from JSON, announce a Content-Length (also a
    wrong one), or say `Connection: close`: then only the closed connection ends the body."""
    return Reply(status=status, headers={"Content-Type": "application/json", **(headers or {})}, parts=parts)


def sse(*frames: Any, done: bool = True) -> Reply:
    """A stream of given frames: a dict becomes `data: {json}`, bytes go out as they are; `[DONE]` follows if `done`."""
    parts = [part if isinstance(part, bytes) or part is HANG else _frame(part) for part in frames]
    if done:
        parts.append(b"data: [DONE]\n\n")
    return Reply(headers={"Content-Type": "text/event-stream"}, parts=tuple(parts))


def error(status: int, body: Any, *, headers: dict[str, str] | None = None) -> Reply:
    """An error status. A string stands for daneel's own error object; bytes go out as they are; anything else as JSON."""
    if isinstance(body, str):
        body = {"error": {"message": body, "type": "server_error", "code": "scripted", "param": None}}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", "Content-Length": str(len(content)), **(headers or {})}
    return Reply(status=status, headers=sent, parts=(content,))


def chunk(delta: dict[str, Any], *, finish_reason: str | None = None, **extra: Any) -> dict[str, Any]:
    """One chunk of a stream, as a dict for `sse()`."""
    return {
        **_envelope("chat.completion.chunk"),
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
        **extra,
    }


Script = Sequence[Reply | Callable[[dict[str, Any]], Reply]] | Callable[[dict[str, Any]], Reply]


class ScriptedServer:
    """See the module's docstring. Use as a context manager; `.url` has no `/v1`."""

    def __init__(
        self,
        script: Script,
        *,
        model: str = "scripted",
        owned_by: str = "daneel",
        models: Reply | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.disconnects = 0
        self.closing = threading.Event()
        self._script = script
        self._lock = threading.Lock()
        listed = {"id": model, "object": "model", "created": 0, "owned_by": owned_by}
        self._models = models or error(200, {"object": "list", "data": [listed]})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        self._http.daemon_threads = True
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._http.server_address[1]}"

    @property
    def num_unused(self) -> int:
        """Replies of the list that nobody asked for."""
        return 0 if callable(self._script) else max(0, len(self._script) - len(self.requests))

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def reply_for(self, path: str, headers: dict[str, str], body: bytes | None) -> tuple[Reply, dict[str, Any]]:
        """The reply to one request, and the parsed request."""
        if body is None:
            listing = path.rstrip("/").endswith("/models")
            return (self._models if listing else error(404, f"no route {path}")), {}
        request = json.loads(body)
        with self._lock:
            position = len(self.requests)
            self.requests.append(request)
            self.headers.append(headers)
            self.paths.append(path)
        if callable(self._script):
            return self._script(request), request
        if position >= len(self._script):
            return error(400, f"no scripted reply left: this is request {position + 1} of {len(self._script)}"), request
        entry = self._script[position]
        return (entry(request) if callable(entry) else entry), request

    def count_disconnect(self) -> None:
        with self._lock:
            self.disconnects += 1


def _handler_for(owner: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

        def _answer(self, body: bytes | None) -> None:
            reply, request = owner.reply_for(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            try:
                self._send(reply if reply.parts is not None else _made(reply, request))
            except OSError:
                owner.count_disconnect()
                self.close_connection = True

        def _send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            framed = {name.lower() for name in reply.headers} & {"content-length", "transfer-encoding", "connection"}
            if not framed:
                self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in reply.parts or ():
                if part is HANG:
                    self._hang()
                    return
                if part:
                    self.wfile.write(part if framed else b"%x\r\n%s\r\n" % (len(part), part))
                    self.wfile.flush()
            if not framed:
                self.wfile.write(b"0\r\n\r\n")

        def _hang(self) -> None:
            """Wait until the client leaves (then count it) or the server closes."""
            self.close_connection = True
            while not owner.closing.is_set():
                readable, _, _ = select.select([self.connection], [], [], 0.02)
                if readable:
                    gone = self.connection.recv(1, socket.MSG_PEEK) == b""
                    if gone:
                        owner.count_disconnect()
                    return

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


def _made(reply: Reply, request: dict[str, Any]) -> Reply:
    """An ordinary reply as the body the request asks for: whole or streamed."""
    usage = reply.usage or _usage(request, reply)
    if not request.get("stream"):
        choice = {"index": 0, "finish_reason": reply.finish_reason, "message": reply.message}
        whole = {**_envelope("chat.completion"), "choices": [choice], "usage": usage, **reply.extra}
        return error(200, whole, headers=reply.headers)
    frames: list[Any] = [chunk(delta) for delta in _deltas(reply.message, reply.chunk_chars)]
    frames.append(chunk({}, finish_reason=reply.finish_reason, **reply.extra))
    if (request.get("stream_options") or {}).get("include_usage"):
        frames.append({**_envelope("chat.completion.chunk"), "choices": [], "usage": usage})
    return sse(*frames).but(status=reply.status)


def _deltas(message: dict[str, Any], chunk_chars: int) -> Iterable[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for name in ("reasoning", "reasoning_content", "content"):
        whole = message.get(name) or ""
        for start in range(0, len(whole), chunk_chars):
            yield {name: whole[start : start + chunk_chars]}
    for name in ("tool_calls", "failed_tool_calls", "tool_call_issues", "repairs"):
        for entry in message.get(name) or []:
            yield {name: [entry]}


def _usage(request: dict[str, Any], reply: Reply) -> dict[str, Any]:
    """Counts of characters over four: plausible, and the same for whole and streamed."""
    prompt = len(json.dumps(request.get("messages", []))) // 4
    completion = max(1, len(json.dumps(reply.message)) // 4)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": prompt // 2},
    }


def _envelope(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-scripted", "object": kind, "created": 0, "model": "scripted", "system_fingerprint": "scripted-0"}


def _frame(frame: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(frame).encode() + b"\n\n"
