"""Which of several servers is asked, and when the next one is.

The one that answered last is asked first: it holds the conversation's prefix in its cache. Another is asked only before the
first token, and only where the failure is the server's, not the request's.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from daneel.harness.client_errors import (
    ClientError,
    ContextOverflow,
    RequestCancelled,
    RequestTimeout,
    ServerRefused,
)
from daneel.harness.endpoint import Endpoint

REQUEST_FAULTS = (400, 409, 413, 415, 422)
"""Statuses that say the request is wrong: another server would only be asked the same."""


def may_move(error: ClientError) -> bool:
    """Whether the request may go to another server after `error`."""
    if error.started or isinstance(error, RequestTimeout | RequestCancelled | ContextOverflow):
        return False
    return not (isinstance(error, ServerRefused) and error.status in REQUEST_FAULTS)


class Rotation:
    """The servers in the order they are asked. Usable from several threads."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self.endpoints = list(endpoints)
        self._lock = threading.Lock()
        self._first = 0

    @property
    def current(self) -> Endpoint:
        """The one that answered last; at first, the first."""
        with self._lock:
            return self.endpoints[self._first]

    def stick_to(self, endpoint: Endpoint) -> None:
        with self._lock:
            self._first = self.endpoints.index(endpoint)

    def round(self) -> list[Endpoint]:
        """All of them, beginning with the current one."""
        with self._lock:
            return self.endpoints[self._first :] + self.endpoints[: self._first]


def all_failed(errors: Sequence[tuple[Endpoint, ClientError]]) -> ClientError:
    """The error to raise when every server failed: the first one's, which names what the others said."""
    error = errors[0][1]
    if len(errors) > 1:
        error.args = ("; ".join(str(each) for _, each in errors),)
    return error
