"""A format of one's own: a class with one method, in a Python file that `--format-file` names.

The method is shown the text that is not yet read, and gives its first piece. daneel makes events of the pieces, so whatever the
method does, no character is lost: what it does not read is content.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from daneel.formats.base import CallEvent, ControlEvent, Event, FailedCallEvent, Parser, Span, SpanKind, TextEvent, Tool
from daneel.formats.family import Family
from daneel.formats.validate import ToolSet

WINDOW_CHARS = 4096
"""So much text is shown at first; twice as much when that is not enough for a piece, and so on."""


@dataclass(frozen=True)
class Content:
    """The first `length` characters are text for the user."""

    length: int


@dataclass(frozen=True)
class Reasoning:
    """The first `length` characters are a thought."""

    length: int


@dataclass(frozen=True)
class Control:
    """The first `length` characters are a marker, and no text for anybody."""

    length: int


@dataclass(frozen=True)
class Call:
    """The first `length` characters are a call. `arguments`: an object, or the JSON text of one.

    An empty name, or text that is not JSON of an object, makes it a failed call: neither need be checked before.
    """

    length: int
    name: str
    arguments: str | Mapping[str, Any]
    id: str | None = None


@dataclass(frozen=True)
class Failed:
    """The first `length` characters are a call that cannot be read: why, and at which of them."""

    length: int
    message: str
    offset: int = 0
    name: str | None = None


Piece = Content | Reasoning | Control | Call | Failed


class UserFormat:
    """Subclass it and write `read`. One object is made for each reply.

    `prompt` is the prompt as rendered: it may have opened a thought. `tools` are those the request declares.
    """

    def __init__(self, prompt: str = "", tools: Sequence[Tool] = ()) -> None:
        self.prompt = prompt
        self.tools = tools

    def read(self, text: str, final: bool) -> Piece | None:
        """The first piece of `text`, or `None` to be asked again with more of it. `final`: there will be no more."""
        raise NotImplementedError(f"{type(self).__name__} has no method read(text, final)")


def _ignore(_problem: str) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class UserFamily(Family):
    """A family whose output is read by a user's format, and that is as its row says in everything else.

    `on_problem` is told, in one sentence, when the format fails; the text from there on is content.
    """

    user_format: type[UserFormat] = UserFormat
    on_problem: Callable[[str], None] = field(default=_ignore)

    @classmethod
    def of(cls, row: Family, user_format: type[UserFormat], name: str, on_problem: Callable[[str], None]) -> UserFamily:
        """`row` with a user's format in place of its own, under the name of that."""
        kept = {item.name: getattr(row, item.name) for item in fields(Family)}
        return cls(**{**kept, "name": name, "variant": ""}, user_format=user_format, on_problem=on_problem)

    def parser(
        self,
        tools: Sequence[Tool] | ToolSet | None = None,
        *,
        prompt: str = "",
        starts_in_reasoning: bool | None = None,
        rescue: bool = True,
    ) -> Parser:
        """A parser for one generation. What the prompt has opened is the user's format to find out."""
        declared = tools.tools if isinstance(tools, ToolSet) else tuple(tools or ())
        return UserParser(lambda: self.user_format(prompt, declared), self.on_problem)

    def call_grammar(self, tools: Sequence[Tool], **_wanted: Any) -> str:
        """There is none: only the file knows how calls are written."""
        raise ValueError(f"the format {self.name} comes from a file and has no decoding grammar")


