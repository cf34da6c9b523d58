"""Server-sent events: writing them, and reading them from any peer.

The reader keeps to the WHATWG rules (BOM, three kinds of line end, comments, multi-line data) and forgives what peers of
this dialect do besides: an `error:` field in place of an event, a last event without its blank line. It works on bytes, so
that a UTF-8 sequence may be cut anywhere; U+2028 and friends are text, not line ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

DONE = b"data: [DONE]\n\n"
"""The frame that ends every stream."""

MAX_LINE_BYTES = 64 * 1024 * 1024
"""The longest line the reader keeps: a peer that never ends its line must not fill the memory."""

_BOM = b"\xef\xbb\xbf"


class EventTooLarge(ValueError):
    """The peer's event is longer than the limit."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event (`kind` data) or one comment line. `name` is the event's `event:` field, empty if it had none."""

    kind: Literal["data", "comment"]
    text: str
    name: str = ""

    @property
    def is_done(self) -> bool:
        return self.kind == "data" and self.text.strip() == "[DONE]"


def encode_event(payload: Any) -> bytes:
    """One event holding `payload` (a struct or plain value) as JSON on one line."""
    return b"data: " + msgspec.json.encode(payload) + b"\n\n"


def encode_comment(text: str) -> bytes:
    """A comment, which clients skip; a line break in `text` starts another comment line."""
    return b"".join(b": " + line.encode() + b"\n" for line in text.splitlines() or [""]) + b"\n"


class Decoder:
    """Reads a stream from pieces of any size: the events do not depend on the cuts.

    `feed()` returns what has become complete, in order; `finish()` what the peer left without a closing blank line.
    """

    def __init__(self, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._pending: list[bytes] = []
        self._num_pending = 0
        self._num_data = 0
        self._skip_line_feed = False
        self._at_start = True
        self._data: list[str] = []
        self._name = ""

    def feed(self, piece: bytes) -> list[Event]:
        """The events completed by `piece`. Raises `EventTooLarge`."""
        events: list[Event] = []
        start = 0
        if piece and self._skip_line_feed:
            # the "\n" of a "\r\n" whose "\r" has ended a line already
            self._skip_line_feed = False
            start = 1 if piece[0] == 0x0A else 0
        while True:
            end = _line_end(piece, start)
            if end < 0:
                break
            self._hold(piece[start:end])
            self._line(self._take_line(), events)
            start = end + 1
            if piece[end] == 0x0D:
                if start == len(piece):
                    self._skip_line_feed = True
                elif piece[start] == 0x0A:
                    start += 1
        self._hold(piece[start:])
        return events

    def finish(self) -> list[Event]:
        """End of the stream. A last event without its blank line counts: peers that close early have sent it whole."""
        events: list[Event] = []
        if self._num_pending:
            self._line(self._take_line(), events)
        self._dispatch(events)
        return events

    def _hold(self, part: bytes) -> None:
        if not part:
            return
        self._num_pending += len(part)
        if self._num_pending + self._num_data > self._max_line_bytes:
            raise EventTooLarge(f"an event of the stream is longer than {self._max_line_bytes} bytes")
        self._pending.append(part)

    def _take_line(self) -> bytes:
        line = b"".join(self._pending)
        self._pending.clear()
        self._num_pending = 0
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)
        return line

    def _line(self, line: bytes, events: list[Event]) -> None:
        if not line:
            self._dispatch(events)
            return
        text = line.decode("utf-8", errors="replace")
        if text.startswith(":"):
            events.append(Event("comment", text[1:].removeprefix(" ")))
            return
        field, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
            self._num_data += len(line)
        elif field == "event":
            self._name = value
        elif field == "error":
            # older llama.cpp servers write `error: {...}` as a field of its own
            events.append(Event("data", value, "error"))

    def _dispatch(self, events: list[Event]) -> None:
        if self._data:
            events.append(Event("data", "\n".join(self._data), self._name))
            self._data.clear()
            self._num_data = 0
        self._name = ""


def _line_end(piece: bytes, start: int) -> int:
    """Where the next "\\n" or "\\r" stands, or -1."""
    feed = piece.find(b"\n", start)
    carriage = piece.find(b"\r", start, feed if feed >= 0 else len(piece))
    return carriage if carriage >= 0 else feed
