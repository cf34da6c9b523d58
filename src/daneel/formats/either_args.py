"""Calls that are written in one of two ways between the same markers, told apart by how they begin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from daneel.formats.base import Tool
from daneel.formats.scan import (
    ArgumentGrammar,
    BodyScanner,
    FindsCalls,
    Head,
    JoinsCalls,
    KeepsCalls,
    MayHoldNone,
    ScanError,
    ScannedCall,
    ScannedFailure,
)
from daneel.formats.validate import ToolSet

MAX_HEAD = 256
"""Characters within which it must show which of the two it is."""


@dataclass(frozen=True, slots=True)
class EitherGrammar:
    """Reads both, writes the first."""

    written: ArgumentGrammar
    other: ArgumentGrammar

    @property
    def key(self) -> str:
        return self.written.key

    @property
    def slack(self) -> str:
        return self.written.slack

    @property
    def expected_head(self) -> str:
        return f"{self.written.expected_head} or {self.other.expected_head}"

    @property
    def holds_several(self) -> bool:
        return self.written.holds_several

    @property
    def joints(self) -> tuple[str, str, str]:
        return self.written.joints if isinstance(self.written, JoinsCalls) else ("", "", "")

    def head(self, text: str, pos: int) -> Head:
        first, second = self.written.head(text, pos), self.other.head(text, pos)
        return "yes" if "yes" in (first, second) else "more" if "more" in (first, second) else "no"

    def scanner(self, tools: ToolSet) -> EitherScanner:
        return EitherScanner(self, tools)

    def write(self, name: str, arguments: str) -> str:
        return self.written.write(name, arguments)

    def write_several(self, calls: Sequence[tuple[str, str]]) -> str:
        return self.written.write_several(calls)

    def lark_body(
        self, tool: Tool, number: int, *, open_pad: str, close_pad: str, marker: Callable[[str], str]
    ) -> tuple[str, list[str]]:
        return self.written.lark_body(tool, number, open_pad=open_pad, close_pad=close_pad, marker=marker)


class EitherScanner:
    """Scans one body with the grammar whose beginning it has. Until that shows, nothing is read."""

    def __init__(self, grammar: EitherGrammar, tools: ToolSet) -> None:
        self._grammar = grammar
        self._tools = tools
        self._chosen: BodyScanner | None = None

    @property
    def done(self) -> bool:
        return self._chosen is not None and self._chosen.done

    @property
    def error(self) -> ScanError | None:
        return self._chosen.error if self._chosen is not None else None

    @property
    def name(self) -> str | None:
        return self._chosen.name if self._chosen is not None else None

    @property
    def expected(self) -> str:
        return self._chosen.expected if self._chosen is not None else self._grammar.expected_head

    def feed(self, text: str, pos: int) -> int:
        if self._chosen is None:
            for grammar in (self._grammar.written, self._grammar.other):
                head = grammar.head(text, pos)
                if head == "more" and len(text) - pos <= MAX_HEAD:
                    break  # the second may fit already, but the first is asked first
                if head == "yes":
                    self._chosen = grammar.scanner(self._tools)
                    break
        return pos if self._chosen is None else self._chosen.feed(text, pos)

    def finish(self) -> None:
        if self._chosen is not None:
            self._chosen.finish()

    def calls(self, body: str) -> list[ScannedCall | ScannedFailure]:
        return self._chosen.calls(body) if self._chosen is not None else []

    def holds_none(self) -> bool:
        return self._chosen.holds_none() if isinstance(self._chosen, MayHoldNone) else False

    def calls_so_far(self, body: str) -> list[ScannedCall | ScannedFailure]:
        """What is complete, whatever becomes of the body."""
        return self._chosen.calls_so_far(body) if isinstance(self._chosen, KeepsCalls) else []

    def calls_behind(self, body: str) -> tuple[int, list[ScannedCall | ScannedFailure]] | None:
        return self._chosen.calls_behind(body) if isinstance(self._chosen, FindsCalls) else None
