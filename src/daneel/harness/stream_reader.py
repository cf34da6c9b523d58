"""From the bytes of a reply to deltas, with an eye on what counts as progress and as the end. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from daneel.harness.client_errors import BadReply
from daneel.harness.progress import CommentProgress
from daneel.wire.accumulate import Accumulator
from daneel.wire.error_body import PeerError, read_error
from daneel.wire.lenient_json import decode_lines
from daneel.wire.messages import Delta
from daneel.wire.sse import Decoder, Event, EventTooLarge

MAX_WHOLE_BYTES = 64 * 1024 * 1024

_BLANK = b" \t\r\n\xef\xbb\xbf"
_SHOWN_BYTES = 200
_FIELD_BEGUN = re.compile(rb":|(data|event|id|retry|error)(:|\s|\Z)|(d(at?)?|e(ve?n?|rr?o?)?|i|r(et?r?)?)\Z")
"""How a stream of events can begin, or the beginning of that beginning."""


class StreamReader:
    """Feeds a reply's bytes to an accumulator and tells `on_delta` of new text.

    What comes is told by its first byte, not by its content type: one that opens JSON or a web page is no stream of events,
    and the whole body is read. `started`: a token has come. `done`: the end is certain, by `[DONE]` or by JSON that is
    complete; what follows is not read.
    """

    def __init__(self, read: Accumulator, on_delta: Callable[[Delta], object] | None) -> None:
        self.read = read
        self.started = False
        self.done = False
        self._on_delta = on_delta
        self._decoder = Decoder()
        self._comments = CommentProgress()
        self._begin = b""
        self._num_events = 0
        self._whole: bytearray | None = None

    def feed(self, piece: bytes) -> bool:
        """Take the next bytes. True if they brought progress: text, a piece of a call, a finish reason, a moved counter."""
        if not self._begin:
            piece = piece.lstrip(_BLANK)
            if piece[:1] in (b"{", b"[", b"<"):
                self._whole = bytearray()
        if len(self._begin) < _SHOWN_BYTES:
            self._begin += piece[: _SHOWN_BYTES - len(self._begin)]
        if self._whole is not None:
            self._whole += piece
            if len(self._whole) > MAX_WHOLE_BYTES:
                raise BadReply(f"the reply is longer than {MAX_WHOLE_BYTES} bytes")
            return False
        try:
            events = self._decoder.feed(piece)
        except EventTooLarge as error:
            raise BadReply(str(error), started=self.started, partial=self.read.message()) from None
        return self._take(events)

    def finish(self) -> None:
        """The bytes have ended: the last event may lack its blank line. Then tell `on_delta` of the calls."""
        if self._whole is not None:
            self.take_whole(bytes(self._whole))
            return
        if not self.done:
            self._take(self._decoder.finish())
        if not self._num_events and self._begin and not _FIELD_BEGUN.match(self._begin):
            raise BadReply(f"the reply is neither a stream of events nor JSON: {self._begin!r}")
        self._tell_calls()

    def take_whole(self, body: bytes) -> None:
        """A body that is no stream: one JSON object, or several on lines of their own."""
        try:
            payloads = decode_lines(body.decode("utf-8", errors="replace"))
        except ValueError:
            raise BadReply(f"the reply is not JSON: {body[:_SHOWN_BYTES]!r}") from None
        for payload in payloads:
            self._payload(payload, body.decode("utf-8", errors="replace"), name="")
        if self.read.error is None and self.read.num_choices_seen == 0:
            raise BadReply(f"the reply has no choice: {body[:_SHOWN_BYTES]!r}")
        self.done = True
        self._tell_calls()

    def _tell_calls(self) -> None:
        if self.read.error is None:
            last = self.read.final_delta()
            if self._on_delta is not None and last != Delta():
                self._on_delta(last)

    def _take(self, events: list[Event]) -> bool:
        progressed = False
        self._num_events += len(events)
        for event in events:
            if self.done:
                break
            if event.kind == "comment":
                progressed = self._comments.moved(event.text) or progressed
            elif event.is_done:
                self.done = progressed = True
            elif event.text.strip():
                progressed = self._payloads(event) or progressed
        return progressed

    def _payloads(self, event: Event) -> bool:
        try:
            payloads = decode_lines(event.text)
        except ValueError:
            if event.name != "error":
                said = f"a stream event is not JSON: {event.text[:_SHOWN_BYTES]!r}"
                raise BadReply(said, started=self.started, partial=self.read.message()) from None
            self.read.error = PeerError(event.text[:2000])
            return True
        progressed = False
        for payload in payloads:
            progressed = self._payload(payload, event.text, name=event.name) or progressed
        return progressed

    def _payload(self, payload: Any, text: str, *, name: str) -> bool:
        delta = self.read.add(payload)
        if name == "error" and self.read.error is None:
            # an error frame of a shape of its own
            self.read.error = read_error(text.encode("utf-8", "replace"))
        if delta is None:
            return self.read.error is not None
        self.started = True
        if self._on_delta is not None and delta != Delta():
            self._on_delta(delta)
        return True
