"""Finding a family's markers in text that comes in pieces."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from daneel.formats.syntax import CallSyntax, ReasoningSyntax

Role = Literal["call_open", "call_close", "body_open", "body_close", "think_open", "think_close", "control", "line_start"]

_LINE_START = r"\n[ \t]*(?=[`{\[])"


class MarkerSet:
    """Some markers with their roles, found by one regular expression.

    `line_starts`: also report a line that begins with a fence or a bracket, where a call without markers may stand.
    """

    def __init__(self, roles: dict[str, Role], *, line_starts: bool = False) -> None:
        self._roles = roles
        parts = [re.escape(marker) for marker in sorted(roles, key=len, reverse=True)]
        self._pattern = re.compile("|".join([*parts, _LINE_START] if line_starts else parts) or r"(?!)")
        self._prefixes = frozenset(marker[:size] for marker in roles for size in range(1, len(marker)))
        self.max_size = max((len(marker) for marker in roles), default=0)

    def search(self, text: str, pos: int, limit: int = sys.maxsize, *, final: bool = True) -> tuple[int, int, Role] | None:
        """The first marker from `pos` on, and before `limit`: start, end, role.

        Unless `final`, a marker that may yet become a longer one, or the end of one, is none: it is `partial`.
        """
        match = self._pattern.search(text, pos, limit)
        if match is None or not (final or limit < len(text) or self._is_whole(match.start(), text, pos)):
            return None
        return match.start(), match.end(), self._roles.get(match.group(), "line_start")

    def match(self, text: str, pos: int, *, final: bool = True) -> tuple[int, int, Role] | None:
        """The marker that stands at `pos`; `final` as for `search`."""
        match = self._pattern.match(text, pos)
        if match is None or not (final or self._is_whole(pos, text, pos)):
            return None
        return match.start(), match.end(), self._roles.get(match.group(), "line_start")

    def _is_whole(self, start: int, text: str, pos: int) -> bool:
        """Whether what was found at `start` lies before any marker that the end of the text may begin."""
        near_end = len(text) - start < self.max_size
        return not near_end or start < len(text) - self.partial(text, pos)

    def partial(self, text: str, pos: int) -> int:
        """How many characters at the end of `text`, from `pos` on, may begin a marker."""
        for size in range(min(len(text) - pos, self.max_size - 1), 0, -1):
            if text[-size:] in self._prefixes:
                return size
        return 0


@dataclass(frozen=True, slots=True)
class Markers:
    """A family's markers, by the state in which each matters.

    `content`, `inside` (a shared pair of call markers is still open) and `held` (a call stood inside reasoning): in content;
    the second of each pair also reports line starts. `call_ends` and, inside reasoning, `held_ends`: what ends a broken call.
    """

    call: CallSyntax
    reasoning: ReasoningSyntax | None
    content: tuple[MarkerSet, MarkerSet]
    inside: tuple[MarkerSet, MarkerSet]
    held: tuple[MarkerSet, MarkerSet]
    thinking: MarkerSet
    call_ends: MarkerSet
    held_ends: MarkerSet

    @staticmethod
    @lru_cache(maxsize=512)
    def of(call: CallSyntax, reasoning: ReasoningSyntax | None, controls: tuple[str, ...]) -> Markers:
        """The sets of one family; they are compiled once."""
        control: dict[str, Role] = dict.fromkeys(controls, "control")
        openers: dict[str, Role] = dict.fromkeys(call.opens, "call_open")
        closers: dict[str, Role] = dict.fromkeys(call.closes, "call_close")
        bodies: dict[str, Role] = dict.fromkeys(call.body_opens, "body_open")
        for marker in call.body_closes:
            closers[marker] = "body_close"
        ends = control | bodies | openers | closers
        content, thinking = control | openers | closers, dict(control)
        close: dict[str, Role] = {}
        if call.body_opens_anywhere:
            content = bodies | content
            thinking |= bodies
        if reasoning is not None:
            opener: dict[str, Role] = dict.fromkeys(reasoning.opens, "think_open")
            close = dict.fromkeys(reasoning.closes, "think_close")
            if reasoning.anywhere:
                content |= opener
            if reasoning.stray_close == "control":
                content |= close
            thinking |= opener | close | openers
            if call.stray_close == "control":
                thinking |= closers
        return Markers(
            call=call,
            reasoning=reasoning,
            content=(MarkerSet(content), MarkerSet(content, line_starts=True)),
            inside=(MarkerSet(bodies | content), MarkerSet(bodies | content, line_starts=True)),
            held=(MarkerSet(bodies | content | close), MarkerSet(bodies | content | close, line_starts=True)),
            thinking=MarkerSet(thinking),
            call_ends=MarkerSet(ends),
            held_ends=MarkerSet(ends | close),
        )


def starts_with_any(text: str, pos: int, markers: Iterable[str]) -> bool:
    """Whether the text from `pos` to its end is the beginning of one of the markers (and not yet the whole)."""
    rest = text[pos:]
    return any(len(rest) < len(marker) and marker.startswith(rest) for marker in markers)
