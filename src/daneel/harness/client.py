"""The HTTP client: one request to any server of the dialect, one whole reply or one named error.

    with Client("http://127.0.0.1:8080") as client:
        reply = client.chat([{"role": "user", "content": "Hello"}], on_delta=lambda delta: print(delta.content or "", end=""))

A reply counts only when its finish reason was seen, and its end, and no error frame. Requests are sent again only before the
first token. Deadlines are on progress, not on bytes. An exception in `on_delta`, and Ctrl-C, closes the connection, and with
it the server's work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TypeVar

import msgspec

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
from daneel.harness.connection import Connection, OnDelta, Timeouts
from daneel.harness.reply import Reply
from daneel.harness.retry import RetryPolicy
from daneel.harness.server_url import base_of
from daneel.wire.messages import JsonObject, Warning

__all__ = [
    "BadReply",
    "Client",
    "ClientError",
    "ContextOverflow",
    "ErrorInStream",
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

DANEEL_FIELDS = (
    "on_failed_tool_call",
    "tool_result_style",
    "reasoning_field",
    "strict_fields",
    "cache",
    "include",
    "script",
)
"""Request fields that only daneel's server knows. Others get none of them: some refuse what they don't know."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class ServedModel:
    """One entry of `/v1/models`; `raw` is the entry as the server wrote it."""

    id: str
    owned_by: str
    raw: JsonObject


class Client:
    """A server, seen from the harness. Usable from several threads. `close()` it, or use it as a context manager.

    `base_url`: `http://` and `/v1` may be left out. `model`: by default the one that the server serves. `wait` sleeps between
    attempts; tests give one that does not.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        model: str | None = None,
        timeouts: Timeouts | None = None,
        retries: RetryPolicy | None = None,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        self.base_url = base_of(base_url)
        self._model = model
        self._connection = Connection(self.base_url, api_key=api_key, timeouts=timeouts or Timeouts())
        self._retries = retries or RetryPolicy()
        self._wait = self._connection.cancelled.wait if wait is None else wait
        self._reached = False
        self._served: list[ServedModel] | None = None
        self._unlisted: ClientError | None = None
        """Why there is no list of models."""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def cancel(self) -> None:
        """End everything in flight, from any thread, for good: its requests raise `RequestCancelled`, as do later ones."""
        self._connection.cancel()

    @property
    def is_daneel(self) -> bool:
        """Whether the server is daneel's own and knows the additions to the dialect. Asks `/v1/models` once."""
        return any(served.owned_by == "daneel" for served in self._known_models())

    @property
    def model(self) -> str:
        """The model asked for: the one given, or the only one served. Raises `ModelNotChosen`."""
        if self._model is not None:
            return self._model
        served = self._known_models()
        if len(served) != 1:
            names = ", ".join(entry.id for entry in served[:20]) or str(self._unlisted or "none that it names")
            raise ModelNotChosen(f"{self.base_url} serves {len(served)} models ({names}): say which with --model")
        return served[0].id

    def models(self) -> list[ServedModel]:
        """What `/v1/models` lists now. Raises `ClientError`."""
        body, _ = self._retrying(lambda end_at: self._connection.get("/models", end_at=end_at), None)
        listed = body.get("data", body.get("models")) if isinstance(body, dict) else body
        entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
        return [
            ServedModel(id=str(entry["id"]), owned_by=str(entry.get("owned_by") or ""), raw=entry)
            for entry in entries
            if entry.get("id")
        ]

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

        `on_delta` gets new text as it comes, and the calls in a last delta; joined, the deltas give the reply's message.
        `timeout_s` is the time for all attempts together.
        """
        body, warnings = self._body(messages, tools, params or {}, stream)
        try:
            content = msgspec.json.encode(body)
        except (TypeError, ValueError, OverflowError) as error:
            raise UserError(f"the request cannot be written as JSON: {error}") from None
        end_at = None if timeout_s is None else time.monotonic() + timeout_s
        reply, num_retries = self._retrying(
            lambda end: self._connection.chat(content, stream=stream, on_delta=on_delta, end_at=end), end_at
        )
        return replace(reply, warnings=[*warnings, *reply.warnings], num_retries=num_retries)

    def _body(
        self, messages: Sequence[JsonObject], tools: Sequence[JsonObject], params: JsonObject, stream: bool
    ) -> tuple[JsonObject, list[Warning]]:
        """The request, and a warning for each field that this server would not know."""
        body: JsonObject = {"model": self.model, "messages": list(messages), "stream": stream}
        if tools:
            body["tools"] = list(tools)
        if stream:
            body["stream_options"] = {"include_usage": True}
        if self.is_daneel:
            body["on_failed_tool_call"] = "report"
        warnings: list[Warning] = []
        for name, value in params.items():
            if name in DANEEL_FIELDS and not self.is_daneel:
                warnings.append(Warning(field=name, action="ignored", detail="not sent: the server is not daneel's"))
            elif value is None:
                body.pop(name, None)
            else:
                body[name] = value
        return body, warnings

    def _known_models(self) -> list[ServedModel]:
        """The models, asked for once. A server without that route is no daneel; any other failure is the caller's."""
        if self._served is None:
            try:
                self._served = self.models()
            except (ServerRefused, BadReply) as error:
                if isinstance(error, KeyRefused | ServerBusy):
                    raise
                self._served, self._unlisted = [], error
        return self._served

    def _retrying(self, send: Callable[[float | None], _T], end_at: float | None) -> tuple[_T, int]:
        """What `send` gives, sent again while that is allowed, and how often it was."""
        num_retries = 0
        while True:
            if self._connection.cancelled.is_set():
                raise RequestCancelled("the request was cancelled")
            try:
                result = send(end_at)
            except ClientError as error:
                self._reached = self._reached or not isinstance(error, ServerUnreachable)
                pause_s = self._retries.pause_s(error, num_retries, reached=self._reached)
                if pause_s is None or (end_at is not None and time.monotonic() + pause_s >= end_at):
                    raise
                self._wait(pause_s)
                num_retries += 1
            else:
                self._reached = True
                return result, num_retries
