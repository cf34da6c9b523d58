"""Reads one marked call, from its opening marker to whatever ends it, and reports it as a call or a failed call.

The body goes to the family's argument scanner, which finds its end by grammar and sees each character once. A body that
cannot be read ends at the first closing marker behind its start (a marker inside a broken string included), else at the
next other marker or the end of the text; what follows is read afresh, so that good calls beside it survive.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from daneel.formats.buffer import Buffer
from daneel.formats.call_reports import CallReports, ErrorType
from daneel.formats.json_scan import WHITE
from daneel.formats.markers import Markers
from daneel.formats.output import Output
from daneel.formats.scan import (
    ArgumentGrammar,
    BodyScanner,
    FindsCalls,
    KeepsCalls,
    MayHoldNone,
    ScanError,
    ScannedCall,
    ScannedFailure,
)
from daneel.formats.validate import ToolSet

LOOK_AHEAD = 256
"""Characters held back behind an opening marker without a call, or a complete body without its closing marker, to see whether
a closing marker follows (then the call failed) or not (then it is text)."""

MIN_OPENING = 4
"""Characters of an opening marker, and at least half of it, that count as a call when the length limit cuts them off."""

REREAD_TIMES, REREAD_CHARS = 4, 1_000_000
"""A body that cannot be read is read again from its start, for the calls that may stand in it: all of them together so many
times the text so far, and so many characters more. Past that, what was read of a broken body is not looked at again: else a
text of nothing but openings would take time that grows with its square."""

PROGRESS_CHARS = 16
"""Progress is told about this often: per token would cost more than the scan."""

Step = Literal["go", "more", "call", "text", "empty"]
"""Go on; more text is needed; the call was reported; the opening marker is text, or opens a pair that holds nothing."""

CLOSING = ("call_close", "body_close")

SEPARATORS = (";", ",")
"""What may stand between two calls, besides white space."""


class CallReader:
    """One per generation: `open()` at an opening marker, then `run()` until it answers `call` or `text`."""

    def __init__(self, buffer: Buffer, out: Output, markers: Markers, grammar: ArgumentGrammar, tools: ToolSet) -> None:
        self._buffer = buffer
        self._out = out
        self.reports = CallReports(out, tools)
        self._markers = markers
        self._grammar = grammar
        self._tools = tools
        self._scanner: BodyScanner = grammar.scanner(tools)
        self._step = self._head
        self._opener_size = 0
        self._opener_missing = False
        self.inside = False
        """Whether a shared pair of markers is still open behind the last call."""
        self._raw: list[str] = []
        self._raw_start = self._raw_size = self._body_at = 0
        self._told_size = 0
        self._reread = 0
        self._gap: list[str] = []
        self._error = ScanError("", 0)
        self._unclosed: ErrorType = "malformed"

    def open(self, opener_size: int) -> None:
        """An opening marker of this size stands at the buffer's position; 0: a body that begins without one."""
        self._step, self._opener_size = self._head, opener_size
        self._opener_missing = opener_size == 0 and bool(self._markers.call.open) and not self.inside

    def run(self) -> Step:
        step: Step = "go"
        while step == "go":
            step = self._step()
        return step

    def head(self, body: int, *, marked: bool) -> Literal["yes", "no", "more"]:
        """Whether a body begins at `body` in the buffer, behind an opening marker or without one."""
        grammar = self._grammar if marked else self._markers.call.unmarked or self._grammar
        begins = self._buffer.text[body : body + LOOK_AHEAD + 1]
        head = grammar.head(begins, 0)
        return "no" if head == "more" and len(begins) > LOOK_AHEAD else head

    # -- the beginning --------------------------------------------------------------------------------------------------

    def _head(self) -> Step:
        buffer = self._buffer
        text, body = buffer.text, buffer.pos + self._opener_size
        head = self.head(body, marked=self._opener_size > 0 or self.inside)
        if head == "yes":
            self._begin(body - buffer.pos, buffer.offset, [buffer.take(body)])
            return "go"
        if head == "more":
            if not buffer.final:
                return "more"
            return self._fail_head(
                body, len(text), len(text), f"the text ends where {self._grammar.expected_head} should follow", "truncated"
            )
        closing = self._closing_ahead(body)
        if closing is None:
            return "more"
        kind: ErrorType = "malformed"
        first = body
        while first < len(text) and text[first] in WHITE:
            first += 1
        if (
            closing < 0
            and buffer.truncated
            and len(text) - body <= LOOK_AHEAD
            and not self._markers.call_ends.search(text, body)
        ):
            closing, kind = len(text), "truncated"
        if closing < 0:
            return "empty" if self._opener_size and self._holds_nothing(body, first) else "text"
        self.inside = self._markers.call.shared and not text.endswith(self._markers.call.closes, 0, closing)
        return self._fail_head(body, closing, first, f"expected {self._grammar.expected_head}", kind)

    def _holds_nothing(self, body: int, first: int) -> bool:
        """Whether the opening marker opens a pair that has a meaning though no body begins at `first`: it is closed at once,
        or its calls come behind text."""
        call, ends = self._markers.call, self._markers.call_ends
        if self._closes(first):
            return call.shared or call.stray_close == "control"
        found = ends.search(self._buffer.text, first, body + LOOK_AHEAD) if call.shared else None
        return found is not None and found[2] == "body_open"

    def _fail_head(self, body: int, end: int, at: int, message: str, kind: ErrorType) -> Step:
        """No body: the buffer up to `end` is the failed call; `at` is where the body should begin."""
        self._body_at, self._raw_start = body - self._buffer.pos, self._buffer.offset
        self._scanner = self._grammar.scanner(self._tools)
        self._raw = [self._buffer.take(end)]
        return self._fail(ScanError(message, at - body), kind)

    def _begin(self, body_at: int, start: int, raw: list[str]) -> None:
        """A body begins behind `raw`, whose first character stands at `start`."""
        self._raw, self._raw_start = raw, start
        self._body_at = self._raw_size = self._told_size = body_at
        self._scanner = self._grammar.scanner(self._tools)
        self._step = self._body

    # -- the body -------------------------------------------------------------------------------------------------------

    def _body(self) -> Step:
        buffer, scanner = self._buffer, self._scanner
        end = scanner.feed(buffer.text, buffer.pos)
        if end > buffer.pos:
            self._raw_size += end - buffer.pos
            self._raw.append(buffer.take(end))
        if scanner.error is not None:
            return self._give_up(scanner.error)
        if buffer.final and (not buffer.truncated or isinstance(scanner, KeepsCalls)):
            scanner.finish()
        if scanner.done:
            self._gap, self._step = [], self._after_body
            return "go"
        if not buffer.final:
            if self._raw_size - self._told_size >= PROGRESS_CHARS:
                self._told_size = self._raw_size
                self._out.progress(scanner.name, self._raw_size)
            return "more"
        error = ScanError(
            f"the text ends where {scanner.expected} should follow",
            self._raw_size - self._body_at + len(buffer.text) - buffer.pos,
        )
        if not buffer.truncated:
            return self._give_up(error, "truncated")
        self._raw.append(buffer.take(len(buffer.text)))
        return self._fail(self._keep_calls(error), "truncated")

    def _keep_calls(self, error: ScanError) -> ScanError:
        """Report the calls that stand whole before an error; what is left of the body begins behind them."""
        scanner, raw = self._scanner, "".join(self._raw)
        items = scanner.calls_so_far(raw[self._body_at :]) if isinstance(scanner, KeepsCalls) else []
        if not items:
            return error
        read, end = items[-1].end, self._body_at + items[-1].end
        self.reports.body(items, raw[:end], self._raw_start, self._body_at)
        self._raw, self._raw_start, self._body_at = [raw[end:]], self._raw_start + end, 0
        return ScanError(error.message, error.offset - read)

    def _give_up(self, error: ScanError, kind: ErrorType = "malformed") -> Step:
        """The body cannot be read: find its end by the markers, from its start. `kind` holds if no marker ends it."""
        error = self._keep_calls(error)
        self._buffer.unread("".join(self._raw))
        buffer = self._buffer
        body_at = first = buffer.pos + self._body_at
        while first < len(buffer.text) and buffer.text[first] in WHITE:
            first += 1
        own = self._markers.call_ends.match(buffer.text, first)
        begins = own[1] if own is not None and own[2] == "body_open" else body_at
        self._reread += error.offset
        broken = min(body_at + error.offset, len(buffer.text))
        if self._reread > REREAD_CHARS + REREAD_TIMES * (buffer.base + broken):
            begins = max(begins, broken)
        self._raw = [buffer.take(begins)]
        self._error, self._unclosed, self._step = error, kind, self._skip
        return "go"

    def _skip(self) -> Step:
        buffer, ends = self._buffer, self._markers.held_ends if self._out.holding else self._markers.call_ends
        found = ends.search(buffer.text, buffer.pos, final=buffer.final)
        if found is None:
            waiting = 0 if buffer.final else ends.partial(buffer.text, buffer.pos)
            self._raw.append(buffer.take(len(buffer.text) - waiting))
            return self._fail(self._error, self._unclosed) if buffer.final else "more"
        start, end, role = found
        closed = role in CLOSING
        self._raw.append(buffer.take(end if closed else start))
        self.inside = self._markers.call.shared and role != "call_close"
        return self._fail(self._error, "malformed", end - start if closed else 0)

    # -- behind a complete body -----------------------------------------------------------------------------------------

    def _after_body(self) -> Step:
        buffer, call, slack = self._buffer, self._markers.call, self._grammar.slack
        text, end = buffer.text, buffer.pos
        while end < len(text) and (text[end] in WHITE or text[end] in slack):
            end += 1
        self._gap.append(buffer.take(end))
        marker = self._markers.call_ends.match(text, end, final=buffer.final)
        if marker is not None and marker[2] == "call_close":
            return self._end_call(buffer.take(marker[1]), ())
        waiting = end == len(text) or self._markers.call_ends.partial(text, end) == len(text) - end
        if not call.close:
            return "more" if waiting and call.closes and not buffer.final else self._end_call("", ())
        if waiting:
            return self._end_call(buffer.take(len(text)), ("missing_close_marker",)) if buffer.final else "more"
        if marker is not None and not (marker[2] in ("body_open", "body_close") and call.shared):
            return self._end_call("", ("missing_close_marker",))
        return self._after_junk()

    def _after_junk(self) -> Step:
        """Neither a marker nor the end: another body between the same markers, or something that should not be there."""
        buffer, gap = self._buffer, "".join(self._gap)
        comma = int(buffer.text[buffer.pos : buffer.pos + 1] in SEPARATORS and not self._markers.call.shared)
        head = "no" if gap.strip(WHITE) else self._grammar.head(buffer.text, buffer.pos + comma)
        if head == "more" and not buffer.final:
            return "more"
        if head == "yes":
            repairs = () if self._markers.call.shared else ("shared_markers",)
            self.reports.body(self._items(repairs), "".join(self._raw), self._raw_start, self._body_at)
            self._opener_missing = False
            self._begin(len(gap) + comma, buffer.offset - len(gap), [gap, buffer.take(buffer.pos + comma)])
            return "go"
        if self._markers.call.shared:
            return self._end_call("", ())  # text between calls; the pair is still open
        closing = self._closing_ahead(buffer.pos)
        if closing is None:
            return "more"
        if closing < 0:
            return self._end_call("", ("missing_close_marker",))
        error = ScanError(f"expected the closing marker {self._markers.call.close}", self._raw_size - self._body_at + len(gap))
        self._raw += [gap, buffer.take(closing)]
        return self._fail(error, "malformed")

    def _closing_ahead(self, pos: int) -> int | None:
        """Behind text that should not stand there: the end of the closing marker that follows it soon; -1 when another
        marker or nothing does; `None` when it cannot be told yet. Between a pair of markers, one that begins a body at `pos` is
        part of that text."""
        text, ends = self._buffer.text, self._markers.call_ends
        limit = pos + LOOK_AHEAD + ends.max_size
        own = ends.match(text, pos) if self.inside else None
        begins = own[1] if own is not None and own[2] == "body_open" else pos
        found = ends.search(text, begins, limit, final=self._buffer.final)
        if found is not None:
            return found[1] if found[2] in CLOSING and text[pos : found[0]].strip(WHITE) else -1
        return -1 if self._buffer.final or len(text) >= limit else None

    def _closes(self, pos: int) -> bool:
        """Whether the marker that closes calls stands at `pos`."""
        found = self._markers.call_ends.match(self._buffer.text, pos)
        return found is not None and found[2] == "call_close"

    def _end_call(self, closing: str, repairs: tuple[str, ...]) -> Step:
        """The body and what closes it are read; what stood between is the call's, or content if nothing closes it."""
        gap = "".join(self._gap)
        if gap.strip(WHITE):
            repairs = (*repairs, "extra_braces")
        self.inside = self._markers.call.shared and not closing
        belongs = [gap, closing] if closing or gap.strip(WHITE) else []
        raw = "".join([*self._raw, *belongs])
        if isinstance(self._scanner, MayHoldNone) and self._scanner.holds_none():
            self._out.control(raw, self._raw_start)
        else:
            self.reports.body(self._items(repairs), raw, self._raw_start, self._body_at)
        if not belongs:
            self._out.content(gap, self._raw_start + self._raw_size)
        return "call"

    # -- reporting --------------------------------------------------------------------------------------------------------

    def _items(self, repairs: tuple[str, ...]) -> list[ScannedCall | ScannedFailure]:
        """What the complete body holds; `repairs` are those of its end."""
        items = self._scanner.calls("".join(self._raw)[self._body_at :])
        last = items[-1]
        if repairs and isinstance(last, ScannedCall):
            items[-1] = replace(last, repairs=(*last.repairs, *repairs))
        first = items[0]
        if self._opener_missing and isinstance(first, ScannedCall):
            items[0] = replace(first, repairs=("missing_open_marker", *first.repairs))
        return items

    def is_opening(self, size: int) -> bool:
        """Whether the last `size` characters are so much of an opening marker that they can hardly be anything else."""
        if size < MIN_OPENING:
            return False
        call, end = self._markers.call, self._buffer.text[-size:]
        openings = (*call.opens, *call.body_opens) if call.body_opens_anywhere or self.inside else call.opens
        return any(2 * size >= len(opening) and opening.startswith(end) for opening in openings)

    def _fail(self, error: ScanError, kind: ErrorType, closer: int = 0) -> Step:
        """Report the failed call that `self._raw` holds, with a closing marker of `closer` characters at its end, and the
        calls in it that stand whole behind the broken one."""
        raw, scanner = "".join(self._raw), self._scanner
        behind = None
        if kind == "malformed" and isinstance(scanner, FindsCalls):
            behind = scanner.calls_behind(raw[self._body_at : len(raw) - closer])
        if behind is None:
            self._report_failed(raw, error, kind, closer)
            return "call"
        start, items = behind
        cut = self._body_at + start
        self._report_failed(raw[:cut], error, kind, 0)
        self.reports.body(items, raw[cut:], self._raw_start + cut, -start)
        return "call"

    def _report_failed(self, raw: str, error: ScanError, kind: ErrorType, closer: int) -> None:
        offset, message = self._body_at + error.offset, error.message
        if offset > len(raw) - closer:
            offset, message = len(raw) - closer, "the call ends before its body is complete"
        self.reports.failed(self._scanner.name, raw, self._raw_start, kind, ScanError(message, offset))
