"""One server of a client's list: what it serves, and a request as it takes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from daneel.errors import UserError
from daneel.harness.client_errors import BadReply, ClientError, KeyRefused, ModelNotChosen, ServerBusy, ServerRefused
from daneel.harness.connection import Connection
from daneel.harness.foreign_history import foreign_history
from daneel.harness.served_context import read_context
from daneel.wire.messages import JsonObject, Warning

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


@dataclass(frozen=True)
class ServedModel:
    """One entry of `/v1/models`; `raw` is the entry as the server wrote it."""

    id: str
    owned_by: str
    raw: JsonObject


@dataclass(frozen=True)
class Request:
    """A request as the person wants it, whichever server gets it."""

    messages: Sequence[JsonObject]
    tools: Sequence[JsonObject]
    params: JsonObject
    stream: bool


class Endpoint:
    """A server at one address. `address` is as the person gave it, `wanted_model` the model that was named, if one was."""

    def __init__(self, address: str, connection: Connection, wanted_model: str | None) -> None:
        self.address = address
        self.connection = connection
        self.base_url = connection.base_url
        self.reached = False
        self.reasoning_field: str | None = None
        """The name under which its thoughts came last, and so are sent back."""
        self._wanted_model = wanted_model
        self._context_tokens: int | None = None
        self._context_asked = 0
        self._served: list[ServedModel] | None = None
        self._unlisted: ClientError | None = None
        """Why there is no list of models."""

    def models(self, end_at: float | None = None) -> list[ServedModel]:
        """What `/v1/models` lists now. Raises `ClientError`."""
        body = self.connection.get("/models", end_at=end_at)
        listed = body.get("data", body.get("models")) if isinstance(body, dict) else body
        entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
        return [
            ServedModel(id=str(entry["id"]), owned_by=str(entry.get("owned_by") or ""), raw=entry)
            for entry in entries
            if entry.get("id")
        ]

    @property
    def is_daneel(self) -> bool:
        """Whether the server is daneel's own and knows the additions to the dialect. Asks `/v1/models` once."""
        return any(served.owned_by == "daneel" for served in self._known_models())

    @property
    def model(self) -> str:
        """The model asked for: the one named, or the only one served. Raises `ModelNotChosen`."""
        if self._wanted_model is not None:
            return self._wanted_model
        served = self._known_models()
        if len(served) != 1:
            names = ", ".join(entry.id for entry in served[:20]) or str(self._unlisted or "none that it names")
            raise ModelNotChosen(f"{self.base_url} serves {len(served)} models ({names}): say which with --model")
        return served[0].id

    @property
    def model_if_known(self) -> str | None:
        """The model, as far as that is known without asking."""
        if self._wanted_model is not None or not self._served:
            return self._wanted_model
        return self._served[0].id if len(self._served) == 1 else None

    def served_context(self) -> int | None:
        """The context of the model asked for, in tokens; None when it is not known. The server is asked once.

        And a second time later, if it did not know: some load a model only when it is first used. Raises `ClientError`.
        """
        if self._context_tokens is None and self._context_asked < 2:
            entry = next((served.raw for served in self._known_models() if served.id == self.model), None)
            self._context_tokens = read_context(self.connection, self.model, entry)
            self._context_asked += 1 if self._context_tokens is None and not self.is_daneel else 2
        return self._context_tokens

    def tokenize(self, text: str) -> list[str]:
        """The tokens of a text, each as text; daneel's servers have this route. Raises `ClientError`."""
        body = self.connection.post("/tokenize", {"model": self.model, "text": text, "pieces": True}, end_at=None)
        pieces = body.get("pieces") if isinstance(body, dict) else None
        if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
            raise BadReply(f"{self.address} gave no pieces of the text, but {str(body)[:200]}")
        return pieces

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

    def body(self, request: Request) -> tuple[bytes, list[Warning]]:
        """The request as this server takes it, and a warning for each field that it would not know. Raises `UserError`."""
        messages = list(request.messages)
        if not self.is_daneel:
            messages = foreign_history(messages, reasoning_field=self.reasoning_field)
        body: JsonObject = {"model": self.model, "messages": messages, "stream": request.stream}
        if request.tools:
            body["tools"] = list(request.tools)
        if request.stream:
            body["stream_options"] = {"include_usage": True}
        if self.is_daneel:
            body["on_failed_tool_call"] = "report"
        warnings: list[Warning] = []
        for name, value in request.params.items():
            if name in DANEEL_FIELDS and not self.is_daneel:
                warnings.append(Warning(field=name, action="ignored", detail="not sent: the server is not daneel's"))
            elif value is None:
                body.pop(name, None)
            else:
                body[name] = value
        try:
            return msgspec.json.encode(body), warnings
        except (TypeError, ValueError, OverflowError) as error:
            raise UserError(f"the request cannot be written as JSON: {error}") from None
