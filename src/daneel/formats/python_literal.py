"""Python literals as JSON text: what `repr` or a careless model writes where JSON is meant.

Read are dicts with text keys, lists, strings in either quotes, numbers as JSON has them, and the constants of both
languages. Nothing is evaluated, and the text is gone through once.
"""

from __future__ import annotations

import json
import re

from daneel.formats.scan import MAX_DEPTH

_TOKEN = re.compile(
    r"""[ \t\r\n]*+(?:
        (?P<mark>[\[\]{},:])
      | (?P<word>True|False|None|true|false|null)(?!\w)
      | (?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?)(?![\w.])
      | (?P<string>'(?:[^'\\\n]|\\(?s:.))*+'|"(?:[^"\\\n]|\\(?s:.))*+")
    )[ \t\r\n]*+""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|((?s:.)))")
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v", "\n": "", "/": "/"}
_SIMPLE |= {char: char for char in "\\'\""}
_WORDS = {"True": "true", "False": "false", "None": "null"}


def literal_as_json(text: str) -> str | None:
    """The JSON text of a Python literal, or `None` if `text` is none."""
    reader = _Reader()
    pos = 0
    while pos < len(text) and reader.state != "done":
        match = _TOKEN.match(text, pos)
        if match is None or not reader.take(match.lastgroup or "", match[match.lastgroup or 0]):
            return None
        pos = match.end()
    return "".join(reader.json) if reader.state == "done" and pos == len(text) else None


class _Reader:
    """Takes tokens one by one and writes them as JSON. `state` is what may come next."""

    def __init__(self) -> None:
        self.state = "value"
        self.json: list[str] = []
        self._keys: list[set[str] | None] = []

    def take(self, kind: str, token: str) -> bool:
        """Whether the token may stand here."""
        if self.state in ("first_key", "key"):
            return self._close(token) if kind == "mark" else self._key(kind, token)
        if self.state == "colon":
            self.json.append(": ")
            self.state = "value"
            return token == ":" and kind == "mark"
        if self.state == "next":
            if token != "," or kind != "mark":
                return kind == "mark" and self._close(token)
            self.state = "item" if self._keys[-1] is None else "key"
            return True
        return self._value(kind, token)

    def _value(self, kind: str, token: str) -> bool:
        if kind == "mark" and token in "]" and self.state in ("first_item", "item"):
            return self._close(token)
        if kind == "mark" and (token not in "[{" or len(self._keys) == MAX_DEPTH):
            return False
        if self.state == "item":
            self.json.append(", ")
        if kind == "mark":
            self.json.append(token)
            self._keys.append(None if token == "[" else set())
            self.state = "first_item" if token == "[" else "first_key"
            return True
        value = _scalar(kind, token)
        self.json.append(value or "")
        self._end_value()
        return value is not None

    def _key(self, kind: str, token: str) -> bool:
        value, keys = _scalar(kind, token), self._keys[-1]
        if kind != "string" or value is None or keys is None or value in keys:
            return False
        keys.add(value)
        self.json.append(value if self.state == "first_key" else ", " + value)
        self.state = "colon"
        return True

    def _close(self, token: str) -> bool:
        if not self._keys or token != ("]" if self._keys[-1] is None else "}"):
            return False
        self._keys.pop()
        self.json.append(token)
        self._end_value()
        return True

    def _end_value(self) -> None:
        self.state = "next" if self._keys else "done"


def _scalar(kind: str, token: str) -> str | None:
    if kind == "string":
        return _string(token[1:-1])
    return _WORDS.get(token, token)


def _string(body: str) -> str | None:
    try:
        text = _ESCAPE.sub(_unescape, body) if "\\" in body else body
        # two halves of a pair, as JSON escapes them, are one character; one half alone is no text
        text = text.encode("utf-16", "surrogatepass").decode("utf-16")
    except (ValueError, OverflowError):
        return None
    return json.dumps(text, ensure_ascii=False)


def _unescape(match: re.Match[str]) -> str:
    octal, *codes, char = match.groups()
    if octal:
        return chr(int(octal, 8))
    for code in codes:
        if code:
            return chr(int(code, 16))
    # Python leaves an escape that it does not know as it stands
    return _SIMPLE.get(char, match[0])
