"""The one streaming parser: text in pieces of any size in, events out, whatever the family.

It is a state machine over a small buffer. Plain text is searched for markers and passed on at once, but for an end that may
begin a marker; marked calls are read by `call_reader.py`, calls without markers by `rescue.py`.
"""

from __future__ import annotations

from typing import Literal

from daneel.formats.bare import BareReader
from daneel.formats.base import Event
from daneel.formats.buffer import Buffer
from daneel.formats.call_reader import CLOSING, CallReader
from daneel.formats.json_scan import JsonScanner
from daneel.formats.markers import Markers, Role, starts_with_any
from daneel.formats.output import Output
from daneel.formats.rescue import FENCE, Candidate
from daneel.formats.scan import ArgumentGrammar
from daneel.formats.validate import ToolSet


class Splitter:
    """Implements `base.Parser` for a family's markers and argument grammar.

    A state is a method that reads what it can and says whether to go on; `False` waits for more text.
    """

    def __init__(
        self,
        markers: Markers,
        grammar: ArgumentGrammar,
        tools: ToolSet,
        *,
        starts_in_reasoning: bool,
        rescue: bool,
        own_array: bool = False,
    ) -> None:
        self._own_array = own_array
        self._markers = markers
        self._tools = tools
        self._rescue = rescue and (bool(tools.tools) or (markers.call.fenced and not tools.known))
        self._buffer = Buffer()
        self._out = Output()
        self._calls = CallReader(self._buffer, self._out, markers, grammar, tools)
        bare = markers.call.bare if rescue else None
        self._bare = BareReader(self._buffer, self._out, markers, bare, tools) if bare is not None else None
        self._candidate = Candidate(tools, fenced=False)
        self._candidate_raw: list[str] = []
        self._candidate_start = 0
        self._opener_size = 0
        self._in_fence = False
        self._in_json: JsonScanner | None = None  # content that is JSON and no call: no call begins inside it
        reasoning = markers.reasoning
        if reasoning is not None and starts_in_reasoning:
            self._state = self._thinking
        elif reasoning is not None and not reasoning.anywhere:
            self._state = self._start
        else:
            self._state = self._content

    def feed(self, text: str) -> list[Event]:
        """What can be told so far."""
        self._buffer.add(text)
        self._run()
        return self._out.take()

    def finish(self, *, truncated: bool) -> list[Event]:
        """End of the text. A call whose body is complete stays one without its closing marker, truncated or not."""
        self._buffer.final, self._buffer.truncated = True, truncated
        self._run()
        self._out.close()
        return self._out.take()

    def _run(self) -> None:
        while self._state():
            pass

    def _pass_content(self, end: int) -> None:
        if end > self._buffer.pos:
            start, text = self._buffer.offset, self._buffer.take(end)
            self._out.content(text, start)
            if self._in_json is not None:
                self._in_json.feed(text, 0)
                if self._in_json.done or self._in_json.error is not None:
                    self._in_json = None

    def _pass_reasoning(self, end: int) -> None:
        if end > self._buffer.pos:
            start = self._buffer.offset
            self._out.reasoning(self._buffer.take(end), start)

    def _control(self, end: int) -> None:
        start = self._buffer.offset
        self._out.control(self._buffer.take(end), start)
        self._in_json = None

    # -- reasoning --------------------------------------------------------------------------------------------------------

    def _start(self) -> bool:
        """Before anything but white space and markers: the only place where a reasoning tag opens a block."""
        buffer, reasoning = self._buffer, self._markers.reasoning
        text = buffer.text
        at = len(text) - len(text[buffer.pos :].lstrip())
        self._pass_content(at)
        if at == len(text):
            return False
        if reasoning is not None:
            ends = self._markers.call_ends
            marker = ends.match(text, at, final=buffer.final)
            opened = next((opener for opener in reasoning.opens if text.startswith(opener, at)), None)
            closed = next((closer for closer in reasoning.closes if text.startswith(closer, at)), None)
            if opened is not None:
                self._control(at + len(opened))
                self._state = self._thinking
                return True
            if closed is not None:
                self._control(at + len(closed))
                return True
            if marker is not None and marker[2] == "control":
                self._control(marker[1])
                return True
            tags = (*reasoning.opens, *reasoning.closes)
            waiting = starts_with_any(text, at, tags) or ends.partial(text, at) == len(text) - at
            if waiting and not buffer.final:
                return False
        self._state = self._content
        return True

    def _end_thought(self) -> None:
        """A block was closed; before there is content, another may open."""
        reasoning = self._markers.reasoning
        self._state = self._content if reasoning is None or reasoning.anywhere else self._start

    def _thinking(self) -> bool:
        buffer, thinking = self._buffer, self._markers.thinking
        found = thinking.search(buffer.text, buffer.pos, final=buffer.final)
        if found is None:
            waiting = 0 if buffer.final else thinking.partial(buffer.text, buffer.pos)
            self._pass_reasoning(len(buffer.text) - waiting)
            return False
        start, end, role = found
        self._pass_reasoning(start)
        if role in ("call_open", "body_open"):
            body = end if role == "call_open" else start
            head = self._calls.head(body, marked=role == "call_open")
            if head == "more" and not buffer.final:
                return False
            if head != "no":
                # reasoning after all if the block's closing marker follows: `Output` keeps it back until that is known
                self._out.hold(buffer.offset)
                self._open_call(end, role)
            else:
                self._pass_reasoning(end)
            return True
        self._control(end)
        if role == "think_close":
            self._end_thought()
        elif role == "think_open":
            self._state = self._label
        return True

    def _label(self) -> bool:
        """Behind an opening marker: the block's name, for families that name their blocks."""
        buffer, reasoning = self._buffer, self._markers.reasoning
        self._state = self._thinking
        if reasoning is None:
            return True
        for label in (*reasoning.labels, *reasoning.content_labels):
            rest = buffer.text[buffer.pos : buffer.pos + len(label) + 1]
            if not buffer.final and len(rest) <= len(label) and label.startswith(rest):
                self._state = self._label
                return False
            if rest.startswith(label) and rest[len(label) :] in ("\n", "<", ""):
                self._control(buffer.pos + len(label) + rest.endswith("\n"))
                if label in reasoning.content_labels:
                    self._state = self._content
                return True
        return True

    # -- content ----------------------------------------------------------------------------------------------------------

    def _content(self) -> bool:
        buffer, out, markers = self._buffer, self._out, self._markers
        step = self._without_marker()
        if step != "no":
            return step == "opened"
        places = markers.held if out.holding else markers.inside if self._calls.inside else markers.content
        found_in = places[self._rescue]
        found = found_in.search(buffer.text, buffer.pos, final=buffer.final)
        if found is None:
            waiting = found_in.partial(buffer.text, buffer.pos)
            if buffer.final and not (buffer.truncated and self._calls.is_opening(waiting)):
                waiting = 0
            self._pass_content(len(buffer.text) - waiting)
            if buffer.final and waiting:
                start = buffer.offset
                self._calls.report_truncated(None, buffer.take(len(buffer.text)), start, "the rest of the opening marker")
            return False
        start, end, role = found
        self._pass_content(start)
        if role in ("call_open", "body_open"):
            self._open_call(end, role)
        elif role in CLOSING and (self._calls.inside or out.after_call or markers.call.stray_close == "control"):
            self._calls.inside = self._calls.inside and role != "call_close"
            self._control(end)
        elif role == "line_start" or role in CLOSING:
            self._pass_content(end)
        elif role == "think_close" and out.holding:
            out.collapse()
            self._calls.inside = False
            self._control(end)
            self._end_thought()
        else:
            if role == "think_open":
                out.release()
                self._state = self._label
            self._control(end)
        return True

    def _open_call(self, end: int, role: Role) -> None:
        """A marker that begins a call stands at the buffer's position, and ends at `end`."""
        self._opener_size = end - self._buffer.pos
        self._calls.open(self._opener_size if role == "call_open" else 0)
        self._state = self._call

    def _call(self) -> bool:
        step = self._calls.run()
        if step == "more":
            return False
        self._state = self._content
        if step == "text":
            self._pass_content(self._buffer.pos + self._opener_size)
        elif step == "empty":
            self._control(self._buffer.pos + self._opener_size)
            self._calls.inside = True
        else:
            self._in_json = None
        return True

    # -- calls without markers ----------------------------------------------------------------------------------------------

    def _without_marker(self) -> Literal["opened", "wait", "no"]:
        """Whether a call without a marker may begin here: as the family writes them, or one to be rescued."""
        step: Literal["opened", "wait", "no"] = self._bare.open_bare() if self._bare is not None else "no"
        if step == "opened":
            self._state = self._bare_call
        if step == "no" and self._rescue and self._out.line_start:
            step = self._open_candidate()
        return step

    def _bare_call(self) -> bool:
        step = self._bare.run() if self._bare is not None else "text"
        if step == "more":
            return False
        self._state = self._content
        if step == "call":
            self._in_json = None
        return True

    def _open_candidate(self) -> Literal["opened", "wait", "no"]:
        """At the start of a line: a fence or bracket that may begin a call is opened (or waited for)."""
        buffer = self._buffer
        at = buffer.pos
        while at < len(buffer.text) and buffer.text[at] in " \t":
            at += 1
        self._pass_content(at)
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
                self._pass_content(at + len(FENCE))
            return "no"
        self._candidate = Candidate(self._tools, fenced=fenced, own_array=self._own_array, own_fence=self._markers.call.fenced)
        self._candidate_raw, self._candidate_start = [], buffer.offset
        self._state = self._read_candidate
        return "opened"

    def _read_candidate(self) -> bool:
        buffer, candidate = self._buffer, self._candidate
        self._candidate_raw.append(buffer.take(candidate.feed(buffer.text, buffer.pos)))
        expected = candidate.cut_off() if buffer.truncated else None
        if expected is not None:
            raw = "".join(self._candidate_raw)
            self._calls.report_truncated(candidate.name, raw, self._candidate_start, expected)
            self._state = self._content
            return False
        if buffer.final:
            candidate.finish()
        if candidate.verdict == "open":
            return False
        self._state = self._content
        raw = "".join(self._candidate_raw)
        if candidate.verdict == "call":
            self._calls.report(candidate.calls, raw, self._candidate_start, 0)
            return True
        buffer.unread(raw)
        if candidate.kind == "fenced_json":
            # a fence that holds no calls: nothing inside it is taken for one
            self._in_fence = True
            self._pass_content(buffer.pos + len(FENCE))
        else:
            self._in_json = JsonScanner()
        return True