class UserParser:
    """Implements `base.Parser` around a user's format."""

    def __init__(self, make: Callable[[], UserFormat], on_problem: Callable[[str], None]) -> None:
        self._on_problem = on_problem
        self._format: UserFormat | None = None
        self._new: list[str] = []
        self._num_new = 0
        self._text = ""
        self._pos = 0
        self._offset = 0  # of the text's first character in the generation
        self._ask_at = 0
        self._final = False
        try:
            self._format = make()
        except Exception as error:  # noqa: BLE001 - the user's own code may raise anything
            self._fail(f"it cannot be made: {type(error).__name__}: {error}")

    def feed(self, text: str) -> list[Event]:
        """What can be told so far."""
        self._new.append(text)
        self._num_new += len(text)
        # asked again only when there is an eighth more: constant work per character, however long a call is
        return self._read() if len(self._text) - self._pos + self._num_new >= self._ask_at else []

    def finish(self, *, truncated: bool) -> list[Event]:
        """End of the text."""
        self._final = True
        return self._read()

    def _read(self) -> list[Event]:
        self._offset += self._pos
        self._text = "".join((self._text[self._pos :], *self._new))
        self._new, self._num_new, self._pos, self._ask_at = [], 0, 0, 0
        events: list[Event] = []
        window = WINDOW_CHARS
        while self._pos < len(self._text):
            shown = self._text[self._pos : self._pos + window]
            whole = len(shown) == len(self._text) - self._pos
            piece = self._ask(shown, final=self._final and whole)
            if piece is not None:
                events.append(self._event(piece))
                self._pos += piece.length
                window = WINDOW_CHARS
            elif not whole:
                window *= 2
            elif self._final:
                events.append(self._event(Content(len(shown))))
                self._pos = len(self._text)
            else:
                self._ask_at = len(shown) + max(1, len(shown) // 8)
                break
        return events

    def _ask(self, text: str, *, final: bool) -> Piece | None:
        """The format's piece, if it is one; after a failure, all of the text is content."""
        if self._format is not None:
            try:
                piece = self._format.read(text, final)
            except Exception as error:  # noqa: BLE001 - the user's own code may raise anything
                self._fail(f"read() raised {type(error).__name__}: {error}")
                return Content(len(text))
            problem = _problem(piece, len(text))
            if problem is None:
                return piece
            self._fail(f"read() gave {_shown(piece)}: {problem}")
        return Content(len(text))

    def _fail(self, problem: str) -> None:
        self._format = None
        self._on_problem(f"the format file fails, so the rest of this reply is content: {problem}")

    def _event(self, piece: Piece) -> Event:
        raw = self._text[self._pos : self._pos + piece.length]
        start = self._offset + self._pos
        match piece:
            case Content():
                return TextEvent("content", raw, _span("content", start, raw))
            case Reasoning():
                return TextEvent("reasoning", raw, _span("reasoning", start, raw))
            case Control():
                return ControlEvent(_span("control", start, raw))
            case Failed():
                return self._failed(piece.name, raw, piece.message, piece.offset, start)
        if not piece.name:
            return self._failed(None, raw, "the call has no name", 0, start)
        if not isinstance(piece.arguments, str):
            return CallEvent(piece.name, _dumps(piece.arguments), raw, _span("tool", start, raw), call_id=piece.id)
        try:
            arguments = json.loads(piece.arguments, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            at = getattr(error, "pos", 0) + max(0, raw.find(piece.arguments))
            return self._failed(piece.name, raw, f"the arguments are not JSON: {error}", at, start)
        if not isinstance(arguments, dict):
            at = max(0, raw.find(piece.arguments))
            return self._failed(piece.name, raw, "the arguments must be an object", at, start)
        return CallEvent(piece.name, piece.arguments, raw, _span("tool", start, raw), call_id=piece.id)

    def _failed(self, name: str | None, raw: str, message: str, offset: int, start: int) -> FailedCallEvent:
        ends_the_text = self._final and self._pos + len(raw) == len(self._text)
        kind = "truncated" if ends_the_text and offset >= len(raw) else "malformed"
        return FailedCallEvent(name, raw, kind, message, min(offset, len(raw)), _span("failed", start, raw))  # type: ignore[arg-type]


def _problem(piece: Any, num_chars: int) -> str | None:
    """Why `piece` is none of a text of `num_chars`; `None` if it is one, or says that more text is needed."""
    if piece is None:
        return None
    if not isinstance(piece, Piece):
        return "it must give Content, Reasoning, Control, Call, Failed or None"
    length: Any = piece.length
    if isinstance(length, bool) or not isinstance(length, int) or not 0 < length <= num_chars:
        return f"its length must be from 1 to {num_chars}, what it was shown"
    if isinstance(piece, Failed):
        message, offset = vars(piece)["message"], vars(piece)["offset"]
        sound = isinstance(message, str) and isinstance(offset, int) and offset >= 0
        return None if sound else "message must be text, offset a number from 0"
    return _call_problem(piece) if isinstance(piece, Call) else None


def _call_problem(call: Any) -> str | None:
    if not isinstance(call.name, str):
        return "the call's name must be text"
    if isinstance(call.arguments, str):
        return None
    try:
        return None if isinstance(call.arguments, Mapping) and _dumps(call.arguments) else "arguments must be an object"
    except (TypeError, ValueError, RecursionError) as error:
        return f"the arguments cannot be written as JSON: {error}"


def _span(kind: SpanKind, start: int, raw: str) -> Span:
    return Span(kind, start, start + len(raw))


def _dumps(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), ensure_ascii=False, allow_nan=False)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
