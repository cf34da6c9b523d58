"""Where a call without markers may stand in content: at its start, as some families write calls, or on a line of its own.

The first is read by `bare.py`; the second is a rescue, and `rescue.py` says what of it is certain. Content that is JSON and no
call is followed to its end: no call begins inside it.
"""

from __future__ import annotations

from typing import Literal

from daneel.formats.bare import BareReader
from daneel.formats.buffer import Buffer
from daneel.formats.call_reader import CallReader, Step
from daneel.formats.json_scan import JsonScanner
from daneel.formats.markers import Markers
from daneel.formats.output import Output
from daneel.formats.rescue import FENCE, Candidate
from daneel.formats.validate import ToolSet


class Unmarked:
    """One per generation: `pass_content` for all content, `begin` wherever a call may stand; once that opened one, `run`.

    `rescues`: whether calls are looked for at the start of each line. `own_array`: a bare array is how calls are written.
    """

    def __init__(
        self, buffer: Buffer, out: Output, calls: CallReader, markers: Markers, tools: ToolSet, *, rescue: bool, own_array: bool
    ) -> None:
        bare, self._own_fence = markers.call.bare, markers.call.fenced
        self.rescues = rescue and (bool(tools.tools) or (self._own_fence and not tools.known))
        self._bare = BareReader(buffer, out, markers, bare, tools) if rescue and bare is not None else None
        self._buffer, self._out, self._calls, self._tools = buffer, out, calls, tools
        self._own_array = own_array
        self._reading = self._read_candidate
        self._candidate = Candidate(tools, fenced=False)
        self._raw: list[str] = []
        self._start = 0
        self._in_fence = False
        self._in_json: JsonScanner | None = None

    def pass_content(self, end: int) -> None:
        """The buffer up to `end` is content."""
        if end > self._buffer.pos:
            start, text = self._buffer.offset, self._buffer.take(end)
            self._out.content(text, start)
            if self._in_json is not None:
                self._in_json.feed(text, 0)
                if self._in_json.done or self._in_json.error is not None:
                    self._in_json = None

    def reset(self) -> None:
        """A marker or call came: what stands behind it is no part of JSON before it."""
        self._in_json = None

    def start_over(self) -> None:
        """Another message begins."""
        self._in_fence, self._in_json = False, None

    def begin(self) -> Literal["opened", "wait", "no"]:
        """Whether a call without a marker may begin at the buffer's position."""
        step: Literal["opened", "wait", "no"] = "no"
        if self._bare is not None:
            step, self._reading = self._bare.open_bare(), self._bare.run
        if step == "no" and self.rescues and self._out.line_start:
            step, self._reading = self._open_candidate(), self._read_candidate
        return step

    def run(self) -> Step:
        """Go on reading what `begin` opened: `more`, `call`, or `text` if it was none."""
        step = self._reading()
        if step == "call":
            self.reset()
        return step

    def _open_candidate(self) -> Literal["opened", "wait", "no"]:
        """At the start of a line: a fence or bracket that may begin a call is opened (or waited for)."""
        buffer = self._buffer
        at = buffer.pos
        while at < len(buffer.text) and buffer.text[at] in " \t":
            at += 1
        self.pass_content(at)
        char = buffer.text[at : at + 1]
        fenced = char == "`"
        if not char or char not in "`{[" or self._in_json is not None or not (fenced or self._tools.tools):
            return "no"
        if fenced and len(buffer.text) - at < len(FENCE) and FENCE.startswith(buffer.text[at:]):
            return "no" if buffer.final else "wait"
        if fenced and not buffer.text.startswith(FENCE, at):
            return "no"
        if self._in_fence:
            if fenced:
                self._in_fence = False
                self.pass_content(at + len(FENCE))
            return "no"
        self._candidate = Candidate(self._tools, fenced=fenced, own_array=self._own_array, own_fence=self._own_fence)
        self._raw, self._start = [], buffer.offset
        return "opened"

    def _read_candidate(self) -> Step:
        buffer, candidate = self._buffer, self._candidate
        self._raw.append(buffer.take(candidate.feed(buffer.text, buffer.pos)))
        expected = candidate.cut_off() if buffer.truncated else None
        if expected is not None:
            self._calls.reports.truncated(candidate.name, "".join(self._raw), self._start, expected)
            return "call"
        if buffer.final:
            candidate.finish()
        if candidate.verdict == "open":
            return "more"
        raw = "".join(self._raw)
        if candidate.verdict == "call":
            self._calls.reports.body(candidate.calls, raw, self._start, 0)
            return "call"
        buffer.unread(raw)
        if candidate.kind == "fenced_json":
            # a fence that holds no calls: nothing inside it is taken for one
            self._in_fence = True
            self.pass_content(buffer.pos + len(FENCE))
        else:
            self._in_json = JsonScanner()
        return "text"
