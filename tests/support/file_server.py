"""A loopback HTTP server for files that can fail in chosen ways: cut, lie, refuse, forget ranges."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Served:
    """One path's content. `cut_after` bytes of a body the connection is closed; `hold` waits there instead, until closed."""

    data: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    hold: bool = False
    ranges: bool = True
    range_shift: int = 0


@dataclass(frozen=True)
class Request:
    """What was asked."""

    method: str
    path: str
    range: str | None


class FileServer:
    """`with FileServer({"/a": Served(b"...")}) as server:`; `server.files` may be changed at any time.

    A callable in place of a `Served` is asked at each request. `server.requests` lists what was asked.
    """

    def __init__(self, files: dict[str, Served | Callable[[], Served]]) -> None:
        self.files = files
        self.requests: list[Request] = []
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FileServer:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None: ...

            def do_GET(self) -> None:
                outer._answer(self, with_body=True)

            def do_HEAD(self) -> None:
                outer._answer(self, with_body=False)

        return Handler

    def _answer(self, handler: BaseHTTPRequestHandler, *, with_body: bool) -> None:
        path = handler.path.partition("?")[0]
        asked = handler.headers.get("Range")
        self.requests.append(Request(handler.command, path, asked))
        served = self.files.get(path, Served(b"no such file", status=404))
        if callable(served):
            served = served()
        start, status, headers = 0, served.status, dict(served.headers)
        if asked and served.ranges and status == 200:
            start = int(asked.removeprefix("bytes=").partition("-")[0]) + served.range_shift
            status = 206 if start < len(served.data) else 416
            last = f"{start}-{len(served.data) - 1}" if status == 206 else "*"
            headers["Content-Range"] = f"bytes {last}/{len(served.data)}"
        body = b"" if status == 416 else served.data[start:]
        handler.send_response(status)
        for name, text in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name, text)
        handler.end_headers()
        if with_body:
            handler.wfile.write(body[: served.cut_after])
            handler.wfile.flush()
            if served.hold:
                self._closing.wait(60)
        handler.close_connection = True
