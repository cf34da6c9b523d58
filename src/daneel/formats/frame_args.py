"""Bodies of calls whose name stands in the frame's header: the arguments as a JSON object, alone or beside the name.

Sources: the chat templates of openai/gpt-oss-120b and meetkai/functionary-medium-v3.2 (the arguments alone), and Inkling's
messages, whose bodies are `{"name": N, "args": {...}}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from daneel.formats.base import Tool
from daneel.formats.json_args import JsonCallScanner
from daneel.formats.json_scan import WHITE, JsonScanner, scan_object
from daneel.formats.lark import join, object_schema, quote
from daneel.formats.scan import BodyScanner, Head, ScanError, ScannedCall, ScannedFailure
from daneel.formats.validate import ToolSet

_PLACE = re.compile(r"\{(name|quoted_name|arguments)\}")


class ArgumentsScanner(JsonScanner):
    """Scans one JSON object, or a string that holds one: the arguments of the call named `name`."""

    def __init__(self, name: str | None) -> None:
        super().__init__()
        self.name = name
        self._begun = False
        self._text: str | None = None

    @property
    def expected(self) -> str:
        return super().expected if self._begun else "'{'"

    def feed(self, text: str, pos: int) -> int:
        if not self._begun:
            start = pos
            while pos < len(text) and text[pos] in WHITE:
                pos += 1
            self.offset += pos - start
            if pos == len(text):
                return pos
            if text[pos] not in '{"':
                self._fail("expected '{'", self.offset)
                return pos
            self._begun = True
        return super().feed(text, pos)

    def on_value(self, depth: int, start: int, end: int, kind: str, text: str | None) -> None:
        if depth == 0 and kind == '"':
            self._text = text

    def finish(self) -> None:
        """An object without its last bracket is not complete."""

    def calls(self, body: str) -> list[ScannedCall | ScannedFailure]:
        if not self.name:
            return [ScannedFailure(None, ScanError("the header names no tool", 0), self.offset)]
        if self._text is None:
            return [ScannedCall(self.name, body[: self.offset].strip(WHITE), self.offset)]
        try:
            text = str(json.loads(self._text))
            text.encode()
        except ValueError:  # half of a surrogate pair
            return [ScannedFailure(self.name, ScanError("not text", 0), self.offset)]
        problem = scan_object(text)
        if problem is not None:
            message = f"expected an object; the string given holds none ({problem.message})"
            return [ScannedFailure(self.name, ScanError(message, 0), self.offset)]
        return [ScannedCall(self.name, text.strip(WHITE), self.offset, ("string_arguments",))]


class NamedObjectScanner(JsonCallScanner):
    """Scans `{"name": N, "args": {...}}`. `recipient`, the name in the header, must be the same if there is one."""

    def __init__(self, recipient: str | None) -> None:
        super().__init__()
        self._recipient = recipient

    def on_key(self, depth: int, key: str, start: int) -> None:
        if key in ("args", "arguments") and self._is_member(depth):
            if self._open is not None and "arguments" in self._open.members:
                self._fail("both 'args' and 'arguments' are given", start)
                return
            key = "arguments"
        super().on_key(depth, key, start)

    def calls(self, body: str) -> list[ScannedCall | ScannedFailure]:
        return [self._checked(item) for item in super().calls(body)]

    def _checked(self, item: ScannedCall | ScannedFailure) -> ScannedCall | ScannedFailure:
        if isinstance(item, ScannedFailure) or self._recipient in (None, item.name):
            return item
        error = ScanError(f"the header names {self._recipient!r}, the call {item.name!r}", 0)
        return ScannedFailure(item.name, error, item.end)


@dataclass(frozen=True, slots=True)
class FrameJsonGrammar:
    """`written`: a call's frame behind `start` and `role`, up to the end of the body, with `{name}`, `{quoted_name}` and
    `{arguments}`. `named`: the body is an object that holds name and arguments. `tokens`: the markers in `written` that may be
    special tokens.
    """

    written: str
    named: bool = False
    tokens: tuple[str, ...] = ()
    key: str = "frame-json"
    slack: str = "}"
    expected_head: str = "'{'"
    holds_several: bool = False
    ends_itself: bool = False

    @property
    def needs_body(self) -> bool:
        """Whether a frame without a body is no call, though its header names a tool."""
        return self.named

    def head(self, text: str, pos: int) -> Head:
        while pos < len(text) and text[pos] in WHITE:
            pos += 1
        if pos == len(text):
            return "more"
        return "yes" if text[pos] == "{" else "no"

    def scanner(self, tools: ToolSet) -> BodyScanner:
        return self.frame_scanner(None, tools)

    def frame_scanner(self, name: str | None, tools: ToolSet) -> BodyScanner:
        return NamedObjectScanner(name) if self.named else ArgumentsScanner(name)

    def write(self, name: str, arguments: str) -> str:
        parts = {"name": name, "quoted_name": json.dumps(name, ensure_ascii=False), "arguments": arguments}
        return _PLACE.sub(lambda place: parts[place.group(1)], self.written)

    def write_several(self, calls: Sequence[tuple[str, str]]) -> str:
        raise ValueError("one frame holds one call")

    def lark_body(
        self, tool: Tool, number: int, *, open_pad: str, close_pad: str, marker: Callable[[str], str]
    ) -> tuple[str, list[str]]:
        written = self.written.replace("{name}", tool.name).replace("{quoted_name}", quote(tool.name))
        terms: list[str] = []
        places = "|".join(map(re.escape, ("{arguments}", *self.tokens)))
        for piece in re.split(f"({places})", open_pad + written + close_pad):
            if piece == "{arguments}":
                terms.append(f"arguments_{number}")
            elif piece:
                terms.append(marker(piece) if piece in self.tokens else quote(piece))
        schema = json.dumps(object_schema(tool), ensure_ascii=False)
        return join(*terms), [f"arguments_{number}: %json {schema}"]
