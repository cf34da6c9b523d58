"""From a parser's events to the wire's deltas: where formats and wire meet.

A reply that is being generated (`reply.py`) and a text that is only read (`reading.py`) are told by it in the same words.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from daneel.formats.base import CallEvent, ControlEvent, FailedCallEvent, Span, TextEvent
from daneel.formats.validate import ToolSet
from daneel.wire.errors import ToolCallFailed
from daneel.wire.messages import CallError, Delta, FailedToolCall, FunctionCall, Repair, ToolCall, ToolCallIssue
from daneel.wire.requests import OnFailedToolCall, ReasoningField


@dataclass(frozen=True, slots=True)
class DeltaOptions:
    """What the request and the model decide about the form of a message."""

    format_name: str
    on_failed_tool_call: OnFailedToolCall
    reasoning_field: ReasoningField
    call_id_salt: bytes | None
    """Call ids are derived from it; `None`: random ones. The same greedy or seeded request gives the same message, ids too."""


class DeltaWriter:
    """One per message. `token_span` gives the tokens of a failed call's characters, where there are tokens."""

    def __init__(
        self, tools: ToolSet, options: DeltaOptions, token_span: Callable[[Span], tuple[int, int]] | None = None
    ) -> None:
        self._tools = tools
        self._options = options
        self._token_span = token_span
        self._call_ids: set[str] = set()
        self._num_calls = 0
        self.num_good_calls = 0

    def delta(self, event: TextEvent | ControlEvent | CallEvent | FailedCallEvent) -> Delta | None:
        """What the event adds to the message, if anything. Raises `ToolCallFailed` when failed calls are wanted as errors."""
        match event:
            case TextEvent():
                return self._text(event)
            case CallEvent():
                return self._call(event)
            case FailedCallEvent():
                return self._failed_call(event)
            case ControlEvent():
                return None

    def _text(self, event: TextEvent) -> Delta | None:
        if not event.text:
            return None
        if event.kind == "content":
            return Delta(content=event.text)
        name = self._options.reasoning_field
        return Delta(
            reasoning=event.text if name != "reasoning_content" else None,
            reasoning_content=event.text if name != "reasoning" else None,
        )

    def _call(self, event: CallEvent) -> Delta:
        call_id = self._call_id(event.call_id, event.raw)
        index = self.num_good_calls
        self.num_good_calls += 1
        self._num_calls += 1
        issues = self._tools.issues(event.name, event.arguments)
        return Delta(
            tool_calls=[ToolCall(call_id, FunctionCall(event.name, event.arguments), "function", index)],
            tool_call_issues=[ToolCallIssue(call_id, issue.type, issue.message, issue.path) for issue in issues],
            repairs=[Repair(call_id, event.repair, event.raw)] if event.repair else [],
        )

    def _failed_call(self, event: FailedCallEvent) -> Delta:
        if self._options.on_failed_tool_call == "error":
            name = f" of {event.name}" if event.name else ""
            raise ToolCallFailed(
                f"the model wrote a tool call{name} that is {event.error_type}: {event.message} at character {event.offset} "
                f"of {event.raw!r}"
            )
        failed = FailedToolCall(
            id=self._call_id(None, event.raw),
            position=self._num_calls,
            name=event.name,
            raw=event.raw,
            error=CallError(event.error_type, event.message, event.offset),
            format=self._options.format_name,
            token_span=self._token_span(event.span) if self._token_span is not None else None,
        )
        self._num_calls += 1
        content = event.raw if self._options.on_failed_tool_call == "content" else None
        return Delta(content=content, failed_tool_calls=[failed])

    def _call_id(self, written: str | None, raw: str) -> str:
        """The id the model wrote, if it is unlike those before it; else one of ours."""
        if written and written not in self._call_ids:
            call_id = written
        elif self._options.call_id_salt is None:
            call_id = f"call_{secrets.token_hex(12)}"
        else:
            source = b"%s %d %s" % (self._options.call_id_salt, self._num_calls, raw.encode())
            call_id = f"call_{hashlib.sha256(source).hexdigest()[:24]}"
        self._call_ids.add(call_id)
        return call_id
