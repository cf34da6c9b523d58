"""Calls written without markers: bare JSON at the start of a line, or JSON in a code fence.

Only what is certain is taken: an object (or an array of objects) with a declared tool's name and arguments that satisfy its
schema, and no other keys. A candidate is given up at the first character that cannot belong to one. What the length limit
cuts off while it can only become a call is a truncated one.
"""

from __future__ import annotations

import re
from typing import Literal

from daneel.formats.json_scan import WHITE
from daneel.formats.scan import ScannedCall
from daneel.formats.strict_json import StrictJsonScanner
from daneel.formats.validate import ToolSet

FENCE = "```"
_INFO_RUN = re.compile(r"[A-Za-z_]*+[ \t]*+")
_INFOS = {"", "json", "tool_call", "tool_calls"}
_MAX_INFO = 12

Verdict = Literal["open", "call", "text"]


class Candidate:
    """One candidate, fed from its first character. `kind` is the repair it will be listed as.

    `own_array`: a bare array is how the family writes calls, so it is no repair. `own_fence`: it writes calls in a fence, so
    arguments that break the schema are no reason against one.
    """

    def __init__(self, tools: ToolSet, *, fenced: bool, own_array: bool = False, own_fence: bool = False) -> None:
        self.kind = "fenced_json" if fenced else "bare_json"
        self._own_array = own_array and not fenced
        self._own_fence = own_fence and fenced
        self.verdict: Verdict = "open"
        self.calls: list[ScannedCall] = []
        self._tools = tools
        self._offset = 0
        self._state: Literal["fence", "info", "between", "value"] = "fence" if fenced else "value"
        self._head = ""
        self._scanner = self._new_scanner()
        self._value: list[str] = []
        self._value_start = 0

    def feed(self, text: str, pos: int) -> int:
        """Read from `pos`; returns where it stopped. `verdict` tells why."""
        base = self._offset - pos
        while pos < len(text) and self.verdict == "open":
            if self._state == "value":
                pos = self._read_value(text, pos, base)
            elif self._state == "between":
                pos = self._read_between(text, pos, base)
            else:
                pos = self._read_head(text, pos)
        self._offset = base + pos
        return pos

    def finish(self) -> None:
        """No more text: a fence that is not closed counts if all in it is complete."""
        if self.verdict == "open":
            complete = self._state == "between" and self.calls and not self._head.strip("`")
            self.verdict = "call" if complete else "text"

    def cut_off(self) -> str | None:
        """For a candidate that is still open: what should follow, if it can only become a call; `None` if it is text."""
        scanner = self._scanner
        if self.verdict != "open" or self._state != "value" or scanner.error is not None:
            return None
        return scanner.expected if scanner.may_be_meant else None

    def _new_scanner(self) -> StrictJsonScanner:
        return StrictJsonScanner(self._tools, array=self._own_array)

    @property
    def name(self) -> str | None:
        """The name of the call that is being read, once known."""
        return self._scanner.name

    def _read_head(self, text: str, pos: int) -> int:
        """The opening fence and its info string, up to the first bracket."""
        char = text[pos]
        if self._state == "fence":
            self._head += char
            if char != "`":
                self.verdict = "text"
            elif self._head == FENCE:
                self._state, self._head = "info", ""
            return pos + 1
        if char == "\n" or char in "{[":
            if self._head.strip(" \t") in _INFOS:
                self._state, self._head = "between", ""
                return pos
        elif len(self._head) < _MAX_INFO and _INFO_RUN.fullmatch(self._head + char):
            self._head += char
            return pos + 1
        self.verdict = "text"
        return pos

    def _read_between(self, text: str, pos: int, base: int) -> int:
        """White space, the next value, or the closing fence."""
        char = text[pos]
        if char == "`" and self.calls:
            self._head += char
            if self._head == FENCE:
                self.verdict = "call"
            return pos + 1
        if self._head:
            self.verdict = "text"
            return pos
        if char in WHITE:
            return pos + 1
        if char not in "{[":
            self.verdict = "text"
            return pos
        self._state, self._scanner, self._value, self._value_start = "value", self._new_scanner(), [], base + pos
        return pos

    def _read_value(self, text: str, pos: int, base: int) -> int:
        end = self._scanner.feed(text, pos)
        self._value.append(text[pos:end])
        if self._scanner.error is not None:
            self.verdict = "text"
        elif self._scanner.done:
            self._end_value()
        return end

    def _end_value(self) -> None:
        for item in self._scanner.calls("".join(self._value)):
            certain = (
                isinstance(item, ScannedCall)
                and item.arguments is not None
                and (self._own_fence or not self._tools.issues(item.name, item.arguments))
            )
            if not certain or not isinstance(item, ScannedCall):
                self.verdict = "text"
                return
            repairs = [] if self._own_array and self._scanner.is_array else [self.kind]
            repairs += [repair for repair in item.repairs if repair == "string_arguments"]
            end = self._value_start + item.end
            self.calls.append(ScannedCall(item.name, item.arguments, end, tuple(repairs), item.call_id))
        if self.kind == "bare_json":
            self.verdict = "call"
        else:
            self._state = "between"
