"""What an argument grammar gives the splitter: an incremental scanner for the body of a call.

A scanner is fed the text behind the opening marker in pieces, looks at every character once, and finds the end of the body
by its grammar: the closing marker may stand inside a string.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from daneel.formats.base import Tool
from daneel.formats.validate import ToolSet

MAX_DEPTH = 100
"""Deepest nesting of objects and arrays that is read; deeper bodies are malformed (schema validators recurse)."""


@dataclass(frozen=True, slots=True)
class ScanError:
    """Why a body cannot be read. `offset` counts characters from the start of the body."""

    message: str
    offset: int


@dataclass(frozen=True, slots=True)
class ScannedCall:
    """A call found in a body. `arguments` is JSON text of an object, or `None` when the model wrote none.

    `end` is the offset in the body just behind it. `repairs` names what was put right.
    """

    name: str
    arguments: str | None
    end: int
    repairs: tuple[str, ...] = ()
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class ScannedFailure:
    """An item of a body that is well-formed but is no call."""

    name: str | None
    error: ScanError
    end: int


Head = Literal["yes", "no", "more"]
"""Whether text begins a body: `more` when it is too short to tell."""


class BodyScanner(Protocol):
    """Reads one body, which may hold several calls (a JSON array)."""

    @property
    def done(self) -> bool:
        """Whether the body is complete. What follows is the splitter's."""
        ...

    @property
    def error(self) -> ScanError | None: ...

    @property
    def name(self) -> str | None:
        """The call's name, as soon as it is known."""
        ...

    @property
    def expected(self) -> str:
        """What the grammar waits for, in words: for a body that breaks off."""
        ...

    def feed(self, text: str, pos: int) -> int:
        """Read from `pos`; returns where it stopped: the end of the text, of the body, or before the error.

        A few characters at the end of the text may be left unread (a delimiter's beginning): feed them again with more.
        """
        ...

    def finish(self) -> None:
        """No more text will come. A body that lacks only an end of its own becomes `done` (a repair)."""
        ...

    def calls(self, body: str) -> list[ScannedCall | ScannedFailure]:
        """The calls of a complete body. `body` is the text that was fed, up to its end."""
        ...


@runtime_checkable
class KeepsCalls(Protocol):
    """A scanner of bodies that may hold several calls: those before the place where one breaks are whole."""

    def calls_so_far(self, body: str) -> list[ScannedCall | ScannedFailure]:
        """What is complete, whatever becomes of the body."""
        ...


@runtime_checkable
class FindsCalls(Protocol):
    """A scanner of bodies that may hold several calls: those behind the one that is broken may be whole as well."""

    def calls_behind(self, body: str) -> tuple[int, list[ScannedCall | ScannedFailure]] | None:
        """Of a broken body, given up to its end: where the calls behind the broken one begin, and those, up to the body's end.

        `None` unless everything from there on is as it should be.
        """
        ...


@runtime_checkable
class MayHoldNone(Protocol):
    """A scanner of bodies that are lists of calls: one may be empty, and is then as two markers around nothing."""

    def holds_none(self) -> bool: ...


@runtime_checkable
class JoinsCalls(Protocol):
    """An argument grammar that, where it `holds_several`, says what stands before, between and behind the calls of one body.

    Its `lark_body` is then one call without that.
    """

    @property
    def joints(self) -> tuple[str, str, str]: ...


class ArgumentGrammar(Protocol):
    """A way to write calls between their markers. Implementations are frozen and hashable: they are part of a family's row."""

    @property
    def key(self) -> str:
        """A short name, for people."""
        ...

    @property
    def slack(self) -> str:
        """Characters besides white space that may stand between a complete body and its closing marker (a repair)."""
        ...

    @property
    def expected_head(self) -> str:
        """What a body begins with, in words."""
        ...

    @property
    def holds_several(self) -> bool:
        """Whether one body is how the family writes several calls (an array): then `write_several` writes it."""
        ...

    def head(self, text: str, pos: int) -> Head:
        """Whether a body begins at `pos`, white space apart."""
        ...

    def scanner(self, tools: ToolSet) -> BodyScanner:
        """A scanner for one body. Grammars whose values have no types on the wire take them from the tools' schemas."""
        ...

    def write(self, name: str, arguments: str) -> str:
        """The body of a call as the family writes it. `arguments` is JSON text of an object."""
        ...

    def write_several(self, calls: Sequence[tuple[str, str]]) -> str:
        """One body that holds these calls, each with its arguments as JSON text. `ValueError` unless `holds_several`."""
        ...

    def lark_body(
        self, tool: Tool, number: int, *, open_pad: str, close_pad: str, marker: Callable[[str], str]
    ) -> tuple[str, list[str]]:
        """The body of a call to `tool` as a Lark expression, pads included, and the rules it needs (their names end in
        `_{number}`). `marker(text)` writes a marker as the tokenizer needs it. `ValueError` if there is no decoding grammar.
        """
        ...
