"""Who may ask: one bearer key for the whole server, as pure ASGI in front of every route but the open ones."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable

from daneel.server.asgi import App, Receive, Scope, Send
from daneel.wire.errors import Unauthorized, WireError

OPEN_PATHS = frozenset({"/health"})

ErrorSender = Callable[[WireError, Scope, Receive, Send], Awaitable[None]]


class KeyRequired:
    """Lets a request through when its `Authorization` header is `Bearer KEY`. Keys are compared as digests, in even time."""

    def __init__(self, app: App, *, key: str, send_error: ErrorSender) -> None:
        self._app = app
        self._digest = hashlib.sha256(key.encode()).digest()
        self._send_error = send_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS and (problem := self._problem(scope)):
            await self._send_error(Unauthorized(problem), scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _problem(self, scope: Scope) -> str | None:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if not given:
            return "this server needs a key: send it as 'Authorization: Bearer KEY'"
        kind, _, key = given[0].partition(b" ")
        digest = hashlib.sha256(key.strip()).digest()
        if len(given) > 1 or kind.lower() != b"bearer" or not hmac.compare_digest(digest, self._digest):
            return "the key in the Authorization header is not this server's (it must be 'Bearer KEY')"
        return None
