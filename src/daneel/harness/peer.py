"""The server as the loop sees it: what it must be able to do, whether it is daneel's, and what its errors mean for a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from daneel.harness.client_errors import ClientError, ContextOverflow, RequestCancelled
from daneel.harness.connection import OnDelta
from daneel.harness.reply import Reply
from daneel.harness.run_record import JsonObject
from daneel.harness.stop import Stop


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
    if isinstance(error, ContextOverflow):
        return Stop("context_limit", str(error))
    if isinstance(error, RequestCancelled):
        return Stop("cancelled", str(error))
    return Stop("invalid", str(error))


def reply_data(reply: Reply) -> JsonObject:
    """A reply for the transcript: everything the server said."""
    usage: Any = msgspec.to_builtins(reply.usage) if reply.usage else None
    return {
        "message": msgspec.to_builtins(reply.message),
        "finish_reason": reply.finish_reason,
        "usage": usage,
        "model": reply.model,
        "system_fingerprint": reply.system_fingerprint,
        "notes": reply.notes,
        "num_retries": reply.num_retries,
        "ttft_s": reply.ttft_s,
        "duration_s": reply.duration_s,
        "daneel": reply.daneel,
    }
