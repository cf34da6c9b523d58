"""The one streaming parser: text in pieces of any size in, events out, whatever the family.

It is a state machine over a small buffer. Plain text is searched for markers and passed on at once, but for an end that may
begin a marker; marked calls are read by `call_reader.py`, calls without markers by `unmarked.py`.
"""

from __future__ import annotations

from daneel.formats.base import Event
from daneel.formats.buffer import Buffer
from daneel.formats.call_reader import CLOSING, CallReader
from daneel.formats.markers import Markers, Role, starts_with_any
from daneel.formats.output import Output
from daneel.formats.scan import ArgumentGrammar
from daneel.formats.unmarked import Unmarked
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
        self._markers = markers
        self._buffer = Buffer()
        self._out = Output()
        self._calls = CallReader(self._buffer, self._out, markers, grammar, tools)
        self._unmarked = Unmarked(self._buffer, self._out, self._calls, markers, tools, rescue=rescue, own_array=own_array)
        self._opener_size = 0
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
        self._unmarked.pass_content(end)

    def _pass_reasoning(self, end: int) -> None:
        if end > self._buffer.pos:
            start = self._buffer.offset
            self._out.reasoning(self._buffer.take(end), start)

    def _control(self, end: int) -> None:
        start = self._buffer.offset
        self._out.control(self._buffer.take(end), start)
        self._unmarked.reset()

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
        step = self._unmarked.begin()
        if step != "no":
            self._state = self._unmarked_call if step == "opened" else self._content
            return step == "opened"
        places = markers.held if out.holding else markers.inside if self._calls.inside else markers.content
        found_in = places[self._unmarked.rescues]
        found = found_in.search(buffer.text, buffer.pos, final=buffer.final)
        if found is None:
            waiting = found_in.partial(buffer.text, buffer.pos)
            if buffer.final and not (buffer.truncated and self._calls.is_opening(waiting)):
                waiting = 0
            self._pass_content(len(buffer.text) - waiting)
            if buffer.final and waiting:
                start = buffer.offset
                self._calls.reports.truncated(None, buffer.take(len(buffer.text)), start, "the rest of the opening marker")
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
            self._calls.inside = self._markers.call.shared
        else:
            self._unmarked.reset()
        return True

    def _unmarked_call(self) -> bool:
        if self._unmarked.run() == "more":
            return False
        self._state = self._content
        return True
