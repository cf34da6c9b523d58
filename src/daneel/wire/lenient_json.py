"""JSON from peers, read with every forgiveness that loses nothing: what a server says is worth understanding.

Beyond strict JSON: control characters in strings, `NaN` and `Infinity`, halves of surrogate pairs (a peer that escapes to
UTF-16 may cut a character between two chunks), several values on lines of their own.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec


def decode(text: str | bytes) -> Any:
    """The value. Raises `ValueError` if there is none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        pass
    if isinstance(text, bytes):
        text = text.decode("utf-8", errors="replace")
    try:
        return json.loads(text.removeprefix("\ufeff"), strict=False)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def decode_lines(text: str) -> list[Any]:
    """The value, or the values on lines of their own (peers that leave out the blank line between events)."""
    try:
        return [decode(text)]
    except ValueError:
        lines = [line for line in text.split("\n") if line.strip()]
        if len(lines) < 2:
            raise
        return [decode(line) for line in lines]


class SurrogateJoiner:
    """Joins the halves of surrogate pairs that stand in different pieces of a text; a lone half becomes U+FFFD."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, text: str) -> str:
        """The text that is certain now: a half at its end waits for the next piece."""
        if text.isascii() and not self._half:
            return text
        text = self._half + text
        self._half = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._half, text = text[-1], text[:-1]
        return whole_characters(text)

    def finish(self) -> str:
        """What is left at the end."""
        rest, self._half = self._half, ""
        return whole_characters(rest)


def whole_characters(text: str) -> str:
    """The text with surrogate pairs joined and lone halves replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
