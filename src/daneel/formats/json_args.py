"""Calls written as JSON objects: `{"name": N, "arguments": {...}}`, alone or in an array.

Accepted besides: any order of the keys, `parameters` for `arguments`, arguments given as a string that holds an object, an
`id`, and other keys beside these. Each of those is a repair, listed by name; nothing else is put right. The arguments are the
model's own text: numbers and white space stay as written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from daneel.formats.base import Tool
from daneel.formats.json_scan import WHITE, JsonScanner, scan_object
from daneel.formats.lark import join, object_schema, quote
from daneel.formats.scan import Head, ScanError, ScannedCall, ScannedFailure
from daneel.formats.validate import ToolSet

ARGUMENT_KEYS = ("arguments", "parameters")
_QUIET_KEYS = {"name", "arguments", "id", "type"}


@dataclass(slots=True)
class Member:
    """One key of a call object: where its value lies in the body, its first character, and its text if it is a string."""

    key: str
    key_start: int
    start: int
    end: int
    kind: str
    text: str | None


@dataclass(slots=True)
class CallObject:
    start: int
    end: int = 0
    members: dict[str, Member] = field(default_factory=dict)


class JsonCallScanner(JsonScanner):
    """Scans an object, or an array of objects, and notes the members of each object."""

    def __init__(self) -> None:
        super().__init__(track_depth=2)
        self.objects: list[CallObject] = []
        self.is_array = False
        self._open: CallObject | None = None
        self._key = ("", 0)
        self.name: str | None = None

    def on_key(self, depth: int, key: str, start: int) -> None:
        if not self._is_member(depth):
            return
        self.track_depth = depth  # strings inside the arguments need not be kept
        if self._open is None:
            self._open = CallObject(self._starts[depth - 1])
        self._key = (key, start)

    def on_value(self, depth: int, start: int, end: int, kind: str, text: str | None) -> None:
        if self._is_member(depth) and self._open is not None:
            key, key_start = self._key
            self._open.members[key] = Member(key, key_start, start, end, kind, text)
            if key == "name" and kind == '"' and text is not None:
                self.name = str(json.loads(text))
        elif depth == 0 and kind == "[":
            self.is_array = True
        elif kind == "{" and (depth == 0 or (depth == 1 and self._closers[0] == "]")):
            call = self._open or CallObject(start)
            call.end, self._open = end, None
            self.objects.append(call)
        elif depth == 1 and self._closers[0] == "]":
            self._fail("expected an object with 'name' and 'arguments'", start)

    def _is_member(self, depth: int) -> bool:
        return (depth == 1 and self._closers[0] == "}") or (depth == 2 and self._closers[0] == "]" and self._closers[1] == "}")

    def finish(self) -> None:
        """An object without its last bracket is not complete."""

    def calls(self, body: str) -> list[ScannedCall | ScannedFailure]:
        if not self.objects:
            return [ScannedFailure(None, ScanError("the array holds no call", 0), self.offset)]
        return [_read(item, body, is_array=self.is_array) for item in self.objects]


def _read(item: CallObject, body: str, *, is_array: bool) -> ScannedCall | ScannedFailure:
    repairs: list[str] = ["array_body"] if is_array else []
    name = _name_of(item)
    if isinstance(name, ScanError):
        return ScannedFailure(None, name, item.end)
    given = [item.members[key] for key in ARGUMENT_KEYS if key in item.members]
    if len(given) > 1:
        error = ScanError("both 'arguments' and 'parameters' are given", given[1].key_start)
        return ScannedFailure(name, error, item.end)
    others = [member for key, member in item.members.items() if key not in (*_QUIET_KEYS, "parameters")]
    call_id = _string_of(item.members.get("id"))
    if not given or given[0].text == "null":
        if others:
            return ScannedFailure(name, ScanError("expected the key 'arguments'", others[0].key_start), item.end)
        return ScannedCall(name, None, item.end, (*repairs, "no_arguments"), call_id)
    arguments = _arguments_of(given[0], body)
    if isinstance(arguments, ScanError):
        return ScannedFailure(name, arguments, item.end)
    if given[0].key == "parameters":
        repairs.append("parameters_key")
    if given[0].kind == '"':
        repairs.append("string_arguments")
    if others:
        repairs.append("extra_keys")
    return ScannedCall(name, arguments, item.end, tuple(repairs), call_id)


def _name_of(item: CallObject) -> str | ScanError:
    member = item.members.get("name")
    if member is None:
        return ScanError("expected the key 'name'", item.end - 1)
    name = _string_of(member)
    if name is None:
        return ScanError("expected a string as 'name'", member.start)
    return name or ScanError("'name' is empty", member.start)


def _string_of(member: Member | None) -> str | None:
    if member is None or member.kind != '"' or member.text is None:
        return None
    text = str(json.loads(member.text))
    return text if _is_text(text) else None


def _is_text(text: str) -> bool:
    """Whether UTF-8 can hold it: JSON escapes can write half of a surrogate pair."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _arguments_of(member: Member, body: str) -> str | ScanError:
    if member.kind == "{":
        return body[member.start : member.end]
    if member.kind != '"' or member.text is None:
        return ScanError("expected an object as the arguments", member.start)
    text = str(json.loads(member.text))
    problem = scan_object(text) if _is_text(text) else ScanError("not text", 0)
    if problem is None:
        return text.strip(WHITE)
    return ScanError(f"expected an object as the arguments; the string given holds none ({problem.message})", member.start)


@dataclass(frozen=True, slots=True)
class JsonGrammar:
    """`{"name": N, "arguments": {...}}`."""

    key: str = "json"
    slack: str = "}"
    expected_head: str = "'{'"
    holds_several: bool = False

    def head(self, text: str, pos: int) -> Head:
        while pos < len(text) and text[pos] in WHITE:
            pos += 1
        if pos == len(text):
            return "more"
        return "yes" if text[pos] in "{[" else "no"

    def scanner(self, tools: ToolSet) -> JsonCallScanner:
        return JsonCallScanner()

    def write(self, name: str, arguments: str) -> str:
        return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {arguments}}}'

    def write_several(self, calls: Sequence[tuple[str, str]]) -> str:
        return "[" + ", ".join(self.write(name, arguments) for name, arguments in calls) + "]"

    def lark_body(
        self,
        tool: Tool,
        number: int,
        *,
        open_pad: str,
        close_pad: str,
        marker: Callable[[str], str],
    ) -> tuple[str, list[str]]:
        opening = quote(f'{open_pad}{{"name": {quote(tool.name)}, "arguments": ')
        schema = json.dumps(object_schema(tool), ensure_ascii=False)
        body = join(opening, f"arguments_{number}", quote("}" + close_pad))
        return body, [f"arguments_{number}: %json {schema}"]
