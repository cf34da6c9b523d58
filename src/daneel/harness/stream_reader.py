"""From the bytes of a stream to deltas, with an eye on what counts as progress and as the end. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from daneel.harness.client_errors import BadReply
from daneel.harness.progress import CommentProgress
from daneel.wire.accumulate import Accumulator
from daneel.wire.error_body import PeerError, read_error
from daneel.wire.lenient_json import decode_lines
from daneel.wire.messages import Delta
from daneel.wire.sse import Decoder, Event, EventTooLarge


class StreamReader:
    """Feeds a stream's bytes to an accumulator and tells `on_delta` of new text.

    `started`: a token has come. `done`: `[DONE]` was seen; what follows it is not read.
    """

    def __init__(self, read: Accumulator, on_delta: Callable[[Delta], object] | None) -> None:
        self.read = read
        self.started = False
        self.done = False
        self._on_delta = on_delta
        self._decoder = Decoder()
        self._comments = CommentProgress()

    def feed(self, piece: bytes) -> bool:
        """Take the next bytes. True if they brought progress: text, a piece of a call, a finish reason, a moved counter."""
        try:
            events = self._decoder.feed(piece)
        except EventTooLarge as error:
            raise BadReply(str(error), partial=self.read.message()) from None
        return self._take(events)

    def finish(self) -> None:
        """The bytes have ended: the last event may lack its blank line. Then tell `on_delta` of the calls."""
        if not self.done:
            self._take(self._decoder.finish())
        if self.read.error is None:
            last = self.read.final_delta()
            if self._on_delta is not None and last != Delta():
                self._on_delta(last)

    def _take(self, events: list[Event]) -> bool:
        progressed = False
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
                raise BadReply(f"a stream event is not JSON: {event.text[:200]!r}", partial=self.read.message()) from None
            self.read.error = PeerError(event.text[:2000])
            return True
        progressed = False
        for payload in payloads:
            progressed = self._payload(payload, event) or progressed
        return progressed

    def _payload(self, payload: Any, event: Event) -> bool:
        delta = self.read.add(payload)
        if event.name == "error" and self.read.error is None:
            # an error frame of a shape of its own
            self.read.error = read_error(event.text.encode("utf-8", "replace"))
        if delta is None:
            return self.read.error is not None
        self.started = True
        if self._on_delta is not None and delta != Delta():
            self._on_delta(delta)
        return True
