"""Who asks: bearer keys, each a tenant of its own, as pure ASGI in front of every route but the open ones.

A tenant's name is HMAC-SHA256(server's secret, key) in hex: it goes to the engine and into files, where no key may stand.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from daneel.server.asgi import App, Receive, Scope, Send
from daneel.wire.errors import Unauthorized, WireError

OPEN_PATHS = frozenset({"/health"})

ErrorSender = Callable[[WireError, Scope, Receive, Send], Awaitable[None]]

_CALLER = "daneel.caller"


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose a request is. `tenant` is empty where no key is needed; `admin`: the caller may change the server's limits."""

    tenant: str = ""
    admin: bool = False


class KeyRing:
    """The server's keys. An admin's key is also a key like any other. Keys are kept as digests and compared in even time.

    Without `keys` nobody needs one, and all callers are one tenant; an admin key then only adds the admin's right.
    """

    def __init__(self, keys: Sequence[str] = (), *, admin_keys: Sequence[str] = (), secret: bytes = b"") -> None:
        """`secret`: the server's own; tenants keep their names for as long as it does."""
        self.required = bool(keys)
        known = dict.fromkeys(keys, False) | dict.fromkeys(admin_keys, True)
        self._callers = [
            (
                hashlib.sha256(key.encode()).digest(),
                Caller(hmac.digest(secret, key.encode(), "sha256").hex() if self.required else "", admin),
            )
            for key, admin in known.items()
        ]

    def caller(self, authorization: Sequence[bytes]) -> Caller:
        """Who sends these `Authorization` headers. Raises `Unauthorized`."""
        if not authorization and not self.required:
            return Caller()
        if not authorization:
            raise Unauthorized("this server needs a key: send it as 'Authorization: Bearer KEY'")
        kind, _, key = authorization[0].partition(b" ")
        digest = hashlib.sha256(key.strip()).digest()
        found = [caller for known, caller in self._callers if hmac.compare_digest(digest, known)]
        if found and len(authorization) == 1 and kind.lower() == b"bearer":
            return found[0]
        if not self.required:
            return Caller()  # many clients must send some key
        raise Unauthorized("the key in the Authorization header is not this server's (it must be 'Bearer KEY')")


class KeyRequired:
    """Lets a request through when its `Authorization` header is `Bearer KEY`, and notes whose it is."""

    def __init__(self, app: App, *, keys: KeyRing, send_error: ErrorSender) -> None:
        self._app = app
        self._keys = keys
        self._send_error = send_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            try:
                scope[_CALLER] = self._keys.caller([value for name, value in scope["headers"] if name == b"authorization"])
            except Unauthorized as error:
                await self._send_error(error, scope, receive, send)
                return
        await self._app(scope, receive, send)


def caller_of(scope: Scope) -> Caller:
    """Whose request it is, as `KeyRequired` noted it."""
    caller: Caller = scope[_CALLER]
    return caller
