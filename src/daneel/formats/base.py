"""What every format gives: events that partition the generated text.

A *format* is how a model family writes reasoning, calls and results, as text. Its parser takes the generated text in
pieces of any size and yields events; the spans of the events partition the text, in order, without gap or overlap, whatever
the text is: that is the conservation promise of `docs/wire.md`, and it holds here first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

SpanKind = Literal["reasoning", "content", "tool", "failed", "control"]


@dataclass(frozen=True, slots=True)
class Span:
    """`kind` of the characters `start` to `end` (half-open) of the generated text."""

    kind: SpanKind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TextEvent:
    """Reasoning or content, as the client sees it. `text` may be empty of what the span holds (trimmed white space)."""

    kind: Literal["reasoning", "content"]
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class ControlEvent:
    """A marker that is no part of a call: an opened or closed thought, a turn's end."""

    span: Span


@dataclass(frozen=True, slots=True)
class CallEvent:
    """A call that could be read. `arguments` is JSON text of an object. `raw` is what the model wrote, markers included.

    `repair` names the repair that made it readable, or is `None`. `call_id` is an id the model wrote itself, if it did.
    `span` is its characters, of kind `tool`.
    """

    name: str
    arguments: str
    raw: str
    span: Span
    repair: str | None = None
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class FailedCallEvent:
    """A call that could not be read. `offset` counts characters into `raw`."""

    name: str | None
    raw: str
    error_type: Literal["malformed", "truncated"]
    message: str
    offset: int
    span: Span


@dataclass(frozen=True, slots=True)
class CallProgressEvent:
    """A call is being written: its name once known, and how many characters so far. Has no span; the call's event will."""

    name: str | None
    num_chars: int


Event = TextEvent | ControlEvent | CallEvent | FailedCallEvent | CallProgressEvent


@dataclass(frozen=True, slots=True)
class Issue:
    """What is wrong with a call that can be read. `path` is a JSON pointer into the arguments ("" = the whole)."""

    type: Literal["unknown_tool", "invalid_arguments"]
    message: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A declared tool. `parameters` is its JSON Schema (an object schema; `{}` of properties when it takes none)."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: bool = False


class Parser(Protocol):
    """Streams one generation. Feed pieces of any size, then finish once. Joined events do not depend on the cuts.

    "Do not depend" means: after merging neighbouring text events of one kind, every chunking yields the same events
    (progress events apart).
    """

    def feed(self, text: str) -> list[Event]: ...

    def finish(self, *, truncated: bool) -> list[Event]:
        """End of the text. `truncated`: the length limit ended it, not the model.

        A call that the end cuts off is `truncated` either way; with `truncated`, so is what can only be the beginning of one.
        """
        ...
