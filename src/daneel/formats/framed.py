"""The streaming parser for families whose output is a sequence of messages (frames), by their `FrameSyntax`.

Content is read as the splitter reads it, calls without markers included. A call's body goes to the family's argument scanner,
which finds its end by grammar, so markers may stand inside strings. A body that cannot be read is read again by the markers:
it ends at the first end marker or header behind its start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from daneel.formats.base import FailedCallEvent, Span
from daneel.formats.call_reader import PROGRESS_CHARS
from daneel.formats.frame_syntax import MAX_HEADER, FrameSyntax, Header
from daneel.formats.json_scan import WHITE
from daneel.formats.markers import Markers, MarkerSet, Role
from daneel.formats.scan import BodyScanner, ScanError, ScannedCall, ScannedFailure
from daneel.formats.splitter import Splitter
from daneel.formats.syntax import CallSyntax
from daneel.formats.validate import ToolSet

_ErrorType = Literal["malformed", "truncated"]
_Marker = Literal["end", "header", "text", "wait"]
"""What stands at a marker: a message's end, the next header (complete, or the text ends in it), text, or too little to tell."""


class FramedSplitter(Splitter):
    """Implements `base.Parser` for frames. `opened`: what the prompt has begun, as `FrameSyntax.opened` says."""

    def __init__(self, syntax: FrameSyntax, call: CallSyntax, tools: ToolSet, *, opened: Header | str, rescue: bool) -> None:
        markers = Markers.of(call, None, syntax.ends)
        rescue = rescue and syntax.rescue
        super().__init__(markers, call.grammar, tools, starts_in_reasoning=False, rescue=rescue)
        roles: dict[str, Role] = dict.fromkeys(syntax.ends, "control")
        roles |= dict.fromkeys((syntax.start, *syntax.interrupts), "call_open")
        self._syntax = syntax
        self._tools = tools
        self._ends = MarkerSet(roles)
        self._content_ends = MarkerSet(roles, line_starts=self._unmarked.rescues)
        self._default_seed = syntax.start + syntax.role
        self._seed = opened if isinstance(opened, str) else self._default_seed
        self._next: Header | None = None
        self._header = Header(0, "content")
        self._scanner: BodyScanner = syntax.grammar.frame_scanner(None, tools)
        self._raw: list[str] = []
        self._raw_start = self._raw_size = self._body_at = self._told_size = 0
        self._gap: list[str] = []
        self._error = ScanError("", 0)
        self._error_type: _ErrorType = "malformed"
        self._doubtful_end = 0  # a body that begins before is read by the markers: so much text is read twice, none more often
        self._state = self._between
        if isinstance(opened, Header):
            self._enter(opened, 0)

    # -- headers ------------------------------------------------------------------------------------------------------------

    def _between(self) -> bool:
        """At the start, or behind a message's end: a header, or text without one."""
        buffer, syntax = self._buffer, self._syntax
        text, pos = buffer.text, buffer.pos
        if pos == len(text):
            return False
        window = text[pos : pos + 2 * MAX_HEADER]
        own = window.lstrip(WHITE)
        found = syntax.read(self._seed + window, 0, self._tools)
        if isinstance(found, Header):
            self._enter(found, pos + found.end - len(self._seed))
            return True
        if own.startswith(syntax.start) and len(window) - len(own) < MAX_HEADER:
            found = syntax.read(own, 0, self._tools)
            if isinstance(found, Header):
                self._enter(found, pos + len(window) - len(own) + found.end)
                return True
        elif len(window) - len(own) < MAX_HEADER and syntax.start.startswith(own):
            found = "more"
        if found == "more":
            if not buffer.final:
                return False
            seed = "" if own.startswith(syntax.start) else self._seed
            begun = syntax.begun(seed, own)
            if begun is not None:
                self._unfinished(begun)
                return False
        self._seed, self._state = self._default_seed, self._content
        return True

    def _at_marker(self, role: Role) -> _Marker:
        """A marker stands at the buffer's position, inside a body."""
        if role == "control":
            return "end"
        buffer = self._buffer
        found = self._syntax.read(buffer.text, buffer.pos, self._tools)
        if found == "more" and buffer.final:
            self._next = self._syntax.begun("", buffer.text[buffer.pos :])
            return "header" if self._next is not None else "text"
        if isinstance(found, Header):
            self._next = found
            return "header"
        return "wait" if found == "more" else "text"

    def _end_body(self, marker: _Marker, end: int) -> bool:
        """Go on behind a body: with its end marker, up to `end`, or the next header."""
        header, self._next = self._next, None
        if marker == "end" or header is None:
            self._control(end)
            self._seed, self._state = self._default_seed, self._between
        elif header.end == 0:
            self._unfinished(header)
        else:
            self._enter(header, header.end)
        return True

    def _enter(self, header: Header, end: int) -> None:
        """A header ends at `end` in the buffer. A call's header is part of the call."""
        buffer = self._buffer
        self._header = header
        self._unmarked.start_over()
        if header.kind == "call" or header.tentative:
            self._raw_start, self._raw = buffer.offset, [buffer.take(end)]
            self._body_at = self._raw_size = self._told_size = len(self._raw[0])
            self._scanner = self._syntax.grammar.frame_scanner(header.name, self._tools)
            self._state = self._body_start
            return
        if end > buffer.pos:
            self._control(end)
        self._state = self._thinking if header.kind == "reasoning" else self._content

    def _unfinished(self, header: Header) -> None:
        """The text ends inside a header."""
        buffer = self._buffer
        if header.kind == "call":
            start = buffer.offset
            self._calls.reports.truncated(header.name, buffer.take(len(buffer.text)), start, "the rest of the header")
        else:
            self._control(len(buffer.text))
        self._state = self._between

    # -- reasoning, content, and calls that failed ----------------------------------------------------------------------------

    def _thinking(self) -> bool:
        return self._pass_text(self._ends, self._pass_reasoning)

    def _content(self) -> bool:
        step = self._unmarked.begin()
        if step != "no":
            self._state = self._unmarked_call if step == "opened" else self._content
            return step == "opened"
        return self._pass_text(self._content_ends, self._pass_content)

    def _failing(self) -> bool:
        return self._pass_text(self._ends, self._pass_failed)

    def _pass_text(self, ends: MarkerSet, sink: Callable[[int], None]) -> bool:
        """Text up to the next marker that ends it."""
        buffer = self._buffer
        found = ends.search(buffer.text, buffer.pos)
        if found is None:
            sink(len(buffer.text) - (0 if buffer.final else ends.partial(buffer.text, buffer.pos)))
            if buffer.final and self._state == self._failing:
                self._fail(self._error_type)
            return False
        start, end, role = found
        sink(start)
        if role == "line_start":
            sink(end)
            return True
        marker = self._at_marker(role)
        if marker == "wait":
            return False
        if marker == "text":
            sink(end)
            return True
        if self._state == self._failing:
            self._fail("malformed")
        return self._end_body(marker, end)

    def _pass_failed(self, end: int) -> None:
        self._raw.append(self._buffer.take(end))

    # -- calls ----------------------------------------------------------------------------------------------------------------

    def _body_start(self) -> bool:
        """Behind a call's header. A message that ends without a body may be a call without arguments."""
        buffer = self._buffer
        text, end = buffer.text, buffer.pos
        while end < len(text) and text[end] in WHITE:
            end += 1
        self._read(end)
        found = self._ends.match(text, end)
        if found is None:
            if not buffer.final and self._ends.partial(text, end) == len(text) - end:
                return False
            self._state = self._body
            return True
        marker = self._at_marker(found[2])
        if marker == "wait":
            return False
        if marker == "text" or self._header.tentative:
            self._next, self._state = None, self._body
            return True
        name, size = self._header.name, self._raw_size - self._body_at
        if name and not self._syntax.grammar.needs_body:
            self._report([ScannedCall(name, None, size, ("no_arguments",))])
        else:
            self._report([ScannedFailure(name, ScanError(f"expected {self._scanner.expected}", size), size)])
        return self._end_body(marker, found[1])

    def _body(self) -> bool:
        buffer, scanner = self._buffer, self._scanner
        piece, at = buffer.text, buffer.pos
        limit = None
        if self._raw_start < self._doubtful_end:
            limit = self._ends.search(buffer.text, buffer.pos)
            waiting = 0 if buffer.final else self._ends.partial(buffer.text, buffer.pos)
            piece, at = buffer.text[buffer.pos : limit[0] if limit else len(buffer.text) - waiting], 0
        end = scanner.feed(piece, at) - at
        self._read(buffer.pos + end)
        if scanner.error is None and not scanner.done and (limit is not None or buffer.final):
            scanner.finish()
        if scanner.error is not None:
            self._give_up(scanner.error, "malformed")
        elif scanner.done:
            self._gap, self._state = [], self._after_body
        elif limit is not None or buffer.final:
            self._cut_off(len(piece) - at - end)
        else:
            if self._raw_size - self._told_size >= PROGRESS_CHARS:
                self._told_size = self._raw_size
                self._out.progress(scanner.name, self._raw_size)
            return False
        return True

    def _cut_off(self, unread: int) -> None:
        """The message ends inside its body, of which `unread` characters are still in the buffer."""
        error = ScanError(
            f"the text ends where {self._scanner.expected} should follow", self._raw_size - self._body_at + unread
        )
        if not self._buffer.truncated or self._header.tentative:
            self._give_up(error, "truncated" if self._buffer.final else "malformed")
            return
        self._read(len(self._buffer.text))
        self._error = error
        self._fail("truncated")
        self._state = self._between

    def _after_body(self) -> bool:
        buffer, slack = self._buffer, self._syntax.grammar.slack
        text, end = buffer.text, buffer.pos
        while end < len(text) and (text[end] in WHITE or text[end] in slack):
            end += 1
        self._gap.append(buffer.take(end))
        marker: _Marker = "text"
        found = self._ends.match(text, end)
        if found is not None:
            marker = self._at_marker(found[2])
        elif end == len(text) or (not buffer.final and self._ends.partial(text, end) == len(text) - end):
            marker = "end" if buffer.final else "wait"
        if marker == "wait":
            return False
        gap, size = "".join(self._gap), self._raw_size - self._body_at
        apart = marker == "text" and self._syntax.grammar.ends_itself and not self._header.tentative
        if marker == "text" and not apart:
            self._raw.append(gap)
            self._raw_size += len(gap)
            self._give_up(ScanError("text behind the call", size + len(gap)), "malformed")
            return True
        items = self._scanner.calls("".join(self._raw)[self._body_at :])
        last = items[-1]
        if gap.strip(WHITE) and isinstance(last, ScannedCall):
            items[-1] = ScannedCall(last.name, last.arguments, last.end, (*last.repairs, "extra_braces"), last.call_id)
        if apart:
            buffer.unread(gap)
        else:
            self._raw.append(gap)
        if self._header.tentative and not all(map(self._is_certain, items)):
            self._give_up(ScanError("", 0), "malformed")
            return True
        self._report(items)
        if apart:
            self._state = self._content
            return True
        if found is None:
            self._state = self._between
            return False
        return self._end_body(marker, found[1])

    def _is_certain(self, item: ScannedCall | ScannedFailure) -> bool:
        if not self._tools.known or isinstance(item, ScannedFailure):
            return False
        return not self._tools.issues(item.name, item.arguments or "{}")

    def _read(self, end: int) -> None:
        if end > self._buffer.pos:
            self._raw_size += end - self._buffer.pos
            self._raw.append(self._buffer.take(end))

    def _report(self, items: list[ScannedCall | ScannedFailure]) -> None:
        self._calls.reports.body(items, "".join(self._raw), self._raw_start, self._body_at)

    def _give_up(self, error: ScanError, kind: _ErrorType) -> None:
        """The body cannot be read: find its end by the markers, from its start. `kind` holds if no marker ends it."""
        raw, self._next = "".join(self._raw), None
        self._doubtful_end = max(self._doubtful_end, self._raw_start + len(raw))
        if self._header.tentative:
            self._buffer.unread(raw)
            self._control(self._buffer.pos + self._body_at)
            self._state = self._content
            return
        self._buffer.unread(raw[self._body_at :])
        self._raw = [raw[: self._body_at]]
        self._error, self._error_type, self._state = error, kind, self._failing

    def _fail(self, kind: _ErrorType) -> None:
        raw = "".join(self._raw)
        offset, message = self._body_at + self._error.offset, self._error.message
        if offset > len(raw):
            offset, message = len(raw), "the message ends before its body is complete"
        span = Span("failed", self._raw_start, self._raw_start + len(raw))
        self._out.call(FailedCallEvent(self._scanner.name or self._header.name or None, raw, kind, message, offset, span))
