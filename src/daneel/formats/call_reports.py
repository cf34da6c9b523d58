"""Tells what was read of calls, as events: each call and each failed call with its own part of the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from daneel.formats.base import CallEvent, FailedCallEvent, Span
from daneel.formats.output import Output
from daneel.formats.scan import ScanError, ScannedCall, ScannedFailure
from daneel.formats.validate import ToolSet

ErrorType = Literal["malformed", "truncated"]


class CallReports:
    """Writes to an `Output`. Offsets of errors count into the raw text that they are reported with."""

    def __init__(self, out: Output, tools: ToolSet) -> None:
        self._out = out
        self._tools = tools

    def body(self, items: Sequence[ScannedCall | ScannedFailure], raw: str, raw_start: int, body_at: int) -> None:
        """Report the calls of one body, which begins `body_at` characters into `raw`; together their spans are all of it."""
        start = 0
        for number, item in enumerate(items):
            end = len(raw) if number == len(items) - 1 else body_at + item.end
            self._one(self._checked(item), raw[start:end], raw_start + start, body_at - start)
            start = end

    def failed(self, name: str | None, raw: str, start: int, kind: ErrorType, error: ScanError) -> None:
        """Report a call that cannot be read."""
        offset = max(0, min(error.offset, len(raw)))
        self._out.call(FailedCallEvent(name, raw, kind, error.message, offset, Span("failed", start, start + len(raw))))

    def truncated(self, name: str | None, raw: str, start: int, expected: str) -> None:
        """Report text that the length limit cut off before its call could be read."""
        self.failed(name, raw, start, "truncated", ScanError(f"the text ends where {expected} should follow", len(raw)))

    def _one(self, item: ScannedCall | ScannedFailure, raw: str, start: int, body_at: int) -> None:
        if isinstance(item, ScannedFailure):
            error = ScanError(item.error.message, body_at + item.error.offset)
            self.failed(item.name, raw, start, "malformed", error)
            return
        span = Span("tool", start, start + len(raw))
        repair = "+".join(item.repairs) or None
        self._out.call(CallEvent(item.name, item.arguments or "{}", raw, span, repair, item.call_id))

    def _checked(self, item: ScannedCall | ScannedFailure) -> ScannedCall | ScannedFailure:
        """A call without arguments is one only if its tool is declared and needs none."""
        if isinstance(item, ScannedFailure) or item.arguments is not None:
            return item
        if self._tools.declared(item.name) and not self._tools.issues(item.name, "{}"):
            return item
        return ScannedFailure(item.name, ScanError("expected the key 'arguments'", item.end - 1), item.end)
