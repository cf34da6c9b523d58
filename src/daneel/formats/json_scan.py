"""A strict, incremental JSON scanner: constant work per character, errors at the exact offset, never an exception.

It accepts exactly what RFC 8259 does, minus duplicate keys and nesting beyond `MAX_DEPTH`. Subclasses hear of keys and
values down to a chosen depth through `on_key` and `on_value`.
"""

from __future__ import annotations

import json
import re

from daneel.formats.scan import MAX_DEPTH, ScanError

WHITE = " \t\n\r"
_WHITE_RUN = re.compile(r"[ \t\n\r]*+")
_STRING_RUN = re.compile(r'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+')
_ESCAPE_PREFIX = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_TOKEN_RUN = re.compile(r"[-+.0-9A-Za-z_]*+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_LITERALS = {"true", "false", "null"}

_EXPECTED = {
    "value": "a value",
    "first_value": "a value or ']'",
    "first_key": "a key or '}'",
    "key": "a key",
    "colon": "':'",
    "next": "',' or the closing bracket",
    "string": "the rest of a string and its closing '\"'",
    "token": "the rest of a number or literal",
    "done": "nothing more",
}


class JsonScanner:
    """Scans one JSON value. `track_depth`: containers up to this depth (1 = outermost) report their keys and values."""

    def __init__(self, track_depth: int = 0) -> None:
        self.offset = 0
        self.error: ScanError | None = None
        self.track_depth = track_depth
        self._state = "value"
        self._closers: list[str] = []
        self._starts: list[int] = []
        self._keys: list[set[str] | None] = []
        self._token_start = 0
        self._token: list[str] = []
        self._token_size = 0
        self._is_key = False
        self._escape = ""

    @property
    def done(self) -> bool:
        return self._state == "done"

    @property
    def depth(self) -> int:
        return len(self._closers)

    @property
    def expected(self) -> str:
        if self._state == "next":
            return f"',' or '{self._closers[-1]}'"
        return _EXPECTED[self._state]

    def on_key(self, depth: int, key: str, start: int) -> None:
        """A key of a container at `depth` was read."""

    def on_value(self, depth: int, start: int, end: int, kind: str, text: str | None) -> None:
        """A value inside a container at `depth` (0 = the whole) was read. `kind` is its first character; `text` if scalar."""

    def feed(self, text: str, pos: int) -> int:
        """Read from `pos` until the text ends, the value is complete, or an error; returns the position."""
        base = self.offset - pos
        size = len(text)
        while pos < size and self._state != "done" and self.error is None:
            if self._state == "string":
                pos = self._string(text, pos, base)
            elif self._state == "token":
                pos = self._scalar(text, pos, base)
            else:
                match = _WHITE_RUN.match(text, pos)
                pos = match.end() if match else pos
                if pos < size:
                    pos = self._structure(text[pos], pos, base)
        self.offset = base + pos
        return pos

    def _fail(self, message: str, offset: int) -> None:
        if self.error is None:
            self.error = ScanError(message, offset)

    def _structure(self, char: str, pos: int, base: int) -> int:
        state = self._state
        if state in ("value", "first_value"):
            if state == "first_value" and char == "]":
                self._close(base + pos + 1)
                return pos + 1
            return self._value(char, pos, base)
        if state in ("key", "first_key"):
            if char == '"':
                self._begin_string(base + pos, is_key=True)
                return pos + 1
            if state == "first_key" and char == "}":
                self._close(base + pos + 1)
                return pos + 1
        elif state == "colon" and char == ":":
            self._state = "value"
            return pos + 1
        elif state == "next":
            if char == ",":
                self._state = "key" if self._closers[-1] == "}" else "value"
                return pos + 1
            if char == self._closers[-1]:
                self._close(base + pos + 1)
                return pos + 1
        self._fail(f"expected {self.expected}", base + pos)
        return pos

    def _value(self, char: str, pos: int, base: int) -> int:
        if char == '"':
            self._begin_string(base + pos, is_key=False)
        elif char in "{[":
            if len(self._closers) >= MAX_DEPTH:
                self._fail(f"nested deeper than {MAX_DEPTH} levels", base + pos)
                return pos
            self._closers.append("}" if char == "{" else "]")
            self._starts.append(base + pos)
            self._keys.append(set() if char == "{" else None)
            self._state = "first_key" if char == "{" else "first_value"
        elif char == "-" or (char.isascii() and char.isalnum()):
            self._state, self._token_start, self._token, self._token_size = "token", base + pos, [], 0
            return pos
        else:
            self._fail(f"expected {self.expected}", base + pos)
            return pos
        return pos + 1

    def _begin_string(self, start: int, *, is_key: bool) -> None:
        self._state, self._token_start, self._token, self._is_key, self._escape = "string", start, [], is_key, ""

    def _string(self, text: str, pos: int, base: int) -> int:
        if self._escape:
            return self._rest_of_escape(text, pos, base)
        match = _STRING_RUN.match(text, pos)
        end = match.end() if match else pos
        keep = self._is_key or len(self._closers) <= self.track_depth
        if keep and end > pos:
            self._token.append(text[pos:end])
        if end == len(text):
            return end
        char = text[end]
        if char == '"':
            self._end_string(base + end + 1)
            return end + 1
        if char != "\\":
            self._fail(f"a raw {_control_name(char)} inside a string; it must be escaped", base + end)
            return end
        prefix = _ESCAPE_PREFIX.match(text, end)
        stop = prefix.end() if prefix else end + 1
        if stop < len(text):
            self._fail("not a JSON escape", base + end)
            return end
        self._escape = text[end:stop]
        return stop

    def _rest_of_escape(self, text: str, pos: int, base: int) -> int:
        candidate = self._escape + text[pos]
        match = _STRING_RUN.match(candidate)
        if match and match.end() == len(candidate):
            if self._is_key or len(self._closers) <= self.track_depth:
                self._token.append(candidate)
            self._escape = ""
            return pos + 1
        prefix = _ESCAPE_PREFIX.match(candidate)
        if prefix and prefix.end() == len(candidate):
            self._escape = candidate
            return pos + 1
        self._fail("not a JSON escape", base + pos - len(self._escape))
        return pos

    def _end_string(self, end: int) -> None:
        start, self._state = self._token_start, "next" if self._closers else "done"
        literal = '"' + "".join(self._token) + '"'
        if not self._is_key:
            if len(self._closers) <= self.track_depth:
                self.on_value(len(self._closers), start, end, '"', literal)
            return
        key = str(json.loads(literal))
        keys = self._keys[-1]
        if keys is not None:
            if key in keys:
                self._fail(f"the key {json.dumps(key, ensure_ascii=False)[:80]} stands twice", start)
                return
            keys.add(key)
        self._state = "colon"
        if len(self._closers) <= self.track_depth:
            self.on_key(len(self._closers), key, start)

    def _scalar(self, text: str, pos: int, base: int) -> int:
        match = _TOKEN_RUN.match(text, pos)
        end = match.end() if match else pos
        self._token.append(text[pos:end])
        if end < len(text):
            self._end_scalar(base + end)
        return end

    def _end_scalar(self, end: int) -> None:
        token = "".join(self._token)
        if token in _LITERALS or _NUMBER.fullmatch(token):
            self._state = "next" if self._closers else "done"
            if len(self._closers) <= self.track_depth:
                self.on_value(len(self._closers), self._token_start, end, token[0], token)
        else:
            self._fail(f"{token[:40]} is not a JSON value", self._token_start)

    def _close(self, end: int) -> None:
        closer = self._closers.pop()
        self._keys.pop()
        start = self._starts.pop()
        self._state = "next" if self._closers else "done"
        if len(self._closers) <= self.track_depth:
            self.on_value(len(self._closers), start, end, "{" if closer == "}" else "[", None)


def _control_name(char: str) -> str:
    return {"\n": "line break", "\r": "carriage return", "\t": "tab"}.get(char, "control character")


def scan_object(text: str) -> ScanError | None:
    """Check that `text` is one strict JSON object; `None` when it is."""
    scanner = JsonScanner()
    pos = scanner.feed(text, 0)
    if scanner.error is not None:
        return scanner.error
    if not scanner.done:
        return ScanError(f"the text ends where {scanner.expected} should follow", len(text))
    if text[pos:].strip(WHITE):
        return ScanError("text after the object", pos)
    if not text.lstrip(WHITE).startswith("{"):
        return ScanError("expected an object", 0)
    return None
