"""An incremental scanner of calls written as Python writes them: `[f(a=1, b="x"), g()]`, or one call on each line.

Read are keyword arguments, `**{...}` for keys that are no names, and literals: numbers, strings in any quotes, lists, dicts
with text keys, `True`/`true`, `None`/`null`. Strings mean what Python says they mean, but may hold raw line breaks (some
templates write them so). Positional arguments, tuples, expressions and names of variables are errors: nothing is evaluated.
The arguments come out as JSON.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

from daneel.formats.python_tokens import PythonString, literal_json
from daneel.formats.scan import MAX_DEPTH, ScanError, ScannedCall, ScannedFailure
from daneel.formats.validate import ToolSet

WHITE_RUN = re.compile(r"[ \t\n\r]*+")
_NAME_START = re.compile(r"[^\W\d]")
KEY = re.compile(r"[^\W\d][\w.$-]*+")
_SPREAD = "**{"
_VALUE_START = re.compile(r"[\w.+-]")
_TOKEN_RUN = re.compile(r"[\w.:/$+-]*+")

_EXPECTED = {
    "start": "'[' or a tool's name",
    "next_call": "a tool's name",
    "name": "'('",
    "paren": "'('",
    "first_argument": "an argument's name, or ')'",
    "argument": "an argument's name, or ')'",
    "key": "'='",
    "equals": "'='",
    "value": "a value",
    "first_item": "a value, or ']'",
    "item": "a value, or ']'",
    "first_member": "a key in quotes, or '}'",
    "member": "a key in quotes, or '}'",
    "colon": "':'",
    "prefixed": "the rest of a string and its closing quote",
    "token": "the rest of a number or literal",
    "string": "the rest of a string and its closing quote",
    "after_call": "',' or ']'",
    "lines": "another call",
    "done": "nothing more",
}


@dataclass(slots=True)
class _Frame:
    """An open bracket. `keys`: those that stand in it already. `empty`: nothing was written into it."""

    closer: str
    keys: set[str] | None
    empty: bool = True


@dataclass(slots=True)
class _Call:
    name: str
    arguments: str
    end: int
    repairs: tuple[str, ...]


class PythonCallScanner:
    """Scans one body. A state is what may come next; white space may stand before it.

    `method`: what must stand behind each tool's name, being no part of it.
    """

    def __init__(self, tools: ToolSet, *, in_list: bool, method: str = "") -> None:
        self._tools = tools
        self._method = method
        self._wants_list = in_list
        self._state = "start"
        self._offset = 0
        self._in_list = False
        self._frames: list[_Frame] = []
        self._json: list[str] = []
        self._token: list[str] = []
        self._token_start = 0
        self._string = PythonString()
        self._is_key = self._raw = self._unclosed = False
        self._calls: list[_Call] = []
        self.error: ScanError | None = None
        self.name: str | None = None
        self.is_meant = False
        """Whether what was read can hardly be anything but a call: a declared tool's name and '(', or a keyword argument."""

    @property
    def done(self) -> bool:
        return self._state == "done"

    @property
    def expected(self) -> str:
        if self._state in ("next", "after_string"):
            return f"',' or '{self._frames[-1].closer}'"
        return _EXPECTED[self._state]

    def feed(self, text: str, pos: int) -> int:
        base, size = self._offset - pos, len(text)
        while pos < size and self._state != "done" and self.error is None:
            at = pos
            if self._state == "string":
                at = self._read_string(text, pos, base)
            elif self._state in ("name", "key", "token"):
                at = self._read_token(text, pos, base)
            else:
                white = WHITE_RUN.match(text, pos)
                pos = at = white.end() if white else pos
                if pos < size:
                    at = self._structure(text, pos, base)
            if at < 0:  # the beginning of something: with more text
                break
            pos = at
        self._offset = base + pos
        return pos

    @property
    def may_be_meant(self) -> bool:
        """Whether a call has begun: cut off there, it can hardly have become anything else."""
        return bool(self._frames or self._calls)

    def finish(self) -> None:
        """A list of complete calls may lack its bracket."""
        if self._state in ("lines", "after_call"):
            self._unclosed, self._state = self._in_list, "done"

    def calls(self, body: str) -> list[ScannedCall | ScannedFailure]:
        items = self._found()
        if self._unclosed and items:
            items[-1] = replace(items[-1], repairs=(*items[-1].repairs, "missing_list_end"))
        return list(items)

    def calls_so_far(self, body: str) -> list[ScannedCall | ScannedFailure]:
        """The calls that are complete, whatever becomes of the body."""
        return list(self._found())

    def _found(self) -> list[ScannedCall]:
        shape = () if self._in_list == self._wants_list else ("list_body",) if self._in_list else ("missing_brackets",)
        return [ScannedCall(call.name, call.arguments, call.end, (*shape, *call.repairs)) for call in self._calls]

    def _fail(self, message: str, offset: int) -> int:
        if self.error is None:
            self.error = ScanError(message, offset)
        return -1

    # -- structure --------------------------------------------------------------------------------------------------------

    def _structure(self, text: str, pos: int, base: int) -> int:
        state, char = self._state, text[pos]
        if state in ("value", "first_item", "item"):
            return self._value(text, pos, base)
        if state in ("next", "after_string"):
            return self._next(text, pos, base)
        if state == "prefixed":
            return self._open_string(text, pos, base, raw=self._raw)
        if state in ("first_argument", "argument", "equals", "first_member", "member", "colon"):
            return self._inside(text, pos, base)
        return self._between_calls(char, pos, base)

    def _between_calls(self, char: str, pos: int, base: int) -> int:
        state = self._state
        if state == "paren" and char == "(":
            self.name = "".join(self._token)
            if not self.name.endswith(self._method) or self.name == self._method:
                return self._fail(f"expected a tool's name and '{self._method}('", self._token_start)
            self.name = self.name.removesuffix(self._method)
            self.is_meant = self.is_meant or (self._tools.known and self._tools.declared(self.name))
            self._frames, self._json, self._string = [_Frame(")", set())], [], PythonString()
            self._state = "first_argument"
        elif state == "start" and char == "[":
            self._in_list, self._state = True, "next_call"
        elif state == "after_call" and char == ",":
            self._state = "next_call"
        elif char == "]" and (state == "after_call" or (state == "next_call" and self._calls)):
            self._state = "done"
        elif state == "lines" and char in ",;":
            return pos + 1
        elif state in ("start", "next_call", "lines") and _NAME_START.match(char):
            self._begin_token("name", base + pos)
            return pos
        elif state == "lines" or (state == "after_call" and _NAME_START.match(char) is None):
            self.finish()
            return pos
        else:
            return self._fail(f"expected {self.expected}", base + pos)
        return pos + 1

    def _inside(self, text: str, pos: int, base: int) -> int:
        """Where a key, or what stands behind it, may come."""
        state, char = self._state, text[pos]
        if state in ("first_argument", "argument"):
            if char == ")":
                return self._close(char, pos, base)
            if text.startswith(_SPREAD, pos):
                # its members are arguments: they go where the others go
                self._frames.append(_Frame("}", None))
                return self._go("first_member", pos + len(_SPREAD) - 1)
            if _SPREAD.startswith(text[pos : pos + len(_SPREAD)]):
                return -1
            if _NAME_START.match(char):
                self._begin_token("key", base + pos)
                return pos
        elif state in ("first_member", "member"):
            if char == "}":
                return self._close(char, pos, base)
            if char in "\"'":
                return self._open_string(text, pos, base)
        elif char == ("=" if state == "equals" else ":"):
            self.is_meant = True
            return self._go("value", pos)
        if state == "equals" or (state in ("first_argument", "argument") and char not in "]}"):
            return self._fail(f"expected {self.expected}: positional arguments are not read", self._token_start_or(base + pos))
        return self._fail(f"expected {self.expected}", base + pos)

    def _token_start_or(self, offset: int) -> int:
        return self._token_start if self._state == "equals" else offset

    def _go(self, state: str, pos: int) -> int:
        self._state = state
        return pos + 1

    def _next(self, text: str, pos: int, base: int) -> int:
        """Behind a value."""
        char, frame = text[pos], self._frames[-1]
        if self._state == "after_string":
            if char in "\"'":  # strings side by side are one
                return self._open_string(text, pos, base)
            self._json.append(self._string.take_json())
            self._state = "next"
        if char == ",":
            return self._go({")": "argument", "]": "item", "}": "member"}[frame.closer], pos)
        if char == frame.closer:
            return self._close(char, pos, base)
        return self._fail(f"expected {self.expected}", base + pos)

    def _close(self, char: str, pos: int, base: int) -> int:
        frame = self._frames.pop()
        if char == ")":
            arguments = "{" + "".join(self._json) + "}"
            self._calls.append(_Call(self.name or "", arguments, base + pos + 1, self._string.repairs))
            return self._go("after_call" if self._in_list else "lines", pos)
        if frame.keys is not None or char == "]":
            self._json.append(char)
        return self._go("next", pos)

    # -- values -----------------------------------------------------------------------------------------------------------

    def _value(self, text: str, pos: int, base: int) -> int:
        char = text[pos]
        if char == "]" and self._state in ("first_item", "item"):
            return self._close(char, pos, base)
        if char in "[{":
            if len(self._frames) >= MAX_DEPTH - 1:
                return self._fail(f"nested deeper than {MAX_DEPTH} levels", base + pos)
            self._begin_item()
            self._json.append(char)
            self._frames.append(_Frame("]", None) if char == "[" else _Frame("}", set()))
            return self._go("first_item" if char == "[" else "first_member", pos)
        if char in "\"'":
            self._begin_item()
            return self._open_string(text, pos, base)
        if _VALUE_START.match(char):
            self._begin_item()
            self._begin_token("token", base + pos)
            return pos
        return self._fail(f"expected {self.expected}", base + pos)

    def _begin_item(self) -> None:
        """A comma before an item of a list, unless it is the first."""
        frame = self._frames[-1]
        if frame.closer == "]" and self._state != "value":
            if not frame.empty:
                self._json.append(", ")
            frame.empty, self._state = False, "value"

    def _key_read(self, key: str, offset: int) -> bool:
        """A key of the innermost dict, or of the call. Members of a `**{...}` are the call's."""
        frame = self._frames[-1] if self._frames[-1].keys is not None else self._frames[-2]
        keys = frame.keys if frame.keys is not None else set()
        if key in keys:
            self._fail(f"the key {json.dumps(key)[:80]} stands twice", offset)
            return False
        keys.add(key)
        self._json.append(("" if frame.empty else ", ") + PythonString.json(key) + ": ")
        frame.empty = False
        return True

    # -- tokens and strings -----------------------------------------------------------------------------------------------

    def _begin_token(self, state: str, start: int) -> None:
        self._state, self._token_start, self._token = state, start, []

    def _read_token(self, text: str, pos: int, base: int) -> int:
        """A tool's name, an argument's, a number or a literal: it ends where something else begins."""
        match = _TOKEN_RUN.match(text, pos)
        end = match.end() if match else pos
        self._token.append(text[pos:end])
        if end == len(text):
            return end
        token = "".join(self._token)
        if self._state == "name":
            self._token, self._state = [token], "paren"
        elif self._state == "key":
            self._state = "equals"
            if KEY.fullmatch(token) is None:
                return self._fail(f"{token[:40]} is not an argument's name", self._token_start)
            if not self._key_read(token, self._token_start):
                return -1
        elif text[end] in "\"'" and token in ("r", "R", "u", "U"):
            self._raw, self._state = token in "rR", "prefixed"
        else:
            value = literal_json(token)
            if value is None:
                return self._fail(f"{token[:40]} is not a literal", self._token_start)
            self._json.append(value)
            self._state = "next"
        return end

    def _open_string(self, text: str, pos: int, base: int, *, raw: bool = False) -> int:
        end = self._string.open(text, pos, raw=raw)
        if end < 0:
            return -1
        self._token_start = base + pos
        self._is_key = self._state in ("first_member", "member")
        self._state = "string"
        return end

    def _read_string(self, text: str, pos: int, base: int) -> int:
        end = self._string.read(text, pos)
        if self._string.problem:
            return self._fail(self._string.problem, base + end)
        if self._string.closed:
            self._state = "after_string"
            if self._is_key:
                self._state = "colon"
                if not self._key_read(self._string.take(), self._token_start):
                    return -1
        return end if end > pos else -1
