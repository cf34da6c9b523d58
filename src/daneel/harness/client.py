"""The HTTP client: one request to any server of the dialect, one whole reply or one named error.

    with Client("http://127.0.0.1:8080") as client:
        reply = client.chat([{"role": "user", "content": "Hello"}], on_delta=lambda delta: print(delta.content or "", end=""))

A reply counts only when its finish reason was seen, and its end, and no error frame. Requests are sent again, and to another
server if there are several, only before the first token. Deadlines are on progress, not on bytes. An exception in `on_delta`,
and Ctrl-C, closes the connection, and with it the server's work.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TypeVar

from daneel.errors import UserError
from daneel.harness.client_errors import (
    BadReply,
    ClientError,
    ContextOverflow,
    ErrorInStream,
    KeyRefused,
    ModelNotChosen,
    ProgressTimeout,
    RequestCancelled,
    RequestTimeout,
    ServerBusy,
    ServerRefused,
    ServerUnreachable,
    StreamBroken,
)
from daneel.harness.connection import Connection, OnBytes, OnDelta, Timeouts
from daneel.harness.credentials import check_encrypted, keys_for, ssl_context
from daneel.harness.endpoint import Endpoint, Request, ServedModel
from daneel.harness.failover import Rotation, all_failed, may_move
from daneel.harness.reply import Failover, Reply
from daneel.harness.retry import RetryPolicy
from daneel.harness.server_profile import ServerProfile
from daneel.harness.server_url import base_of
from daneel.wire.messages import JsonObject

__all__ = [
    "BadReply",
    "Client",
    "ClientError",
    "ContextOverflow",
    "ErrorInStream",
    "Failover",
    "KeyRefused",
    "ModelNotChosen",
    "ProgressTimeout",
    "Reply",
    "RequestCancelled",
    "RequestTimeout",
    "RetryPolicy",
    "ServedModel",
    "ServerBusy",
    "ServerRefused",
    "ServerUnreachable",
    "StreamBroken",
    "Timeouts",
]

_T = TypeVar("_T")


class Client:
    """A server, or several that stand in for each other, seen from the harness. Usable from several threads. `close()` it, or
    use it as a context manager.

    `servers`: an address or a list; `http://` and `/v1` may be left out. The server that answered last is asked first; another
    only when it fails before the first token, and then `Reply.failovers` says so. `api_key`: one for all, or one for each.
    `model`: by default the one that the server serves. `ca_cert`: a PEM file of authorities to trust besides the usual ones.
    `insecure_http`: plain HTTP to another machine is refused without it. `wait` sleeps between attempts; tests give one that
    does not.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        api_key: str | Sequence[str] | None = None,
        model: str | None = None,
        timeouts: Timeouts | None = None,
        retries: RetryPolicy | None = None,
        wait: Callable[[float], object] | None = None,
        ca_cert: Path | str | None = None,
        insecure_http: bool = False,
    ) -> None:
        addresses = list(dict.fromkeys([servers] if isinstance(servers, str) else servers))
        if not addresses:
            raise UserError("no server is given")
        self._cancelled = threading.Event()
        verify = ssl_context(ca_cert)
        endpoints = []
        for address, key in zip(addresses, keys_for(addresses, api_key), strict=True):
            base_url = base_of(address)
            check_encrypted(base_url, insecure_http=insecure_http)
            connection = Connection(
                base_url, api_key=key, timeouts=timeouts or Timeouts(), verify=verify, cancelled=self._cancelled
            )
            endpoints.append(Endpoint(address, connection, model))
        self._rotation = Rotation(endpoints)
        self._retries = retries or RetryPolicy()
        self._wait = self._cancelled.wait if wait is None else wait
        self.profile: ServerProfile | None = None
        """What is known of the server; whoever makes the client may put it here. See `profile_of`."""
        self._failovers: SimpleQueue[Failover] = SimpleQueue()
        """Found out while no reply was asked for; told of with the next one."""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        for endpoint in self._rotation.endpoints:
            endpoint.connection.close()

    def tap(self, on_bytes: OnBytes) -> None:
        """From now on `on_bytes` is given whatever a server sends in a body, as it comes."""
        for endpoint in self._rotation.endpoints:
            endpoint.connection.on_bytes = on_bytes

    def cancel(self) -> None:
        """End everything in flight, from any thread, for good: its requests raise `RequestCancelled`, as do later ones."""
        for endpoint in self._rotation.endpoints:
            endpoint.connection.cancel()

    @property
    def server(self) -> str:
        """The address, as it was given, of the server that is asked first."""
        return self._rotation.current.address

    @property
    def base_url(self) -> str:
        """The base of that server's routes, without a slash at its end."""
        return self._rotation.current.base_url

    @property
    def is_daneel(self) -> bool:
        """Whether the server is daneel's own and knows the additions to the dialect. Asks `/v1/models` once."""
        return self._found_out(lambda endpoint: endpoint.is_daneel)

    @property
    def model(self) -> str:
        """The model asked for: the one given, or the only one served. Raises `ModelNotChosen`."""
        return self._found_out(lambda endpoint: endpoint.model)

    def served_context(self) -> int | None:
        """Tokens that the context of the server asked first holds; None when it does not say. Raises nothing."""
        try:
            return self._rotation.current.served_context()
        except ClientError:
            return None

    def models(self) -> list[ServedModel]:
        """What `/v1/models` lists now. Raises `ClientError`."""
        return self._found_out(lambda endpoint: endpoint.models())

    def tokenize(self, text: str) -> list[str]:
        """The tokens of a text, each as text, by the server's own tokenizer. Raises `ClientError`."""
        return self._found_out(lambda endpoint: endpoint.tokenize(text))

    def chat(
        self,
        messages: Sequence[JsonObject],
        *,
        tools: Sequence[JsonObject] = (),
        params: JsonObject | None = None,
        stream: bool = True,
        on_delta: OnDelta | None = None,
        timeout_s: float | None = None,
    ) -> Reply:
        """One completed reply, or a `ClientError`. `params` are further fields of the request; one set to null is left out.

        `on_delta` gets new text as it comes, and the calls in a last delta; joined, the deltas give the reply's message, but
        for thoughts that only a closing tag tells from content: they were told of as content. `timeout_s` is the time for all
        attempts together.
        """
        request = Request(messages, tools, params or {}, stream)
        end_at = None if timeout_s is None else time.monotonic() + timeout_s

        def send(endpoint: Endpoint) -> Reply:
            content, warnings = endpoint.body(request)
            reply = endpoint.connection.chat(
                content, stream=stream, on_delta=on_delta, end_at=end_at, split_thoughts=not endpoint.is_daneel
            )
            endpoint.reasoning_field = reply.reasoning_field or endpoint.reasoning_field
            return replace(reply, warnings=[*warnings, *reply.warnings], server=endpoint.address)

        reply, num_retries, failovers = self._asking(send, end_at)
        with contextlib.suppress(Empty):
            while True:
                failovers.insert(0, self._failovers.get_nowait())
        return replace(reply, num_retries=num_retries, failovers=failovers)

    def _found_out(self, send: Callable[[Endpoint], _T]) -> _T:
        found, _, failovers = self._asking(send, None)
        for failover in failovers:
            self._failovers.put(failover)
        return found

    def _asking(self, send: Callable[[Endpoint], _T], end_at: float | None) -> tuple[_T, int, list[Failover]]:
        """What `send` gives with the first server that answers, in rounds while that is allowed, how often it failed, and
        which servers did in the last round."""
        num_failed = 0
        for num_rounds in itertools.count():
            failed: list[tuple[Endpoint, ClientError]] = []
            for endpoint in self._rotation.round():
                try:
                    result = self._tried(endpoint, send, end_at, may_stay=num_rounds == 0)
                except ClientError as error:
                    failed.append((endpoint, error))
                    if not may_move(error):
                        raise
                else:
                    return result, num_failed + len(failed), self._moved(failed, endpoint)
            num_failed += len(failed)
            pauses_s = [self._retries.pause_s(error, num_rounds, reached=each.reached) for each, error in failed]
            pause_s = min((pause for pause in pauses_s if pause is not None), default=None)
            if pause_s is None or not self._pause(pause_s, end_at):
                raise all_failed(failed)
        raise AssertionError("rounds without end")

    def _tried(self, endpoint: Endpoint, send: Callable[[Endpoint], _T], end_at: float | None, *, may_stay: bool) -> _T:
        """What `send` gives with one server. One of several that is busy is asked once more if it is free again soon."""
        while True:
            if self._cancelled.is_set():
                raise RequestCancelled("the request was cancelled")
            try:
                result = send(endpoint)
            except ClientError as error:
                endpoint.reached = endpoint.reached or not isinstance(error, ServerUnreachable)
                if not (may_stay and isinstance(error, ServerBusy) and len(self._rotation.endpoints) > 1):
                    raise
                may_stay = False
                pause_s = self._retries.pause_s(error, 0, reached=True)
                if pause_s is None or pause_s > self._retries.stay_s or not self._pause(pause_s, end_at):
                    raise
            else:
                endpoint.reached = True
                return result

    def _pause(self, pause_s: float, end_at: float | None) -> bool:
        """Wait; not at all if the time given would be over then."""
        if end_at is not None and time.monotonic() + pause_s >= end_at:
            return False
        self._wait(pause_s)
        return True

    def _moved(self, failed: Sequence[tuple[Endpoint, ClientError]], endpoint: Endpoint) -> list[Failover]:
        """`endpoint` answered, after those that failed in the same round."""
        if failed:
            self._rotation.stick_to(endpoint)
        model = endpoint.model_if_known
        return [Failover(each.address, endpoint.address, model, str(error)) for each, error in failed]
