"""Scanning a call as Gemma writes it, incrementally.

Keys are bare text up to the colon; a string is anything between two delimiters, raw, so it cannot hold the delimiter itself.
Gemma 4's older template writes Python's `None`: read as null and listed as a repair. White space between the parts is accepted.
"""

from __future__ import annotations

import json
import re

from daneel.formats.json_scan import WHITE
from daneel.formats.scan import MAX_DEPTH, ScanError, ScannedCall, ScannedFailure
from daneel.formats.typed_value import Schema, argument_schema, item_schema, kinds_of, read_typed
from daneel.formats.validate import ToolSet

CALL = "call:"
_WHITE_RUN = re.compile(r"[ \t\n\r]*+")
_NAME_RUN = re.compile(r"[^\s{}()\[\]<>\"'=,;|]*+")
_KEY_RUN = re.compile(r'[^:{},<"\n]*+')
_TOKEN_RUN = re.compile(r"[-+.0-9A-Za-z_]*+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORDS = {"true": "true", "false": "false", "null": "null", "None": "null"}

_EXPECTED = {
    "head": "'call:'",
    "name": "the function's name and '{'",
    "brace": "'{' after the function's name",
    "first_key": "a key or '}'",
    "key": "a key",
    "value": "a value (a string stands between two DELIMITER)",
    "first_value": "a value or ']'",
    "next": "',' or the closing bracket",
    "string": "the closing DELIMITER of a string",
    "token": "the rest of a number or word",
    "delimiter": "the rest of DELIMITER",
    "done": "nothing more",
}


class GemmaScanner:
    """Scans `call:NAME{...}` and writes its arguments as JSON while it goes.

    It may leave a few characters unread (the beginning of a delimiter): they are to be fed again with what follows.
    `tools`: what delimits a string may stand around any value, so the schema decides where it admits no string.
    """

    def __init__(self, delimiter: str, tools: ToolSet | None) -> None:
        self._delimiter = delimiter
        self._tools = tools
        self._schemas: list[Schema | None] = []  # of the value that is read, and of those it is in
        self.offset = 0
        self.error: ScanError | None = None
        self.name: str | None = None
        self._state = "head"
        self._part: list[str] = []
        self._part_start = 0
        self._closers: list[str] = []
        self._keys: list[set[str] | None] = []
        self._json: list[str] = []
        self._repairs: list[str] = []

    @property
    def done(self) -> bool:
        return self._state == "done"

    @property
    def expected(self) -> str:
        if self._state == "next":
            return f"',' or '{self._closers[-1]}'"
        if self._state in ("key", "first_key") and self._part:
            return "':' after the key"
        return self._words_for(self._state)

    def _words_for(self, state: str) -> str:
        return _EXPECTED[state].replace("DELIMITER", self._delimiter)

    def calls(self, body: str) -> list[ScannedCall | ScannedFailure]:
        return [ScannedCall(self.name or "", "".join(self._json), self.offset, tuple(self._repairs))]

    def finish(self) -> None:
        """A body without its last bracket is not complete."""

    def feed(self, text: str, pos: int) -> int:
        base = self.offset - pos
        while pos < len(text) and self._state != "done" and self.error is None:
            before = pos, self._state
            pos = self._step(text, pos, base)
            if before == (pos, self._state):
                break
        self.offset = base + pos
        return pos

    def _step(self, text: str, pos: int, base: int) -> int:
        if self._state == "string":
            return self._string(text, pos)
        if not self._part:
            white = _WHITE_RUN.match(text, pos)
            pos = white.end() if white else pos
            if pos == len(text):
                return pos
            self._part_start = base + pos
        if self._state in ("head", "delimiter"):
            return self._literal(text, pos, base)
        if self._state == "token":
            return self._word(text, pos, base)
        if self._state == "name":
            return self._name(text, pos, base)
        if self._state in ("key", "first_key"):
            return self._key(text, pos, base)
        return self._structure(text, pos, base)

    def _fail(self, message: str, offset: int) -> None:
        self.error = ScanError(message, offset)

    def _structure(self, text: str, pos: int, base: int) -> int:
        char, state = text[pos], self._state
        if state == "brace" and char == "{":
            self._schemas = [self._tools.schema(self.name or "")] if self._tools else []
            self._open("{")
        elif state in ("value", "first_value") and not (state == "first_value" and char == "]"):
            end = self._value(text, pos, base)
            if state == "first_value":
                self._begin_item()
            return end
        elif state == "next" and char == ",":
            self._json.append(", ")
            self._state = "key" if self._closers[-1] == "}" else "value"
            if self._state == "value":
                self._begin_item()
        elif state in ("next", "first_value") and char == self._closers[-1]:
            self._close()
        else:
            self._fail(f"expected {self.expected}", base + pos)
            return pos
        return pos + 1

    def _literal(self, text: str, pos: int, base: int) -> int:
        literal, then = (CALL, "name") if self._state == "head" else (self._delimiter, "string")
        rest = text[pos : pos + len(literal)]
        if rest == literal:
            self._state = then
            return pos + len(literal)
        if not literal.startswith(rest):
            self._fail(f"expected {self._words_for('value' if then == 'string' else 'head')}", base + pos)
        return pos

    def _name(self, text: str, pos: int, base: int) -> int:
        end = self._take(_NAME_RUN, text, pos)
        if end < len(text):
            self.name, self._part = "".join(self._part), []
            self._state = "brace"
            if not self.name:
                self._fail("expected the function's name", base + end)
        return end

    def _take(self, run: re.Pattern[str], text: str, pos: int) -> int:
        match = run.match(text, pos)
        end = match.end() if match else pos
        if end > pos:
            self._part.append(text[pos:end])
        return end

    def _key(self, text: str, pos: int, base: int) -> int:
        end = self._take(_KEY_RUN, text, pos)
        if end == len(text):
            return end
        key, char = "".join(self._part).rstrip(WHITE), text[end]
        if char == ":" and key:
            return self._end_key(key, end)
        if char == "}" and self._state == "first_key" and not key:
            self._close()
            return end + 1
        hint = "; keys are written without quotes" if char == '"' else ""
        self._fail(f"expected {self.expected}{hint}", base + end)
        return end

    def _end_key(self, key: str, end: int) -> int:
        keys = self._keys[-1]
        if keys is not None and key in keys:
            self._fail(f"the key '{key[:80]}' stands twice", self._part_start)
            return end
        if keys is not None:
            keys.add(key)
        self._json.append(json.dumps(key, ensure_ascii=False) + ": ")
        self._state, self._part = "value", []
        if self._tools:
            self._schemas.append(argument_schema(self._schemas[-1], key))
        return end + 1

    def _begin_item(self) -> None:
        if self._tools:
            self._schemas.append(item_schema(self._schemas[-1]))

    def _end_value(self) -> None:
        self._state = "next" if self._closers else "done"
        if self._tools:
            self._schemas.pop()

    def _value(self, text: str, pos: int, base: int) -> int:
        char = text[pos]
        if char == "<":
            self._state = "delimiter"
        elif char in "{[":
            if len(self._closers) >= MAX_DEPTH:
                self._fail(f"nested deeper than {MAX_DEPTH} levels", base + pos)
                return pos
            self._open(char)
            return pos + 1
        elif char == "-" or (char.isascii() and char.isalnum()):
            self._state = "token"
        else:
            self._fail(f"expected {self.expected}", base + pos)
        return pos

    def _open(self, char: str) -> None:
        self._json.append(char)
        self._closers.append("}" if char == "{" else "]")
        self._keys.append(set() if char == "{" else None)
        self._state = "first_key" if char == "{" else "first_value"

    def _close(self) -> None:
        self._json.append(self._closers.pop())
        self._keys.pop()
        self._end_value()

    def _string(self, text: str, pos: int) -> int:
        end = text.find(self._delimiter, pos)
        if end >= 0:
            self._part.append(text[pos:end])
            self._json.append(self._delimited("".join(self._part)))
            self._part = []
            self._end_value()
            return end + len(self._delimiter)
        end = len(text) - _partial(text, pos, self._delimiter)
        self._part.append(text[pos:end])
        return end

    def _delimited(self, text: str) -> str:
        """The JSON text of what stood between two delimiters."""
        schema = self._schemas[-1] if self._schemas else None
        if schema is None or "string" in kinds_of(schema):
            return json.dumps(text, ensure_ascii=False)
        value = read_typed(text, schema)
        if value[0] != '"' and "delimited_value" not in self._repairs:
            self._repairs.append("delimited_value")
        return value

    def _word(self, text: str, pos: int, base: int) -> int:
        end = self._take(_TOKEN_RUN, text, pos)
        if end == len(text):
            return end
        token, self._part = "".join(self._part), []
        if token in _WORDS:
            if token == "None" and "python_none" not in self._repairs:
                self._repairs.append("python_none")
            self._json.append(_WORDS[token])
        elif _NUMBER.fullmatch(token):
            self._json.append(token)
        else:
            self._fail(f"expected {self._words_for('value')}", self._part_start)
        self._end_value()
        return end


def _partial(text: str, pos: int, delimiter: str) -> int:
    """How many characters at the end of `text`, from `pos` on, may begin a delimiter."""
    for size in range(min(len(text) - pos, len(delimiter) - 1), 0, -1):
        if delimiter.startswith(text[-size:]):
            return size
    return 0
