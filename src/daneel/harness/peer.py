"""The server as the loop sees it: what it must be able to do, whether it is daneel's, and what its errors mean for a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Protocol, cast

import msgspec

from daneel.errors import UserError
from daneel.harness import client_errors
from daneel.harness.client_errors import ClientError, ContextOverflow, ErrorInStream, RequestCancelled, ServerRefused
from daneel.harness.connection import OnDelta
from daneel.harness.overflow import says_overflow
from daneel.harness.reply import Failover, Reply
from daneel.harness.run_record import JsonObject
from daneel.harness.stop import Stop
from daneel.wire.error_body import PeerError
from daneel.wire.messages import Message, Usage, Warning


class ChatClient(Protocol):
    """What the loop needs of a client. `chat()` raises ClientError."""

    def chat(
        self,
        messages: Sequence[JsonObject],
        *,
        tools: Sequence[JsonObject] = (),
        params: JsonObject | None = None,
        stream: bool = True,
        on_delta: OnDelta | None = None,
        timeout_s: float | None = None,
    ) -> Reply: ...

    @property
    def is_daneel(self) -> bool:
        """Whether the server is daneel's, and so knows the additions to the dialect. Raises ClientError."""
        ...


def stop_for(error: ClientError) -> Stop:
    """How a run ends when a request failed: an overflow that could be seen is the run's own end, all else makes it invalid."""
    if isinstance(error, ContextOverflow) or (isinstance(error, ErrorInStream) and _says_overflow(error)):
        return Stop("context_limit", str(error))
    if isinstance(error, RequestCancelled):
        return Stop("cancelled", str(error))
    return Stop("invalid", str(error))


def _says_overflow(error: ErrorInStream) -> bool:
    return says_overflow(error.error.message, kind=error.error.type, code=error.error.code)


def reply_data(reply: Reply) -> JsonObject:
    """A reply for the transcript: everything the server said."""
    usage: Any = msgspec.to_builtins(reply.usage) if reply.usage else None
    logprobs = {"logprobs": {"content": reply.logprobs}} if reply.logprobs else {}
    return {
        **logprobs,
        "message": msgspec.to_builtins(reply.message),
        "finish_reason": reply.finish_reason,
        "usage": usage,
        "cached_tokens": reply.cached_tokens,
        "model": reply.model,
        "system_fingerprint": reply.system_fingerprint,
        "notes": reply.notes,
        "num_retries": reply.num_retries,
        "ttft_s": reply.ttft_s,
        "duration_s": reply.duration_s,
        "daneel": reply.daneel,
        "reasoning_field": reply.reasoning_field,
        "refusal": reply.refusal,
        "warnings": msgspec.to_builtins(reply.warnings),
        "server": reply.server,
        "failovers": [asdict(moved) for moved in reply.failovers],
    }


def reply_from(data: JsonObject) -> Reply:
    """The reply that `reply_data` has put on record. Raises UserError when it is none."""
    try:
        return Reply(
            message=msgspec.convert(data["message"], Message),
            finish_reason=data["finish_reason"],
            usage=msgspec.convert(data["usage"], Usage) if data.get("usage") else None,
            warnings=msgspec.convert(data.get("warnings") or [], list[Warning]),
            logprobs=(data.get("logprobs") or {}).get("content") or [],
            failovers=msgspec.convert(data.get("failovers") or [], list[Failover]),
            **{name: data[name] for name in _PLAIN_FIELDS if data.get(name) is not None},
        )
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        raise UserError(f"a reply on record cannot be read: {type(error).__name__}: {error}") from error


_PLAIN_FIELDS = (
    "cached_tokens",
    "model",
    "system_fingerprint",
    "notes",
    "num_retries",
    "ttft_s",
    "duration_s",
    "daneel",
    "server",
    "reasoning_field",
    "refusal",
    "server",
)


def error_data(error: ClientError) -> JsonObject:
    """A failed request for the transcript."""
    data: JsonObject = {"error": type(error).__name__, "message": str(error)}
    if isinstance(error, ServerRefused):
        data["status"] = error.status
    if isinstance(error, ServerRefused | ErrorInStream):
        data |= {"said": error.error.message, "type": error.error.type, "code": error.error.code}
    return data


def error_from(data: JsonObject) -> ClientError:
    """The error that `error_data` has put on record."""
    kind = getattr(client_errors, str(data.get("error")), ClientError)
    message = str(data.get("message"))
    said = PeerError(str(data.get("said") or message), type=data.get("type"), code=data.get("code"))
    if kind is ErrorInStream:
        return ErrorInStream(message, error=said)
    if not issubclass(kind, ServerRefused):
        return cast(ClientError, kind(message))
    more: JsonObject = {"error": said, "status": int(data.get("status") or 0)}
    return kind(message, **more)
