"""Calls without markers where the family writes them so: at the start of the output, and one behind the other.

What turns out not to be a call is given back, and is content. What can only be a call and is broken, or breaks off, is a
failed call.
"""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from daneel.formats.buffer import Buffer
from daneel.formats.call_reader import LOOK_AHEAD, SEPARATORS, CallReader, Step
from daneel.formats.json_scan import WHITE
from daneel.formats.markers import Markers
from daneel.formats.output import Output
from daneel.formats.scan import ArgumentGrammar, ScanError
from daneel.formats.validate import ToolSet


@runtime_checkable
class MeansCalls(Protocol):
    """A scanner that knows whether it reads a call. Its `calls` are empty if the body holds none."""

    @property
    def is_meant(self) -> bool:
        """Whether what was read can hardly be anything but a call, well or badly written."""
        ...

    @property
    def may_be_meant(self) -> bool:
        """Whether what was read, if the length limit cuts it off, can hardly have become anything else."""
        ...


class BareReader(CallReader):
    """Reads bodies that no marker opens. A separator between two of them belongs to the second."""

    def __init__(self, buffer: Buffer, out: Output, markers: Markers, grammar: ArgumentGrammar, tools: ToolSet) -> None:
        super().__init__(buffer, out, markers, grammar, tools)
        self._not_before = 0  # up to here, the text was looked at and holds no call
        self._enabled = not tools.known or bool(tools.tools)

    def open_bare(self) -> Literal["opened", "wait", "no"]:
        """Whether a body begins at the buffer's position, white space and, behind a call, a separator apart."""
        buffer, out = self._buffer, self._out
        if not self._enabled or not (out.blank or out.after_call) or buffer.offset < self._not_before:
            return "no"
        start, first = buffer.offset, _behind_white(buffer.text, buffer.pos)
        out.content(buffer.take(first), start)
        begins = buffer.text[first : first + LOOK_AHEAD + 1]
        gap = _behind_white(begins, 1) if out.after_call and begins[:1] in SEPARATORS else 0
        head = self._grammar.head(begins, gap)
        if head == "more" and not buffer.final and len(begins) <= LOOK_AHEAD:
            return "wait"
        if head != "yes":
            return "no"
        self._begin(gap, buffer.offset, [buffer.take(first + gap)] if gap else [])
        return "opened"

    @property
    def _is_call(self) -> bool:
        scanner = self._scanner
        if not isinstance(scanner, MeansCalls):
            return True
        return scanner.is_meant or (self._buffer.truncated and scanner.may_be_meant)

    def _reject(self) -> Step:
        self._buffer.unread("".join(self._raw))
        self._not_before = self._buffer.offset + self._body_at + 1
        return "text"

    def _keep_calls(self, error: ScanError) -> ScanError:
        return super()._keep_calls(error) if self._is_call else error

    def _give_up(self, error: ScanError, kind: Literal["malformed", "truncated"] = "malformed") -> Step:
        return super()._give_up(error, kind) if self._is_call else self._reject()

    def _fail(self, error: ScanError, kind: Literal["malformed", "truncated"], closer: int = 0) -> Step:
        return super()._fail(error, kind, closer) if self._is_call else self._reject()

    def _after_body(self) -> Step:
        """The body is complete; the marker that closes marked calls may follow."""
        if not self._scanner.calls("".join(self._raw)[self._body_at :]):
            return self._reject()
        buffer, ends = self._buffer, self._markers.call_ends
        if self._markers.call.closes:
            end = _behind_white(buffer.text, buffer.pos)
            marker = ends.match(buffer.text, end)
            if marker is not None and marker[2] == "call_close":
                self._gap.append(buffer.take(end))
                return self._end_call(buffer.take(marker[1]), ())
            open_end = end == len(buffer.text) or ends.partial(buffer.text, end) == len(buffer.text) - end
            if open_end and not buffer.final and end - buffer.pos <= LOOK_AHEAD:
                return "more"
        return self._end_call("", ())


def _behind_white(text: str, pos: int) -> int:
    while pos < len(text) and text[pos] in WHITE:
        pos += 1
    return pos
