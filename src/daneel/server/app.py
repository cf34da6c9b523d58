"""The routes: HTTP on one side, the wire's structs on the other. The only file that knows the web framework.

All of it is pure ASGI: starlette's `BaseHTTPMiddleware` would cost several times as much for each streamed token.
"""

from __future__ import annotations

import asyncio
import math
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from daneel.server import cache_routes, chat, inspection
from daneel.server.auth import Caller, KeyRequired, KeyRing, caller_of
from daneel.server.served_model import ServedModel
from daneel.server.streaming import ClientGone, EventStream, bug, while_connected
from daneel.wire.errors import BadRequest, MethodNotAllowed, NotFound, PayloadTooLarge, UnsupportedMediaType, WireError
from daneel.wire.messages import Completion
from daneel.wire.requests import parse_chat_request

MAX_BODY_BYTES = 32 * 2**20
"""Above any history that fits a context of a million tokens."""

ROUTES = "/v1/chat/completions, /v1/models, /v1/cache, /v1/parse, /v1/render, /v1/tokenize and /health"


def make_app(model: ServedModel, *, keys: KeyRing, stopping: asyncio.Event, max_body_bytes: int = MAX_BODY_BYTES) -> Starlette:
    """The server's routes around `model`. When `stopping` is set, requests under way end with a 503 or an error event."""
    routes = _Routes(model, stopping, max_body_bytes)
    app = Starlette(
        routes=[
            Route("/v1/chat/completions", routes.chat_completions, methods=["POST"]),
            Route("/v1/parse", routes.parse, methods=["POST"]),
            Route("/v1/render", routes.render, methods=["POST"]),
            Route("/v1/tokenize", routes.tokenize, methods=["POST"]),
            Route("/v1/models", routes.models, methods=["GET"]),
            Route("/v1/models/{name:path}", routes.model, methods=["GET"]),
            Route("/v1/cache", routes.cache, methods=["GET", "DELETE", "PATCH"]),
            Route("/health", routes.health, methods=["GET"]),
        ],
        middleware=[Middleware(KeyRequired, keys=keys, send_error=_send_error)],
        exception_handlers={
            WireError: _on_wire_error,
            HTTPException: _on_http_error,
            ClientGone: _on_client_gone,
            ClientDisconnect: _on_client_gone,
            Exception: _on_bug,
        },
    )
    app.router.redirect_slashes = False
    return app


class _Routes:
    """One method for each route."""

    def __init__(self, model: ServedModel, stopping: asyncio.Event, max_body_bytes: int) -> None:
        self._model = model
        self._stopping = stopping
        self._max_body_bytes = max_body_bytes

    async def health(self, _request: Request) -> Response:
        engine = "ready" if self._model.engine.ready else "restarting"
        return _json({"status": "ok", "engine": engine})

    async def models(self, _request: Request) -> Response:
        return _json({"object": "list", "data": [self._model.describe()]})

    async def model(self, request: Request) -> Response:
        self._model.check_name(request.path_params["name"])
        return _json(self._model.describe())

    async def cache(self, request: Request) -> Response:
        if request.method == "PATCH":
            return await self._inspect(request, cache_routes.resize)
        answer = cache_routes.clear if request.method == "DELETE" else cache_routes.entries
        return _json(await while_connected(request.receive, self._stopping, answer(self._model, caller_of(request.scope))))

    async def chat_completions(self, request: Request) -> Response | EventStream:
        chat_request, warnings = parse_chat_request(await _read_json_body(request, self._max_body_bytes))
        self._model.check_name(chat_request.model)
        begun = chat.begin(chat_request, warnings, self._model, tenant=caller_of(request.scope).tenant)
        if chat_request.stream:
            return EventStream(await while_connected(request.receive, self._stopping, begun), self._stopping)
        return _json(await while_connected(request.receive, self._stopping, _completed(begun)))

    async def _inspect(
        self, request: Request, answer: Callable[[bytes, ServedModel, Caller], Coroutine[Any, Any, Any]]
    ) -> Response:
        body = await _read_json_body(request, self._max_body_bytes)
        return _json(
            await while_connected(request.receive, self._stopping, answer(body, self._model, caller_of(request.scope)))
        )

    async def parse(self, request: Request) -> Response:
        return await self._inspect(request, inspection.parse)

    async def render(self, request: Request) -> Response:
        return await self._inspect(request, inspection.render)

    async def tokenize(self, request: Request) -> Response:
        return await self._inspect(request, inspection.tokenize)


async def _completed(begun: Coroutine[Any, Any, chat.Turn]) -> Completion:
    return await chat.complete(await begun)


async def _read_json_body(request: Request, max_bytes: int) -> bytes:
    """The body. Raises `UnsupportedMediaType`, `PayloadTooLarge`."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        given = f"not {media_type!r}" if media_type else "and the request names none"
        raise UnsupportedMediaType(f"the Content-Type must be application/json, {given}")
    too_large = PayloadTooLarge(f"the request's body is over the limit of {max_bytes} bytes")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > max_bytes:
        raise too_large
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > max_bytes:
            raise too_large
    return bytes(body)


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


def _error_response(error: WireError, headers: dict[str, str] | None = None) -> Response:
    headers = dict(headers or {})
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return _json(error.body(), error.status, headers)


async def _send_error(error: WireError, scope: Scope, receive: Receive, send: Send) -> None:
    await _error_response(error)(scope, receive, send)


async def _on_wire_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, WireError)
    return _error_response(error)


async def _on_http_error(request: Request, error: Exception) -> Response:
    """What the router itself refuses."""
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code == 404:
        return _error_response(NotFound(f"there is no route {path}; there are {ROUTES}"))
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return _error_response(MethodNotAllowed(f"{path} takes {allowed}, not {request.method}"), {"Allow": allowed})
    return _error_response(BadRequest(str(error.detail)))


async def _on_client_gone(_request: Request, _error: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it; the number is nginx's for a client that closed


async def _on_bug(_request: Request, error: Exception) -> Response:
    traceback.print_exception(error, file=sys.stderr)
    return _error_response(bug(error))
