"""Calls written as a name, then the arguments as a JSON object: `NAME[ARGS]{...}`.

How the name, an id and what stands around them are spelled is data: `heads` are the spellings that are read before the
arguments, `ends` those behind them, `written` is how the family's template writes the whole body.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from daneel.formats.base import Tool
from daneel.formats.json_scan import WHITE, JsonScanner
from daneel.formats.lark import join, object_schema, quote
from daneel.formats.scan import Head, ScanError, ScannedCall, ScannedFailure
from daneel.formats.validate import ToolSet

MAX_HEAD = 1000
"""Characters before the arguments that are looked through for their beginning."""

_FENCE = "```"
_WHITE_RUN = r"[ \t\r\n]*+"
_NAME = r"[^\s{}<>\[\]()\"'`,|｜=]++"
_PLACE = re.compile(r"\{(name|id|arguments)\}")
_AFTER_NAME = re.compile(rf"{_WHITE_RUN}{_NAME}{_WHITE_RUN}([^\w\s]?+)")
_MAY_FOLLOW_NAME = "{[<(=\"'`|｜"
"""What stands behind a name where a call was meant, well or badly written; anything else makes it prose."""
_MAY_STAND_FOR_NAME = "{[<｜"
"""What stands where the name of a badly written call should."""


@dataclass(frozen=True, slots=True)
class NamedJsonGrammar:
    """A name, and the arguments as a JSON object.

    `written`: the body as the family writes it, with `{name}`, `{arguments}` and, where it has one, `{id}`.
    `heads`: what is read before the arguments, with `{name}` and `{id}`; white space is free at each seam. `head_repairs` names
    the repair that the head at its place is listed as; "" is an equal spelling.
    `reserved`: words that stand where a name could, but are none.
    `ends`: what is read behind the arguments, longest first; none at all is the repair `missing_end_marker`.
    `fence`: whether the arguments may stand in a code fence: if one is `written`, its absence is the repair `missing_fence`;
    if it is only `read`, its use is the repair `fenced_arguments`. One that is not closed is the repair `missing_fence_end`.
    `name_in_id`: for heads without `{name}`: a regular expression with a group `name` that matches the whole id. What else may
    precede the name there, `id_prefix`, does where the rest is the name of a declared tool: the repair `incomplete_id`.
    `tokens`: the markers in `written` that may be special tokens. `example_id`: stands for `{id}` where none is known, and
    `id_pattern` is what may be decoded in its place.
    """

    written: str
    heads: tuple[str, ...]
    head_repairs: tuple[str, ...] = ()
    reserved: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    fence: Literal["", "written", "read"] = ""
    name_in_id: str = ""
    id_prefix: str = ""
    tokens: tuple[str, ...] = ()
    example_id: str = "000000000"
    id_pattern: str = "[a-zA-Z0-9]{9}"
    key: str = "named-json"
    slack: str = "}"
    holds_several: bool = False
    joints: tuple[str, str, str] = ("", "", "")

    @property
    def expected_head(self) -> str:
        prefix = self.heads[0].split("{", 1)[0].strip(WHITE)
        return repr(prefix) if prefix else "a tool's name"

    def head(self, text: str, pos: int) -> Head:
        start = _behind_white(text, pos)
        rest = text[start : start + MAX_HEAD]
        answers = {_head(head, rest) for head in self.heads}
        return "yes" if "yes" in answers else "more" if "more" in answers else "no"

    def scanner(self, tools: ToolSet) -> NamedJsonScanner:
        return NamedJsonScanner(self, tools)

    def write(self, name: str, arguments: str) -> str:
        parts = {"name": name, "id": self.example_id, "arguments": arguments}
        return _PLACE.sub(lambda place: parts[place.group(1)], self.written)

    def write_several(self, calls: Sequence[tuple[str, str]]) -> str:
        raise ValueError("one body holds one call")

    def lark_body(
        self, tool: Tool, number: int, *, open_pad: str, close_pad: str, marker: Callable[[str], str]
    ) -> tuple[str, list[str]]:
        terms, text = [], open_pad
        pieces = re.split(
            "(" + "|".join([_PLACE.pattern.replace("(", "(?:"), *map(re.escape, self.tokens)]) + ")", self.written
        )
        for piece in pieces:
            special = {"{arguments}": f"arguments_{number}", "{id}": f"/{self.id_pattern}/"}.get(piece)
            special = marker(piece) if piece in self.tokens else special
            if special is None:
                text += tool.name if piece == "{name}" else piece
            else:
                terms += [quote(text) if text else "", special]
                text = ""
        terms.append(quote(text + close_pad) if text + close_pad else "")
        schema = json.dumps(object_schema(tool), ensure_ascii=False)
        return join(*terms), [f"arguments_{number}: %json {schema}"]


class NamedJsonScanner:
    """Scans one body. The head stays unread until the arguments begin: it is short, and means nothing before."""

    def __init__(self, grammar: NamedJsonGrammar, tools: ToolSet) -> None:
        self._grammar = grammar
        self._tools = tools
        self._json = JsonScanner()
        self._state = "head"
        self._offset = 0
        self._arguments = (0, 0)
        self._call_id: str | None = None
        self._may_close = bool(grammar.fence)
        self._fenced = False
        self._repairs: list[str] = []
        self.error: ScanError | None = None
        self.name: str | None = None

    @property
    def done(self) -> bool:
        return self._state == "done"

    @property
    def expected(self) -> str:
        if self._state == "head":
            return "the rest of the call's name and '{'"
        return self._json.expected if self._state == "arguments" else repr(self._grammar.ends[0].strip(WHITE))

    def feed(self, text: str, pos: int) -> int:
        base = self._offset - pos
        if self._state == "head":
            pos = self._head(text, pos)
        if self._state == "arguments":
            pos = self._json.feed(text, pos)
            start, error = self._arguments[0], self._json.error
            if error is not None:
                self.error = ScanError(error.message, error.offset + start)
            elif self._json.done:
                self._arguments = (start, base + pos)
                self._state = "end" if self._grammar.ends else "done"
        if self._state == "end":
            pos = self._end(text, pos)
        self._offset = base + pos
        return pos

    def finish(self) -> None:
        if self._state == "end":
            self._end_here()
            self._repairs.append("missing_end_marker")

    def _end_here(self) -> None:
        self._state = "done"
        if self._fenced and self._may_close and self._arguments[1]:
            self._repairs.append("missing_fence_end")

    def calls(self, body: str) -> list[ScannedCall | ScannedFailure]:
        start, end = self._arguments
        arguments = body[start:end] if end else None
        repairs = self._repairs if end else [*self._repairs, "no_arguments"]
        return [ScannedCall(self.name or "", arguments, self._offset, tuple(repairs), self._call_id)]

    def _head(self, text: str, pos: int) -> int:
        """Read the name once the arguments begin, or an end marker stands where they should."""
        limit = pos + MAX_HEAD
        found = _arguments_start(self._grammar.heads, self._grammar.ends).search(text, pos, limit)
        if found is None:
            if len(text) >= limit:
                self._fail(text, pos, limit)
            return pos
        at = found.start()
        for number, head in enumerate(self._grammar.heads):
            match = _pattern(head, bool(self._grammar.fence)).fullmatch(text, pos, at)
            if match is None or match.groupdict().get("name") in self._grammar.reserved:
                continue
            if not self._take_name(match.groupdict()):
                self.error = ScanError("the call's id holds no tool's name", self._offset + match.start("id") - pos)
                return pos
            if number < len(self._grammar.head_repairs) and self._grammar.head_repairs[number]:
                self._repairs.append(self._grammar.head_repairs[number])
            self._note_fence(match.groupdict().get("fence"))
            self._arguments = (self._offset + at - pos, 0)
            self._state = "arguments" if text[at] == "{" else "end"
            return at
        self._fail(text, pos, at)
        return pos

    def _take_name(self, groups: dict[str, str | None]) -> bool:
        self._call_id = groups.get("id")
        self.name = groups.get("name")
        if self.name is None and self._call_id is not None:
            match = re.fullmatch(self._grammar.name_in_id, self._call_id)
            alone = self._call_id.removeprefix(self._grammar.id_prefix)
            if match is not None:
                self.name = match["name"]
            elif self._tools.known and self._tools.declared(alone):
                self.name = alone
                self._repairs.append("incomplete_id")
        return self.name is not None

    def _note_fence(self, found: str | None) -> None:
        self._fenced = found is not None
        if self._grammar.fence == "written" and found is None:
            self._repairs.append("missing_fence")
        elif self._grammar.fence == "read" and found is not None:
            self._repairs.append("fenced_arguments")

    def _fail(self, text: str, pos: int, end: int) -> None:
        """No head fits: the error stands where the best of them stops fitting."""
        best, expected = -1, ""
        for head in self._grammar.heads:
            at, part = _progress(head, text, pos, end)
            if at > best:
                best, expected = at, part
        self.error = ScanError(f"expected {expected}", self._offset + best - pos)

    def _end(self, text: str, pos: int) -> int:
        """Behind the arguments: an end marker, or something else that ends the body as well."""
        at = _behind_white(text, pos)
        if self._may_close and text.startswith(_FENCE, at):
            self._may_close = False
            at = _behind_white(text, at + len(_FENCE))
        rest = text[at : at + MAX_HEAD]
        if self._may_close and _FENCE.startswith(rest):
            return at
        for end in self._grammar.ends:
            if rest.startswith(end.strip(WHITE)):
                self._end_here()
                return at + len(end.strip(WHITE))
            if end.strip(WHITE).startswith(rest):
                return at
        self.finish()
        return at


def _behind_white(text: str, pos: int) -> int:
    while pos < len(text) and text[pos] in WHITE:
        pos += 1
    return pos


def _head(head: str, rest: str) -> Head:
    """Whether `rest` begins as `head` does, with a name (or id) and something that makes it one."""
    prefix, _, behind_place = (part.strip(WHITE) for part in _PLACE.split(head, maxsplit=1))
    if not rest.startswith(prefix):
        return "more" if prefix.startswith(rest) else "no"
    rest = rest[len(prefix) :]
    found = _AFTER_NAME.match(rest)
    if found is None:
        behind = rest.lstrip(WHITE)[:1]
        return "more" if not behind else "yes" if prefix and behind in _MAY_STAND_FOR_NAME else "no"
    if found.end() == len(rest) and not found.group(1):
        return "more"
    return "yes" if found.group(1) and found.group(1) in _MAY_FOLLOW_NAME + behind_place[:1] else "no"


def _parts(head: str) -> list[tuple[str, str]]:
    """The parts of a head: pattern, and what it is in words."""
    parts: list[tuple[str, str]] = []
    for number, part in enumerate(_PLACE.split(head)):
        if number % 2:
            parts.append((f"(?P<{part}>{_NAME})", "a tool's name" if part == "name" else "the call's id"))
        elif part.strip(WHITE):
            parts.append((re.escape(part.strip(WHITE)), repr(part.strip(WHITE))))
    return parts


@lru_cache(maxsize=256)
def _pattern(head: str, fence: bool) -> re.Pattern[str]:
    parts = [pattern for pattern, _ in _parts(head)]
    # behind the opening fence its closing one, where there are no arguments
    around = f"(?:(?P<fence>{_FENCE}[A-Za-z]*+){_WHITE_RUN}(?:{_FENCE}{_WHITE_RUN})?)?" if fence else ""
    return re.compile(_WHITE_RUN + _WHITE_RUN.join(parts) + _WHITE_RUN + around)


@lru_cache(maxsize=256)
def _arguments_start(heads: tuple[str, ...], ends: tuple[str, ...]) -> re.Pattern[str]:
    markers = [end.strip(WHITE) for end in ends]
    return re.compile("|".join([r"\{", *(re.escape(end) for end in markers if not any(end in head for head in heads))]))


def _progress(head: str, text: str, pos: int, end: int) -> tuple[int, str]:
    """How far `head` fits, and what it wants there."""
    for pattern, words in _parts(head):
        match = re.compile(_WHITE_RUN + pattern).match(text, pos, end)
        if match is None:
            return min(_behind_white(text, pos), end), words
        pos = match.end()
    return min(_behind_white(text, pos), end), "'{'"
