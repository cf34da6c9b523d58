"""The one streaming parser: text in pieces of any size in, events out, whatever the family.

It is a state machine over a small buffer. Plain text is searched for markers and passed on at once, but for an end that may
begin a marker; the body of a call goes to the family's argument scanner, which sees each character once. A body that cannot
be read ends at the first closing marker behind its start (a marker inside a broken string included), and what follows is
read afresh, so that good calls beside it survive.
"""

from __future__ import annotations

from typing import Literal

from daneel.formats.base import CallEvent, Event, FailedCallEvent, Span
from daneel.formats.json_scan import WHITE
from daneel.formats.markers import Markers, starts_with_any
from daneel.formats.output import Output
from daneel.formats.rescue import FENCE, Candidate
from daneel.formats.scan import ArgumentGrammar, BodyScanner, ScanError, ScannedCall, ScannedFailure
from daneel.formats.validate import ToolSet

LOOK_AHEAD = 256
"""Characters held back behind an opening marker without a call, or a complete body without its closing marker, to see whether
a closing marker follows (then the call failed) or not (then it is text)."""


class Splitter:
    """Implements `base.Parser` for a family's markers and argument grammar."""

    def __init__(
        self, markers: Markers, grammar: ArgumentGrammar, tools: ToolSet, *, starts_in_reasoning: bool, rescue: bool
    ) -> None:
        self._markers = markers
        self._grammar = grammar
        self._tools = tools
        self._rescue = rescue and bool(tools.tools)
        self._out = Output()
        self._buf = ""
        self._i = 0  # what is read of the buffer
        self._base = 0  # offset of the buffer in the generation
        self._final = self._truncated = False
        # the call being read: its text so far, where it and its body begin, why it failed
        self._raw: list[str] = []
        self._raw_start = self._body_at = self._raw_size = 0
        self._scanner: BodyScanner = grammar.scanner()
        self._gap: list[str] = []
        self._error = ScanError("", 0)
        self._candidate = Candidate(tools, fenced=False)
        self._no_rescue_before = 0
        self._in_fence = False
        reasoning = markers.reasoning
        if reasoning is not None and starts_in_reasoning:
            self._state = self._thinking
        elif reasoning is not None and not reasoning.anywhere:
            self._state = self._start
        else:
            self._state = self._content

    def feed(self, text: str) -> list[Event]:
        self._base += self._i
        self._buf = self._buf[self._i :] + text
        self._i = 0
        self._run()
        return self._out.take()

    def finish(self, *, truncated: bool) -> list[Event]:
        """End of the text. A call whose body is complete stays one without its closing marker, truncated or not."""
        self._final, self._truncated = True, truncated
        self._run()
        self._out.close()
        return self._out.take()

    def _run(self) -> None:
        while self._state():
            pass

    # -- text -----------------------------------------------------------------------------------------------------------

    def _pass(self, end: int, *, thinking: bool = False) -> None:
        """Hand the buffer up to `end` on as text."""
        if end > self._i:
            text, start = self._buf[self._i : end], self._base + self._i
            if thinking:
                self._out.reasoning(text, start)
            else:
                self._out.content(text, start)
            self._i = end

    def _control(self, end: int) -> None:
        self._out.control(self._buf[self._i : end], self._base + self._i)
        self._i = end

    def _start(self) -> bool:
        """Before anything but white space: the only place where a reasoning tag opens a block."""
        buf, reasoning = self._buf, self._markers.reasoning
        end = len(buf) - len(buf[self._i :].lstrip())
        self._pass(end)
        if end == len(buf) or reasoning is None:
            return False
        if buf.startswith(reasoning.open, end):
            self._control(end + len(reasoning.open))
            self._state = self._thinking
        elif buf.startswith(reasoning.close, end):
            self._control(end + len(reasoning.close))
            self._state = self._content
        elif not self._final and starts_with_any(buf, end, (reasoning.open, reasoning.close)):
            return False
        else:
            self._state = self._content
        return True

    def _thinking(self) -> bool:
        buf, found = self._buf, self._markers.thinking.search(self._buf, self._i)
        if found is None:
            self._pass(len(buf) - (0 if self._final else self._markers.thinking.partial(buf, self._i)), thinking=True)
            return False
        start, end, role = found
        self._pass(start, thinking=True)
        if role == "call_open":
            head = self._grammar.head(buf, end)
            if head == "more" and not self._final and len(buf) - end <= LOOK_AHEAD:
                return False
            if head == "yes":
                self._out.hold(self._base + start)
                self._open_call(end)
            else:
                self._pass(end, thinking=True)
            return True
        self._control(end)
        if role == "think_close":
            self._state = self._content
        elif role == "think_open":
            self._state = self._label
        return True

    def _label(self) -> bool:
        """Behind an opening marker: the block's name, for families that name their blocks."""
        reasoning, buf, i = self._markers.reasoning, self._buf, self._i
        self._state = self._thinking
        if reasoning is None:
            return True
        for label in (*reasoning.labels, *reasoning.content_labels):
            end = i + len(label)
            if not self._final and (starts_with_any(buf, i, (label,)) or buf[i:] == label):
                self._state = self._label
                return False
            if buf.startswith(label, i) and buf[end : end + 1] in ("\n", "<", ""):
                self._control(end + (buf[end : end + 1] == "\n"))
                if label in reasoning.content_labels:
                    self._state = self._content
                return True
        return True

    def _content(self) -> bool:
        buf, out = self._buf, self._out
        if self._rescue and out.line_start:
            step = self._open_candidate()
            if step != "no":
                return step == "opened"
        markers = self._markers.content_rescue if self._rescue else self._markers.content
        if out.holding:
            markers = self._markers.held
        found = markers.search(buf, self._i)
        if found is None:
            self._pass(len(buf) - (0 if self._final else markers.partial(buf, self._i)))
            return False
        start, end, role = found
        self._pass(start)
        reasoning = self._markers.reasoning
        if role == "call_open":
            self._state = self._call_head
        elif role == "line_start" or (role == "call_close" and self._markers.call.stray_close == "text" and not out.after_call):
            self._pass(end)
        elif role == "think_open":
            out.release()
            self._control(end)
            self._state = self._label
        elif role == "think_close" and out.holding and reasoning is not None:
            out.collapse()
            self._control(end)
        else:
            self._control(end)
        return True

    # -- calls without markers --------------------------------------------------------------------------------------------

    def _open_candidate(self) -> Literal["opened", "wait", "no"]:
        """At the start of a line: a fence or bracket that may begin a call is opened (or waited for)."""
        buf, i = self._buf, self._i
        while i < len(buf) and buf[i] in " \t":
            i += 1
        self._pass(i)
        char = buf[i : i + 1]
        if char == "`":
            if len(buf) - i < len(FENCE) and not self._final and FENCE.startswith(buf[i:]):
                return "wait"
            if not buf.startswith(FENCE, i):
                return "no"
            if self._in_fence or self._base + i < self._no_rescue_before:
                self._in_fence = not self._in_fence
                self._pass(i + len(FENCE))
                return "no"
        elif not char or char not in "{[" or self._in_fence or self._base + i < self._no_rescue_before:
            return "no"
        self._candidate = Candidate(self._tools, fenced=char == "`")
        self._raw, self._raw_start = [], self._base + i
        self._state = self._read_candidate
        return "opened"

    def _read_candidate(self) -> bool:
        candidate = self._candidate
        end = candidate.feed(self._buf, self._i)
        self._raw.append(self._buf[self._i : end])
        self._i = end
        if self._final:
            candidate.finish()
        if candidate.verdict == "open":
            return False
        self._state = self._content
        raw = "".join(self._raw)
        if candidate.verdict == "call":
            self._emit_calls(list(candidate.calls), raw, 0)
            return True
        self._unread(raw)
        self._no_rescue_before = self._raw_start + max(len(raw), 1)
        if candidate.kind == "fenced_json":
            # a fence that holds no calls: nothing inside it is taken for one
            self._no_rescue_before, self._in_fence = 0, True
            self._pass(min(len(FENCE), len(self._buf)))
        return True

    def _unread(self, raw: str) -> None:
        """Put text that was read back in front of the buffer."""
        self._buf = raw + self._buf[self._i :]
        self._base, self._i = self._raw_start, 0

    # -- calls ----------------------------------------------------------------------------------------------------------------

    def _call_head(self) -> bool:
        """At an opening marker."""
        buf, body = self._buf, self._i + len(self._markers.call.open)
        head = self._grammar.head(buf, body)
        if head == "more" and len(buf) - body > LOOK_AHEAD:
            head = "no"
        if head == "yes":
            self._open_call(body)
            return True
        if head == "more":
            if self._final:
                self._fail_here(body, len(buf), f"the text ends where {self._grammar.expected_head} should follow", len(buf))
            return self._final
        closing = self._closing_ahead(body)
        if closing is None:
            return False
        first = body + len(buf[body:]) - len(buf[body:].lstrip(WHITE))
        if closing > first:
            self._fail_here(body, closing, f"expected {self._grammar.expected_head}", first)
        elif self._final and self._truncated and len(buf) - body <= LOOK_AHEAD and not self._ends_ahead(body):
            self._fail_here(body, len(buf), f"expected {self._grammar.expected_head}", first)
        else:
            self._pass(body)
            self._state = self._content
        return True

    def _ends_ahead(self, pos: int) -> bool:
        return self._markers.call_ends.search(self._buf, pos) is not None

    def _closing_ahead(self, pos: int) -> int | None:
        """Behind text that should not stand there: the end of the closing marker that follows it soon; -1 when another
        marker or nothing does; `None` when it cannot be told yet."""
        ends = self._markers.call_ends
        limit = pos + LOOK_AHEAD + ends.max_size
        found = ends.search(self._buf[:limit] if len(self._buf) > limit else self._buf, pos)
        if found is not None:
            return found[1] if found[2] == "call_close" and self._buf[pos : found[0]].strip(WHITE) else -1
        return -1 if self._final or len(self._buf) >= limit else None

    def _fail_here(self, body: int, end: int, message: str, at: int) -> None:
        """Report the text from the buffer's position to `end` as a failed call."""
        raw, start = self._buf[self._i : end], self._base + self._i
        kind = "truncated" if self._final and self._truncated and end == len(self._buf) else "malformed"
        offset = at - self._i
        self._out.call(
            FailedCallEvent(None, raw, kind, message, offset, Span("failed", start, start + len(raw)))  # type: ignore[arg-type]
        )
        self._i = end
        self._state = self._content

    def _open_call(self, body: int) -> None:
        self._raw, self._raw_start = [self._buf[self._i : body]], self._base + self._i
        self._body_at = self._raw_size = body - self._i
        self._i = body
        self._scanner = self._grammar.scanner()
        self._state = self._body

    def _body(self) -> bool:
        scanner = self._scanner
        end = scanner.feed(self._buf, self._i)
        if end > self._i:
            self._raw.append(self._buf[self._i : end])
            self._raw_size += end - self._i
            self._i = end
        if scanner.error is not None:
            return self._give_up(scanner.error)
        if scanner.done:
            self._gap, self._state = [], self._after_body
            return True
        if not self._final:
            self._out.progress(scanner.name, self._raw_size)
            return False
        size = self._raw_size + len(self._buf) - self._i
        message = f"the text ends where {scanner.expected} should follow"
        if self._truncated:
            self._raw.append(self._buf[self._i :])
            self._i = len(self._buf)
            self._emit_failure(ScanError(message, size - self._body_at), "truncated")
            return False
        return self._give_up(ScanError(message, size - self._body_at))

    def _give_up(self, error: ScanError) -> bool:
        """The body cannot be read: find its end by the markers, from its start."""
        self._unread("".join(self._raw))
        self._raw = [self._buf[: self._body_at]]
        self._i = self._body_at
        self._error = error
        self._state = self._skip
        return True

    def _skip(self) -> bool:
        buf, ends = self._buf, self._markers.call_ends
        found = ends.search(buf, self._i)
        if found is not None:
            end = found[1] if found[2] == "call_close" else found[0]
        else:
            end = len(buf) - (0 if self._final else ends.partial(buf, self._i))
        self._raw.append(buf[self._i : end])
        self._i = end
        if found is None and not self._final:
            return False
        closer = len(self._markers.call.close) if found is not None and found[2] == "call_close" else 0
        self._emit_failure(self._error, "malformed", closer)
        return True

    def _after_body(self) -> bool:
        """Behind a complete body: its closing marker, or what stands there instead."""
        buf, call, grammar, i = self._buf, self._markers.call, self._grammar, self._i
        while i < len(buf) and (buf[i] in WHITE or buf[i] in grammar.slack):
            i += 1
        self._gap.append(buf[self._i : i])
        self._i = i
        if call.close and buf.startswith(call.close, i):
            self._i = i + len(call.close)
            self._end_call(call.close, ())
            return True
        waiting = i == len(buf) or self._markers.call_ends.partial(buf, i) == len(buf) - i
        if not call.close or (self._final and waiting):
            self._i = len(buf) if call.close else i
            self._end_call(buf[i : self._i], ("missing_close_marker",) if call.close else ())
            return True
        if waiting:
            return False
        if self._markers.call_ends.match(buf, i):
            self._end_call("", ("missing_close_marker",))
            return True
        return self._after_junk()

    def _after_junk(self) -> bool:
        """A complete body, and then neither a marker nor the end."""
        buf, i, gap = self._buf, self._i, "".join(self._gap)
        head = "no" if gap.strip(WHITE) else self._grammar.head(buf, i)
        if head == "more" and not self._final:
            return False
        if head == "yes":
            self._emit_calls(self._read_body(("shared_markers",)), "".join(self._raw), self._body_at)
            self._raw, self._raw_start = [gap], self._base + i - len(gap)
            self._body_at = self._raw_size = len(gap)
            self._scanner, self._state = self._grammar.scanner(), self._body
            return True
        closing = self._closing_ahead(i)
        if closing is None:
            return False
        if closing > i:
            offset = self._raw_size - self._body_at + len(gap)
            self._raw += [gap, buf[i:closing]]
            self._i = closing
            self._emit_failure(ScanError(f"expected the closing marker {self._markers.call.close}", offset), "malformed")
        else:
            self._end_call("", ("missing_close_marker",))
        return True

    def _read_body(self, repairs: tuple[str, ...]) -> list[ScannedCall | ScannedFailure]:
        items = self._scanner.calls("".join(self._raw)[self._body_at :])
        last = items[-1]
        if repairs and isinstance(last, ScannedCall):
            items[-1] = ScannedCall(last.name, last.arguments, last.end, (*last.repairs, *repairs), last.call_id)
        return items

    def _end_call(self, closing: str, repairs: tuple[str, ...]) -> None:
        """The body and what closes it are read; what stood between is the call's, or content if nothing closes it."""
        gap = "".join(self._gap)
        if gap.strip(WHITE):
            repairs = (*repairs, "extra_braces")
        self._state = self._content
        if closing or gap.strip(WHITE):
            self._emit_calls(self._read_body(repairs), "".join([*self._raw, gap, closing]), self._body_at)
            return
        self._emit_calls(self._read_body(repairs), "".join(self._raw), self._body_at)
        self._out.content(gap, self._raw_start + self._raw_size)

    # -- events ----------------------------------------------------------------------------------------------------

    def _emit_calls(self, items: list[ScannedCall] | list[ScannedCall | ScannedFailure], raw: str, body_at: int) -> None:
        """Report the calls of one body; together their spans are the whole of `raw`."""
        start = 0
        for number, item in enumerate(items):
            end = len(raw) if number == len(items) - 1 else body_at + item.end
            self._emit_item(self._checked(item), raw[start:end], self._raw_start + start, body_at - start)
            start = end

    def _emit_item(self, item: ScannedCall | ScannedFailure, raw: str, start: int, body_at: int) -> None:
        if isinstance(item, ScannedFailure):
            offset = max(0, min(body_at + item.error.offset, len(raw)))
            span = Span("failed", start, start + len(raw))
            self._out.call(FailedCallEvent(item.name, raw, "malformed", item.error.message, offset, span))
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

    def _emit_failure(self, error: ScanError, kind: str, closer: int = 0) -> None:
        raw = "".join(self._raw)
        offset, message = self._body_at + error.offset, error.message
        if offset > len(raw) - closer:
            offset, message = len(raw) - closer, "the call ends before its body is complete"
        span = Span("failed", self._raw_start, self._raw_start + len(raw))
        self._out.call(FailedCallEvent(self._scanner.name, raw, kind, message, offset, span))  # type: ignore[arg-type]
        self._state = self._content
