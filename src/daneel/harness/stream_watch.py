"""Watches a reply while it streams, and ends the request when the model only repeats itself.

The exception goes through the client, which closes the connection and with it the server's work. What had come by then is
the turn's reply, with a finish reason of our own: it is on record like any other, and a stored run is rebuilt from it alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from daneel.harness.detectors.repeating_text import Repetition, RepetitionWatch, find_repetition
from daneel.harness.reply import Reply
from daneel.wire.messages import Delta, Message

REPETITION = "repetition"
"""The finish reason of a reply that the harness has cut off."""


class Repeating(Exception):
    """Raised from inside `on_delta`."""


class StreamWatch:
    """`on_delta` for the client; passes everything on to `forward`. With `stops` false it does nothing else."""

    def __init__(self, forward: Callable[[Any], object], *, stops: bool = True) -> None:
        self._forward = forward
        self._stops = stops
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._field: str | None = None
        self._watches = {"content": RepetitionWatch("content"), "reasoning": RepetitionWatch("reasoning")}

    def on_delta(self, delta: Delta) -> None:
        """Raises Repeating when the text so far only repeats itself."""
        self._forward(delta)
        if not self._stops:
            return
        thought = delta.reasoning or delta.reasoning_content
        if thought:
            self._field = "reasoning" if delta.reasoning else "reasoning_content"
            self._reasoning.append(thought)
            self._check("reasoning", thought)
        if delta.content:
            self._content.append(delta.content)
            self._check("content", delta.content)

    def _check(self, kind: str, piece: str) -> None:
        if self._watches[kind].feed(piece) is not None:
            raise Repeating

    def reply(self) -> Reply:
        """What had come before the request was ended."""
        message = Message("assistant", "".join(self._content) or None, "".join(self._reasoning) or None)
        notes = ["cut off by the harness: the text repeated itself"]
        return Reply(message, REPETITION, reasoning_field=self._field, notes=notes)


def repetition_in(message: Message) -> Repetition | None:
    """The repetition in a reply that was cut off; in its text, or else in its thoughts."""
    return find_repetition(message.content, "content") or find_repetition(message.reasoning, "reasoning")


def keep_prefix(message: Message, found: Repetition) -> None:
    """Cut the message behind what was said before it began to repeat, in place."""
    if found.kind == "content":
        message.content = (message.content or "")[: found.keep].rstrip() or None
    else:
        message.reasoning = (message.reasoning or "")[: found.keep].rstrip() or None
