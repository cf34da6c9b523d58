"""Calls as Gemma 4 writes them: `call:NAME{key:<|"|>text<|"|>,n:1,o:{k:true},l:[null]}`.

Source: the chat templates of google/gemma-4-31B-it (also of 2026-07-09) and gemma-4-E2B-it. Keys are bare text up to the
colon; a string is anything between two delimiters, raw, so it cannot hold the delimiter itself. The older template writes
Python's `None`: read as null and listed as a repair. White space between the parts is accepted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from daneel.formats.base import Tool
from daneel.formats.json_scan import WHITE
from daneel.formats.scan import MAX_DEPTH, Head, ScanError, ScannedCall, ScannedFailure
from daneel.formats.validate import ToolSet

DELIMITER = '<|"|>'
_CALL = "call:"
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
    "value": f"a value (a string stands between two {DELIMITER})",
    "first_value": "a value or ']'",
    "next": "',' or the closing bracket",
    "string": f"the closing {DELIMITER} of a string",
    "token": "the rest of a number or word",
    "delimiter": f"the rest of {DELIMITER}",
    "done": "nothing more",
}


class GemmaScanner:
    """Scans `call:NAME{...}` and writes its arguments as JSON while it goes.

    It may leave a few characters unread (the beginning of a delimiter): they are to be fed again with what follows.
    """

    def __init__(self) -> None:
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
        return _EXPECTED[self._state]

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
            self._open("{")
        elif state in ("value", "first_value") and not (state == "first_value" and char == "]"):
            return self._value(text, pos, base)
        elif state == "next" and char == ",":
            self._json.append(", ")
            self._state = "key" if self._closers[-1] == "}" else "value"
        elif state in ("next", "first_value") and char == self._closers[-1]:
            self._close()
        else:
            self._fail(f"expected {self.expected}", base + pos)
            return pos
        return pos + 1

    def _literal(self, text: str, pos: int, base: int) -> int:
        literal, then = (_CALL, "name") if self._state == "head" else (DELIMITER, "string")
        rest = text[pos : pos + len(literal)]
        if rest == literal:
            self._state = then
            return pos + len(literal)
        if not literal.startswith(rest):
            self._fail(f"expected {_EXPECTED['value'] if then == 'string' else _EXPECTED['head']}", base + pos)
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
        return end + 1

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
        self._state = "next" if self._closers else "done"

    def _string(self, text: str, pos: int) -> int:
        end = text.find(DELIMITER, pos)
        if end >= 0:
            self._part.append(text[pos:end])
            self._json.append(json.dumps("".join(self._part), ensure_ascii=False))
            self._state, self._part = "next", []
            return end + len(DELIMITER)
        end = len(text) - _partial(text, pos)
        self._part.append(text[pos:end])
        return end

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
            self._fail(f"expected {_EXPECTED['value']}", self._part_start)
        self._state = "next"
        return end


def _partial(text: str, pos: int) -> int:
    """How many characters at the end of `text`, from `pos` on, may begin a delimiter."""
    for size in range(min(len(text) - pos, len(DELIMITER) - 1), 0, -1):
        if DELIMITER.startswith(text[-size:]):
            return size
    return 0


@dataclass(frozen=True, slots=True)
class GemmaGrammar:
    """`call:NAME{...}`."""

    key: str = "gemma"
    slack: str = ""
    expected_head: str = "'call:'"
    holds_several: bool = False

    def head(self, text: str, pos: int) -> Head:
        while pos < len(text) and text[pos] in WHITE:
            pos += 1
        rest = text[pos : pos + len(_CALL)]
        if rest == _CALL:
            return "yes"
        return "more" if _CALL.startswith(rest) else "no"

    def scanner(self, tools: ToolSet) -> GemmaScanner:
        return GemmaScanner()

    def write(self, name: str, arguments: str) -> str:
        return f"{_CALL}{name}{_write(json.loads(arguments))}"

    def write_several(self, calls: Sequence[tuple[str, str]]) -> str:
        raise ValueError(f"one body holds one call, not {len(calls)}")

    def lark_body(
        self, tool: Tool, number: int, *, open_pad: str, close_pad: str, marker: Callable[[str], str]
    ) -> tuple[str, list[str]]:
        raise ValueError(f"the format {self.key} has no decoding grammar yet")


def _write(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_write(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_write(item) for item in value) + "]"
    if isinstance(value, str):
        return f"{DELIMITER}{value}{DELIMITER}"
    return json.dumps(value)
